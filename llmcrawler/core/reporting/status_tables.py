"""Shows the status of a job, or of several workers, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.core.reporting.plan_figures import job_plan_rows
from llmcrawler.core.reporting.rights_words import rights_rows
from llmcrawler.core.reporting.terminal_table import more, table
from llmcrawler.core.reporting.text import duration, many, moment, plain
from llmcrawler.core.storage.job_status import JobStatus, StageCounts

if TYPE_CHECKING:
    from llmcrawler.fleet.crawl_status import CrawlSummary, DistributedStatus, WorkerStatus

_ROWS = 10
_NAMES = 3  # of the sites that a worker owns
_STATUSES = ("success", "failed", "skipped")
_SHOWN_WIDTH = 200  # of what strangers have written
_SAID = ("what sites say of the use", ">pages")


def job_status_tables(status: JobStatus, now: float) -> Iterator[RenderableType]:
    """Yield what the crawl is doing, then how far it is, then what went wrong. `now` is in Unix time."""
    state = {"running": "a crawl is running", "finished": "finished", "interrupted": "not at its end"}[status.state]
    reason = "" if status.reason in (None, "finished") else f" ({status.reason})"
    yield Text(plain(f"{status.jobdir}: {state}{reason}"), style="bold")
    yield from (Text(plain(line)) for line in _facts(status, now))
    leased = "in flight" if status.state == "running" else "in flight when the crawl ended"
    names = {"done": "done", "dead": "dead letters", "leased": leased, "queued": "queued", "seen": "redirects' targets"}
    urls = [(names[state], f"{status.urls[state]:,}") for state in names]
    yield from _part(("urls", ">"), [*urls, ("duplicates among those done", f"{status.duplicates:,}")])
    yield from _part(("plan", ">planned", ">so far"), job_plan_rows(status))
    yield from _part(*_stages(status.stages))
    errors = [
        (one.stage, one.kind, f"{one.pages:,}", plain(one.message, _SHOWN_WIDTH), plain(one.url, _SHOWN_WIDTH))
        for one in status.errors
    ]
    yield from _part(("errors in", "kind", ">pages", "for example", "at"), errors, len(errors))
    types = [(name, f"{count:,}") for name, count in status.page_types.items()]
    yield from _part(("page type", ">pages"), types, len(types))
    yield from _part(_SAID, [*rights_rows(status.rights)])
    hosts = [(one.host, *_numbers(one.queued, one.leased, one.done, one.dead)) for one in status.hosts]
    yield from _part(("host", ">queued", ">in flight", ">done", ">dead"), hosts, status.host_count)


def crawls_table(crawls: Sequence[CrawlSummary], now: float) -> Iterator[RenderableType]:
    """Yield the crawls of a Redis. `now` is in Unix time."""
    rows = [
        (
            one.crawl_id,
            one.state,
            *_numbers(one.workers, *(one.urls[name] for name in ("queued", "leased", "done", "dead"))),
            f"{one.pages_a_minute:,.0f}",
            f"{one.waiting:,}",
            f"{duration(max(0.0, now - one.started))} ago",
        )
        for one in crawls
    ]
    columns = (">workers", ">queued", ">leased", ">done", ">dead", ">a minute", ">sites that wait", ">started")
    yield table(("crawl", "", *columns), rows) if rows else Text("there is no crawl")


def session_status_tables(status: DistributedStatus, now: float) -> Iterator[RenderableType]:
    """Yield what the crawl is doing, who works on it, how far it is, then what went wrong. `now` is in Unix time."""
    yield Text(plain(f"{status.crawl_id} in {status.url}: {status.state}"), style="bold")
    yield Text(_arguments(status.spider, status.arguments))
    filtered = {"bloom": "a Bloom filter", "set": "sets of hashes"}[status.told_apart_by]
    memory = f"{status.memory_bytes / 1e6:,.0f} MB in the whole Redis, urls told apart by {filtered}"
    yield Text(f"started {duration(max(0.0, now - status.started))} ago; {memory}")
    if status.pages_a_minute:
        yield Text(f"{status.pages_a_minute:,.0f} pages a minute, all workers together")
    if status.state == "paused":
        yield Text(f"go on with: scrapy workers resume {status.url} {status.crawl_id}")
    yield from _workers(status.workers, now)
    urls = {"done": "done", "duplicates": "duplicates among them", "dead": "dead letters"}
    urls |= {"leased": "leased", "queued": "queued"}
    rows = [(text, f"{status.urls[name]:,}") for name, text in urls.items()]
    yield from _part(("urls", ">"), [*rows, ("leases of lost workers", f"{status.expired:,}")])
    if status.waiting:
        yield Text("")
        waiting = _some(status.waiting_sites, status.waiting)
        yield Text(plain(f"{many(status.waiting, 'site')} without an owner: {waiting}", _SHOWN_WIDTH))
    hosts = [
        (
            one.host,
            *_numbers(one.queued, one.done, one.dead),
            one.owner,
            "" if one.window is None else f"{one.window:.3g}",
            f"{one.rest_seconds:g} s" if one.rest_seconds else "",
        )
        for one in status.hosts
    ]
    columns = ("host", ">queued", ">done", ">dead", "owner", ">at once", ">cooldown")
    yield from _part(columns, hosts, status.host_count)
    errors = [(name, f"{count:,}") for name, count in status.errors.items()]
    yield from _part(("error", ">pages"), errors[:_ROWS])
    yield from _part(_SAID, [*rights_rows(status.rights)])
    yield from _part(("latest dead letters", ""), status.dead_letters[:_ROWS])


def _workers(workers: Sequence[WorkerStatus], now: float) -> Iterator[RenderableType]:
    """Yield those that are there, then the latest of the others."""
    rows = [
        (
            one.report.worker,
            one.state,
            f"{one.report.pages:,}",
            *([""] * 3 if one.ended else _numbers(one.report.pages_a_minute, one.report.leases, one.report.in_flight)),
            *_numbers(one.report.llm_calls, one.site_count),
            _some(one.sites, one.site_count),
            "" if one.ended is None else f"{duration(max(0.0, now - one.ended))} ago",
        )
        for one in workers
    ]
    columns = (">pages", ">a minute", ">leases", ">in flight", ">LLM calls", ">sites", "owner of", "last heard of")
    here = len([one for one in workers if one.ended is None])
    yield from _part(("worker", "", *columns), rows[: here + _ROWS])
    yield from more(len(rows), here + _ROWS)


def _some(names: Sequence[str], count: int) -> str:
    return ", ".join(names[:_NAMES]) + (f" and {count - _NAMES:,} more" if count > _NAMES else "")


def _part(headers: Sequence[str], rows: Sequence[Sequence[Any]], count: int = 0) -> Iterator[RenderableType]:
    """Yield an empty line and a table; nothing without rows. Of `count` rows (0: all that are given) the first stand
    in it.
    """
    if rows:
        yield Text("")
        yield table(headers, rows[:_ROWS] if count else rows)
        yield from more(count, _ROWS)


def _facts(status: JobStatus, now: float) -> Iterator[str]:
    if status.spider is not None:
        yield _arguments(status.spider, status.arguments)
    if status.run_started is not None:
        rate = status.rate
        pages = f"{rate.pages:,} pages in {duration(rate.seconds)}"
        yield f"run {status.runs}, started {moment(status.run_started)}: {pages}"
        if rate.pages_per_minute is not None:
            yield f"{rate.pages_per_minute:,} pages a minute, {rate.pages_per_minute_lately:,} in the last minute"
    if status.last_line is not None:
        yield f"last line {moment(status.last_line)}, {duration(max(0.0, now - status.last_line))} ago"
    yield "on disk " + ", ".join(f"{name} {_bytes(size)}" for name, size in status.files.items() if size)


def _stages(stages: Mapping[str, StageCounts]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    others = sorted({name for counts in stages.values() for name in counts.statuses} - {*_STATUSES})
    names = (*_STATUSES, *others)
    rows = [
        (stage, *_numbers(*(counts.statuses.get(name, 0) for name in names)), _mean_seconds(counts))
        for stage, counts in stages.items()
    ]
    return ("stage", *(f">{name}" for name in names), ">mean time"), rows


def _mean_seconds(counts: StageCounts) -> str:
    runs = counts.statuses.get("success", 0) + counts.statuses.get("failed", 0)
    return f"{counts.seconds / runs:.3f} s" if runs else ""


def _arguments(spider: str | None, arguments: Mapping[str, Any]) -> str:
    given = (
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in arguments.items()
        if value not in (None, [])
    )
    return plain(f"spider {spider}  {', '.join(given)}", _SHOWN_WIDTH)


def _numbers(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number:,.0f}" for number in numbers)


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
