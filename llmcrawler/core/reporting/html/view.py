"""Gathers what the page of a report shows: figures, tables, findings, and the data of its charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from llmcrawler.core.reporting.crawl_limits import HostThrottle
from llmcrawler.core.reporting.figures import read_figures
from llmcrawler.core.reporting.html.costs import TASKS, Costs, costs_of
from llmcrawler.core.reporting.html.digest import UNKNOWN, Digest, ErrorKind
from llmcrawler.core.reporting.html.pace import LIMITS, Pace, chart_data, chart_rows, last_busy, pace_of
from llmcrawler.core.reporting.html.page_details import PageDetails
from llmcrawler.core.reporting.html.sources import ReportSource
from llmcrawler.core.reporting.html.stored_pages import StoredPages
from llmcrawler.core.reporting.html.structure import by_folder, by_type, depth_table, page_types
from llmcrawler.core.reporting.html.template_views import template_views
from llmcrawler.core.reporting.plan_figures import job_plan_rows
from llmcrawler.core.reporting.text import counts, duration, percent, plain
from llmcrawler.core.reporting.timeline import Timeline, timeline_of
from llmcrawler.core.storage.job_file import Run
from llmcrawler.core.understanding.classification.page_types import FALLBACK_TYPE

_MAX_TEMPLATES = 150
_MAX_RUNS = 12
_MANY_PAGES = 5
_CHANGES = ("new", "changed", "gone", "unchanged")


def build(source: ReportSource, max_listed: int) -> dict[str, Any]:
    """Return what the template `report.html` is filled with; its `data` goes to the page's script."""
    digest = Digest(max_listed, with_times=not source.is_job)
    details = PageDetails()
    stored = StoredPages(source, details)
    for item in source.items:
        stored.add(digest.add(item), item)
    details.close()
    costs = costs_of(source.runs)
    types = [name for name, _count in page_types(digest)]
    templates = template_views(digest, source.learned.templates, costs, stored.counts)
    pace, chart = _pace(source, digest)
    patterns = {
        (str(one.get("site") or ""), str(one.get("template"))): plain(one.get("url_pattern") or "")
        for one in source.learned.templates
    }
    depths = depth_table(digest, types)
    site = _title(digest, source.name)
    return {
        "title": site,
        "source": source,
        "digest": digest,
        "types": page_types(digest),
        "templates": templates[:_MAX_TEMPLATES],
        "template_count": len(templates),
        "costs": costs,
        "tasks": TASKS,
        "limits": LIMITS,
        "pace": pace,
        "chart_rows": chart_rows(chart),
        "has_whole_timeline": source.is_job and bool(source.runs),
        "depths": depths,
        "folders": [box for box in by_folder(digest) if box["name"].endswith("/")],
        "errors": _errors(digest),
        "changes": [(name, digest.changes[name]) for name in _CHANGES if digest.changes[name]],
        "runs": _runs(source.runs),
        "hosts": _hosts(source),
        "planned": [] if source.status is None else job_plan_rows(source.status, costs.calls, costs.tokens),
        "findings": _findings(source, digest, templates, pace, costs),
        "details": details,
        "no_html": _no_html(source, stored),
        "data": {
            "noun": digest.noun,
            "listed": f"{digest.noun} and failed urls" if digest.failed else digest.noun,
            "types": types,
            "patterns": {one["group"].template: one["name"] for one in templates} if len(digest.sites) == 1 else {},
            "by_type": by_type(digest, patterns),
            "by_folder": by_folder(digest),
            "depths": [[depth, per_type] for depth, per_type, _all in depths],
            "timeline": chart,
            "pages": digest.rows.as_json(),
            "records": digest.records.as_json(),
            "details": [details.places.get(row) for row in range(len(digest.rows))],
            "no_html": _no_html(source, stored),
            "total": digest.pages,
        },
    }


def _no_html(source: ReportSource, stored: StoredPages) -> str:
    """Say why a page may have no stored HTML to look at, and which setting keeps it."""
    if not source.is_job:
        return "A feed has no HTML: with -s JOBDIR=FOLDER a crawl keeps it, and scrapy report FOLDER shows it."
    if not stored.details.html_pages and stored.missing:
        return "This job keeps no HTML: with -s STORE_BODIES=True, the default, a crawl does."
    count = stored.details.html_pages
    return (
        f"The stored HTML of {count:,} pages is in this report, so that it stays a file to send; the job has the rest."
    )


def _title(digest: Digest, name: str) -> str:
    sites = [site for site, _count in digest.sites.most_common(3)]
    more = len(digest.sites) - len(sites)
    return (", ".join(sites) + (f" and {more} more" if more > 0 else "")) or name


