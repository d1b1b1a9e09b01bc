"""Reads what a job has found, also while it runs: its progress, lines, records, stored pages and templates.

All of these read files, and may take tenths of a second: call them in a thread. Each raises ConfigError where the
job's file is damaged. Texts are those of strangers' pages: they are data, whatever they say.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from llmcrawler.core.content import decode_page
from llmcrawler.core.storage.job_file import JOB_FILE, holds_job, read_runs
from llmcrawler.core.storage.job_status import job_status, open_snapshot
from llmcrawler.core.storage.ledger import read_lines, read_page
from llmcrawler.core.storage.templates_file import TemplatesFile
from llmcrawler.core.understanding.extraction.corrections import described_templates
from llmcrawler.core.understanding.extraction.typed_values import read_number
from llmcrawler.core.urls import normalise_with_route, site_name
from llmcrawler.errors import JobRefused
from llmcrawler.server.jobs import ServerJob

_LINES_AT_ONCE: Final = 20  # a line may have a text of megabytes
_MOST_CHARS: Final = 8_000_000  # of the lines of one slice
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class PageSlice:
    """Some lines of a job, in the order in which they ended. The next ones come after `next`; None: there are no more
    now. `last` is the place of the last line that was looked at: a job that runs may have lines after it later.
    """

    lines: tuple[dict[str, Any], ...]
    next: int | None
    last: int


def progress(job: ServerJob) -> dict[str, Any]:
    """Return how far a job is: id, state, cause, counts of pages (done, failed, queued), records, page types, errors by
    kind, tokens and dollars that it has spent, seconds since its start.
    """
    # Counting takes milliseconds, and many may ask: once a second is enough, and once after the end.
    counts = _counts(job.jobdir, job.ended or float(int(time.monotonic()))) if job.started else _NOTHING
    end = job.ended or time.time()
    seconds = 0.0 if job.started is None else round(end - job.started, 1)
    return {"id": job.id, "state": job.state, "cause": job.cause, "seconds": seconds, **counts}


_NOTHING: Final[Mapping[str, Any]] = {
    "pages_done": 0,
    "pages_failed": 0,
    "pages_queued": 0,
    "records": 0,
    "page_types": {},
    "errors": {},
    "tokens": 0,
    "cost_usd": 0.0,
}


@lru_cache(maxsize=256)
def _counts(jobdir: Path, _moment: float) -> Mapping[str, Any]:
    if not _has_begun(jobdir):
        return _NOTHING
    status = job_status(jobdir, time.time())
    with open_snapshot(jobdir) as connection:
        runs = read_runs(connection)
    stats = runs[-1].figures.get("stats", {}) if runs else {}  # of all runs, and some seconds old
    return {
        "pages_done": status.urls["done"],
        "pages_failed": status.urls["dead"],
        "pages_queued": status.urls["queued"] + status.urls["leased"],
        "records": sum(count for name, count in stats.items() if name.startswith("llmcrawler/page_records/")),
        "page_types": dict(status.page_types),
        "errors": {error.kind: error.pages for error in status.errors},
        "tokens": int(status.spent.get("tokens", 0)),
        "cost_usd": round(status.spent.get("cost_usd", 0.0), 6),
    }


def plan(job: ServerJob) -> Mapping[str, Any] | None:
    """Return what a job of `plan` has found, as `scrapy plan --json` says it; None where it has not ended so."""
    return job_status(job.jobdir, time.time()).plan if _has_begun(job.jobdir) else None


def _has_begun(jobdir: Path) -> bool:
    try:
        _check_begun(jobdir)
    except FileNotFoundError:
        return False
    return True


@lru_cache(maxsize=1_000)
def _check_begun(jobdir: Path) -> None:
    """Raise FileNotFoundError as long as a crawl has not made its file. Then it is not looked at again, which is more
    work than to read a page.
    """
    if not holds_job(jobdir / JOB_FILE):
        raise FileNotFoundError


def lines_after(job: ServerJob, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the lines that come after a place, each with its own, as they are now."""
    if not _has_begun(job.jobdir):
        return
    while True:
        with open_snapshot(job.jobdir) as connection:
            found = read_lines(connection, after, 2**62, _LINES_AT_ONCE)
        yield from found
        if not found:
            return
        after = found[-1][0]


