"""Requeues pages of a job: dead letters, and pages of which a stage failed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from llmcrawler.core.storage.job_file import (
    JOB_FILE,
    JobConnection,
    lock_folder,
    open_job_file,
    read_job_file,
    read_value,
    refusal,
    write_value,
)
from llmcrawler.core.storage.job_status import known_stages
from llmcrawler.core.storage.ledger import STAGES, id_of, return_to_queue
from llmcrawler.core.urls import normalise_with_route
from llmcrawler.errors import ConfigError

_RAN = "EXISTS (SELECT 1 FROM stages s WHERE s.url = u.id AND {})"
_FAILED = _RAN.format("s.status = 'failed' AND {}")
_TASKS_OF = "SELECT t.url FROM tasks t JOIN urls u ON u.id = t.url WHERE substr(u.url, 1, ?) = ?"
_HAS_FAILED = f"(p.error_stage IS NOT NULL OR {_FAILED.format('1')})"


@dataclass(frozen=True, slots=True)
class RequeueChoice:
    """The pages to requeue: those that fit all conditions that are given.

    `dead`: dead letters; `failed`: pages of which a stage failed; both by default. `is_forced`: also pages of which
    nothing failed. `kinds` are kinds of errors; in kinds and urls "*" stands for any characters. `stages`: those that
    failed, or that are to run again.
    """

    dead: bool = False
    failed: bool = False
    kinds: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    is_forced: bool = False

    def __bool__(self) -> bool:
        return self.dead or self.failed or bool(self.kinds or self.stages or self.urls)


@dataclass(frozen=True, slots=True)
class Requeued:
    """Counts of the pages to fetch again, and of those that run again from their stored bodies. Of the named urls
    `waiting` were queued anyway, `unfit` did not fit the choice, and the job has none of `unknown`. `spider` and
    `given`, its arguments as they were typed, are those of the crawl that has to be run next.
    """

    fetched: int
    rerun: int
    waiting: int
    unfit: int
    unknown: tuple[str, ...]
    spider: str | None
    given: Mapping[str, str]


def requeue(folder: Path, choice: RequeueChoice) -> Requeued:
    """Requeue the chosen pages of a job. Raises ConfigError where there is no job, a crawl is running in it, nothing is
    chosen, or a stage is unknown.
    """
    if not choice:
        raise ConfigError("nothing is selected: name URLs, or --dead, --failed, --kind, --stage")
    path = folder / JOB_FILE
    read_job_file(path).close()  # raises where there is no job, before the lock makes a folder
    with lock_folder(folder, "stop it, or wait until it ends"), closing(open_job_file(path)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            requeued = _requeue(connection, choice)
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise refusal(path, f"cannot be changed ({error})", "nothing was requeued") from error
    return requeued


def _requeue(connection: JobConnection, choice: RequeueChoice) -> Requeued:
    if not set(choice.stages) <= set(STAGES):
        known = known_stages(connection)
        if strangers := set(choice.stages) - set(known):
            raise ConfigError(f"no page has been through a stage {min(strangers)!r}; there are: {', '.join(known)}")
    _create_tables(connection)
    unknown = _name(connection, choice.urls)
    _choose(connection, choice)
    left_out = dict(
        connection.execute(
            "SELECT u.state IN (0, 1), count(*) FROM named JOIN urls u ON u.id = named.id"
            " WHERE u.id NOT IN (SELECT id FROM chosen) GROUP BY 1"
        ).fetchall()
    )
    fetched, rerun = _return(connection)
    if fetched or rerun:
        # Not finished any more, so that links of the pages are followed.
        write_value(connection, "state", "interrupted")
        write_value(connection, "reason", "requeued")
        write_value(connection, "requeues", read_value(connection, "requeues", 0) + 1)
    spider, given = read_value(connection, "spider"), read_value(connection, "given", {})
    return Requeued(fetched, rerun, left_out.get(1, 0), left_out.get(0, 0), unknown, spider, given)


def requeue_failed(connection: JobConnection) -> None:
    """Requeue all pages of which anything failed, in a transaction of the caller, which holds the job's lock."""
    _create_tables(connection)
    _choose(connection, RequeueChoice(dead=True, failed=True))
    _return(connection)
    connection.execute("DROP TABLE named")
    connection.execute("DROP TABLE chosen")


def _create_tables(connection: JobConnection) -> None:
    connection.execute("CREATE TEMP TABLE named (id INTEGER PRIMARY KEY)")
    connection.execute("CREATE TEMP TABLE chosen (id INTEGER PRIMARY KEY, since REAL, is_fetched INTEGER)")


