"""Summarises a crawl as text for a person: nothing but printable characters, what matters most at the end, where it
is still on the screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from rich.cells import cell_len

from llmcrawler.core.reporting.account import (
    FAILED_PER_PAGE,
    UNKNOWN,
    Actual,
    CrawlAccount,
    Figures,
    TemplatePages,
    goal_words,
    plan_rows,
    rights_lines,
)
from llmcrawler.core.reporting.exit_status import reason_words
from llmcrawler.core.reporting.progress import HostThrottle
from llmcrawler.core.reporting.text import column, counts, duration, fold, listed, many, money, percent, plain, ranked
from llmcrawler.core.understanding.extraction import LearningOutcome
from llmcrawler.items import Template

_TYPES = 10
_FIELDS = 60
_REASONS = 3  # why pages of one type have no record
_NAME_CELLS = 30


def record_lines(
    account: CrawlAccount, outcomes: Sequence[LearningOutcome], record_types: Container[str], width: int
) -> list[str]:
    """Return a block for each page type that has records, or should have: those with most pages first."""
    pages = account.pages_by_type
    shown = sorted(
        (name for name in pages if name in record_types or account.records[name]), key=lambda one: -pages[one]
    )
    if not shown:
        return ["Records: none, as no page is of a type that has any"] if pages else []
    names = ["Records", *(plain(name, _NAME_CELLS) for name in shown[:_TYPES])]
    cells = max(len(name) for name in names)
    lines = [f"{column('Records', cells)}  pages  records"]
    for name in shown[:_TYPES]:
        lines.append(f"{column(plain(name, cells), cells)}  {pages[name]:>5,}  {account.records[name]:>7,}")
        lines += _fields(name, account, [one for one in outcomes if one.page_type == name], width)
    if len(shown) > _TYPES:
        lines.append(f"... and {len(shown) - _TYPES:,} more page types")
    return lines


def _fields(page_type: str, account: CrawlAccount, outcomes: Sequence[LearningOutcome], width: int) -> list[str]:
    records = account.records[page_type]
    missing = _missing(outcomes)
    shares = {
        name: count / records
        for (of_type, name), count in account.filled.items()
        if of_type == page_type and records and (count or name not in missing)
    }
    parts = [f"{plain(name, _NAME_CELLS)} {percent(share)}" for name, share in list(shares.items())[:_FIELDS]]
    if len(shares) > _FIELDS:
        parts.append(f"{len(shares) - _FIELDS:,} more")
    lines = fold(["filled:", *listed(parts)], width, "    ") if parts else []
    reasons: dict[str, list[str]] = {}
    for name, why in list(missing.items())[:_FIELDS]:
        reasons.setdefault(why, []).append(plain(name, _NAME_CELLS))
    for why, names in reasons.items():
        lines += fold(["not learned:", *f"{', '.join(names)} ({why})".split()], width, "    ")
    for why, count in _unserved(outcomes).most_common(_REASONS):
        lines += fold(f"without a record: {count:,} ({why})".split(), width, "    ")
    return lines


def _missing(outcomes: Sequence[LearningOutcome]) -> dict[str, str]:
    """Return why a field has no selector in any template, in the words of one that was learned otherwise. Where none
    was, it is said once for all fields.
    """
    learned = [one for one in outcomes if one.learned]
    known = frozenset().union(*(one.learned for one in learned))
    return {name: why for one in learned for name, why in one.missing.items() if name not in known}


def _unserved(outcomes: Sequence[LearningOutcome]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for one in outcomes:
        if one.unserved:
            counted[one.reason or "they are unlike those that their template was learned from"] += one.unserved
    return counted


WIDTH = 100
_ROWS = 20  # page types, kinds of errors
_TEMPLATES = 10
_HOSTS = 5  # the job and its report have more of them
_WIDE_ONLY = {"p95 s", "in flight", "gap s"}  # columns of the hosts
_CHANGES = ("new", "changed", "gone", "unchanged")
_WAYS = ("structured-data", "template", "llm", "classifier", "rule")


@dataclass(frozen=True, slots=True)
class WrittenFeed:
    """A feed, or the sum of its batches. `is_whole` is False where something could not be written."""

    uri: str
    format: str
    lines: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a crawl. `reason` is Scrapy's; `limit_seconds` says how long each limit held it back; `goes_on_later`:
    the same command would go on from here.

    `hosts` have the throughput of their whole time. `plan` is that of `scrapy plan`, where the job has one; `actual`
    is what came of it. `outcomes` tell what was learned of pages of `record_types`, those that have records.
    """

    reason: str
    elapsed_seconds: float
    limit_seconds: Mapping[str, float]
    hosts: Sequence[HostThrottle] = ()
    plan: Mapping[str, Any] | None = None
    actual: Actual | None = None
    outcomes: Sequence[LearningOutcome] = ()
    record_types: Container[str] = ()
    feeds: Sequence[WrittenFeed] = ()
    goes_on_later: bool = False


