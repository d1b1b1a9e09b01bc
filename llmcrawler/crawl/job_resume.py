"""Resumes an interrupted job: decides which of its urls are queued again when a run begins."""

from __future__ import annotations

import time
from dataclasses import dataclass

from llmcrawler.core.frontier import Counts
from llmcrawler.core.storage import (
    REQUEUED_RANK,
    SPENT,
    STAGES,
    JobConnection,
    State,
    read_value,
    return_to_queue,
    write_value,
)
from llmcrawler.core.storage.body_packer import drop_unreadable
from llmcrawler.core.storage.feed_files import truncate_feeds
from llmcrawler.core.storage.job_file import DUPLICATE
from llmcrawler.core.storage.requeueing import RequeueChoice, park, requeue_in_transaction
from llmcrawler.crawl.job_spec import JobSpec


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Counts of the pages that a run found in its job directory, by what it has to do with them.

    `done` have their line (dead letters too), `stored` run through their stages again from stored bodies, `again` had
    a line once and are fetched again, `queued` urls wait. `is_new`: this is the job's first run. `finished`: earlier
    runs left nothing to do. `unreadable`: stored bodies that damage has taken.
    """

    is_new: bool
    finished: bool
    done: int
    stored: int
    again: int
    queued: int
    unreadable: int = 0

    def __str__(self) -> str:
        parts = [f"{self.done} lines go into the feed again"]
        if self.stored:
            parts.append(f"{self.stored} pages are gone through from their stored bodies")
        if self.again:
            parts.append(f"{self.again} pages are fetched again")
        if self.unreadable:
            parts.append(f"{self.unreadable} stored bodies are damaged and gone")
        if self.finished:
            return f"This job was finished: {', '.join(parts)}"
        return f"Going on with a job: {', '.join(parts)}, {self.queued} urls wait"


def is_forced_anew(connection: JobConnection, spec: JobSpec) -> bool:
    """Tell whether stages or tasks are to run again that an interrupted run was not already busy with."""
    return bool(_forcing(spec)) and _forcing(spec) != read_value(connection, "forcing", [])


def _forcing(spec: JobSpec) -> list[str]:
    return [*spec.stages, *(f"key={key}" for key in spec.keys)]


def begin_run(connection: JobConnection, spec: JobSpec, *, is_forced: bool) -> ResumeState:
    """Put the job's urls into the state that its next run starts from, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    unreadable = drop_unreadable(connection)
    is_new = read_value(connection, "spider") is None
    finished = read_value(connection, "state") == "finished"
    is_same = read_value(connection, "arguments") == dict(spec.arguments)
    refreshes = spec.refresh and finished
    if refreshes:
        _refresh(connection)
    else:
        truncate_feeds(connection, spec.feeds if finished else None)
        _take_back_unsafe(connection)
    _put_first(connection)
    if is_forced and not spec.keys:
        _force(connection, spec.stages)
    if spec.retries:
        _retry(connection, spec, is_forced=is_forced)
    if is_forced or not _forcing(spec):
        write_value(connection, "forcing", _forcing(spec))
    now, fetched_since = time.time(), read_value(connection, "fetched_since", 0.0)
    values = {
        "spider": spec.spider,
        "arguments": spec.arguments,
        "state": "running",
        "started": read_value(connection, "started", now),
        "run_started": now,
        "fetched_since": now if is_new or refreshes or (is_forced and "fetch" in spec.stages) else fetched_since,
        "runs": read_value(connection, "runs", 0) + 1,
    }
    for name, value in values.items():
        write_value(connection, name, value)
    connection.execute("COMMIT")
    is_finished = finished and is_same and not refreshes and not spec.retries
    return ResumeState(is_new, is_finished, *count_pages(connection), unreadable)


def _refresh(connection: JobConnection) -> None:
    """Queue every url once more, known pages first. Lines and bodies stay to compare with, and feeds as they are."""
    write_value(connection, "generation", read_value(connection, "generation", 0) + 1)
    write_value(connection, "learned_seq", 0)
    write_value(connection, SPENT, {})  # a refresh is a crawl of its own, with a budget of its own
    connection.execute(
        f"UPDATE urls SET state = ?, attempts = 0, rank = {REQUEUED_RANK} WHERE state IN (?, ?)",  # noqa: S608 - a constant is put in
        (State.QUEUED, State.DONE, State.DEAD),
    )
    connection.execute("UPDATE pages SET seq = NULL")
    connection.execute("DELETE FROM marks")
    connection.execute("DELETE FROM stages")
    connection.execute("DELETE FROM feeds")


