"""Tables that commands print: the status of a job, learned templates, a plan."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from llmcrawler.core.reporting.account import rights_rows
from llmcrawler.core.reporting.text import count, dollars, duration, moment, percent, plain
from llmcrawler.core.storage.job_status import JobStatus
from llmcrawler.core.understanding.extraction.selectors import LANGUAGES
from llmcrawler.items import PERSON

_UNBOUND = 100_000  # columns: what is piped is cut or folded nowhere
_STATUSES = ("success", "failed", "skipped")
_PLAN_ROWS = 12
_PLAN_CELLS = 100
MAX_ROWS = 10
MAX_CELLS = 200  # of what strangers have written
RIGHTS_HEADERS = ("what sites say of the use", ">pages")


def stdout_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_UNBOUND, color_system=None)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table. A column that is empty is left out; one whose header starts with ">" is set right."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    filled = [at for at in range(len(headers)) if any(str(row[at]) for row in rows)]
    for header in (headers[at] for at in filled):
        right = header.startswith(">")
        justify: Literal["right", "left"] = "right" if right else "left"
        shown.add_column(header.removeprefix(">"), justify=justify, overflow="fold", header_style="dim", no_wrap=right)
    for row in rows:
        shown.add_row(*(Text(plain(row[at])) for at in filled))
    return shown


def more(count: int, shown: int) -> list[Text]:
    """Return the line below a table that shows the first `shown` rows of `count`; none where these are all."""
    return [Text(f"... and {count - shown:,} more", style="dim")] if count > shown else []


def table_part(headers: Sequence[str], rows: Sequence[Sequence[Any]], count: int = 0) -> Iterator[RenderableType]:
    """Yield an empty line and a table; nothing without rows. Of `count` rows (0: those given) the first are shown."""
    if rows:
        yield Text("")
        yield table(headers, rows[:MAX_ROWS] if count else rows)
        yield from more(count, MAX_ROWS)


def numbers(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number:,.0f}" for number in numbers)


def job_status_tables(status: JobStatus, now: float) -> Iterator[RenderableType]:
    """Yield what the crawl is doing, then how far it is, then what went wrong. `now` is in Unix time."""
    state = {"running": "a crawl is running", "finished": "finished", "interrupted": "not at its end"}[status.state]
    reason = "" if status.reason in (None, "finished") else f" ({status.reason})"
    yield Text(plain(f"{status.jobdir}: {state}{reason}"), style="bold")
    yield from (Text(plain(line)) for line in _job_facts(status, now))
    leased = "in flight" if status.state == "running" else "in flight when the crawl ended"
    names = {"done": "done", "dead": "dead letters", "leased": leased, "queued": "queued", "seen": "redirects' targets"}
    urls = [(words, f"{status.urls[name]:,}") for name, words in names.items()]
    yield from table_part(("urls", ">"), [*urls, ("duplicates among those done", f"{status.duplicates:,}")])
    statuses = {name for stage in status.stages.values() for name in stage.statuses}
    columns = (*_STATUSES, *sorted(statuses.difference(_STATUSES)))
    stages = []
    for name, stage in status.stages.items():
        runs = stage.statuses.get("success", 0) + stage.statuses.get("failed", 0)
        mean = f"{stage.seconds / runs:.3f} s" if runs else ""
        stages.append((name, *numbers(*(stage.statuses.get(one, 0) for one in columns)), mean))
    yield from table_part(("stage", *(f">{name}" for name in columns), ">mean time"), stages)
    errors = [
        (one.stage, one.kind, f"{one.pages:,}", plain(one.message, MAX_CELLS), plain(one.url, MAX_CELLS))
        for one in status.errors
    ]
    yield from table_part(("errors in", "kind", ">pages", "for example", "at"), errors, len(errors))
    types = [(name, f"{count:,}") for name, count in status.page_types.items()]
    yield from table_part(("page type", ">pages"), types, len(types))
    yield from table_part(RIGHTS_HEADERS, rights_rows(status.rights))
    hosts = [(one.host, *numbers(one.queued, one.leased, one.done, one.dead)) for one in status.hosts]
    yield from table_part(("host", ">queued", ">in flight", ">done", ">dead"), hosts, status.host_count)


def _job_facts(status: JobStatus, now: float) -> Iterator[str]:
    if status.spider is not None:
        yield arguments_line(status.spider, status.arguments)
    if status.run_started is not None:
        rate = status.rate
        pages = f"{rate.pages:,} pages in {duration(rate.seconds)}"
        yield f"run {status.runs}, started {moment(status.run_started)}: {pages}"
        if rate.pages_per_minute is not None:
            yield f"{rate.pages_per_minute:,} pages a minute, {rate.pages_per_minute_lately:,} in the last minute"
    if status.last_line is not None:
        yield f"last line {moment(status.last_line)}, {duration(max(0.0, now - status.last_line))} ago"
    yield "on disk " + ", ".join(f"{name} {_bytes(size)}" for name, size in status.files.items() if size)


def arguments_line(spider: str | None, arguments: Mapping[str, Any]) -> str:
    given = (
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in arguments.items()
        if value not in (None, [])
    )
    return plain(f"spider {spider}  {', '.join(given)}", MAX_CELLS)


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


_Entry = Mapping[str, Any]


def templates_tables(sites: Mapping[str, Sequence[_Entry]]) -> Iterator[RenderableType]:
    """Yield the templates of each site, then the fields of each that has some."""
    for number, (site, templates) in enumerate(sites.items()):
        if number:
            yield Text("")
        pages = sum(int(one.get("page_count") or 0) for one in templates)
        yield Text(f"{plain(site)}: {len(templates)} templates, {pages} pages", style="bold")
        rows = [
            (
                one["template"],
                (one.get("page_type") or "-") + _mark(one),
                one.get("page_count", 0),
                one.get("url_pattern") or "",
                one.get("llm_calls", 0),
                next(iter(one.get("examples") or []), ""),
            )
            for one in templates
        ]
        yield table(("template", "page type", ">pages", "url pattern", ">LLM calls", "example"), rows)
        for one in templates:
            if one.get("selectors"):
                yield Text("")
                yield Text(f"{plain(one['template'])} ({plain(one.get('page_type') or '-')})", style="bold")
                names = ("field", "type", ">coverage", ">agreement", ">samples", "", "selector", "example")
                yield table(names, _selector_rows(one["selectors"]))


def _selector_rows(selectors: Sequence[_Entry]) -> list[tuple[Any, ...]]:
    several = max(int(one.get("variant") or 1) for one in selectors) > 1
    rows, seen = [], set()
    for one in selectors:
        # Further selectors of a field are used where the first gives nothing; they stand below it without its name.
        key = (one.get("variant"), one["field"])
        name = f"{one['field']} ({one.get('variant', 1)})" if several else one["field"]
        first = ("", "") if key in seen else (name + _mark(one), one.get("type", ""))
        seen.add(key)
        shares = [one.get("coverage"), one.get("agreement")]
        words = [percent(share) if isinstance(share, int | float) else "-" for share in shares]
        words.append("-" if one.get("samples") is None else str(one["samples"]))
        rows.append((*first, *words, *selector_text(one), one.get("example") or ""))
    return rows


def _mark(entry: _Entry) -> str:
    return " (by a person)" if entry.get("by") == PERSON else ""


def selector_text(selector: _Entry) -> tuple[str, str]:
    """Return the language of a selector ("" for none) and what it selects, with its attribute and pattern."""
    language = next((name for name in LANGUAGES if name in selector), "")
    parts = [str(selector.get(language, ""))]
    if selector.get("attribute"):
        parts.append(f"@{selector['attribute']}")
    if selector.get("pattern"):
        parts.append(f"~ {selector['pattern']}")
    return language, "  ".join(parts)


def plan_tables(plan: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(plain(f"Plan for {plan['url']}", _PLAN_CELLS), style="bold")
    sample = plan["sample"]
    listed = f", {sample['listed']:,} of them in sitemaps" if sample["listed"] else ""
    failed = f" ({sample['errors']:,} more in vain)" if sample["errors"] else ""
    yield Text(f"From {sample['pages']:,} pages{failed}, which led to {sample['known']:,} urls{listed}")
    if sample["is_whole"]:
        yield Text("These are all: the whole site is known")
    if plan["site_pages"]["high"] > plan["max_pages"]:
        yield Text(f"A crawl ends at max_pages={plan['max_pages']:,}; the site may have more, see below")
    yield from table_part(("", ">low", ">likely", ">high"), _plan_rows(plan))
    types = list(plan["page_types"].items())[:_PLAN_ROWS]
    rows = [(name, *_words(amounts, count)) for name, amounts in types]
    yield from table_part(("page type", ">low", ">likely", ">high"), rows)
    rows = [
        (one["pattern"][:_PLAN_CELLS], one["page_type"], count(one["pages"]["likely"]), "learned" * one["learned"])
        for one in plan["templates"][:_PLAN_ROWS]
    ]
    yield from table_part(("template like", "page type", ">pages", "records"), rows)
    yield from more(len(plan["templates"]), _PLAN_ROWS)
    rows = []
    for one in plan.get("models", ()):
        unpriced = "not known" if one["model"] else dollars(0)
        cost = _range(one["cost_usd"], dollars) if one["cost_usd"] else unpriced
        calls, tokens = _range(one["calls"], count), _range(one["tokens"], count)
        rows.append((one["model"] or "none", calls, tokens, cost, _range(one["seconds"], duration)))
    yield from table_part(("model", ">LLM calls", ">tokens", ">cost", ">time"), rows)
    for note in plan["notes"]:
        yield Text(plain(f"Note: {note}"), style="dim")


def _plan_rows(plan: Mapping[str, Any]) -> list[tuple[str, ...]]:
    llm = plan["llm"]
    rows = [
        ("pages of the crawl", plan["pages"], count),
        ("errors", plan["errors"], count),
        ("time", plan["seconds"], duration),
    ]
    if plan["site_pages"] != plan["pages"]:
        rows.insert(0, ("pages of the site", plan["site_pages"], count))
    if not llm["model"]:
        return [*((name, *_words(amounts, word)) for name, amounts, word in rows), ("LLM calls", *"000")]
    rows += [
        (f"LLM calls ({llm['model']})", llm["calls"], count),
        ("  to tell page types", llm["calls_by_task"]["classify"], count),
        ("  to learn records", llm["calls_by_task"]["induce"], count),
        ("LLM tokens", llm["tokens"], count),
    ]
    if llm["cost_usd"] is not None:
        rows.append(("cost", llm["cost_usd"], dollars))
    return [(name, *_words(amounts, word)) for name, amounts, word in rows]


def _words(amounts: Mapping[str, float], word: Callable[[float], str]) -> list[str]:
    return [word(amounts[name]) for name in ("low", "likely", "high")]


def _range(amounts: Mapping[str, float], word: Callable[[float], str]) -> str:
    """Return the likely amount, and how far it may be off."""
    low, likely, high = _words(amounts, word)
    return likely if low == high else f"{likely} ({low} to {high})"


def no_page(url: str, failures: Mapping[str, str], why: str) -> str:
    """Return why no page of a site came, in one line: the failures by their kind, else what ended the crawl."""
    line = f"No page of {url} could be fetched: {'; '.join(failures.values()) or why}"
    if "robots" in failures:
        line += " (where the site is yours: -s ROBOTSTXT_OBEY=False)"
    if "//" not in url:
        line += f". No scheme was given, so https was tried: is http://{url} meant?"
    return plain(line)


def sampling_line(pages: int, most_pages: int, urls: int, seconds: float) -> str:
    came = f"{pages:,} of up to {most_pages:,} pages, urls known: {urls:,}" if pages else "no page yet"
    return f"{came}, {duration(seconds)}"
