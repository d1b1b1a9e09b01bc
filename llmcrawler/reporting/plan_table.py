"""A plan as tables for people. It is read as planning.Plan gives it to JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.reporting.beside import count, dollars, words
from llmcrawler.reporting.plain_text import plain
from llmcrawler.reporting.table import table
from llmcrawler.reporting.words import duration

_ROWS = 12
_SHOWN_WIDTH = 100


def plan_tables(plan: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(plain(f"Plan for {plan['url']}", _SHOWN_WIDTH), style="bold")
    for line in _facts(plan):
        yield Text(plain(line))
    yield Text("")
    yield table(("", ">low", ">likely", ">high"), [(name, *words) for name, words in _rows(plan)])
    yield Text("")
    types = list(plan["page_types"].items())
    rows = [(name, *words(amounts, count)) for name, amounts in types[:_ROWS]]
    yield table(("page type", ">low", ">likely", ">high"), rows)
    yield Text("")
    templates = plan["templates"]
    yield table(
        ("template like", "page type", ">pages", "records"),
        [
            (
                one["pattern"][:_SHOWN_WIDTH],
                one["page_type"],
                count(one["pages"]["likely"]),
                "learned" * one["learned"],
            )
            for one in templates[:_ROWS]
        ],
    )
    if len(templates) > _ROWS:
        yield Text(f"... and {len(templates) - _ROWS:,} more", style="dim")
    for note in plan["notes"]:
        yield Text(plain(f"Note: {note}"), style="dim")


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
        yield "pages of the site", words(plan["site_pages"], count)
    yield "pages of the crawl", words(plan["pages"], count)
    yield "errors", words(plan["errors"], count)
    yield "time", words(plan["seconds"], duration)
    if not llm["model"]:
        yield "LLM calls", ("0", "0", "0")
        return
    yield f"LLM calls ({llm['model']})", words(llm["calls"], count)
    yield "  to tell page types", words(llm["calls_by_task"]["classify"], count)
    yield "  to learn records", words(llm["calls_by_task"]["induce"], count)
    yield "LLM tokens", words(llm["tokens"], count)
    if llm["cost_usd"] is not None:
        yield "cost", words(llm["cost_usd"], dollars)
