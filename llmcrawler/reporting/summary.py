"""Summarises a crawl as text for a person: at most 100 columns, nothing but printable characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from rich.cells import cell_len

from llmcrawler.items import Template
from llmcrawler.reporting.crawl_limits import HostThrottle
from llmcrawler.reporting.figures import Figures
from llmcrawler.reporting.plan_tables import Actual, plan_rows
from llmcrawler.reporting.tally import Tally, TemplateTally
from llmcrawler.reporting.text import column, counts, duration, money, percent, plain

WIDTH = 100
_ROWS = 20  # templates, page types, kinds of errors
_WAYS = ("structured-data", "template", "llm", "rule")


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a crawl. `reason` is Scrapy's; `limit_seconds` says how long each limit held it back.

    `hosts` have the throughput of their whole time. `plan` is that of `scrapy plan`, where the job has one; `actual`
    is what came of it.
    """

    reason: str
    elapsed_seconds: float
    limit_seconds: Mapping[str, float]
    hosts: Sequence[HostThrottle] = ()
    plan: Mapping[str, Any] | None = None
    actual: Actual | None = None


def summary(figures: Figures, tally: Tally, ending: Ending) -> str:
    sections = [
        _head(figures, ending),
        _hosts(ending),
        _page_types(tally),
        _without_model(figures, tally),
        _templates(tally),
        _llm(figures),
        _budget(figures, tally),
        _plan(ending),
        _errors(figures, tally),
    ]
    lines = ["Summary"]
    for section in sections:
        if section:
            lines += [*(plain(line, WIDTH) for line in section), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _head(figures: Figures, ending: Ending) -> list[str]:
    rate = figures.pages / ending.elapsed_seconds if ending.elapsed_seconds else 0.0
    failed = figures.errors.total()
    listed = f"{figures.sources.total():,} urls ({counts(figures.sources, 5)})"
    lines = [
        *([listed] if figures.sources else []),
        f"{figures.pages:,} pages in {duration(ending.elapsed_seconds)}, {rate:.1f} pages/s, {failed:,} with errors",
        f"Ended: {_why_ended(figures, ending)}",
    ]
    if figures.statuses:
        lines.append(f"Answers by status: {counts(figures.statuses, 12)}")
    if held := sum(ending.limit_seconds.values()):
        ordered = sorted(ending.limit_seconds.items(), key=lambda pair: -pair[1])
        shares = ", ".join(f"{name} {percent(seconds / held)}" for name, seconds in ordered if seconds >= held / 100)
        lines.append(f"Held back by: {shares} of the time")
    return lines


def _why_ended(figures: Figures, ending: Ending) -> str:
    if ending.reason == "finished" and figures.map_end:
        return figures.map_end
    if ending.reason != "finished":
        return f"{ending.reason}, {figures.queued:,} urls left in the queue"
    if figures.queued:
        cap = f"max_pages={figures.max_pages} reached" if figures.max_pages else ending.reason
        if figures.max_pages and figures.counted_pages < figures.max_pages:
            failed = figures.pages - figures.counted_pages
            cap = f"too many urls failed ({failed:,}) before max_pages={figures.max_pages} were there"
        return f"{cap}, {figures.queued:,} more urls known"
    return "finished, no url is left"


def _hosts(ending: Ending) -> list[str]:
    rows = [
        [
            host.host,
            f"{host.requests:,}",
            f"{host.throughput:.1f}",
            _seconds(host.latency_p50),
            _seconds(host.latency_p95),
            percent(host.refused_share) if host.refused_share else "",
            f"{host.throughput * (host.latency_p50 or 0):.1f} of {host.concurrency:g}",
            f"{host.gap_seconds:.2f}",
            host.limit,
        ]
        for host in sorted(ending.hosts, key=lambda host: (-host.requests, host.host))
    ]
    names = ["Host", "requests", "per s", "p50 s", "p95 s", "refused", "in flight", "gap s", "limit"]
    return _table(names, rows, left=(0, 8))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _page_types(tally: Tally) -> list[str]:
    by_type: Counter[str] = Counter()
    for (page_type, _), count in tally.types.items():
        by_type[page_type] += count
    # The usual ways in their order of evidence, then any other, such as those of a user's own pipeline.
    used = {way for _, way in tally.types}
    ways = [way for way in _WAYS if way in used] + sorted(used - set(_WAYS))
    rows = [
        [name, f"{count:,}", *(f"{tally.types[name, way]:,}" if tally.types[name, way] else "" for way in ways)]
        for name, count in sorted(by_type.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return _table(["Page type", "pages", *(way or "unknown" for way in ways)], rows, left=(0,))


def _without_model(figures: Figures, tally: Tally) -> list[str]:
    """Say what has less worth, or is missing, as no model told it."""
    llm, lines = figures.llm, []
    guesses = figures.decided_by["rule"]
    if guesses and not figures.decided_by["llm"]:
        lines.append(f"{guesses:,} page types are guesses by rules: no model was asked, or it did not answer")
    has_learned = any(template.selectors for template in tally.templates.values())
    if tally.templates and not has_learned and (llm.failure or llm.provider == "none"):
        reason = llm.failure or "without a model they come from structured data, and no template has enough of it"
        lines += wrap(f"No records were learned: {reason}", WIDTH, subsequent_indent="  ")
    return lines


def _templates(tally: Tally) -> list[str]:
    ordered = sorted(_known_templates(tally), key=lambda template: (-template.page_count, template.template))
    rows = [_template_row(template, tally.by_template.get(template.template)) for template in ordered]
    names = ["Template", "pages", "page type", "agreement", "confidence", "url pattern"]
    return _table(names, rows, left=(0, 2, 5))


def _known_templates(tally: Tally) -> Iterable[Template]:
    if tally.templates:
        return tally.templates.values()
    # None came as an item, as in a crawl that was cut short: what the pages said has to do.
    return [
        Template(name, page_type=_most_frequent(of.page_types), page_count=of.page_types.total())
        for name, of in tally.by_template.items()
    ]


def _template_row(template: Template, pages: TemplateTally | None) -> list[str]:
    agreement = pages.agreement if pages else None
    confidence = pages.confidence if pages else None
    return [
        template.template,
        f"{template.page_count:,}",
        template.page_type or (pages and _most_frequent(pages.page_types)) or "",
        "" if agreement is None else percent(agreement),
        "" if confidence is None else f"{confidence:.2f}",
        template.url_pattern or (template.examples[0] if template.examples else ""),
    ]


def _most_frequent(page_types: Counter[str]) -> str | None:
    return max(page_types, key=lambda name: (page_types[name], name)) if page_types else None


def _llm(figures: Figures) -> list[str]:
    llm = figures.llm
    if not llm.calls and not llm.cached_answers:
        return []
    tasks = f" ({counts(llm.calls_by_task, 5)})" if llm.calls_by_task else ""
    cached = f"{llm.cached_answers:,} answers from the cache"
    lines = [
        f"LLM: {llm.calls:,} calls{tasks}, {llm.pages_shown:,} pages shown, {cached}",
        f"     {llm.tokens:,} tokens ({llm.prompt_tokens:,} in, {llm.completion_tokens:,} out), {money(llm.cost_usd)}",
    ]
    if llm.faults:
        lines.append(f"     faults: {counts(llm.faults, 8)}")
    return lines


def _budget(figures: Figures, tally: Tally) -> list[str]:
    """Say what the budget bought, and how many pages had to do without."""
    budget = figures.llm.budget
    if budget is None:
        return []
    spent = [f"{budget.tokens:,} of {budget.max_tokens:,} tokens"] if budget.max_tokens else []
    if budget.max_cost_usd and budget.cost_usd is not None:
        spent.append(f"${budget.cost_usd:.4f} of ${budget.max_cost_usd:g}")
    learned = sum(template.llm_calls > 0 for template in tally.templates.values())
    bought = f"{figures.llm.calls:,} calls, {figures.decided_by['llm']:,} pages judged by the model"
    lines = [
        f"Budget: {', '.join(spent)}{', reached' if budget.is_reached else ''}",
        f"     bought in this run: {bought}, {learned:,} templates learned",
    ]
    without = sum(count for kind, count in figures.errors.items() if kind.endswith("/budget"))
    if without:
        lines.append(f'     {without:,} pages had to do without: their lines have an error of the kind "budget"')
    return lines


def _plan(ending: Ending) -> list[str]:
    if ending.plan is None or ending.actual is None:
        return []
    return _table(
        ["Plan", "planned", "actual"], [list(row) for row in plan_rows(ending.plan, ending.actual)], left=(0,)
    )


def _errors(figures: Figures, tally: Tally) -> list[str]:
    ordered = sorted(figures.errors.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = [[kind, f"{count:,}", ": ".join(tally.examples.get(kind, ()))] for kind, count in ordered]
    return _table(["Error", "pages", "for example"], rows, left=(0, 2))


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> list[str]:
    """Return rows in aligned columns; the last takes the room that is left, no other more than a third of the line."""
    if not rows:
        return []
    shown = [[plain(cell, WIDTH // 3) for cell in row[:-1]] + [row[-1]] for row in rows[:_ROWS]]
    widths = [max(cell_len(plain(row[n])) for row in [names, *shown]) for n in range(len(names))]
    widths[-1] = min(widths[-1], max(1, WIDTH - sum(widths[:-1]) - 2 * (len(names) - 1)))
    lines = [
        "  ".join(column(cell, widths[n], right=n not in left) for n, cell in enumerate(row)) for row in [names, *shown]
    ]
    if len(rows) > _ROWS:
        lines.append(f"... and {len(rows) - _ROWS:,} more")
    return lines
