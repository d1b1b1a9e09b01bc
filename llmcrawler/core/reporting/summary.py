"""Summarises a crawl as printable text, what matters most at the end, where it is still on the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from llmcrawler.core.reporting.account import (
    FAILED_PER_PAGE,
    UNKNOWN,
    CrawlAccount,
    Figures,
    TemplatePages,
    goal_words,
    rights_words,
)
from llmcrawler.core.reporting.exit_status import reason_words
from llmcrawler.core.reporting.progress import HostThrottle
from llmcrawler.core.reporting.text import column, counts, duration, fold, many, money, percent, plain, ranked
from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.understanding.extraction.learner import LearningOutcome
from llmcrawler.items import Template

WIDTH = 100
_ROWS = 20  # page types, kinds of errors
_TEMPLATES = 10
_HOSTS = 5  # the job and its report have more of them
_TYPES = 10  # with records
_FIELDS = 60
_COLUMNS = 5  # of a type's records
_REASONS = 3  # why pages of one type have no record
_NAME_CELLS = 30
_CHANGES = ("new", "changed", "gone", "unchanged")
_WAYS = ("structured-data", "template", "llm", "classifier", "rule")
_HOST_COLUMNS: Mapping[str, Callable[[HostThrottle], str]] = {
    "Host": lambda host: host.host,
    "requests": lambda host: f"{host.requests:,}",
    "per s": lambda host: f"{host.throughput:.1f}",
    "p50 s": lambda host: "" if host.latency_p50 is None else f"{host.latency_p50:.2f}",
    "p95 s": lambda host: "" if host.latency_p95 is None else f"{host.latency_p95:.2f}",
    "refused": lambda host: percent(host.refused_share) if host.refused_share else "",
    "in flight": lambda host: f"{host.throughput * (host.latency_p50 or 0):.1f} of {host.concurrency:g}",
    "gap s": lambda host: f"{host.gap_seconds:.2f}",
    "limit": lambda host: host.limit,
}
_WIDE_ONLY = {"p95 s", "in flight", "gap s"}


@dataclass(frozen=True, slots=True)
class WrittenFeed:
    """A feed, or the sum of its batches. `is_whole` is False where something could not be written."""

    uri: str
    format: str
    lines: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a crawl. `reason` is Scrapy's, `limit_seconds` how long each limit held it back; `hosts` have their
    mean throughput. `outcomes` tell what was learned of `record_types`. `goes_on_later`: the same command would
    resume it.
    """

    reason: str
    elapsed_seconds: float
    limit_seconds: Mapping[str, float]
    hosts: Sequence[HostThrottle] = ()
    outcomes: Sequence[LearningOutcome] = ()
    record_types: Container[str] = ()
    feeds: Sequence[WrittenFeed] = ()
    goes_on_later: bool = False
    is_resumed: bool = False


def summary(figures: Figures, account: CrawlAccount, ending: Ending, width: int = WIDTH) -> str:
    """Return the summary in lines of at most `width` terminal cells."""
    rights = rights_words(RightsCounts.of(figures.rights))
    sections = [
        _pace(figures, ending),
        _hosts(ending, width),
        _templates(account, width),
        _llm(figures),
        _budget(figures, account),
        _errors(figures, account, width),
        _page_types(account, width),
        _without_model(figures, account),
        [f"Use of the pages: {rights}"] if rights else [],
        _records(account, ending, width),
        _result(figures, ending),
    ]
    lines = ["Summary"]
    for section in filter(None, sections):
        for line in section:
            if cell_len(line) <= width:
                lines.append(plain(line))
            else:
                first, *rest = fold(line.split(), width)
                lines += [first, *fold(" ".join(rest).split(), width, "    ")]
        lines.append("")
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _pace(figures: Figures, ending: Ending) -> list[str]:
    lines = []
    if figures.statuses:
        lines.append(f"Answers by status: {counts(figures.statuses, 12)}")
    if held := sum(ending.limit_seconds.values()):
        ordered = sorted(ending.limit_seconds.items(), key=lambda pair: -pair[1])
        first, *others = [f"{name} {seconds / held:.0%}" for name, seconds in ordered if seconds >= held / 100]
        lines.append(f"Held back by: {', '.join([f'{first} of the time', *others])}")
    return lines


def _hosts(ending: Ending, width: int) -> list[str]:
    names = [name for name in _HOST_COLUMNS if width >= WIDTH or name not in _WIDE_ONLY]
    hosts = sorted(ending.hosts, key=lambda host: (-host.requests, host.host))
    rows = [[_HOST_COLUMNS[name](host) for name in names] for host in hosts]
    return _table(names, rows, width, left=(0, len(names) - 1), most=_HOSTS)


