"""A job directory (JOBDIR): its lock, its ledger and frontier over all runs of a crawl, and how a run resumes it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from llmcrawler.core.frontier.admission import Admission
from llmcrawler.core.frontier.protocol import Counts
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import (
    PLAN,
    REQUEUED_RANK,
    SPENT,
    STAGES,
    Database,
    JobConnection,
    Ledger,
    State,
    check_job_file,
    holds_job,
    open_job_file,
    read_job_file,
    read_value,
    refusal,
    return_to_queue,
    write_value,
)
from llmcrawler.core.storage.archives.warc_writer import ExchangeStore
from llmcrawler.core.storage.feeds.markdown_files import INDEX, sweep
from llmcrawler.core.storage.job_file import DUPLICATE, JOB_FILE, LOCK_FILE, Run, checksum, lock_folder, write_run
from llmcrawler.core.storage.job_spec import JobRules, JobSpec, check_arguments, check_bodies
from llmcrawler.core.storage.requeueing import requeue_failed
from llmcrawler.errors import ConfigError, StorageFailed

_PLACEHOLDER = re.compile(r"%\(\w+\)[-+ #0]*\d*\w")  # of Scrapy's feed uris

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Counts of the pages that a run found in its job directory, by what it has to do with them.

    `done` have their line (dead letters too), `stored` run through their stages again from stored bodies, `again` had
    a line once and are fetched again, `queued` URLs wait. `is_new`: this is the job's first run. `finished`: earlier
    runs left nothing to do. `cut`: the feeds' files that hold now what they held before the job; None in a refresh,
    which adds to them.
    """

    is_new: bool
    finished: bool
    done: int
    stored: int
    again: int
    queued: int
    cut: Collection[str] | None = None

    def __str__(self) -> str:
        parts = [f"{self.done} lines go into the feed again"]
        if self.stored:
            parts.append(f"{self.stored} pages are processed from their stored bodies")
        if self.again:
            parts.append(f"{self.again} pages are fetched again")
        if self.finished:
            return f"This job was finished: {', '.join(parts)}"
        return f"Resuming a job: {', '.join(parts)}, {self.queued} URLs queued"