def _pace(source: ReportSource, digest: Digest) -> tuple[Pace, dict[str, Any]]:
    run = last_busy(list(source.runs))
    if run is not None:
        timeline, seconds = Timeline.of_json(run.timeline), max(0.0, run.ended - run.started)
        settings = run.figures.get("settings", {})
        return pace_of(timeline, seconds, settings), chart_data(timeline, run.started, seconds, is_whole=True)
    start, timeline = timeline_of(digest.timed)
    seconds = max((moment for moment, _latency, _error in digest.timed), default=start) - start
    return pace_of(timeline, seconds, {}), chart_data(timeline, start, seconds, is_whole=False)


def _hosts(source: ReportSource) -> list[HostThrottle]:
    run = last_busy(list(source.runs))
    names = {one.name for one in fields(HostThrottle)}
    hosts = run.figures.get("hosts", []) if run is not None else []
    return [HostThrottle(**{name: value for name, value in one.items() if name in names}) for one in hosts]


def _errors(digest: Digest) -> list[tuple[str, str, ErrorKind]]:
    ordered = sorted(digest.errors.items(), key=lambda pair: (-pair[1].pages, pair[0]))
    return [(stage, kind, one) for (stage, kind), one in ordered]


def _runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the runs with their figures, newest first; `delta_pages` is against the run before, None for the first."""
    views: list[dict[str, Any]] = []
    for run in runs:
        stats = run.figures.get("stats", {})
        figures = read_figures(stats)
        changes = {name: int(stats.get(f"llmcrawler/crawl/changes/{name}", 0)) for name in _CHANGES}
        failed = figures.errors.total()
        pages = figures.pages - failed
        view = {"run": run, "figures": figures, "changes": changes, "pages": pages, "failed": failed}
        views.append({**view, "delta_pages": pages - views[-1]["pages"] if views else None})
    return views[::-1][:_MAX_RUNS]


def _findings(
    source: ReportSource, digest: Digest, templates: Sequence[Mapping[str, Any]], pace: Pace, costs: Costs
) -> list[str]:
    """Return the report in a few sentences, what matters most first."""
    queued = source.status.urls.get("queued") if source.status is not None else 0
    candidates = [
        _what(digest, len(templates)),
        _of_no_type(digest, templates),
        _errors_in_words(digest),
        _pace_in_words(pace),
        _model(digest, costs),
        f"Of the use of their pages sites say: {digest.rights.words}." if digest.rights.words else "",
        f"{queued:,} more urls are known and wait in the queue." if queued else "",
        _judged_again(source.learned.judged_again),
        f"Since the last time: {counts(digest.changes, 4)}." if digest.changes else "",
    ]
    return [one for one in candidates if one]


def _judged_again(count: int) -> str:
    who = "1 page has" if count == 1 else f"{count:,} pages have"
    what = "another template or page type than in the feed: templates were merged or parted later"
    return f"{who} {what}." if count else ""


def _what(digest: Digest, templates: int) -> str:
    types = +digest.types
    without = types.pop(UNKNOWN, 0)
    words = [digest.in_words]
    if templates:
        words.append(f"{templates:,} template{'' if templates == 1 else 's'}")
    if types:
        rest = f", without a type {without:,}" if without else ""
        words.append(f"{len(types)} page type{'' if len(types) == 1 else 's'}: {counts(types, 4)}{rest}")
    return f"{'; '.join(words)}."


def _of_no_type(digest: Digest, templates: Sequence[Mapping[str, Any]]) -> str:
    """Name the templates that most pages of the fallback type have: one of them may be worth a type of its own."""
    pages = digest.types[FALLBACK_TYPE]
    found = [(one["group"].types[FALLBACK_TYPE], one["pattern"], one["group"].template) for one in templates]
    large = [one for one in sorted(found, reverse=True)[:2] if one[0] >= max(_MANY_PAGES, pages / 10)]
    if not large:
        return ""
    parts = [f"{count:,} are {pattern} (template {template})" for count, pattern, template in large]
    return f"{pages:,} pages fit no page type but {FALLBACK_TYPE!r}; of them {', '.join(parts)}."


def _errors_in_words(digest: Digest) -> str:
    if not digest.errors:
        return ""
    (stage, kind), worst = max(digest.errors.items(), key=lambda pair: pair[1].pages)
    share = percent(digest.failed / digest.pages)
    return f"{share} of the urls failed, most often with {stage}/{kind}: {worst.pages:,} of {digest.failed:,}."


def _pace_in_words(pace: Pace) -> str:
    if not pace.seconds or not pace.total.pages:
        return ""
    rate = f"It took {duration(pace.seconds)}, {pace.urls_per_second:.1f} urls a second"
    return f"{rate}; {pace.bound}." if pace.bound else f"{rate}."


def _model(digest: Digest, costs: Costs) -> str:
    if not costs.calls:
        return ""
    pages = digest.good / costs.calls
    return f"The model was asked {costs.calls:,} times: one call for {pages:.0f} pages, {costs.tokens:,} tokens in all."