def _take_back_unsafe(connection: JobConnection) -> None:
    """Queue the pages that ended after the templates were last saved: a template's name may mean another one in this
    run. They run through their stages again from their bodies, and keep what the stages found.
    """
    learned = read_value(connection, "learned_seq", 0)
    rows = connection.execute(
        "SELECT p.url FROM pages p JOIN bodies b ON b.url = p.url JOIN urls u ON u.id = p.url"
        " WHERE p.seq > ? AND b.body IS NOT NULL AND b.generation = ? AND u.state = ?",
        (learned, read_value(connection, "generation", 0), State.DONE),
    )
    return_to_queue(connection, [url for (url,) in rows])


def _put_first(connection: JobConnection) -> None:
    """Give pages that were under way the best priority: better urls found meanwhile must not take their places among
    `max_pages`.
    """
    connection.execute(
        f"UPDATE urls SET rank = {REQUEUED_RANK} WHERE state IN (?, ?) AND "  # noqa: S608 - a constant is put in
        "(EXISTS (SELECT 1 FROM bodies b WHERE b.url = urls.id AND b.body IS NOT NULL AND b.generation = ?)"
        " OR EXISTS (SELECT 1 FROM pages p WHERE p.url = urls.id AND p.line IS NOT NULL))",
        (State.QUEUED, State.LEASED, read_value(connection, "generation", 0)),
    )


def _retry(connection: JobConnection, spec: JobSpec, *, is_forced: bool) -> None:
    if spec.keys and is_forced:
        requeue_in_transaction(
            connection, RequeueChoice(stages=spec.stages or ("fetch",), keys=spec.keys, is_forced=True)
        )
    else:
        requeue_in_transaction(connection, RequeueChoice(keys=spec.keys, dead=True, failed=True))
    park(connection, spec.keys)


def _force(connection: JobConnection, stages: tuple[str, ...]) -> None:
    first = "fetch" if "fetch" in stages else stages[0]
    query = "SELECT p.url FROM pages p WHERE p.seq IS NOT NULL"
    if first != "fetch":
        query += " AND EXISTS (SELECT 1 FROM bodies b WHERE b.url = p.url AND b.body IS NOT NULL)"
    urls = [url for (url,) in connection.execute(query)]
    after = [name for (name,) in connection.execute("SELECT DISTINCT stage FROM stages")]
    known = [*STAGES, *(name for name in after if name not in STAGES)]
    return_to_queue(connection, urls, forget_stages=known[known.index(first) :] if first in known else stages)
    if first == "fetch":
        connection.execute("DELETE FROM bodies")


def count_by_host(connection: JobConnection) -> dict[str, tuple[Counts, int]]:
    """Return for each host the counts of its urls, and how many pages that earlier runs had are queued again."""
    query = (
        "SELECT h.name, sum(u.state = 2), sum(u.state = 3),"
        " sum(u.state = 2 AND p.error_stage IS NULL AND p.page_type = ?),"
        " sum(u.state IN (0, 1) AND (p.line IS NOT NULL OR b.url IS NOT NULL))"
        " FROM urls u JOIN hosts h ON h.id = u.host"
        " LEFT JOIN pages p ON p.url = u.id LEFT JOIN bodies b ON b.url = u.id AND b.body IS NOT NULL"
        " AND b.generation = ? GROUP BY u.host"
    )
    rows = connection.execute(query, (DUPLICATE, read_value(connection, "generation", 0)))
    return {
        host: (Counts(done=done, dead=dead, duplicates=duplicates or 0), repeats)
        for host, done, dead, duplicates, repeats in rows
    }


def count_pages(connection: JobConnection) -> tuple[int, int, int, int]:
    """Return `done`, `stored`, `again` and `queued` as ResumeState has them."""
    counts = dict(connection.execute("SELECT state, count(*) FROM urls GROUP BY state"))
    generation = read_value(connection, "generation", 0)
    # 0 and 1: State.QUEUED and State.LEASED.
    (stored,) = connection.execute(
        "SELECT count(*) FROM urls u JOIN bodies b ON b.url = u.id WHERE u.state IN (0, 1) AND b.body IS NOT NULL"
        " AND b.generation = ?",
        (generation,),
    ).fetchone()
    (known,) = connection.execute(
        "SELECT count(*) FROM urls u JOIN pages p ON p.url = u.id WHERE u.state IN (0, 1) AND p.line IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM bodies b WHERE b.url = u.id AND b.body IS NOT NULL AND b.generation = ?)",
        (generation,),
    ).fetchone()
    waiting = counts.get(State.QUEUED, 0) + counts.get(State.LEASED, 0)
    return counts.get(State.DONE, 0) + counts.get(State.DEAD, 0), stored, known, waiting - stored - known
