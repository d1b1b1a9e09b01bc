"""Templates with what was learned of them, beside what their pages really gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmcrawler.reporting.html.costs import Costs
from llmcrawler.reporting.html.digest import UNKNOWN, Digest, TemplatePages
from llmcrawler.reporting.templates_table import selector_text
from llmcrawler.reporting.text import plain

_SELECTOR_CHARS = 500


def template_views(digest: Digest, learned: Sequence[Mapping[str, Any]], costs: Costs) -> list[dict[str, Any]]:
    """Return each template as the page shows it, most pages first; pages without a template are no template. `share` is
    its share of all pages.

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
        parts = {"classify": group.asked / asked, "induce": _calls(entry) / calls}
        views.append(
            {
                "group": group,
                "name": group.name(plain(entry.get("url_pattern") or ""), with_site=len(digest.sites) > 1),
                "fields": _fields(entry.get("selectors") or (), group),
                "schema": _schema(entry.get("schema")),
                "llm_calls": _calls(entry),
                "tokens": sum(tokens[task] * parts.get(task, 0.0) for task in tokens) if tokens else None,
                "share": group.pages / digest.pages,
            }
        )
    return sorted(views, key=lambda view: (-view["group"].pages, view["group"].site, view["group"].template))


def _calls(entry: Mapping[str, Any]) -> int:
    return int(entry.get("llm_calls") or 0)


def _fields(selectors: Sequence[Mapping[str, Any]], group: TemplatePages) -> list[dict[str, Any]]:
    """Return the learned fields in their order, then what else the records have. `filled` is the share of the
    template's records that have a value, `example` one of them.
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for one in selectors:
        by_name.setdefault(str(one.get("field")), []).append(one)
    by_name |= {name: [] for name in group.filled if name not in by_name}
    return [
        {
            "name": plain(name),
            "type": plain(some[0].get("type") or "") if some else "",
            "selectors": [_selector(one) for one in some],
            "filled": group.filled[name] / group.records if group.records else None,
            "example": group.values.get(name, ""),
        }
        for name, some in by_name.items()
    ]


def _selector(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a selector with its shares, which are None where they are not known."""
    language, text = selector_text(one)
    shares = {name: one.get(name) for name in ("coverage", "agreement")}
    shares = {name: float(share) if isinstance(share, int | float) else None for name, share in shares.items()}
    return {"language": language, "text": plain(text)[:_SELECTOR_CHARS], **shares}


def _schema(schema: Any) -> str:
    lines = json.dumps(schema, indent=2, ensure_ascii=False).splitlines() if isinstance(schema, dict) else []
    return "\n".join(map(plain, lines))
