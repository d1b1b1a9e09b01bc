"""The status of a job for people, read from its file: also while the crawl runs, and with a million urls in it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmcrawler.core.storage.job_file import (
    DUPLICATE,
    JOB_FILE,
    JobConnection,
    State,
    check_job_file,
    count_duplicates,
    is_locked,
    read_job_file,
    read_value,
    refusal,
)
from llmcrawler.core.storage.ledger import PLAN, SPENT, STAGES
from llmcrawler.core.storage.rights_marks import RightsCounts, read_marks
from llmcrawler.errors import install_command

if TYPE_CHECKING:
    import pandas as pd


_LATELY_SECONDS = 60.0
_MAX_HOSTS = 100
_COUNTED = ("queued", "leased", "done", "dead")

# Hosts, most urls first; the states are numbers as in State. Queued urls, which may be all but a few, are counted by
# the queue's own index.
_HOSTS = """
SELECT coalesce(h.name, ''), sum(n * (state = 0)), sum(n * (state = 1)), sum(n * (state = 2)), sum(n * (state = 3))
FROM (
    SELECT host, 0 AS state, count(*) AS n FROM urls WHERE state = 0 GROUP BY host
    UNION ALL SELECT host, state, count(*) FROM urls WHERE state IN (1, 2, 3) GROUP BY host, state
) LEFT JOIN hosts h ON h.id = host
GROUP BY host ORDER BY sum(n) DESC, host
"""
# These two queries need not read the lines of the pages.
_TYPES = (
    "SELECT page_type, count(*) FROM pages INDEXED BY ends WHERE seq IS NOT NULL AND page_type IS NOT NULL "
    "AND page_type != ? GROUP BY page_type ORDER BY count(*) DESC, page_type"
)
_ERRORS = """
SELECT e.error_stage, e.error_kind, e.n, u.url, coalesce(p.error, '') FROM (
    SELECT error_stage, error_kind, count(*) AS n, max(rowid) AS page FROM pages
    WHERE seq IS NOT NULL AND error_stage IS NOT NULL GROUP BY error_stage, error_kind
) e JOIN pages p ON p.url = e.page JOIN urls u ON u.id = e.page
ORDER BY e.n DESC, e.error_stage, e.error_kind LIMIT 100
"""


@dataclass(frozen=True, slots=True)
class HostUrls:
    host: str
    queued: int
    leased: int
    done: int
    dead: int


@dataclass(frozen=True, slots=True)
class StageCounts:
    """Runs of one stage: how often each status (success, failed, skipped), and the seconds of all together."""

    statuses: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """A kind of error; `url` and `message` are of one that has it."""

    stage: str
    kind: str
    pages: int
    url: str
    message: str


@dataclass(frozen=True, slots=True)
class CrawlRate:
    """Pages, seconds and pages a minute of the latest run up to its last page, and of its last minute."""

    pages: int
    seconds: float
    pages_per_minute: float | None
    pages_per_minute_lately: float | None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Moments are seconds since 1970. `state`: running, finished or interrupted; `reason` is Scrapy's finish_reason.

    `spent` is what all runs have paid the model, `plan` what `scrapy plan` said of the crawl, as planning.Plan.to_json.
    `duplicates` are pages that repeat another one. `hosts` are the hundred with the most urls. What is leased while no
    crawl runs was on its way when it ended.
    """

    jobdir: str
    spider: str | None
    arguments: Mapping[str, Any]
    state: str
    reason: str | None
    runs: int
    started: float | None
    run_started: float | None
    first_line: float | None
    last_line: float | None
    synced: float | None
    urls: Mapping[str, int]
    stages: Mapping[str, StageCounts]
    errors: tuple[ErrorCount, ...]
    page_types: Mapping[str, int]
    rights: RightsCounts
    duplicates: int
    rate: CrawlRate
    hosts: tuple[HostUrls, ...]
    host_count: int
    files: Mapping[str, int]
    spent: Mapping[str, float]
    plan: Mapping[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the status in dicts, lists and plain values, as JSON has them."""
        return {**asdict(self), "errors": [*map(asdict, self.errors)], "hosts": [*map(asdict, self.hosts)]}


@contextmanager
def open_snapshot(folder: Path) -> Iterator[JobConnection]:
    """Give a connection to the job's file as it is at this moment. Raises ConfigError where there is no job."""
    path = folder / JOB_FILE
    connection = read_job_file(path)
    try:
        connection.execute("BEGIN")
        yield connection
    except sqlite3.DatabaseError as error:
        raise refusal(path, f"is damaged or cannot be read ({error})") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        check_job_file(path)  # raises where damage is the cause
        raise
    finally:
        connection.close()


def job_status(folder: Path, now: float) -> JobStatus:
    """Return the status of a job. Raises ConfigError as `open_snapshot` does."""
    with open_snapshot(folder) as connection:
        values = {
            name: read_value(connection, name) for name in ("spider", "reason", "started", "run_started", "synced")
        }
        state, locked = read_value(connection, "state"), is_locked(folder)
        is_running = state == "running" if locked is None else locked
        was_killed = not is_running and state in (None, "running")
        ends = "SELECT seq, finished FROM pages WHERE seq IS NOT NULL ORDER BY seq"
        _first, first_line = connection.execute(f"{ends} LIMIT 1").fetchone() or (0, None)
        last_seq, last_line = connection.execute(f"{ends} DESC LIMIT 1").fetchone() or (0, None)
        end = now if is_running else last_line or values["run_started"] or now
        hosts = [HostUrls(*row) for row in connection.execute(_HOSTS)]
        (seen,) = connection.execute("SELECT count(*) FROM urls WHERE state = ?", (State.SEEN,)).fetchone()
        return JobStatus(
            jobdir=str(folder),
            spider=values["spider"],
            arguments=read_value(connection, "arguments", {}),
            state="running" if is_running else "interrupted" if was_killed else state,
            reason=None if was_killed or is_running else values["reason"],
            runs=read_value(connection, "runs", 0),
            started=values["started"],
            run_started=values["run_started"],
            first_line=first_line,
            last_line=last_line,
            synced=values["synced"],
            urls={**{name: sum(getattr(host, name) for host in hosts) for name in _COUNTED}, "seen": seen},
            stages=_stages(connection),
            errors=tuple(ErrorCount(*row) for row in connection.execute(_ERRORS)),
            page_types=dict(connection.execute(_TYPES, (DUPLICATE,))),
            duplicates=count_duplicates(connection),
            rights=RightsCounts.of(read_marks(connection)),
            rate=_rate(connection, values["run_started"] or end, end, last_seq),
            hosts=tuple(hosts[:_MAX_HOSTS]),
            host_count=len(hosts),
            files=_files(folder),
            spent=read_value(connection, SPENT, {}),
            plan=read_value(connection, PLAN),
        )


def _stages(connection: JobConnection) -> dict[str, StageCounts]:
    """Count the runs of the stages, in the order in which a page goes through them."""
    rows = connection.execute("SELECT stage, status, count(*), sum(seconds) FROM stages GROUP BY stage, status")
    found: dict[str, StageCounts] = {}
    for stage, status, count, seconds in rows:
        before = found.get(stage, StageCounts({}, 0.0))
        found[stage] = StageCounts({**before.statuses, status: count}, round(before.seconds + seconds, 3))
    return {stage: found[stage] for stage in _stage_order(found)}


def known_stages(connection: JobConnection) -> list[str]:
    """Return the names of all stages: the built-in ones, and those that any page of the job has been through."""
    return _stage_order({*STAGES, *(name for (name,) in connection.execute("SELECT DISTINCT stage FROM stages"))})


def _stage_order(names: Iterable[str]) -> list[str]:
    """Sort names of stages: the built-in ones in their order, then the user's own."""
    return sorted(names, key=lambda name: (STAGES.index(name) if name in STAGES else len(STAGES), name))


def _rate(connection: JobConnection, start: float, end: float, last_seq: int) -> CrawlRate:
    seconds = max(0.0, end - start)
    pages = _ended_after(connection, start, last_seq)
    window = min(seconds, _LATELY_SECONDS)
    lately = _ended_after(connection, end - window, last_seq)
    return CrawlRate(
        pages=pages,
        seconds=round(seconds, 1),
        pages_per_minute=round(60 * pages / seconds, 1) if seconds else None,
        pages_per_minute_lately=round(60 * lately / window, 1) if window else None,
    )


def _ended_after(connection: JobConnection, moment: float, last_seq: int) -> int:
    """Count the pages that ended after a moment: by halving, as reading `finished` behind all lines is slow."""
    low, high = 0, last_seq
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(
            "SELECT seq, finished FROM pages WHERE seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (low, middle)
        ).fetchone()
        if row is None or row[1] <= moment:
            low = middle
        else:
            high = row[0] - 1
    (count,) = connection.execute("SELECT count(*) FROM pages WHERE seq > ?", (low,)).fetchone()
    return int(count)


def _files(folder: Path) -> dict[str, int]:
    """Return the sizes of the folder's files in bytes. Files of SQLite come and go while a crawl runs."""
    sizes = {}
    for path in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            if path.is_file():
                sizes[path.name] = path.stat().st_size
    return sizes


_ROWS_AT_ONCE = 20_000
_STATE_NAME = f"CASE u.state {' '.join(f'WHEN {state:d} THEN {state.name.lower()!r}' for state in State)} END"
# Columns: name, its source in SQL, pandas type.
_URL_COLUMNS = (
    ("url", "u.url", "object"),
    ("host", "h.name", "object"),
    ("depth", "u.depth", "int64"),
    ("state", _STATE_NAME, "object"),
    ("attempts", "u.attempts", "int64"),
    ("http_status", "p.status", "Int64"),
    *((name, f"p.{name}", "object") for name in ("page_type", "error_stage", "error_kind", "error")),
    ("finished", "p.finished", "moment"),
)
_STAGE_COLUMNS = {"status": "object", "error": "object", "attempts": "Int64", "started": "moment", "seconds": "float64"}


def read_status(jobdir: str | PathLike[str]) -> pd.DataFrame:
    """Return one row for each url of the job, in the order in which they were found, also while a crawl is running.

    Columns: url, host, depth, state (queued, leased, done, dead; seen: a redirect's target), attempts, http_status,
    page_type, error_stage, error_kind, error, finished, and of each stage (fetch, content, classify, record, and your
    own) STAGE_status, _error, _attempts, _started, _seconds. Moments are in UTC. Unknown values are NA.

    Raises ImportError without pandas, and llmcrawler.errors.ConfigError where there is no job.
    """
    try:
        import pandas as pd  # it is optional, and slow to load
    except ImportError as error:
        raise ImportError(f"read_status needs pandas: {install_command('pandas')}") from error
    with open_snapshot(Path(jobdir)) as connection:
        stages = known_stages(connection)
        layout = [*_URL_COLUMNS]
        sources = "urls u LEFT JOIN hosts h ON h.id = u.host LEFT JOIN pages p ON p.url = u.id"
        for n, stage in enumerate(stages):
            sources += f" LEFT JOIN stages s{n} ON s{n}.url = u.id AND s{n}.stage = ?"
            layout += [(f"{stage}_{name}", f"s{n}.{name}", kind) for name, kind in _STAGE_COLUMNS.items()]
        (count,) = connection.execute("SELECT count(*) FROM urls").fetchone()
        # Columns to be filled, as joining parts in the end would take twice the memory.
        whole: list[Any] = [
            pd.arrays.IntegerArray(np.zeros(count, "int64"), np.ones(count, "bool"))
            if kind == "Int64"
            else np.empty(count, "float64" if kind == "moment" else kind)
            for _name, _source, kind in layout
        ]
        columns = ", ".join(source for _name, source, _kind in layout)
        cursor = connection.execute(f"SELECT {columns} FROM {sources} ORDER BY u.id", stages)  # noqa: S608 - names of columns
        texts: dict[Any, Any] = {}  # those that repeat are shared, as most are a few that come often
        at = 0
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            for (name, _source, kind), values, column in zip(layout, zip(*rows, strict=True), whole, strict=True):
                is_shared = kind == "object" and name != "url"
                column[at : at + len(rows)] = [*map(texts.setdefault, values, values)] if is_shared else values
            at += len(rows)
    named = {}
    for name, _source, kind in layout:
        series = pd.Series(whole.pop(0), dtype=None if kind == "moment" else kind, copy=False)
        named[name] = pd.to_datetime(series, unit="s", utc=True) if kind == "moment" else series
    return pd.DataFrame(named, copy=False)


def status_summary(jobdir: str | PathLike[str]) -> dict[str, Any]:
    """Return what `scrapy status JOBDIR --json` prints. Raises llmcrawler.errors.ConfigError where there is no job."""
    return job_status(Path(jobdir), time.time()).as_dict()
