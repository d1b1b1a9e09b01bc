"""Shows crawls that workers share as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.core.reporting.account import rights_rows
from llmcrawler.core.reporting.terminal_tables import (
    MAX_CELLS,
    MAX_ROWS,
    RIGHTS_HEADERS,
    arguments_line,
    more,
    numbers,
    table_part,
)
from llmcrawler.core.reporting.text import duration, many, plain
from llmcrawler.fleet.crawl_control import DistributedStatus

_NAMES = 3  # of the sites that a worker owns
_WORKER_COLUMNS = (
    *("worker", "", ">pages", ">a minute", ">leases", ">in flight", ">LLM calls", ">sites"),
    *("owner of", "last heard of"),
)


def session_status_tables(status: DistributedStatus, now: float) -> Iterator[RenderableType]:
    """Yield what the crawl is doing, who works on it, how far it is, then what went wrong. `now` is in Unix time."""
    yield Text(plain(f"{status.crawl_id} in {status.url}: {status.state}"), style="bold")
    yield Text(arguments_line(status.spider, status.arguments))
    filtered = {"bloom": "a Bloom filter", "set": "sets of hashes"}[status.told_apart_by]
    memory = f"{status.memory_bytes / 1e6:,.0f} MB in the whole Redis, urls told apart by {filtered}"
    yield Text(f"started {duration(max(0.0, now - status.started))} ago; {memory}")
    if status.pages_a_minute:
        yield Text(f"{status.pages_a_minute:,.0f} pages a minute over all workers")
    if status.state == "paused":
        yield Text(f"resume with: scrapy workers resume {status.url} {status.crawl_id}")
    here = len([one for one in status.workers if one.ended is None])
    workers = [
        (
            one.report.worker,
            one.state,
            f"{one.report.pages:,}",
            *([""] * 3 if one.ended else numbers(one.report.pages_a_minute, one.report.leases, one.report.in_flight)),
            *numbers(one.report.llm_calls, one.site_count),
            _some(one.sites, one.site_count),
            "" if one.ended is None else f"{duration(max(0.0, now - one.ended))} ago",
        )
        for one in status.workers  # those that are there, then the latest of the others
    ]
    yield from table_part(_WORKER_COLUMNS, workers[: here + MAX_ROWS])
    yield from more(len(workers), here + MAX_ROWS)
    urls = {"done": "done", "duplicates": "duplicates among them", "dead": "dead letters"}
    urls |= {"leased": "leased", "queued": "queued"}
    rows = [(text, f"{status.urls[name]:,}") for name, text in urls.items()]
    yield from table_part(("urls", ">"), [*rows, ("leases of lost workers", f"{status.expired:,}")])
    if status.waiting:
        yield Text("")
        waiting = _some(status.waiting_sites, status.waiting)
        yield Text(plain(f"{many(status.waiting, 'site')} without an owner: {waiting}", MAX_CELLS))
    hosts = [
        (
            one.host,
            *numbers(one.queued, one.done, one.dead),
            one.owner,
            "" if one.window is None else f"{one.window:.3g}",
            f"{one.rest_seconds:g} s" if one.rest_seconds else "",
        )
        for one in status.hosts
    ]
    columns = ("host", ">queued", ">done", ">dead", "owner", ">at once", ">cooldown")
    yield from table_part(columns, hosts, status.host_count)
    errors = [(name, f"{count:,}") for name, count in status.errors.items()]
    yield from table_part(("error", ">pages"), errors[:MAX_ROWS])
    yield from table_part(RIGHTS_HEADERS, rights_rows(status.rights))
    yield from table_part(("latest dead letters", ""), status.dead_letters[:MAX_ROWS])


def _some(names: Sequence[str], count: int) -> str:
    return ", ".join(names[:_NAMES]) + (f" and {count - _NAMES:,} more" if count > _NAMES else "")
