"""Gathers what the page of a report shows: figures, tables, findings, and the data of its charts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from llmcrawler.core.reporting.account import (
    DUPLICATE,
    FAILED,
    UNKNOWN,
    TemplatePages,
    read_figures,
    rights_rows,
    rights_words,
)
from llmcrawler.core.reporting.html.digest import Digest
from llmcrawler.core.reporting.html.sources import ReportSource
from llmcrawler.core.reporting.html.stored_pages import StoredPages
from llmcrawler.core.reporting.progress import HostThrottle
from llmcrawler.core.reporting.terminal_tables import selector_text
from llmcrawler.core.reporting.text import counts, duration, many, percent, plain
from llmcrawler.core.reporting.timeline import (
    Pace,
    Timeline,
    chart_data,
    last_busy,
    pace_of,
    timeline_of,
)
from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.storage.job_file import Run

_LLM = "llmcrawler/llm/"
_TASKS = {"check": "to see beforehand that it answers", "classify": "to tell page types", "induce": "to learn records"}
_CHANGES = ("new", "changed", "gone", "unchanged")
_MAX_TEMPLATES = 150
_MAX_RUNS = 12
_SELECTOR_CHARS = 500
_MAX_BOXES = 60  # at one level; beyond that nobody sees them

Key = tuple[str, str]  # site, template


def build(source: ReportSource, max_listed: int) -> dict[str, Any]:
    """Return what the template `report.html` is filled with; its `data` goes to the page's script."""
    digest, stored = Digest(max_listed, with_times=not source.is_job), StoredPages(source)
    for item in source.items:
        stored.add(digest.add(item), item)
    stored.close()
    run, costs, types = last_busy(source.runs), costs_of(source.runs), page_types(digest)
    learned = {(str(one.get("site") or ""), str(one.get("template"))): one for one in source.learned.templates}
    names = template_names(digest, learned)
    templates = template_views(digest, learned, names, costs)
    pace, chart, chart_rows = _pace(run, digest)
    depths = depth_table(digest, [name for name, _count in types])
    sites = [site for site, _count in digest.sites.most_common(3)]
    more_sites = f" and {len(digest.sites) - len(sites)} more" if len(digest.sites) > len(sites) else ""
    known_fields = {one.name for one in fields(HostThrottle)}
    hosts = run.figures.get("hosts", []) if run is not None else []
    no_html = _no_html(source, stored)
    return {
        "title": ", ".join(sites) + more_sites or source.name,
        "source": source,
        "digest": digest,
        "types": types,
        "templates": templates[:_MAX_TEMPLATES],
        "template_count": len(templates),
        "costs": costs,
        "tasks": _TASKS,
        "pace": pace,
        "chart_rows": chart_rows,
        "has_whole_timeline": source.is_job and bool(source.runs),
        "depths": depths,
        "errors": [
            (*kind, one) for kind, one in sorted(digest.errors.items(), key=lambda pair: (-pair[1].pages, pair[0]))
        ],
        "changes": [(name, digest.changes[name]) for name in _CHANGES if digest.changes[name]],
        "rights": rights_rows(RightsCounts.of(digest.rights)),
        "runs": _runs(source.runs),
        "hosts": [HostThrottle(**{name: one[name] for name in one.keys() & known_fields}) for one in hosts],
        "findings": _findings(source, digest, templates, pace, costs),
        "details": stored,
        "no_html": no_html,
        "data": {
            "listed": "pages and failed urls" if digest.failed else "pages",
            "types": [name for name, _count in types],
            "patterns": {one["group"].template: one["name"] for one in templates} if len(digest.sites) == 1 else {},
            "by_type": by_type(digest, names),
            "depths": [[depth, per_type] for depth, per_type, _all in depths],
            "timeline": chart,
            "pages": digest.rows.as_json(),
            "records": digest.record_rows.as_json(),
            "details": [stored.places.get(row) for row in range(len(digest.rows))],
            "no_html": no_html,
            "total": digest.pages,
        },
    }