def pages(  # noqa: PLR0913 - each is a filter of its own
    job: ServerJob,
    *,
    page_type: str | None = None,
    where: Mapping[str, str] | None = None,
    fields: Sequence[str] | None = None,
    has_record: bool = False,
    after: int = 0,
    limit: int = 100,
) -> PageSlice:
    """Return up to `limit` lines that come after the place `after` and pass all filters.

    The filters are those of `line_filter`. `fields` are those of the line to return; "record.price" is one of the
    record, and so is a name that the line does not have.
    """
    passes = line_filter(page_type, where, has_record=has_record)
    lines: list[dict[str, Any]] = []
    last, chars = after, 0
    for seq, line in lines_after(job, after):
        if len(lines) >= limit or chars > _MOST_CHARS:
            return PageSlice(tuple(lines), last, last)
        last = seq
        if passes(line):
            shown = {name: line[name] if name in line else _value(line, name) for name in fields or ()}
            lines.append(line if fields is None else shown)
            chars += len(line.get("text") or "") + len(str(line.get("record") or ""))
    return PageSlice(tuple(lines), None, last)


def line_filter(
    page_type: str | None, where: Mapping[str, str] | None, *, has_record: bool
) -> Callable[[Mapping[str, Any]], bool]:
    """Return what tells whether a line is wanted. `where` maps a field of the record, or of the line, to a text that it
    has to be (in any case), or to a comparison: ">=10", "<5" compare numbers, "~text" looks for a part.

    Raises JobRefused for a comparison with no number.
    """
    for name, wanted in (where or {}).items():
        if wanted[:1] in "<>" and wanted and read_number(wanted.lstrip("<>=")) is None:
            raise JobRefused(f"where: {name}: {wanted[:80]!r} compares with no number")

    def passes(line: Mapping[str, Any]) -> bool:
        if page_type is not None and line.get("page_type") != page_type:
            return False
        if has_record and not line.get("record"):
            return False
        return all(_holds(_value(line, name), wanted) for name, wanted in (where or {}).items())

    return passes


def page(job: ServerJob, url: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the line of a url, None where there is none (yet), and its page as it was fetched, None where it is not
    kept.
    """
    if _has_begun(job.jobdir):
        with open_snapshot(job.jobdir) as connection:
            for address in dict.fromkeys((url, normalise_with_route(url) or url)):
                stored = read_page(connection, address)
                if stored.line is not None:
                    kept = stored.body
                    if kept is None or kept.body is None:
                        return stored.line, None
                    return stored.line, decode_page(kept.body, kept.header("Content-Type"))
    return None, None


def templates(job: ServerJob) -> list[dict[str, Any]]:
    """Return what is known of the templates of the job's sites: template, site, page_type, page_count (of all jobs),
    url_pattern, examples, selectors, and what else TEMPLATES_FILE says for people.
    """
    sites = {site_name(url) for url in job.starts if "://" in url}
    if _has_begun(job.jobdir):
        with open_snapshot(job.jobdir) as connection:
            sites |= {name for (name,) in connection.execute("SELECT name FROM hosts LIMIT 100")}
    file = TemplatesFile(job.folder.parent / "templates.json")
    learned = {name: stored for name, stored in file.load().items() if name in sites}
    return [
        {**one, "site": name} for name, stored in learned.items() for one in described_templates(file, name, stored)
    ]


def _value(line: Mapping[str, Any], name: str) -> Any:
    record = line.get("record")
    named = name.removeprefix("record.")
    if isinstance(record, dict) and (name != named or name in record):
        return record.get(named)
    return line.get(name)


def _holds(value: Any, wanted: str) -> bool:
    if isinstance(value, list):
        return any(_holds(one, wanted) for one in value)
    if wanted.startswith("~"):
        return wanted[1:].casefold() in str(value).casefold()
    sign = next((sign for sign in _COMPARISONS if wanted.startswith(sign)), None)
    if sign is None:
        return str(value).casefold() == wanted.casefold()
    limit = read_number(wanted[len(sign) :])
    number = value if isinstance(value, (int, float)) else read_number(str(value))
    return number is not None and limit is not None and _COMPARISONS[sign](number, limit)
