"""Shows the status of a campaign as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.core.reporting.terminal_tables import more, table
from llmcrawler.core.reporting.text import duration, many

_ROWS: Final = 1_000
_BRIEF_ROWS: Final = 20
_SHOWN_WIDTH: Final = 120
# What a person looks for comes first.
_ORDER: Final = ("failed", "unreachable", "running", "waiting", "done")
_BAD: Final = ("failed", "unreachable")


def campaign_view(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the campaign's page of HTML shows."""
    shown = ("folder", "is_over", "started", "ended", "states", "totals", "bundles")
    return {**{name: status[name] for name in shown}, "sites": _sorted(status), "bad": _BAD}


def _sorted(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(status["sites"], key=lambda site: _ORDER.index(site["state"]))


def campaign_tables(status: Mapping[str, Any], now: float, *, is_brief: bool) -> Iterator[RenderableType]:
    """Yield the sums, then the sites; with `is_brief` those that something is wrong with. `now` is in Unix time."""
    states, totals = status["states"], status["totals"]
    sites = sum(states.values())
    counts = ", ".join(f"{states[name]:,} {name}" for name in _ORDER if name in states)
    yield Text(f"{status['folder']}: {many(sites, 'site')}: {counts}", style="bold")
    cost = "" if totals["cost_usd"] is None else f", ${totals['cost_usd']:.4f}"
    calls = f", {totals['calls']:,.0f} LLM calls{cost}" if totals["calls"] else ""
    yield Text(
        f"{many(totals['pages'], 'page')}, {many(totals['records'], 'record')}, {totals['errors']:,} with errors{calls}"
        f"{_time(status, now)}"
    )
    shown = _sorted(status)
    if is_brief:
        shown = [site for site in shown if site["state"] in _BAD]
    rows = [
        (
            site["name"],
            site["state"],
            f"{site['pages']:,}",
            f"{site['records']:,}",
            f"{site['errors']:,}",
            str(site["bundle"]),
            (site["reason"] or "")[:_SHOWN_WIDTH],
        )
        for site in shown
    ]
    limit = _BRIEF_ROWS if is_brief else _ROWS
    if rows:
        yield Text()
        yield table(("site", "state", ">pages", ">records", ">errors", ">bundle", "why"), rows[:limit])
        yield from more(len(rows), limit)


def _time(status: Mapping[str, Any], now: float) -> str:
    if status["started"] is None:
        return ""
    end = status["ended"] if status["is_over"] and status["ended"] else now
    return f", {duration(max(0.0, end - status['started']))}"
