"""From material to what the page shows: figures, tables, and the data of its charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from llmcrawler.reporting.beside import of_job
from llmcrawler.reporting.figures import Figures, read_figures
from llmcrawler.reporting.html.costs import TASKS, costs_of
from llmcrawler.reporting.html.digest import UNKNOWN, Digest, ErrorKind
from llmcrawler.reporting.html.findings import findings
from llmcrawler.reporting.html.lessons import patterns_of, template_views
from llmcrawler.reporting.html.material import Material
from llmcrawler.reporting.html.pace import Pace, chart_data, chart_rows, last_busy, pace_of
from llmcrawler.reporting.html.structure import by_folder, by_type, depth_table, page_types
from llmcrawler.reporting.limits import HostThrottle
from llmcrawler.reporting.timeline import Timeline, timeline_of
from llmcrawler.storage.runs import Run

_MAX_TEMPLATES = 150
_MAX_RUNS = 12
_CHANGES = ("new", "changed", "gone", "unchanged")


@dataclass(frozen=True, slots=True)
class RunView:
    """`figures` are those of the run; `delta_pages` is against the run before, None for the first."""

    run: Run
    figures: Figures
    changes: Mapping[str, int]
    delta_pages: int | None


def build(material: Material, max_listed: int) -> dict[str, Any]:
    """What the template `report.html` is filled with; `data` of it goes to its script."""
    digest = Digest(max_listed, with_times=not material.is_job)
    digest.add_all(material.lines)
    costs = costs_of(material.runs)
    types = [name for name, _count in page_types(digest)]
    templates = template_views(digest, material.templates, costs)
    pace, chart = _pace(material, digest)
    patterns = patterns_of(material.templates)
    depths = depth_table(digest, types)
    site = _title(digest, material.name)
    return {
        "title": site,
        "material": material,
        "digest": digest,
        "types": page_types(digest),
        "templates": templates[:_MAX_TEMPLATES],
        "template_count": len(templates),
        "costs": costs,
        "tasks": TASKS,
        "pace": pace,
        "chart_rows": chart_rows(chart),
        "has_whole_timeline": material.is_job and bool(material.runs),
        "depths": depths,
        "folders": [box for box in by_folder(digest) if box["name"].endswith("/")],
        "errors": _errors(digest),
        "changes": [(name, digest.changes[name]) for name in _CHANGES if digest.changes[name]],
        "runs": _runs(material.runs),
        "hosts": _hosts(material),
        "planned": [] if material.status is None else of_job(material.status, costs.calls, costs.tokens),
        "findings": findings(material, digest, len(templates), pace, costs),
        "unknown": UNKNOWN,
        "data": {
            "unknown": UNKNOWN,
            "noun": digest.noun,
            "types": types,
            "patterns": {one.group.template: one.name for one in templates} if len(digest.sites) == 1 else {},
            "by_type": by_type(digest, patterns),
            "by_folder": by_folder(digest),
            "depths": [[depth, per_type] for depth, per_type, _all in depths],
            "timeline": chart,
            "pages": digest.rows.as_json(),
            "total": digest.pages,
        },
    }


def _title(digest: Digest, name: str) -> str:
    sites = [site for site, _count in digest.sites.most_common(3)]
    more = len(digest.sites) - len(sites)
    return (", ".join(sites) + (f" and {more} more" if more > 0 else "")) or name


def _pace(material: Material, digest: Digest) -> tuple[Pace, dict[str, Any]]:
    run = last_busy(list(material.runs))
    if run is not None:
        timeline, seconds = Timeline.of_json(run.timeline), max(0.0, run.ended - run.started)
        settings = run.figures.get("settings", {})
        return pace_of(timeline, seconds, settings), chart_data(timeline, run.started, seconds, is_whole=True)
    start, timeline = timeline_of(digest.timed)
    seconds = max((moment for moment, _latency, _error in digest.timed), default=start) - start
    return pace_of(timeline, seconds, {}), chart_data(timeline, start, seconds, is_whole=False)


def _hosts(material: Material) -> list[HostThrottle]:
    run = last_busy(list(material.runs))
    names = {one.name for one in fields(HostThrottle)}
    hosts = run.figures.get("hosts", []) if run is not None else []
    return [HostThrottle(**{name: value for name, value in one.items() if name in names}) for one in hosts]


def _errors(digest: Digest) -> list[tuple[str, str, ErrorKind]]:
    ordered = sorted(digest.errors.items(), key=lambda pair: (-pair[1].pages, pair[0]))
    return [(stage, kind, one) for (stage, kind), one in ordered]


def _runs(runs: Sequence[Run]) -> list[RunView]:
    """Newest first."""
    views: list[RunView] = []
    for run in runs:
        stats = run.figures.get("stats", {})
        figures = read_figures(stats)
        changes = {name: int(stats.get(f"llmcrawler/changes/{name}", 0)) for name in _CHANGES}
        delta = figures.pages - views[-1].figures.pages if views else None
        views.append(RunView(run, figures, changes, delta))
    return views[::-1][:_MAX_RUNS]
