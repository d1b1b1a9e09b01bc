"""A job's status as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.reporting.beside import of_job
from llmcrawler.reporting.plain_text import plain
from llmcrawler.reporting.table import table
from llmcrawler.reporting.words import duration
from llmcrawler.storage.status import ErrorCount, HostUrls, JobStatus, StageCounts

_ROWS = 10
_STATUSES = ("success", "failed", "skipped")
_SHOWN_WIDTH = 200  # of what strangers have written


def status_tables(status: JobStatus, now: float) -> Iterator[RenderableType]:
    """What the crawl is doing, then how far it is, then what went wrong."""
    yield Text(_heading(status), style="bold")
    for line in _facts(status, now):
        yield Text(plain(line))
    parts = (
        _urls(status),
        _plan(status),
        _stages(status.stages),
        _errors(status.errors),
        _page_types(status.page_types),
        _hosts(status.hosts, status.host_count),
    )
    for part in parts:
        if part is not None:
            yield Text("")
            yield from part


def _heading(status: JobStatus) -> str:
    state = {"running": "a crawl is running", "finished": "finished", "interrupted": "not at its end"}[status.state]
    reason = "" if status.reason in (None, "finished") else f" ({status.reason})"
    return plain(f"{status.jobdir}: {state}{reason}")


def _facts(status: JobStatus, now: float) -> Iterator[str]:
    arguments = ", ".join(
        f"{name}={_value(value)}" for name, value in status.arguments.items() if value not in (None, [])
    )
    if status.spider is not None:
        yield plain(f"spider {status.spider}  {arguments}", _SHOWN_WIDTH)
    if status.run_started is not None:
        rate = status.rate
        pages = f"{rate.pages:,} pages in {duration(rate.seconds)}"
        yield f"run {status.runs}, started {_moment(status.run_started)}: {pages}"
        if rate.pages_per_minute is not None:
            yield f"{rate.pages_per_minute:,} pages a minute, {rate.pages_per_minute_lately:,} in the last minute"
    if status.last_line is not None:
        yield f"last line {_moment(status.last_line)}, {duration(max(0.0, now - status.last_line))} ago"
    yield "on disk " + ", ".join(f"{name} {_bytes(size)}" for name, size in status.files.items() if size)


def _urls(status: JobStatus) -> Iterable[RenderableType]:
    leased = "in flight" if status.state == "running" else "in flight when the crawl ended"
    names = {"done": "done", "dead": "dead letters", "leased": leased, "queued": "queued", "seen": "redirects' targets"}
    return [table(("urls", ">"), [(names[state], f"{status.urls[state]:,}") for state in names])]


def _plan(status: JobStatus) -> Iterable[RenderableType] | None:
    rows = of_job(status)
    return [table(("plan", ">planned", ">so far"), rows)] if rows else None


def _stages(stages: Mapping[str, StageCounts]) -> Iterable[RenderableType] | None:
    others = sorted({name for counts in stages.values() for name in counts.statuses} - {*_STATUSES})
    names = (*_STATUSES, *others)
    rows = [
        (stage, *(f"{counts.statuses.get(name, 0):,}" for name in names), _mean_seconds(counts))
        for stage, counts in stages.items()
    ]
    return [table(("stage", *(f">{name}" for name in names), ">mean time"), rows)] if rows else None


def _mean_seconds(counts: StageCounts) -> str:
    runs = counts.statuses.get("success", 0) + counts.statuses.get("failed", 0)
    return f"{counts.seconds / runs:.3f} s" if runs else ""


def _errors(errors: Sequence[ErrorCount]) -> Iterable[RenderableType] | None:
    rows = [
        (one.stage, one.kind, f"{one.pages:,}", plain(one.message, _SHOWN_WIDTH), plain(one.url, _SHOWN_WIDTH))
        for one in errors[:_ROWS]
    ]
    return _cut(table(("errors in", "kind", ">pages", "for example", "at"), rows), len(errors)) if rows else None


def _page_types(page_types: Mapping[str, int]) -> Iterable[RenderableType] | None:
    rows = [(name, f"{count:,}") for name, count in list(page_types.items())[:_ROWS]]
    return _cut(table(("page type", ">pages"), rows), len(page_types)) if rows else None


def _hosts(hosts: Sequence[HostUrls], count: int) -> Iterable[RenderableType] | None:
    rows = [(one.host, *(f"{n:,}" for n in (one.queued, one.leased, one.done, one.dead))) for one in hosts[:_ROWS]]
    return _cut(table(("host", ">queued", ">in flight", ">done", ">dead"), rows), count) if rows else None


def _cut(shown: RenderableType, count: int) -> Iterable[RenderableType]:
    return [shown, Text(f"... and {count - _ROWS:,} more", style="dim")] if count > _ROWS else [shown]


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
