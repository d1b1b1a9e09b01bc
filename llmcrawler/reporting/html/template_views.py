"""Templates with what was learned of them, beside what their pages really gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcrawler.reporting.html.costs import Costs
from llmcrawler.reporting.html.digest import UNKNOWN, Digest, TemplatePages
from llmcrawler.reporting.templates_table import selector_text
from llmcrawler.reporting.text import plain

_SELECTOR_CHARS = 500


@dataclass(frozen=True, slots=True)
class SelectorView:
    """A learned selector. `coverage` and `agreement` are shares; None: not known."""

    language: str
    text: str
    coverage: float | None
    agreement: float | None


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of records. `filled` is the share of the template's records that have a value, `example` one of them."""

    name: str
    type: str
    selectors: tuple[SelectorView, ...]
    filled: float | None
    example: str


@dataclass(frozen=True, slots=True)
class TemplateView:
    """A template as the report shows it. `tokens` is an estimate, see Costs.of_template; `share` is the template's
    share of all pages.
    """

    group: TemplatePages
    name: str
    fields: tuple[FieldView, ...]
    schema: str
    llm_calls: int
    tokens: float | None
    share: float


def template_views(digest: Digest, learned: Sequence[Mapping[str, Any]], costs: Costs) -> list[TemplateView]:
    """Return a view of each template, most pages first; pages without a template are no template."""
    known = {(str(one.get("site") or ""), str(one.get("template"))): one for one in learned}
    asked = sum(group.asked for group in digest.groups.values())
    calls = sum(_calls(one) for one in known.values())
    views = []
    for key, group in digest.groups.items():
        if group.template == UNKNOWN:
            continue
        entry = known.get(key, {})
        views.append(
            TemplateView(
                group=group,
                name=group.name(plain(entry.get("url_pattern") or ""), with_site=len(digest.sites) > 1),
                fields=_fields(entry.get("selectors") or (), group),
                schema=_schema(entry.get("schema")),
                llm_calls=_calls(entry),
                tokens=costs.of_template(group.asked, _calls(entry), asked, calls),
                share=group.pages / digest.pages,
            )
        )
    return sorted(views, key=lambda view: (-view.group.pages, view.group.site, view.group.template))


def _calls(entry: Mapping[str, Any]) -> int:
    return int(entry.get("llm_calls") or 0)


def _fields(selectors: Sequence[Mapping[str, Any]], group: TemplatePages) -> tuple[FieldView, ...]:
    """Return the learned fields in their order, then what else the records have."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for one in selectors:
        by_name.setdefault(str(one.get("field")), []).append(one)
    by_name |= {name: [] for name in group.filled if name not in by_name}
    return tuple(
        FieldView(
            name=plain(name),
            type=plain(some[0].get("type") or "") if some else "",
            selectors=tuple(map(_selector, some)),
            filled=group.filled[name] / group.records if group.records else None,
            example=group.values.get(name, ""),
        )
        for name, some in by_name.items()
    )


def _selector(one: Mapping[str, Any]) -> SelectorView:
    language, text = selector_text(one)
    shares = (one.get("coverage"), one.get("agreement"))
    coverage, agreement = (float(share) if isinstance(share, int | float) else None for share in shares)
    return SelectorView(language, plain(text)[:_SELECTOR_CHARS], coverage, agreement)


def _schema(schema: Any) -> str:
    lines = json.dumps(schema, indent=2, ensure_ascii=False).splitlines() if isinstance(schema, dict) else []
    return "\n".join(map(plain, lines))