class Job:
    """The job directory that one crawl holds. Raises ConfigError where another crawl holds it, its file is damaged, or
    it was started with other arguments.

    `on_failure` is called once when the disk takes no more. `before_close` is called with Scrapy's reason when nothing
    more will happen and the job can still be written to.
    """

    def __init__(
        self,
        folder: Path,
        spec: JobSpec,
        rules: JobRules,
        *,
        on_failure: Callable[[StorageFailed], None] = lambda _failure: None,
        before_close: Callable[[str], object] = lambda _reason: None,
    ) -> None:
        self._is_first = not (folder / LOCK_FILE).exists()
        self._lock = lock_folder(folder)
        try:
            connection = open_job_file(folder / JOB_FILE)
            check_arguments(connection, folder, spec)
            check_bodies(connection, folder, spec)
            # Stages are to run again that an interrupted run was not already busy with.
            is_forced = bool(spec.stages) and [*spec.stages] != read_value(connection, "forcing", [])
            self.resumed = begin_run(connection, spec, is_forced=is_forced)
            self.fetched_since: float = read_value(connection, "fetched_since", 0.0)
            self.run_number: int = read_value(connection, "runs", 1)
            self.spent: Mapping[str, float] = read_value(connection, SPENT, {})
        except sqlite3.Error as error:
            self._lock.release()
            cure = "make room and run the same command again"
            raise refusal(folder / JOB_FILE, f"cannot be written ({error})", cure) from error
        except BaseException:
            self._lock.release()
            raise
        self.last_earlier_seq = 0
        self._before_close = before_close
        # The first stage that this run is the first to repeat; None when an earlier run has begun with that.
        self.forced_from = spec.stages[0] if is_forced else None
        self._database = Database(connection, folder / JOB_FILE, on_failure=on_failure)
        self.ledger = Ledger(self._database, keep_bodies=rules.keep_bodies)
        self.frontier = SqliteFrontier(self._database, max_leases=rules.max_leases)

    async def open(self) -> None:
        """Take over what earlier runs left. Pages that end after this are those of this run."""
        await self.frontier.open()  # which may give up pages that have taken down too many runs
        done, stored, again, queued = await self._database.run(count_pages)
        self.resumed = replace(self.resumed, done=done, stored=stored, again=again, queued=queued)
        self.last_earlier_seq = await self.ledger.last_seq()

    async def restore(self, admission: Admission, relearn: Callable[[JobConnection], None]) -> None:
        """Tell `admission` and `relearn` of the urls of earlier runs. It takes some seconds for 100,000 urls."""

        def read(connection: JobConnection) -> None:
            redirected = connection.execute(
                "SELECT b.final_url FROM urls u JOIN bodies b ON b.url = u.id"
                " WHERE u.referer IS NULL AND b.final_url IS NOT NULL"
            )
            for (url,) in redirected:  # a start url may lead to another host, which then belongs to the crawl
                admission.scope.widen(url)
            rows = connection.execute(
                "SELECT url FROM urls WHERE referer IS NOT NULL AND state != ? ORDER BY id", (State.SEEN,)
            )
            admission.restore(url for (url,) in rows)
            relearn(connection)

        await self._database.run(read)

    async def counts_by_host(self) -> dict[str, tuple[Counts, int]]:
        """Count what earlier runs have of each host, and how many of its pages this one goes through again."""
        query = (
            "SELECT h.name, sum(u.state = 2), sum(u.state = 3),"
            " sum(u.state = 2 AND p.error_stage IS NULL AND p.page_type = ?),"
            " sum(u.state IN (0, 1) AND (p.line IS NOT NULL OR b.url IS NOT NULL))"
            " FROM urls u JOIN hosts h ON h.id = u.host"
            " LEFT JOIN pages p ON p.url = u.id LEFT JOIN bodies b ON b.url = u.id AND b.body IS NOT NULL"
            " AND b.generation = ? GROUP BY u.host"
        )

        def count(connection: JobConnection) -> dict[str, tuple[Counts, int]]:
            rows = connection.execute(query, (DUPLICATE, read_value(connection, "generation", 0)))
            return {
                host: (Counts(done=done, dead=dead, duplicates=duplicates or 0), repeats)
                for host, done, dead, duplicates, repeats in rows
            }

        return await self._database.run(count)

    @cached_property
    def exchanges(self) -> ExchangeStore:
        """What was asked and answered for its pages; kept from the first time on that somebody asks for this."""
        return ExchangeStore(self._database)

    async def earlier_lines(self) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Give the feed lines of earlier runs in their order, each with its number in the ledger."""
        last = 0
        while lines := await self.ledger.lines(last, self.last_earlier_seq):
            last = lines[-1][0]
            for numbered in lines:
                yield numbered
            await asyncio.sleep(0)

    def note_feed(self, path: Path, file: int) -> None:
        """Remember the size of a feed's file as it is opened (`file` is its descriptor), to cut it back on resume. It
        is committed when this returns: a line that a kill leaves in a file that is not known would stand there twice.
        """
        path = path.absolute()
        place = os.fstat(file)
        offset = place.st_size
        cut = self.resumed.cut
        if offset and not self._is_first and cut is not None and str(path) not in cut:
            logger.warning(
                "%s has lines already, and the JOBDIR does not tell which of them are its own: these may stand there "
                "twice. Use -O, or a new file",
                path,
            )
        self._database.post_and_wait(lambda connection: note_feed_file(connection, path, offset, place))

    def note_run(self, run: Run) -> None:
        self._database.post(lambda connection: write_run(connection, run))

    async def close(self, reason: str) -> None:
        """Write down how the run ended and give the directory back. `reason` is Scrapy's."""
        self._before_close(reason)
        is_finished = reason == "finished"

        def write_end(connection: JobConnection) -> None:
            write_value(connection, "state", "finished" if is_finished else "interrupted")
            write_value(connection, "reason", reason)
            if is_finished:
                write_value(connection, "forcing", [])

        try:
            await self._database.run(write_end)
        finally:
            await self._database.close()
            self._lock.release()