def _templates(account: CrawlAccount, width: int) -> list[str]:
    pages: dict[str, TemplatePages] = {}
    for (_site, name), group in account.groups.items():
        if name != UNKNOWN and group.agreement is not None:
            pages.setdefault(name, group)
    # None came as an item, as in a crawl that was cut short: what the pages said has to do.
    known = account.templates.values() or [Template(name, page_count=group.pages) for name, group in pages.items()]
    rows = []
    for one in sorted(known, key=lambda template: (-template.page_count, template.template)):
        of_pages = pages.get(one.template)
        agreement, confidence = (of_pages.agreement, of_pages.confidence) if of_pages else (None, None)
        rows.append(
            [
                one.template,
                f"{one.page_count:,}",
                one.page_type or (of_pages.page_type if of_pages else ""),
                "" if agreement is None else percent(agreement),
                "" if confidence is None else f"{confidence:.2f}",
                one.url_pattern or next(iter(one.examples), ""),
            ]
        )
    names = ["Template", "pages", "page type", "agreement", "confidence", "url pattern"]
    return _table(names, rows, width, left=(0, 2, 5), most=_TEMPLATES)


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
    if without := sum(count for kind, count in figures.errors.items() if kind.endswith("/budget")):
        lines.append(f'     {many(without, "page")} had to do without the model: their error has the kind "budget"')
    return lines


def _errors(figures: Figures, account: CrawlAccount, width: int) -> list[str]:
    ordered = ranked(figures.errors)
    table = _table(["Error", "pages"], [[kind, f"{count:,}"] for kind, count in ordered], width, left=(0,))
    examples = {"/".join(kind): of.examples[0] for kind, of in account.errors.items()}
    lines = table[:1]
    for (kind, _count), row in zip(ordered[:_ROWS], table[1:], strict=False):
        lines += [row, *(line for text in examples.get(kind, ()) for line in fold(text.split(), width, "    "))]
    return lines + table[1 + _ROWS :]


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


def _without_model(figures: Figures, account: CrawlAccount) -> list[str]:
    """Say what has less worth, or is missing, as no model told it."""
    llm, lines = figures.llm, []
    if guessed := figures.guessed_types:
        by_whom = ", ".join(f"{count:,} by {who}" for who, count in guessed.items())
        why = "" if figures.decided_by["llm"] else "; no model was asked, or it did not answer"
        lines.append(f"{many(sum(guessed.values()), 'page type')} guessed: {by_whom}{why}")
    has_learned = any(template.selectors for template in account.templates.values())
    if account.templates and not has_learned and (llm.failure or llm.provider == "none"):
        reason = f": {llm.failure}" if llm.failure else ""
        lines.append(f"Records come from single pages, as no template was learned{reason}")
    return lines


def _records(account: CrawlAccount, ending: Ending, width: int) -> list[str]:
    """Return a block for each page type that has records, or should have: those with most pages first."""
    pages = account.pages_by_type
    with_records = [name for name in pages if name in ending.record_types or account.records[name]]
    shown = sorted(with_records, key=lambda one: -pages[one])
    if not shown:
        return ["Records: none, as no page is of a type that has any"] if pages else []
    names = ["Records", *(plain(name, _NAME_CELLS) for name in shown[:_TYPES])]
    cells = max(len(name) for name in names)
    lines = [f"{column('Records', cells)}  pages  records"]
    for name in shown[:_TYPES]:
        lines.append(f"{column(plain(name, cells), cells)}  {pages[name]:>5,}  {account.records[name]:>7,}")
        lines += _fields(name, account, [one for one in ending.outcomes if one.page_type == name], width)
        lines += _fullest_records(name, account, width)
    if len(shown) > _TYPES:
        lines.append(f"... and {len(shown) - _TYPES:,} more page types")
    return lines


def _fields(page_type: str, account: CrawlAccount, outcomes: Sequence[LearningOutcome], width: int) -> list[str]:
    """Tell how full the fields of a type are, which were not learned and why, and why pages have no record."""
    learned = [one for one in outcomes if one.learned]
    known = frozenset().union(*(one.learned for one in learned))
    missing = {name: why for one in learned for name, why in one.missing.items() if name not in known}
    records = account.records[page_type]
    shares = [
        f"{plain(name, _NAME_CELLS)} {percent(count / records)}"
        for (of_type, name), count in account.filled.items()
        if of_type == page_type and records and (count or name not in missing)
    ]
    if len(shares) > _FIELDS:
        shares[_FIELDS:] = [f"{len(shares) - _FIELDS:,} more"]
    filled = [f"{share}," for share in shares[:-1]] + shares[-1:]  # a share is never split at a line's end
    lines = fold(["filled:", *filled], width, "    ") if shares else []
    groups = [group for group in account.groups.values() if group.page_type == page_type]
    if same := [plain(name, _NAME_CELLS) for name in dict.fromkeys(name for one in groups for name in one.constants)]:
        lines += fold(f"the same on all pages of a template: {', '.join(same[:_FIELDS])}".split(), width, "    ")
    reasons: dict[str, list[str]] = {}
    for name, why in list(missing.items())[:_FIELDS]:
        reasons.setdefault(why, []).append(plain(name, _NAME_CELLS))
    for why, names in reasons.items():
        lines += fold(["not learned:", *f"{', '.join(names)} ({why})".split()], width, "    ")
    without: Counter[str] = Counter()
    for one in outcomes:
        without[one.reason or "they are unlike those that their template was learned from"] += one.unserved
    for why, count in (+without).most_common(_REASONS):
        lines += fold(f"without a record: {count:,} ({why})".split(), width, "    ")
    return lines