def costs_of(runs: Iterable[Run]) -> dict[str, Any]:
    """Return the costs by task and their sums over all runs. `cost_usd` is None where a price is unknown,
    `provider_cached_share` (0..1) is of the prompt tokens.
    """
    sums: Counter[str] = Counter()
    unpriced = set()
    for run in runs:
        stats = run.figures.get("stats", {})
        llm = {key.removeprefix(_LLM): value for key, value in stats.items() if key.startswith(_LLM)}
        sums.update(llm)
        asked = {key.removeprefix("calls/") for key in llm if key.startswith("calls/")}
        unpriced |= {name for name in asked if f"cost_usd/{name}" not in llm}
    tasks: list[dict[str, Any]] = [
        {
            "task": name,
            **{of: sums[f"{of}/{name}"] for of in ("calls", "prompt_tokens", "completion_tokens")},
            "cost_usd": None if name in unpriced else float(sums[f"cost_usd/{name}"]),
        }
        for name in sorted(key.removeprefix("calls/") for key in sums if key.startswith("calls/"))
    ]
    return {
        "tasks": tasks,
        "calls": sum(task["calls"] for task in tasks),
        "tokens": sum(task["prompt_tokens"] + task["completion_tokens"] for task in tasks),
        "cost_usd": None if unpriced else sum(task["cost_usd"] for task in tasks),
        "cached_answers": sums["cached_answers"],
        "pages_shown": sums["pages_shown"],
        "provider_cached_share": sums["provider_cached_tokens"] / max(1, sums["prompt_tokens"]),
        "faults": sum(count for key, count in sums.items() if key.startswith("faults/")),
    }


def template_names(digest: Digest, learned: Mapping[Key, Mapping[str, Any]]) -> dict[Key, str]:
    with_site = len(digest.sites) > 1
    return {
        key: group.name(plain(learned.get(key, {}).get("url_pattern") or ""), with_site=with_site)
        for key, group in digest.groups.items()
    }


