"""A fleet's status as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.reporting.plain_text import plain
from llmcrawler.reporting.table import table
from llmcrawler.reporting.words import duration

if TYPE_CHECKING:
    from llmcrawler.fleet.status import CrewStatus

_ROWS = 10


def crew_tables(status: CrewStatus, now: float) -> Iterator[RenderableType]:
    """What the crawl is doing, who works on it, how far it is, then what went wrong."""
    yield Text(plain(f"{status.crawl_id} in {status.url}: {status.state}"), style="bold")
    arguments = (f"{name}={value}" for name, value in status.arguments.items() if value not in (None, []))
    yield Text(plain(f"spider {status.spider}  {', '.join(arguments)}", 200))
    filtered = {"bloom": "a Bloom filter", "set": "sets of hashes"}[status.told_apart_by]
    memory = f"{status.memory_bytes / 1e6:,.0f} MB in the whole Redis, urls told apart by {filtered}"
    yield Text(f"started {duration(max(0.0, now - status.started))} ago; {memory}")
    yield Text("")
    yield _workers(status)
    yield Text("")
    names = {"done": "done", "dead": "dead letters", "leased": "leased", "queued": "queued"}
    rows = [(text, f"{status.urls[name]:,}") for name, text in names.items()]
    yield table(("urls", ">"), [*rows, ("leases expired", f"{status.expired:,}")])
    if status.hosts:
        yield Text("")
        yield _hosts(status)
    if status.errors:
        yield Text("")
        yield table(("error", ">pages"), [(name, f"{count:,}") for name, count in list(status.errors.items())[:_ROWS]])
    if status.dead_letters:
        yield Text("")
        yield table(("latest dead letters", ""), [*status.dead_letters[:_ROWS]])


def _workers(status: CrewStatus) -> RenderableType:
    rows = []
    for one in status.workers:
        words = one.words
        rate = f"{words.pages_a_minute:,.0f}" if one.state == "here" else ""
        figures = (f"{words.pages:,}", rate, f"{one.leases:,}", f"{words.in_flight:,}", f"{words.llm_calls:,}")
        rows.append((words.worker, one.state, *figures, ", ".join(one.leads)))
    return table(("worker", "", ">pages", ">a minute", ">leases", ">in flight", ">LLM calls", "leads"), rows)


def _hosts(status: CrewStatus) -> RenderableType:
    rows = [
        (
            one.host,
            *(f"{number:,}" for number in (one.queued, one.done, one.dead, one.in_flight)),
            "" if one.window is None else f"{one.window:.3g}",
            f"{one.rest_seconds:g} s" if one.rest_seconds else "",
        )
        for one in status.hosts[:_ROWS]
    ]
    if status.host_count > _ROWS:
        rows.append((f"and {status.host_count - _ROWS} more", *[""] * 6))
    return table(("host", ">queued", ">done", ">dead", ">in flight", ">of", ">rests"), rows)
