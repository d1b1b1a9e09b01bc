"""Shows a plan as tables for people, and beside it what came of it. Plans are read as make_plan gives them to JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.reporting.terminal_table import more, table
from llmcrawler.reporting.text import count, dollars, duration, plain
from llmcrawler.storage.job_status import JobStatus

_ROWS = 12
_SHOWN_WIDTH = 100
_Amounts = Mapping[str, float]
_COMPARED = (("calls", count), ("tokens", count), ("seconds", duration))


@dataclass(frozen=True, slots=True)
class Actual:
    """Figures of a crawl so far, over all its runs but for `seconds`. `cost_usd` None: the price is not known."""

    pages: int
    errors: int
    seconds: float | None = None
    llm_calls: int = 0
    llm_tokens: int = 0
    cost_usd: float | None = None


def job_plan_rows(
    status: JobStatus, llm_calls: int | None = None, llm_tokens: int | None = None
) -> list[tuple[str, str, str]]:
    """Return the rows of plan_rows for a job, none where nothing was planned. The calls and tokens are of all runs,
    where one knows them: the status has those since the last refresh began.
    """
    if status.plan is None:
        return []
    actual = Actual(
        pages=status.urls["done"],
        errors=status.urls["dead"],
        seconds=status.rate.seconds if status.runs == 1 else None,
        llm_calls=int(status.spent.get("calls", 0)) if llm_calls is None else llm_calls,
        llm_tokens=int(status.spent.get("tokens", 0)) if llm_tokens is None else llm_tokens,
        cost_usd=status.spent.get("cost_usd"),
    )
    return plan_rows(status.plan, actual)


def plan_rows(plan: Mapping[str, Any], actual: Actual) -> list[tuple[str, str, str]]:
    """Return (figure, planned, actual), as words."""
    llm = plan["llm"]
    has_llm = bool(llm["model"]) or actual.llm_calls > 0
    rows: list[tuple[str, _Amounts | None, float | None, Callable[[float], str]]] = [
        ("pages", plan["pages"], actual.pages, count),
        ("errors", plan["errors"], actual.errors, count),
        ("time", plan["seconds"], actual.seconds, duration),
        ("LLM calls", llm["calls"], actual.llm_calls if has_llm else None, count),
        ("LLM tokens", llm["tokens"], actual.llm_tokens if has_llm else None, count),
        ("cost", llm["cost_usd"], actual.cost_usd, dollars),
    ]
    return [
        (name, _planned(amounts, word), word(come))
        for name, amounts, come, word in rows
        if amounts is not None and come is not None
    ]


def plan_tables(plan: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(plain(f"Plan for {plan['url']}", _SHOWN_WIDTH), style="bold")
    for line in _facts(plan):
        yield Text(plain(line))
    yield Text("")
    yield table(("", ">low", ">likely", ">high"), [(name, *words) for name, words in _rows(plan)])
    yield Text("")
    rows = [(name, *_words(amounts, count)) for name, amounts in list(plan["page_types"].items())[:_ROWS]]
    yield table(("page type", ">low", ">likely", ">high"), rows)
    yield Text("")
    rows = [
        (one["pattern"][:_SHOWN_WIDTH], one["page_type"], count(one["pages"]["likely"]), "learned" * one["learned"])
        for one in plan["templates"][:_ROWS]
    ]
    yield table(("template like", "page type", ">pages", "records"), rows)
    yield from more(len(plan["templates"]), _ROWS)
    if "models" in plan:
        yield Text("")
        yield table(("model", ">LLM calls", ">tokens", ">cost", ">time"), [_model_row(one) for one in plan["models"]])
    for note in plan["notes"]:
        yield Text(plain(f"Note: {note}"), style="dim")


def no_page(url: str, failures: Mapping[str, str], why: str) -> str:
    """Return why no page of a site came, in one line: the failures by their kind, else what ended the crawl."""
    line = f"No page of {url} could be fetched: {'; '.join(failures.values()) or why}"
    if "robots" in failures:
        line += " (where the site is yours: -s ROBOTSTXT_OBEY=False)"
    if "//" not in url:
        line += f". No scheme was given, so https was tried: is http://{url} meant?"
    return plain(line)


def sampling_line(pages: int, most_pages: int, urls: int, seconds: float) -> str:
    """Return how far the sample of a plan is."""
    came = f"{pages:,} of up to {most_pages:,} pages, urls known: {urls:,}" if pages else "no page yet"
    return f"{came}, {duration(seconds)}"


def _facts(plan: Mapping[str, Any]) -> Iterator[str]:
    sample = plan["sample"]
    listed = f", {sample['listed']:,} of them in sitemaps" if sample["listed"] else ""
    failed = f" ({sample['errors']:,} more in vain)" if sample["errors"] else ""
    yield f"From {sample['pages']:,} pages{failed}, which led to {sample['known']:,} urls{listed}"
    if sample["is_whole"]:
        yield "These are all: the site is known as a whole"
    if plan["site_pages"]["high"] > plan["max_pages"]:
        yield f"A crawl ends at max_pages={plan['max_pages']:,}; the site may have more, see below"


def _rows(plan: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    llm = plan["llm"]
    if plan["site_pages"] != plan["pages"]:
        yield "pages of the site", _words(plan["site_pages"], count)
    yield "pages of the crawl", _words(plan["pages"], count)
    yield "errors", _words(plan["errors"], count)
    yield "time", _words(plan["seconds"], duration)
    if not llm["model"]:
        yield "LLM calls", ("0", "0", "0")
        return
    yield f"LLM calls ({llm['model']})", _words(llm["calls"], count)
    yield "  to tell page types", _words(llm["calls_by_task"]["classify"], count)
    yield "  to learn records", _words(llm["calls_by_task"]["induce"], count)
    yield "LLM tokens", _words(llm["tokens"], count)
    if llm["cost_usd"] is not None:
        yield "cost", _words(llm["cost_usd"], dollars)


def _model_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    calls, tokens, seconds = (_planned(one[name], word) for name, word in _COMPARED)
    unpriced = "not known" if one["model"] else dollars(0)
    cost = _planned(one["cost_usd"], dollars) if one["cost_usd"] else unpriced
    return one["model"] or "none", calls, tokens, cost, seconds


def _words(amounts: _Amounts, word: Callable[[float], str]) -> list[str]:
    return [word(amounts[name]) for name in ("low", "likely", "high")]


def _planned(amounts: _Amounts, word: Callable[[float], str]) -> str:
    low, likely, high = _words(amounts, word)
    return likely if low == high else f"{likely} ({low} to {high})"
