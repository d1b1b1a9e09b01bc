"""Shows a plan as tables for people. Plans are read as make_plan gives them to JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.core.reporting.plan_figures import planned, words_of_amounts
from llmcrawler.core.reporting.terminal_table import more, table
from llmcrawler.core.reporting.text import count, dollars, duration, plain

_ROWS = 12
_SHOWN_WIDTH = 100
_COMPARED = (("calls", count), ("tokens", count), ("seconds", duration))


def plan_tables(plan: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(plain(f"Plan for {plan['url']}", _SHOWN_WIDTH), style="bold")
    for line in _facts(plan):
        yield Text(plain(line))
    yield Text("")
    yield table(("", ">low", ">likely", ">high"), [(name, *words) for name, words in _rows(plan)])
    yield Text("")
    rows = [(name, *words_of_amounts(amounts, count)) for name, amounts in list(plan["page_types"].items())[:_ROWS]]
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
        yield "pages of the site", words_of_amounts(plan["site_pages"], count)
    yield "pages of the crawl", words_of_amounts(plan["pages"], count)
    yield "errors", words_of_amounts(plan["errors"], count)
    yield "time", words_of_amounts(plan["seconds"], duration)
    if not llm["model"]:
        yield "LLM calls", ("0", "0", "0")
        return
    yield f"LLM calls ({llm['model']})", words_of_amounts(llm["calls"], count)
    yield "  to tell page types", words_of_amounts(llm["calls_by_task"]["classify"], count)
    yield "  to learn records", words_of_amounts(llm["calls_by_task"]["induce"], count)
    yield "LLM tokens", words_of_amounts(llm["tokens"], count)
    if llm["cost_usd"] is not None:
        yield "cost", words_of_amounts(llm["cost_usd"], dollars)


def _model_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    calls, tokens, seconds = (planned(one[name], word) for name, word in _COMPARED)
    unpriced = "not known" if one["model"] else dollars(0)
    cost = planned(one["cost_usd"], dollars) if one["cost_usd"] else unpriced
    return one["model"] or "none", calls, tokens, cost, seconds
