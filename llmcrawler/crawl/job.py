"""A job directory (JOBDIR): its lock, and the database with the ledger and frontier of a crawl over all its runs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from llmcrawler.core.frontier import Admission, Counts, SqliteFrontier
from llmcrawler.core.storage import (
    PLAN,
    SPENT,
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
    write_value,
)
from llmcrawler.core.storage.archives.warc_writer import ExchangeStore
from llmcrawler.core.storage.feed_files import note_feed_file
from llmcrawler.core.storage.job_file import JOB_FILE, LOCK_FILE, Run, lock_folder, write_run
from llmcrawler.crawl.job_resume import begin_run, count_by_host, count_pages, is_forced_anew
from llmcrawler.crawl.job_spec import JobRules, JobSpec, check_arguments, check_bodies
from llmcrawler.errors import ConfigError, StorageFailed


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
        before_close: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self._lock = lock_folder(folder)
        try:
            connection = open_job_file(folder / JOB_FILE)
            check_arguments(connection, folder, spec)
            check_bodies(connection, folder, spec)
            is_forced = is_forced_anew(connection, spec)
            self.resumed = begin_run(connection, spec, is_forced=is_forced)
            self.fetched_since: float = read_value(connection, "fetched_since", 0.0)
            self.run_number: int = read_value(connection, "runs", 1)
            self.spent: Mapping[str, float] = read_value(connection, SPENT, {})
            self.plan: Mapping[str, Any] | None = read_value(connection, PLAN)
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
        self.forced_from = spec.stages[0] if is_forced and not spec.keys else None
        self._database = Database(connection, folder / JOB_FILE, sync_seconds=rules.sync_seconds, on_failure=on_failure)
        self.ledger = Ledger(self._database, keep_bodies=rules.keep_bodies)
        self.frontier = SqliteFrontier(
            self._database, lease_seconds=rules.lease_seconds, max_leases=rules.max_leases, clock=time.monotonic
        )

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
        return await self._database.run(count_by_host)

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
        self._database.post_and_wait(lambda connection: note_feed_file(connection, path, offset, place))

    def note_run(self, run: Run) -> None:
        """Write the figures of this run; they replace those that it has written before."""
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
    """Write a plan into the job, where `scrapy status` and the summary show it. Raises ConfigError as `Job` does."""
    lock = lock_folder(folder)
    try:
        with closing(open_job_file(folder / JOB_FILE)) as connection:
            write_value(connection, PLAN, plan)
    finally:
        lock.release()


def check_job(folder: Path, spec: JobSpec) -> None:
    """Raise the ConfigError that `Job` would raise, without changing anything."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"JOBDIR={folder}: it is a file, and not a folder")
    path = folder / JOB_FILE
    check_job_file(path, with_content=True)
    if (folder / LOCK_FILE).exists():
        lock_folder(folder).release()
    if holds_job(path):
        connection = read_job_file(path)
        try:
            check_arguments(connection, folder, spec)
            check_bodies(connection, folder, spec)
        finally:
            connection.close()
    elif spec.stages:
        raise ConfigError(f"force={','.join(spec.stages)}: {folder} holds no crawl whose stages could run again")