def keep_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Write a plan into the job, where `scrapy status` and the report show it. Raises ConfigError as `Job` does."""
    lock = lock_folder(folder)
    try:
        with closing(open_job_file(folder / JOB_FILE)) as connection:
            write_value(connection, PLAN, plan)
    finally:
        lock.release()


def check_job(folder: Path, spec: JobSpec) -> None:
    """Raise the ConfigError that `Job` would raise, without changing anything."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"JOBDIR={folder}: it is a file, not a folder")
    path = folder / JOB_FILE
    if (folder / LOCK_FILE).exists():
        lock_folder(folder).release()
    check_job_file(path)
    if holds_job(path):
        connection = read_job_file(path)
        try:
            check_arguments(connection, folder, spec)
            check_bodies(connection, folder, spec)
        finally:
            connection.close()
    elif spec.stages:
        raise ConfigError(f"force={','.join(spec.stages)}: {folder} contains no crawl whose stages could run again")


def begin_run(connection: JobConnection, spec: JobSpec, *, is_forced: bool) -> ResumeState:
    """Put the job's urls into the state that its next run starts from, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    has_urls = connection.execute("SELECT 1 FROM urls LIMIT 1").fetchone() is not None
    is_new = read_value(connection, "spider") is None and not has_urls
    finished = read_value(connection, "state") == "finished"
    is_same = read_value(connection, "arguments") == dict(spec.arguments)
    refreshes = spec.refresh and finished
    cut = None
    if refreshes:
        _refresh(connection)
    else:
        cut = truncate_feeds(connection, spec.feeds if finished else None)
        _take_back_unsafe(connection)
    # Better urls found meanwhile must not take the places of pages that were under way among `max_pages`.
    connection.execute(
        f"UPDATE urls SET rank = {REQUEUED_RANK} WHERE state IN (?, ?) AND "  # noqa: S608 - a constant is put in
        "(EXISTS (SELECT 1 FROM bodies b WHERE b.url = urls.id AND b.body IS NOT NULL AND b.generation = ?)"
        " OR EXISTS (SELECT 1 FROM pages p WHERE p.url = urls.id AND p.line IS NOT NULL))",
        (State.QUEUED, State.LEASED, read_value(connection, "generation", 0)),
    )
    if is_forced:
        _force(connection, spec.stages)
    if spec.retries:
        requeue_failed(connection)
    if is_forced or not spec.stages:
        write_value(connection, "forcing", spec.stages)
    now, fetched_since = time.time(), read_value(connection, "fetched_since", 0.0)
    values = {
        "spider": spec.spider,
        "arguments": spec.arguments,
        "given": dict(spec.given or spec.arguments),
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
    return ResumeState(is_new, is_finished, *count_pages(connection), cut)


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
    for table in ("marks", "stages", "feeds"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - one of these three


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


def note_feed_file(connection: sqlite3.Connection, path: Path, offset: int, place: os.stat_result) -> None:
    row = (str(path), offset, place.st_dev, place.st_ino)
    connection.execute("INSERT OR REPLACE INTO feeds VALUES (?, ?, ?, ?, ?)", (*row, checksum(*row)))


def truncate_feeds(connection: sqlite3.Connection, feeds: Iterable[str] | None = None) -> list[str]:
    """Cut the files back to what they held before the job, but leave alone those that have been replaced since; return
    the paths of the others. `feeds`: cut only files that these uris may name.
    """
    cut = []
    wanted = None if feeds is None else [_pattern_of(uri) for uri in feeds]
    for name, offset, device, inode in connection.execute("SELECT path, offset, device, inode FROM feeds").fetchall():
        path = Path(name)
        feed = str(path.parent if path.name == INDEX else path)
        if wanted is not None and not any(pattern.fullmatch(feed) for pattern in wanted):
            continue
        try:
            place = path.stat()
            if (place.st_dev, place.st_ino) == (device, inode) and place.st_size >= offset:
                if offset:
                    os.truncate(path, offset)
                else:
                    path.unlink()
                if path.name == INDEX:
                    sweep(path.parent)
                cut.append(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("%s cannot be truncated to what it held before this job: %s", path, error)
    connection.execute("DELETE FROM feeds")
    return cut


def _pattern_of(uri: str) -> re.Pattern[str]:
    """Return the pattern of the absolute paths that a feed uri with placeholders may name."""
    parts = urlsplit(uri)
    path = Path(unquote(parts.path) if parts.scheme == "file" else uri).absolute()
    return re.compile(".*".join(map(re.escape, _PLACEHOLDER.split(str(path)))), re.DOTALL)