def summary(figures: Figures, account: CrawlAccount, ending: Ending, width: int = WIDTH) -> str:
    """Return the summary in lines of at most `width` terminal cells."""
    sections = [
        _pace(figures, ending),
        _hosts(ending, width),
        _templates(account, width),
        _llm(figures),
        _budget(figures, account),
        _plan(ending, width),
        _errors(figures, account, width),
        _page_types(account, width),
        _without_model(figures, account, width),
        rights_lines(figures),
        record_lines(account, ending.outcomes, ending.record_types, width),
        _result(figures, ending),
    ]
    lines = ["Summary"]
    for section in sections:
        if section:
            lines += [*(part for line in section for part in _fitted(line, width)), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _fitted(line: str, width: int) -> list[str]:
    """Fold a line that is too long; what goes on is set in."""
    if cell_len(line) <= width:
        return [plain(line)]
    first, *rest = fold(line.split(), width)
    return [first, *fold(" ".join(rest).split(), width, "    ")]


def _result(figures: Figures, ending: Ending) -> list[str]:
    pages, failed = figures.counted_pages, figures.failed_urls
    rate = pages / ending.elapsed_seconds if ending.elapsed_seconds else 0.0
    others = (many(figures.duplicates, "duplicate"), many(failed, "failed url"))
    counted = [words for words, count in zip(others, (figures.duplicates, failed), strict=True) if count]
    what = " and ".join([many(pages, "page"), *counted])
    with_errors = f"{figures.errors.total() - failed:,} with errors"
    lines = [
        f"{what} in {duration(ending.elapsed_seconds)}, {rate:.1f} pages/s, {with_errors}",
        f"Ended: {_why_ended(figures, ending)}",
    ]
    if figures.noindex_pages:
        lines.insert(1, f"{many(figures.noindex_pages, 'page')} without text, not to be indexed (robots: noindex)")
    if figures.sources:
        lines.insert(0, f"{many(figures.sources.total(), 'url')} ({counts(figures.sources, 5)})")
    if figures.changes:
        lines.append("Since the last crawl: " + ", ".join(f"{figures.changes[name]:,} {name}" for name in _CHANGES))
    if figures.goal:
        lines.append(f"Goal {goal_words(figures)}")
    for feed in ending.feeds[:_ROWS]:
        lack = "" if feed.is_whole else ", NOT WHOLE: the log says why"
        lines.append(f"Feed: {feed.uri}, {many(feed.lines, 'line')} ({feed.format}){lack}")
    return lines


def _pace(figures: Figures, ending: Ending) -> list[str]:
    lines = []
    if figures.statuses:
        lines.append(f"Answers by status: {counts(figures.statuses, 12)}")
    if held := sum(ending.limit_seconds.values()):
        ordered = sorted(ending.limit_seconds.items(), key=lambda pair: -pair[1])
        first, *others = [f"{name} {seconds / held:.0%}" for name, seconds in ordered if seconds >= held / 100]
        lines.append(f"Held back by: {', '.join([f'{first} of the time', *others])}")
    return lines


def _why_ended(figures: Figures, ending: Ending) -> str:
    if ending.reason == "finished" and figures.map_end:
        return figures.map_end
    if ending.reason != "finished":
        on = "" if ending.goes_on_later else "; with -s JOBDIR=FOLDER the same command would go on from here"
        return f"stopped {reason_words(ending.reason)}, {many(figures.queued, 'url')} left in the queue{on}"
    more = many(figures.queued, "more url")
    if figures.max_records and figures.goal_records >= figures.max_records:
        return f"max_records={figures.max_records} reached, {more} known"
    if figures.queued:
        cap = f"max_pages={figures.max_pages} reached" if figures.max_pages else ending.reason
        failed = figures.failed_urls
        if figures.max_pages and failed >= FAILED_PER_PAGE * figures.max_pages:
            cap = f"too many urls failed ({failed:,}) before max_pages={figures.max_pages} were there"
        elif figures.max_pages and figures.duplicates > figures.max_pages:
            cap = f"too many duplicates ({figures.duplicates:,}) before max_pages={figures.max_pages} were there"
        return f"{cap}, {more} known"
    return "finished, no url is left"


def _hosts(ending: Ending, width: int) -> list[str]:
    columns: dict[str, Callable[[HostThrottle], str]] = {
        "Host": lambda host: host.host,
        "requests": lambda host: f"{host.requests:,}",
        "per s": lambda host: f"{host.throughput:.1f}",
        "p50 s": lambda host: _seconds(host.latency_p50),
        "p95 s": lambda host: _seconds(host.latency_p95),
        "refused": lambda host: percent(host.refused_share) if host.refused_share else "",
        "in flight": lambda host: f"{host.throughput * (host.latency_p50 or 0):.1f} of {host.concurrency:g}",
        "gap s": lambda host: f"{host.gap_seconds:.2f}",
        "limit": lambda host: host.limit,
    }
    names = [name for name in columns if width >= WIDTH or name not in _WIDE_ONLY]
    hosts = sorted(ending.hosts, key=lambda host: (-host.requests, host.host))
    rows = [[columns[name](host) for name in names] for host in hosts]
    return _table(names, rows, width, left=(0, len(names) - 1), most=_HOSTS)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _page_types(account: CrawlAccount, width: int) -> list[str]:
    # The usual ways in their order of evidence, then any other, such as those of a user's own pipeline.
    pages = account.pages_by_type
    used = {way for name, way in account.ways if name in pages}
    ways = [way for way in _WAYS if way in used] + sorted(used - set(_WAYS))
    rows = [
        [name, f"{count:,}", *(f"{account.ways[name, way]:,}" if account.ways[name, way] else "" for way in ways)]
        for name, count in ranked(pages)
    ]
    return _table(["Page type", "pages", *(way or "unknown" for way in ways)], rows, width, left=(0,))


def _without_model(figures: Figures, account: CrawlAccount, width: int) -> list[str]:
    """Say what has less worth, or is missing, as no model told it."""
    llm, lines = figures.llm, []
    if guessed := figures.guessed_types:
        by_whom = ", ".join(f"{count:,} by {who}" for who, count in guessed.items())
        why = "" if figures.decided_by["llm"] else "; no model was asked, or it did not answer"
        lines.append(f"{many(sum(guessed.values()), 'page type')} guessed: {by_whom}{why}")
    has_learned = any(template.selectors for template in account.templates.values())
    if account.templates and not has_learned and (llm.failure or llm.provider == "none"):
        reason = f"no template was learned: {llm.failure}" if llm.failure else "there is no model to learn more"
        lines.append(f"Records are what each page says of itself, as {reason}")
    return [part for line in lines for part in wrap(line, width, subsequent_indent="  ")]


def _templates(account: CrawlAccount, width: int) -> list[str]:
    pages: dict[str, TemplatePages] = {}
    for (_site, name), group in account.groups.items():
        if name != UNKNOWN and group.agreement is not None:
            pages.setdefault(name, group)
    # None came as an item, as in a crawl that was cut short: what the pages said has to do.
    known = account.templates.values() or [Template(name, page_count=group.pages) for name, group in pages.items()]
    ordered = sorted(known, key=lambda template: (-template.page_count, template.template))
    rows = [_template_row(template, pages.get(template.template)) for template in ordered]
    names = ["Template", "pages", "page type", "agreement", "confidence", "url pattern"]
    return _table(names, rows, width, left=(0, 2, 5), most=_TEMPLATES)


def _template_row(template: Template, pages: TemplatePages | None) -> list[str]:
    agreement, confidence = (pages.agreement, pages.confidence) if pages else (None, None)
    return [
        template.template,
        f"{template.page_count:,}",
        template.page_type or (pages.page_type if pages else ""),
        "" if agreement is None else percent(agreement),
        "" if confidence is None else f"{confidence:.2f}",
        template.url_pattern or (template.examples[0] if template.examples else ""),
    ]


def _llm(figures: Figures) -> list[str]:
    llm = figures.llm
    if not llm.calls and not llm.cached_answers:
        return []
    tasks = f" ({counts(llm.calls_by_task, 5)})" if llm.calls_by_task else ""
    cached, tokens = f"{many(llm.cached_answers, 'answer')} from the cache", many(llm.tokens, "token")
    reused = f", {llm.provider_cached_share:.0%} of it cached" if llm.provider_cached_tokens else ""
    return [
        f"LLM: {many(llm.calls, 'call')}{tasks}, {many(llm.pages_shown, 'page')} shown, {cached}",
        f"     {tokens} ({llm.prompt_tokens:,} in{reused}, {llm.completion_tokens:,} out), {money(llm.cost_usd)}",
        *([f"     faults: {counts(llm.faults, 8)}"] if llm.faults else []),
    ]


def _budget(figures: Figures, account: CrawlAccount) -> list[str]:
    """Say what the budget bought, and how many pages had to do without."""
    budget = figures.llm.budget
    if budget is None:
        return []
    spent = [f"{budget.tokens:,} of {budget.max_tokens:,} tokens"] if budget.max_tokens else []
    if budget.max_cost_usd and budget.cost_usd is not None:
        spent.append(f"${budget.cost_usd:.4f} of ${budget.max_cost_usd:g}")
    learned = sum(template.llm_calls > 0 for template in account.templates.values())
    bought = f"{many(figures.llm.calls, 'call')}, {many(figures.decided_by['llm'], 'page')} judged by the model"
    lines = [
        f"Budget: {', '.join(spent)}{', reached' if budget.is_reached else ''}",
        f"     bought in this run: {bought}, {many(learned, 'template')} learned",
    ]
    without = sum(count for kind, count in figures.errors.items() if kind.endswith("/budget"))
    if without:
        lines.append(f'     {many(without, "page")} had to do without: an error of the kind "budget" says so')
    return lines


def _plan(ending: Ending, width: int) -> list[str]:
    if ending.plan is None or ending.actual is None:
        return []
    rows = [list(row) for row in plan_rows(ending.plan, ending.actual)]
    return _table(["Plan", "planned", "actual"], rows, width, left=(0,))


def _errors(figures: Figures, account: CrawlAccount, width: int) -> list[str]:
    ordered = ranked(figures.errors)
    table = _table(["Error", "pages"], [[kind, f"{count:,}"] for kind, count in ordered], width, left=(0,))
    lines, shown = table[:1], ordered[:_ROWS]
    examples = {"/".join(kind): of.examples[0] for kind, of in account.errors.items()}
    for (kind, _), row in zip(shown, table[1:], strict=False):
        example = (line for text in examples.get(kind, ()) for line in fold(text.split(), width, "    "))
        lines += [row, *example]
    return lines + table[1 + len(shown) :]


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, left: Sequence[int], most: int = _ROWS
) -> list[str]:
    """Return rows in aligned columns; the last takes the room that is left, no other more than a third of the line."""
    if not rows:
        return []
    shown = [[plain(cell, width // 3) for cell in row[:-1]] + [row[-1]] for row in rows[:most]]
    widths = [max(cell_len(plain(row[n])) for row in [names, *shown]) for n in range(len(names))]
    widths[-1] = min(widths[-1], max(1, width - sum(widths[:-1]) - 2 * (len(names) - 1)))
    lines = [
        "  ".join(column(cell, widths[n], right=n not in left) for n, cell in enumerate(row)) for row in [names, *shown]
    ]
    if len(rows) > most:
        lines.append(f"... and {len(rows) - most:,} more")
    return lines
