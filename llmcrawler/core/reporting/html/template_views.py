"""Templates with what was learned of them, beside what their pages really gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmcrawler.core.reporting.html.costs import Costs
from llmcrawler.core.reporting.html.digest import UNKNOWN, Digest, TemplatePages
from llmcrawler.core.reporting.html.stored_pages import SelectorCounts
from llmcrawler.core.reporting.templates_table import selector_text
from llmcrawler.core.reporting.text import plain

_SELECTOR_CHARS = 500


def template_views(
    digest: Digest,
    learned: Sequence[Mapping[str, Any]],
    costs: Costs,
    counts: Mapping[tuple[str, str], SelectorCounts],
) -> list[dict[str, Any]]:
    """Return each template as the page shows it, most pages first; pages without a template are no template. `share` is
    its share of all pages, `counts` what the selectors gave on stored pages.

    `tokens` is an estimate: of those for classifying a part by the pages that were asked about, of those for learning
    by the calls. A call has pages of several templates, so there is no other measure.
    """
    known = {(str(one.get("site") or ""), str(one.get("template"))): one for one in learned}
    asked = max(1, sum(group.asked for group in digest.groups.values()))
    calls = max(1, sum(_calls(one) for one in known.values()))
    tokens = {task.task: task.prompt_tokens + task.completion_tokens for task in costs.tasks}
    views = []
    for key, group in digest.groups.items():
        if group.template == UNKNOWN:
            continue
        entry = known.get(key, {})
        pattern = plain(entry.get("url_pattern") or "")
        parts = {"classify": group.asked / asked, "induce": _calls(entry) / calls}
        views.append(
            {
                "group": group,
                "pattern": pattern or group.shape,
                "name": group.name(pattern, with_site=len(digest.sites) > 1),
                "fields": _fields(entry.get("selectors") or (), group, counts.get(key) or SelectorCounts()),
                "looked_at": counts[key].pages if key in counts else 0,
                "schema": _schema(entry.get("schema")),
                "llm_calls": _calls(entry),
                "tokens": sum(tokens[task] * parts.get(task, 0.0) for task in tokens) if tokens else None,
                "share": group.pages / digest.pages,
            }
        )
    return sorted(views, key=lambda view: (-view["group"].pages, view["group"].site, view["group"].template))


def _calls(entry: Mapping[str, Any]) -> int:
    return int(entry.get("llm_calls") or 0)


def _fields(
    selectors: Sequence[Mapping[str, Any]], group: TemplatePages, counts: SelectorCounts
) -> list[dict[str, Any]]:
    """Return the learned fields in their order, then what else the records have. `filled` counts the pages that have a
    value, of all that have the template now; `others` the stored ones among them whose value no selector gives;
    `example` is one value.
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for one in selectors:
        by_name.setdefault(str(one.get("field")), []).append(one)
    firsts = _first_fields(selectors)
    tops = {name.split(".")[0] for name in by_name}
    by_name |= {name: [] for name in group.filled if name not in tops}
    return [
        {
            "name": plain(name),
            "type": plain(some[0].get("type") or "") if some else "",
            "selectors": [
                {**_selector(name, one, counts), "same_as": first if (first := firsts[_place(one)]) != name else ""}
                for one in some
            ],
            "filled": group.filled[name] if name in group.filled or "." not in name else None,
            "others": counts.others[name],
            "example": group.values.get(name, ""),
        }
        for name, some in by_name.items()
    ]


def _place(selector: Mapping[str, Any]) -> tuple[object, ...]:
    return (selector.get("variant"), *selector_text(selector))


def _first_fields(selectors: Sequence[Mapping[str, Any]]) -> dict[tuple[object, ...], str]:
    """Return the first of the fields that a place on the page is for."""
    firsts: dict[tuple[object, ...], str] = {}
    for one in selectors:
        firsts.setdefault(_place(one), str(one.get("field")))
    return firsts


def _selector(name: str, one: Mapping[str, Any], counts: SelectorCounts) -> dict[str, Any]:
    """Return a selector with its shares, which are None where they are not known. `given` and `used` are those of the
    stored pages on which it gives a value, and on which that is the value of the record.
    """
    language, text = selector_text(one)
    shares = {share: one.get(share) for share in ("coverage", "agreement")}
    shares = {share: float(value) if isinstance(value, int | float) else None for share, value in shares.items()}
    key = (name, language, text)
    measured = (
        {"given": counts.given[key] / counts.pages, "used": counts.used[key] / counts.pages} if counts.pages else {}
    )
    return {
        "language": language,
        "text": plain(text)[:_SELECTOR_CHARS],
        "given": None,
        "used": None,
        **shares,
        **measured,
    }


def _schema(schema: Any) -> str:
    lines = json.dumps(schema, indent=2, ensure_ascii=False).splitlines() if isinstance(schema, dict) else []
    return "\n".join(map(plain, lines))
