"""Tables that commands print: the status of a job, learned templates, a plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from llmcrawler.core.reporting.account import job_plan_rows, planned, rights_rows, words_of_amounts
from llmcrawler.core.reporting.text import count, dollars, duration, moment, percent, plain
from llmcrawler.core.storage.job_status import JobStatus, StageCounts

_UNBOUND = 100_000  # columns: what is piped is cut or folded nowhere


def stdout_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_UNBOUND, color_system=None)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table. A column that is empty is left out; one whose header starts with ">" is set right."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    filled = [at for at in range(len(headers)) if any(str(row[at]) for row in rows)]
    for at in filled:
        right = headers[at].startswith(">")
        shown.add_column(
            headers[at].removeprefix(">"),
            justify="right" if right else "left",
            overflow="fold",
            header_style="dim",
            no_wrap=right,
        )
    for row in rows:
        shown.add_row(*(Text(plain(row[at])) for at in filled))
    return shown


def more(count: int, shown: int) -> list[Text]:
    """Return the line below a table that shows the first `shown` rows of `count`; none where these are all."""
    return [Text(f"... and {count - shown:,} more", style="dim")] if count > shown else []


MAX_ROWS = 10
_STATUSES = ("success", "failed", "skipped")
MAX_CELLS = 200  # of what strangers have written
RIGHTS_HEADERS = ("what sites say of the use", ">pages")


def job_status_tables(status: JobStatus, now: float) -> Iterator[RenderableType]:
    """Yield what the crawl is doing, then how far it is, then what went wrong. `now` is in Unix time."""
    state = {"running": "a crawl is running", "finished": "finished", "interrupted": "not at its end"}[status.state]
    reason = "" if status.reason in (None, "finished") else f" ({status.reason})"
    yield Text(plain(f"{status.jobdir}: {state}{reason}"), style="bold")
    yield from (Text(plain(line)) for line in _job_facts(status, now))
    leased = "in flight" if status.state == "running" else "in flight when the crawl ended"
    names = {"done": "done", "dead": "dead letters", "leased": leased, "queued": "queued", "seen": "redirects' targets"}
    urls = [(names[state], f"{status.urls[state]:,}") for state in names]
    yield from table_part(("urls", ">"), [*urls, ("duplicates among those done", f"{status.duplicates:,}")])
    yield from table_part(("plan", ">planned", ">so far"), job_plan_rows(status))
    yield from table_part(*_stages(status.stages))
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


def table_part(headers: Sequence[str], rows: Sequence[Sequence[Any]], count: int = 0) -> Iterator[RenderableType]:
    """Yield an empty line and a table; nothing without rows. Of `count` rows (0: all that are given) the first stand
    in it.
    """
    if rows:
        yield Text("")
        yield table(headers, rows[:MAX_ROWS] if count else rows)
        yield from more(count, MAX_ROWS)


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


def _stages(stages: Mapping[str, StageCounts]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    others = sorted({name for counts in stages.values() for name in counts.statuses} - {*_STATUSES})
    names = (*_STATUSES, *others)
    rows = [
        (stage, *numbers(*(counts.statuses.get(name, 0) for name in names)), _mean_seconds(counts))
        for stage, counts in stages.items()
    ]
    return ("stage", *(f">{name}" for name in names), ">mean time"), rows


def _mean_seconds(counts: StageCounts) -> str:
    runs = counts.statuses.get("success", 0) + counts.statuses.get("failed", 0)
    return f"{counts.seconds / runs:.3f} s" if runs else ""


def arguments_line(spider: str | None, arguments: Mapping[str, Any]) -> str:
    given = (
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in arguments.items()
        if value not in (None, [])
    )
    return plain(f"spider {spider}  {', '.join(given)}", MAX_CELLS)


def numbers(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number:,.0f}" for number in numbers)


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
        yield table(
            ("template", "page type", ">pages", "url pattern", ">LLM calls", "example"),
            [
                (
                    one["template"],
                    one.get("page_type") or "-",
                    one.get("page_count", 0),
                    one.get("url_pattern") or "",
                    one.get("llm_calls", 0),
                    next(iter(one.get("examples") or []), ""),
                )
                for one in templates
            ],
        )
        for one in templates:
            if one.get("selectors"):
                yield Text("")
                yield Text(f"{plain(one['template'])} ({plain(one.get('page_type') or '-')})", style="bold")
                names = ("field", "type", ">coverage", ">agreement", "", "selector", "example")
                yield table(names, list(_selector_rows(one["selectors"])))


def selector_text(selector: _Entry) -> tuple[str, str]:
    """Return the language of a selector ("" for none) and what it selects, with its attribute and pattern."""
    language = next((name for name in ("css", "xpath", "json-ld") if name in selector), "")
    parts = [str(selector.get(language, ""))]
    if selector.get("attribute"):
        parts.append(f"@{selector['attribute']}")
    if selector.get("pattern"):
        parts.append(f"~ {selector['pattern']}")
    return language, "  ".join(parts)


def _selector_rows(selectors: Sequence[_Entry]) -> Iterator[tuple[Any, ...]]:
    several = max(int(one.get("variant") or 1) for one in selectors) > 1
    seen: set[tuple[Any, ...]] = set()
    for one in selectors:
        # Further selectors of a field are used where the first gives nothing; they stand below it without its name.
        key = (one.get("variant"), one["field"])
        name = f"{one['field']} ({one.get('variant', 1)})" if several else one["field"]
        first = ("", "") if key in seen else (name, one.get("type", ""))
        seen.add(key)
        shares = (_share(one.get("coverage")), _share(one.get("agreement")))
        yield *first, *shares, *selector_text(one), one.get("example") or ""


def _share(share: Any) -> str:
    return percent(share) if isinstance(share, int | float) else "-"


_ROWS = 12
_SHOWN_WIDTH = 100
_COMPARED = (("calls", count), ("tokens", count), ("seconds", duration))


def plan_tables(plan: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(plain(f"Plan for {plan['url']}", _SHOWN_WIDTH), style="bold")
    for line in _plan_facts(plan):
        yield Text(plain(line))
    yield Text("")
    yield table(("", ">low", ">likely", ">high"), [(name, *words) for name, words in _plan_rows(plan)])
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


def _plan_facts(plan: Mapping[str, Any]) -> Iterator[str]:
    sample = plan["sample"]
    listed = f", {sample['listed']:,} of them in sitemaps" if sample["listed"] else ""
    failed = f" ({sample['errors']:,} more in vain)" if sample["errors"] else ""
    yield f"From {sample['pages']:,} pages{failed}, which led to {sample['known']:,} urls{listed}"
    if sample["is_whole"]:
        yield "These are all: the site is known as a whole"
    if plan["site_pages"]["high"] > plan["max_pages"]:
        yield f"A crawl ends at max_pages={plan['max_pages']:,}; the site may have more, see below"


def _plan_rows(plan: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
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