def _name(connection: JobConnection, urls: Iterable[str]) -> tuple[str, ...]:
    """Fill `named`, and return the urls that the job does not know in any spelling."""
    unknown = []
    for url in urls:
        if "*" in url:
            found = connection.execute("SELECT id FROM urls WHERE url GLOB ?", (_glob(url),)).fetchall()
        else:
            address = normalise_with_route(url) or url
            number = id_of(connection, address)
            found = [] if number is None else [(number,)]
            found += connection.execute(_TASKS_OF, (len(address) + 1, f"{address}#")).fetchall()
        connection.executemany("INSERT OR IGNORE INTO named VALUES (?)", found)
        if not found:
            unknown.append(url)
    return tuple(unknown)


def _choose(connection: JobConnection, choice: RequeueChoice) -> None:
    """Fill `chosen`: whether a page is fetched again, else since which moment its stages are to run again."""
    of_stage = f"s.stage IN ({_marks(choice.stages)})" if choice.stages else "1"
    conditions, values = _conditions(choice)
    generation, by_stage = read_value(connection, "generation", 0), bool(choice.stages)
    connection.execute(
        f"""
        INSERT INTO chosen SELECT u.id, (
            SELECT min(s.started) FROM stages s
            WHERE s.url = u.id AND {of_stage} AND (s.status = 'failed' OR s.stage = p.error_stage OR ?)
        ), u.state = 3 OR ? OR NOT {_HAS_FAILED} AND NOT ? OR NOT EXISTS (
            SELECT 1 FROM bodies b WHERE b.url = u.id AND b.body IS NOT NULL AND b.generation = ?
        )
        FROM urls u LEFT JOIN pages p ON p.url = u.id WHERE {conditions}
        """,  # noqa: S608 - constants and question marks are put in
        [*choice.stages, choice.is_forced and by_stage, "fetch" in choice.stages, by_stage, generation, *values],
    )


def _conditions(choice: RequeueChoice) -> tuple[str, list[str]]:
    """Return a condition in SQL on `urls u` and `pages p`, and the values for its question marks."""
    either = choice.dead == choice.failed
    states = ["u.state = 3"] * (choice.dead or either)  # 2 and 3: State.DONE and State.DEAD
    states += ["u.state = 2" if choice.is_forced else f"u.state = 2 AND {_HAS_FAILED}"] * (choice.failed or either)
    parts, values = [f"({' OR '.join(states)})"], []
    if choice.kinds:
        of_kind = _FAILED.format("substr(s.error, 1, instr(s.error, ':') - 1) GLOB ?")
        parts.append(f"({' OR '.join([f'p.error_kind GLOB ? OR {of_kind}'] * len(choice.kinds))})")
        values += [_glob(kind) for kind in choice.kinds for _ in range(2)]
    if choice.stages:
        marks = _marks(choice.stages)
        ran = f"s.stage IN ({marks})"
        parts.append(f"(p.error_stage IN ({marks}) OR {(_RAN if choice.is_forced else _FAILED).format(ran)})")
        values += [*choice.stages, *choice.stages]
    if choice.urls:
        parts.append("u.id IN (SELECT id FROM named)")
    return " AND ".join(parts), values


def _return(connection: JobConnection) -> tuple[int, int]:
    fetched = "SELECT id FROM chosen WHERE is_fetched"
    # The page is not read from a body of an earlier generation, but a crawl that refreshes compares with it.
    connection.execute(f"UPDATE bodies SET generation = generation - 1 WHERE url IN ({fetched})")  # noqa: S608 - a constant
    connection.execute(f"DELETE FROM stages WHERE url IN ({fetched})")  # noqa: S608 - a constant
    # Stages without success run again in any case, and their attempts count on.
    connection.execute(
        "DELETE FROM stages WHERE status = 'success' AND (url, stage) IN (SELECT s.url, s.stage FROM chosen c"
        " JOIN stages s ON s.url = c.id WHERE NOT c.is_fetched AND s.started >= c.since)"
    )
    return_to_queue(connection, [number for (number,) in connection.execute("SELECT id FROM chosen")])
    counts = dict(connection.execute("SELECT is_fetched, count(*) FROM chosen GROUP BY 1").fetchall())
    return counts.get(1, 0), counts.get(0, 0)


def _marks(values: tuple[str, ...]) -> str:
    return ",".join("?" * len(values))


def _glob(pattern: str) -> str:
    """Return SQLite's pattern for one in which only "*" is special, as urls are full of question marks."""
    return "".join(f"[{one}]" if one in "?[" else one for one in pattern)
