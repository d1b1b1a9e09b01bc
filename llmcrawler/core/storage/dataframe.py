"""Reads a job as a pandas DataFrame with one row for each url, or as a dict of figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmcrawler.core.storage.job_file import State
from llmcrawler.core.storage.job_status import job_status, known_stages, open_snapshot
from llmcrawler.core.storage.keys import JobConnection
from llmcrawler.errors import install_command

if TYPE_CHECKING:
    import pandas as pd

_Column = tuple[str, str, str]  # name, its source in SQL, pandas type
_ROWS_AT_ONCE = 20_000
_STATE_NAME = f"CASE u.state {' '.join(f'WHEN {state:d} THEN {state.name.lower()!r}' for state in State)} END"
_URL_COLUMNS: tuple[_Column, ...] = (
    ("url", "u.url", "object"),
    ("host", "h.name", "object"),
    ("depth", "u.depth", "int64"),
    ("state", _STATE_NAME, "object"),
    ("attempts", "u.attempts", "int64"),
    ("http_status", "p.status", "Int64"),
    ("page_type", "p.page_type", "object"),
    ("error_stage", "p.error_stage", "object"),
    ("error_kind", "p.error_kind", "object"),
    ("error", "p.error", "object"),
    ("finished", "p.finished", "moment"),
)
_STAGE_COLUMNS = (
    ("status", "object"),
    ("error", "object"),
    ("attempts", "Int64"),
    ("started", "moment"),
    ("seconds", "float64"),
)
_FROM = "urls u LEFT JOIN hosts h ON h.id = u.host LEFT JOIN pages p ON p.url = u.id"


def read_status(jobdir: str | PathLike[str]) -> pd.DataFrame:
    """Return one row for each url of the job, in the order in which they were found, also while a crawl is running.

    Columns: url, host, depth, state (queued, leased, done, dead; seen: a redirect's target), attempts, http_status,
    page_type, error_stage, error_kind, error, finished, and of each stage (fetch, content, classify, record, and your
    own) STAGE_status, _error, _attempts, _started, _seconds. Moments are in UTC. Unknown values are NA.

    Raises ImportError without pandas, and llmcrawler.errors.ConfigError where there is no job.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - it is optional, and slow to load
    except ImportError as error:
        raise ImportError(f"read_status needs pandas: {install_command('pandas')}") from error
    with open_snapshot(Path(jobdir)) as connection:
        stages = known_stages(connection)
        per_stage = [
            (f"{stage}_{name}", f"s{n}.{name}", kind) for n, stage in enumerate(stages) for name, kind in _STAGE_COLUMNS
        ]
        layout = [*_URL_COLUMNS, *per_stage]
        (count,) = connection.execute("SELECT count(*) FROM urls").fetchone()
        whole = [_blank(pd, kind, count) for _name, _source, kind in layout]
        at = 0
        for columns in _portions(connection, stages, layout):
            for values, column in zip(columns, whole, strict=True):
                column[at : at + len(values)] = values
            at += len(columns[0])
    named = {name: _series(pd, kind, whole.pop(0)) for name, _source, kind in layout}
    return pd.DataFrame(named, copy=False)


def status_summary(jobdir: str | PathLike[str]) -> dict[str, Any]:
    """Return what `scrapy status JOBDIR --json` prints: the fields of JobStatus as plain values.

    Raises llmcrawler.errors.ConfigError where there is no job.
    """
    return job_status(Path(jobdir), time.time()).as_dict()


def _portions(connection: JobConnection, stages: list[str], layout: list[_Column]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield some thousand rows at a time, by column. Texts that repeat are shared, as most are a few that come
    often.
    """
    joins = [
        f" LEFT JOIN stages s{number} ON s{number}.url = u.id AND s{number}.stage = ?" for number in range(len(stages))
    ]
    sources = ", ".join(source for _name, source, _kind in layout)
    cursor = connection.execute(f"SELECT {sources} FROM {_FROM}{''.join(joins)} ORDER BY u.id", stages)  # noqa: S608 - names of columns
    texts: dict[Any, Any] = {}
    repeats = [kind == "object" and name != "url" for name, _source, kind in layout]
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        yield [
            tuple(map(texts.setdefault, column, column)) if repeat else column
            for repeat, column in zip(repeats, zip(*rows, strict=True), strict=True)
        ]


def _blank(pd: Any, kind: str, count: int) -> Any:
    """Return a column to be filled, as joining parts in the end would take twice the memory."""
    if kind == "Int64":
        return pd.arrays.IntegerArray(np.zeros(count, "int64"), np.ones(count, "bool"))
    return np.empty(count, "float64" if kind == "moment" else kind)


def _series(pd: Any, kind: str, column: Any) -> Any:
    if kind == "moment":
        return pd.to_datetime(pd.Series(column, copy=False), unit="s", utc=True)
    return pd.Series(column, dtype=kind, copy=False)
