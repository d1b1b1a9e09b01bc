"""Gathers what the page of a report shows: figures, tables, findings, and the data of its charts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from llmcrawler.core.reporting.account import (
    DUPLICATE,
    FAILED,
    UNKNOWN,
    ErrorKind,
    TemplatePages,
    job_plan_rows,
    read_figures,
)
from llmcrawler.core.reporting.html.digest import Digest
from llmcrawler.core.reporting.html.sources import ReportSource
from llmcrawler.core.reporting.html.stored_pages import PageDetails, SelectorCounts, StoredPages
from llmcrawler.core.reporting.progress import HostThrottle
from llmcrawler.core.reporting.terminal_tables import selector_text
from llmcrawler.core.reporting.text import counts, duration, percent, plain
from llmcrawler.core.reporting.timeline import (
    LIMITS,
    Pace,
    Timeline,
    chart_data,
    chart_rows,
    last_busy,
    pace_of,
    timeline_of,
)
from llmcrawler.core.storage.job_file import Run
from llmcrawler.core.understanding.classification.page_types import FALLBACK_TYPE

_PREFIX = "llmcrawler/llm/"
TASKS: Mapping[str, str] = {
    "check": "to see beforehand that it answers",
    "classify": "to tell page types",
    "induce": "to learn records",
}


class TaskCost(NamedTuple):
    """Calls for a task over all runs. `cost_usd` None: the price is not known."""

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of all tasks over all runs, and sums. `faults` counts calls that failed, `provider_cached_share` is the
    share of the prompts' tokens, in 0..1, that the provider had in its prompt cache.
    """

    tasks: tuple[TaskCost, ...]
    calls: int
    tokens: int
    cost_usd: float | None
    cached_answers: int
    pages_shown: int
    faults: int
    provider_cached_share: float


def costs_of(runs: Sequence[Run]) -> Costs:
    sums: Counter[str] = Counter()
    unpriced = set()
    for stats in (run.figures.get("stats", {}) for run in runs):
        of_model = {key.removeprefix(_PREFIX): value for key, value in stats.items() if key.startswith(_PREFIX)}
        sums.update(of_model)
        asked = {key.removeprefix("calls/") for key in of_model if key.startswith("calls/")}
        unpriced |= {name for name in asked if f"cost_usd/{name}" not in of_model}
    tasks = tuple(
        TaskCost(
            name,
            sums[f"calls/{name}"],
            sums[f"prompt_tokens/{name}"],
            sums[f"completion_tokens/{name}"],
            None if name in unpriced else float(sums[f"cost_usd/{name}"]),
        )
        for name in sorted(key.removeprefix("calls/") for key in sums if key.startswith("calls/"))
    )
    return Costs(
        tasks=tasks,
        calls=sum(task.calls for task in tasks),
        tokens=sum(task.prompt_tokens + task.completion_tokens for task in tasks),
        cost_usd=None if unpriced else sum(task.cost_usd or 0.0 for task in tasks),
        cached_answers=sums["cached_answers"],
        pages_shown=sums["pages_shown"],
        provider_cached_share=sums["provider_cached_tokens"] / max(1, sums["prompt_tokens"]),
        faults=sum(count for key, count in sums.items() if key.startswith("faults/")),
    )


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


_MAX_BOXES = 60  # at one level; beyond that nobody sees them
_FEW_PAGES = 3
_NEARLY_ALL = 0.95


def page_types(digest: Digest) -> list[tuple[str, int]]:
    """Return the page types with their pages, most pages first; those without a type last, and those that failed."""
    counts: Counter[str] = Counter()
    for (_depth, page_type), pages in digest.depths.items():
        counts[page_type] += pages
    return sorted(counts.items(), key=lambda pair: (pair[0] in (UNKNOWN, DUPLICATE, FAILED), -pair[1], pair[0]))


def by_type(digest: Digest, patterns: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    """Return a box for each page type, in it one for each template."""
    boxes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (site, template), group in digest.groups.items():
        label = group.name(patterns.get((site, template), ""), with_site=len(digest.sites) > 1)
        for page_type, pages in group.types.items():
            boxes[page_type].append(
                {"name": label, "value": pages, "type": page_type, "template": template, "site": site}
            )
    return _together([{"name": name, "type": name, "children": _largest(some)} for name, some in boxes.items()])


def by_folder(digest: Digest) -> list[dict[str, Any]]:
    """Return a box for each folder (for each site, where there are several), in it one for each folder below that has
    more than a few pages; other pages stand by their type. A box has the colour of the type that most of its pages
    have.
    """
    folders: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    shared = _shared(digest) if len(digest.sites) == 1 else ()
    for (site, path, page_type), pages in digest.paths.items():
        parts = (site, *path) if len(digest.sites) > 1 else path[len(shared) * (path[: len(shared)] == shared) :]
        top, below = (*parts, "", "")[:2]
        folders[f"{top}/"][below][page_type] += pages
    return _together([_folder(digest, top, below) for top, below in folders.items()])


def _shared(digest: Digest) -> tuple[str, ...]:
    """Return the folders that nearly all pages lie in, as /en/: they would be one box around all others."""
    shared: tuple[str, ...] = ()
    while True:
        counts: Counter[tuple[str, ...]] = Counter()
        for (_site, path, _type), pages in digest.paths.items():
            if len(path) > len(shared):
                counts[path[: len(shared) + 1]] += pages
        ((longer, pages),) = counts.most_common(1) or [((), 0)]
        if pages < _NEARLY_ALL * digest.pages:
            return shared
        shared = longer


def _folder(digest: Digest, name: str, below: Mapping[str, Counter[str]]) -> dict[str, Any]:
    few = max(_FEW_PAGES, digest.pages // 100)
    types: Counter[str] = Counter()
    boxes = []
    for folder, of_folder in below.items():
        if folder and of_folder.total() > few:
            boxes.append({"name": f"{folder}/", "value": of_folder.total(), "type": of_folder.most_common(1)[0][0]})
        else:
            types.update(of_folder)
    for page_type, pages in types.items():
        boxes.append({"name": digest.noun if digest.is_map else page_type, "value": pages, "type": page_type})
    largest: Counter[str] = Counter()
    for of_folder in below.values():
        largest.update(of_folder)
    return {"name": name, "type": largest.most_common(1)[0][0], "children": _largest(boxes)}


def _largest(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(boxes, key=lambda box: (-box["value"], box["name"]))
    rest = sum(box["value"] for box in ordered[_MAX_BOXES:])
    more = [{"name": f"{len(ordered) - _MAX_BOXES} more", "value": rest, "type": UNKNOWN}] if rest else []
    return ordered[:_MAX_BOXES] + more


def _together(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with_sums = [{**box, "value": sum(child["value"] for child in box["children"])} for box in boxes]
    return _largest(with_sums)


def depth_table(digest: Digest, types: list[str]) -> list[tuple[int, list[int], int]]:
    """Return (depth, pages by type, all pages), from the start on."""
    depths = sorted({depth for depth, _type in digest.depths})
    return [
        (depth, [digest.depths[depth, name] for name in types], sum(digest.depths[depth, name] for name in types))
        for depth in depths
    ]


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
            "records": digest.record_rows.as_json(),
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