def template_views(
    digest: Digest,
    learned: Mapping[Key, Mapping[str, Any]],
    names: Mapping[Key, str],
    costs: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the templates as the page shows them, most pages first. A call has pages of several templates, so `tokens`
    is an estimate: those for classifying by the pages asked about, those for learning by the calls.
    """
    asked = max(1, sum(group.asked for group in digest.groups.values()))
    calls = max(1, sum(int(one.get("llm_calls") or 0) for one in learned.values()))
    tokens = {task["task"]: task["prompt_tokens"] + task["completion_tokens"] for task in costs["tasks"]}
    views = []
    for key, group in digest.groups.items():
        if group.template == UNKNOWN:
            continue
        entry = learned.get(key, {})
        own_calls, schema = int(entry.get("llm_calls") or 0), entry.get("schema")
        shares = {"classify": group.asked / asked, "induce": own_calls / calls}
        lines = json.dumps(schema, indent=2, ensure_ascii=False).splitlines() if isinstance(schema, dict) else []
        views.append(
            {
                "group": group,
                "pattern": plain(entry.get("url_pattern") or "") or group.shape,
                "name": names[key],
                "fields": _fields(entry.get("selectors") or (), group),
                "schema": "\n".join(map(plain, lines)),
                "llm_calls": own_calls,
                "tokens": sum(tokens[task] * shares.get(task, 0.0) for task in tokens) if tokens else None,
                "share": group.pages / digest.pages,
            }
        )
    return sorted(views, key=lambda view: (-view["group"].pages, view["group"].site, view["group"].template))


def _fields(selectors: Sequence[Mapping[str, Any]], group: TemplatePages) -> list[dict[str, Any]]:
    """Return the learned fields in their order, then others that records have. `filled` counts pages with a value;
    `is_constant`: it is the same on all.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for one in selectors:
        (language, text), coverage = selector_text(one), one.get("coverage")
        by_name.setdefault(str(one.get("field")), []).append(
            {
                "type": plain(one.get("type") or ""),
                "language": language,
                "text": plain(text)[:_SELECTOR_CHARS],
                "coverage": float(coverage) if isinstance(coverage, int | float) else None,
            }
        )
    tops = {name.split(".")[0] for name in by_name}
    by_name |= {name: [] for name in group.filled if name not in tops}
    return [
        {
            "name": plain(name),
            "type": some[0]["type"] if some else "",
            "selectors": some,
            "filled": group.filled[name] if name in group.filled or "." not in name else None,
            "is_constant": name in group.constants,
            "example": group.values.get(name, ""),
        }
        for name, some in by_name.items()
    ]


def page_types(digest: Digest) -> list[tuple[str, int]]:
    """Return the page types with their pages, most pages first; those without a type last, and those that failed."""
    counts: Counter[str] = Counter()
    for (_depth, page_type), pages in digest.depths.items():
        counts[page_type] += pages
    return sorted(counts.items(), key=lambda pair: (pair[0] in (UNKNOWN, DUPLICATE, FAILED), -pair[1], pair[0]))


def depth_table(digest: Digest, types: Sequence[str]) -> list[tuple[int, list[int], int]]:
    """Return (depth, pages by type, all pages), from the start on."""
    depths = sorted({depth for depth, _type in digest.depths})
    return [(depth, pages := [digest.depths[depth, name] for name in types], sum(pages)) for depth in depths]


def by_type(digest: Digest, names: Mapping[Key, str]) -> list[dict[str, Any]]:
    boxes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (site, template), group in digest.groups.items():
        for page_type, pages in group.types.items():
            place = {"type": page_type, "template": template, "site": site}
            boxes[page_type].append({"name": names[site, template], "value": pages, **place})
    found = []
    for name, templates in boxes.items():
        shown = _largest(templates)
        found.append({"name": name, "type": name, "children": shown, "value": sum(one["value"] for one in shown)})
    return _largest(found)


def _largest(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(boxes, key=lambda box: (-box["value"], box["name"]))
    rest = sum(box["value"] for box in ordered[_MAX_BOXES:])
    more = [{"name": f"{len(ordered) - _MAX_BOXES} more", "value": rest, "type": UNKNOWN}] if rest else []
    return ordered[:_MAX_BOXES] + more


def _no_html(source: ReportSource, stored: StoredPages) -> str:
    if not source.is_job:
        return "A feed has no HTML: with -s JOBDIR=FOLDER a crawl keeps it, and scrapy report FOLDER shows it."
    count = stored.html_pages
    if not count and stored.missing:
        return "This job keeps no HTML: with -s STORE_BODIES=True, the default, a crawl does."
    return f"The stored HTML of {count:,} pages is in this report, to keep the file small; the job has the rest."


def _pace(run: Run | None, digest: Digest) -> tuple[Pace, dict[str, Any], list[dict[str, Any]]]:
    """Return the pace, its chart, and the rows of the chart's table."""
    if run is not None:
        start, timeline = run.started, Timeline.of_json(run.timeline)
        seconds = max(0.0, run.ended - start)
    else:
        start, timeline = timeline_of(digest.timed)
        seconds = max((moment for moment, _latency, _error in digest.timed), default=start) - start
    chart, table = (chart_data(one, start, seconds, is_whole=run is not None) for one in (timeline, timeline.coarse()))
    columns = table["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return pace_of(timeline, seconds), chart, rows


def _runs(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Return the runs with their figures, newest first; `delta_pages` is against the run before, None for the first."""
    views: list[dict[str, Any]] = []
    for run in runs:
        figures = read_figures(run.figures.get("stats", {}))
        failed = figures.errors.total()
        pages = figures.pages - failed
        views.append(
            {
                "run": run,
                "figures": figures,
                "changes": {name: figures.changes[name] for name in _CHANGES},
                "pages": pages,
                "failed": failed,
                "delta_pages": pages - views[-1]["pages"] if views else None,
            }
        )
    return views[::-1][:_MAX_RUNS]


def _findings(
    source: ReportSource, digest: Digest, templates: Sequence[Mapping[str, Any]], pace: Pace, costs: Mapping[str, Any]
) -> list[str]:
    """Return the report in a few sentences, what matters most first."""
    types = +digest.types
    without = types.pop(UNKNOWN, 0)
    words = [digest.in_words, *([many(len(templates), "template")] if templates else [])]
    if types:
        rest = f", without a type {without:,}" if without else ""
        words.append(f"{many(len(types), 'page type')}: {counts(types, 4)}{rest}")
    found = [f"{'; '.join(words)}."]
    if digest.errors:
        kind, worst = max(digest.errors.items(), key=lambda pair: pair[1].pages)
        share, most = percent(digest.failed / digest.pages), f"{worst.pages:,} of {digest.failed:,}"
        found.append(f"{share} of the urls failed, most often with {'/'.join(kind)}: {most}.")
    if pace.seconds and pace.total.pages:
        rate = f"It took {duration(pace.seconds)}, {pace.urls_per_second:.1f} urls a second"
        found.append(f"{rate}; {pace.bound}." if pace.bound else f"{rate}.")
    if calls := costs["calls"]:
        each = f"one call for {digest.good / calls:.0f} pages, {costs['tokens']:,} tokens in all"
        found.append(f"The model was asked {calls:,} times: {each}.")
    if said := rights_words(RightsCounts.of(digest.rights)):
        found.append(f"Of the use of their pages sites say: {said}.")
    if source.status is not None and (queued := source.status.urls.get("queued")):
        found.append(f"{queued:,} more urls are known and wait in the queue.")
    if digest.changes:
        found.append(f"Since the last time: {counts(digest.changes, 4)}.")
    return found