def _fullest_records(page_type: str, account: CrawlAccount, width: int) -> list[str]:
    """Return a table of some records: the fields that most records of their type have, without addresses."""
    records = account.fullest[page_type]
    values = [(name, str(value)) for record in records for name, value in record.items()]
    names = dict.fromkeys(name for name, value in values if not value.startswith("http"))
    shown = sorted(names, key=lambda name: -account.filled[page_type, name])[:_COLUMNS]
    cells = (width - 4) // max(1, len(shown)) - 2
    rows = [[plain(record.get(name, ""), cells) for name in shown] for record in records]
    table = _table([plain(name, cells) for name in shown], rows if shown else [], width - 4, left=range(_COLUMNS))
    return [f"    {line}" for line in table]


def _result(figures: Figures, ending: Ending) -> list[str]:
    pages, failed = figures.counted_pages, figures.failed_urls
    rate = pages / ending.elapsed_seconds if ending.elapsed_seconds else 0.0
    others = {"duplicate": figures.duplicates, "failed url": failed}
    what = " and ".join([many(pages, "page"), *(many(count, name) for name, count in others.items() if count)])
    with_errors = f"{figures.errors.total() - failed:,} with errors"
    lines = [f"{what} in {duration(ending.elapsed_seconds)}, {rate:.1f} pages/s, {with_errors}"]
    if figures.noindex_pages:
        lines.append(f"{many(figures.noindex_pages, 'page')} without text because of robots: noindex")
    if figures.file_links:
        lines.append(f"Links to files, not fetched: {counts(figures.file_links, 8)}")
    if figures.unpressed_pages:
        what = f"{many(figures.unpressed_pages, 'page')} with a button that loads more of a list, which was not pressed"
        lines.append(f"{what}: -s RENDER_SCROLLS=20 presses it up to 20 times on each page")
    if figures.sources:
        lines.insert(0, f"{many(figures.sources.total(), 'url')} ({counts(figures.sources, 5)})")
    if ending.is_resumed:
        job = f"{many(figures.lines, 'line')}, {figures.failed_lines:,} with errors"
        lines.append(f"That was this run; templates and feeds are of the whole job, which has {job}")
    lines.append(f"Ended: {_why_ended(figures, ending)}")
    if figures.changes:
        lines.append("Since the last crawl: " + ", ".join(f"{figures.changes[name]:,} {name}" for name in _CHANGES))
    if figures.goal:
        lines.append(f"Goal {goal_words(figures)}")
    for feed in ending.feeds[:_ROWS]:
        lack = "" if feed.is_whole else ", NOT WHOLE: the log says why"
        lines.append(f"Feed: {feed.uri}, {many(feed.lines, 'line')} ({feed.format}){lack}")
    return lines


def _why_ended(figures: Figures, ending: Ending) -> str:
    if ending.reason != "finished":
        on = "" if ending.goes_on_later else "; with -s JOBDIR=FOLDER the same command would go on from here"
        return f"stopped {reason_words(ending.reason)}, {many(figures.queued, 'url')} left in the queue{on}"
    if figures.map_end:
        return figures.map_end
    more, failed, most = many(figures.queued, "more url"), figures.failed_urls, figures.max_pages
    if figures.max_records and figures.goal_records >= figures.max_records:
        return f"max_records={figures.max_records} reached, {more} known"
    if not figures.queued:
        return "finished, no URL is left"
    cap = f"max_pages={most} reached" if most else ending.reason
    if most and failed >= FAILED_PER_PAGE * most:
        cap = f"too many urls failed ({failed:,}) before max_pages={most} were there"
    elif most and figures.duplicates > most:
        cap = f"too many duplicates ({figures.duplicates:,}) before max_pages={most} were there"
    return f"{cap}, {more} known"


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, left: Sequence[int], most: int = _ROWS
) -> list[str]:
    """Return rows in aligned columns; the last takes the room that is left, no other more than a third of the line."""
    if not rows:
        return []
    shown = [names, *([plain(cell, width // 3) for cell in row[:-1]] + [row[-1]] for row in rows[:most])]
    widths = [max(cell_len(plain(row[n])) for row in shown) for n in range(len(names))]
    widths[-1] = min(widths[-1], max(1, width - sum(widths[:-1]) - 2 * (len(names) - 1)))
    lines = ["  ".join(column(cell, widths[n], right=n not in left) for n, cell in enumerate(row)) for row in shown]
    return lines + ([f"... and {len(rows) - most:,} more"] if len(rows) > most else [])
