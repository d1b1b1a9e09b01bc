"""Gathers what the page of a comparison shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmcrawler.core.reporting.html.comparison import Comparison, TemplateKey, field_rows, selector_rows
from llmcrawler.core.reporting.html.sources import ReportSource
from llmcrawler.core.reporting.text import percent, plain

KINDS = ("changed", "new", "gone", "failed")
FALLEN = 0.02  # of the pages: less is a page or two
_MAX_ROWS = 300


def comparison_view(found: Comparison, before: ReportSource, after: ReportSource) -> dict[str, Any]:
    """Return what the template `comparison.html` is filled with."""
    patterns = {(str(one.get("site")), str(one.get("template"))): plain(one.get("url_pattern") or "")
                for one in before.learned.templates}  # fmt: skip

    def named(template: TemplateKey) -> str:
        return patterns.get(template) or plain(template[1])

    selectors = [(named(template), key, then, now) for template, key, then, now in selector_rows(found)]
    fields = [(named(template), name, then, now) for template, name, then, now in field_rows(found)]
    queued = after.status.urls.get("queued", 0) if after.status is not None else 0
    return {
        "before": before.name,
        "after": after.name,
        "found": found,
        "kinds": KINDS,
        "selectors": selectors[:_MAX_ROWS],
        "selectors_left": max(0, len(selectors) - _MAX_ROWS),
        "fields": fields[:_MAX_ROWS],
        "fields_left": max(0, len(fields) - _MAX_ROWS),
        "looked_at": sum(then.pages for then, _now in found.selectors.values()),
        "fallen": FALLEN,
        "findings": _findings(found, selectors, fields, queued),
        "data": {"rows": found.rows},
    }


def _findings(
    found: Comparison, selectors: Sequence[tuple[Any, ...]], fields: Sequence[tuple[Any, ...]], queued: int
) -> list[str]:
    then, now = found.pages
    fallen = [row for row in fields if row[3] <= row[2] - FALLEN]
    broken = [row for row in selectors if row[3] <= row[2] - FALLEN]
    candidates = [
        f"{then:,} pages before, {now:,} after: "
        + ", ".join(f"{found.kinds[name]:,} {name}" for name in (*KINDS, "unchanged", "failed in both"))
        + ".",
        _fell("field", fallen, lambda row: f"{row[1]} of {row[0]}"),
        _fell("selector", broken, lambda row: f"{row[1][2]} ({row[1][0]})"),
        "" if fallen or broken or not fields else "No field is filled less often than before.",
        f"The later crawl has {queued:,} more urls in its queue: pages that it has not come to count as gone."
        if queued and found.kinds["gone"]
        else "",
        f"Only the first pages of each are compared; {found.not_compared:,} are left out."
        if found.not_compared
        else "",
    ]
    return [one for one in candidates if one]


def _fell(what: str, rows: Sequence[tuple[Any, ...]], name: Any) -> str:
    if not rows:
        return ""
    shares = f"{percent(rows[0][2])} → {percent(rows[0][3])}"
    if len(rows) == 1:
        return f"1 {what} gives less than before: {name(rows[0])}, {shares}."
    return f"{len(rows):,} {what}s give less than before; most of all {name(rows[0])}: {shares}."
