"""A job directory (JOBDIR): who has it, what was asked for, and where a crawl that was interrupted goes on."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmcrawler.errors import ConfigError, StorageFailed
from llmcrawler.frontier import Admission, SqliteFrontier
from llmcrawler.storage import Database, Ledger, State, check_job_file, open_job_file, read_job_file
from llmcrawler.storage.feeds import remember, take_back
from llmcrawler.storage.folder import JOB_FILE, LOCK_FILE, lock_folder
from llmcrawler.storage.keys import JobConnection
from llmcrawler.storage.ledger import PLAN, SPENT, STAGES, read_value, return_to_queue, write_value
from llmcrawler.storage.requeue import Choice, bring_back, park
from llmcrawler.storage.runs import Run, write_run
from llmcrawler.storage.schema import AGAIN, holds_job, refusal


@dataclass(frozen=True, slots=True)
class JobRules:
    sync_seconds: float = 1.0
    keep_bodies: bool = True
    lease_seconds: float = 3600.0
    max_leases: int = 5


@dataclass(frozen=True, slots=True)
class CrewRules:
    """Of a crawl in Redis (crew.py)."""

    url: str
    crawl_id: str
    lease_seconds: float = 30.0
    max_leases: int = 5

    @property
    def gone_seconds(self) -> int:
        """After which a worker that was not heard of leads and counts no more; its urls follow a little later."""
        return max(2, round(self.lease_seconds / 3))


@dataclass(frozen=True, slots=True)
class Wish:
    """What a crawl is asked for: who (`spider`) with which arguments. `stages` are to run again (`-a force=...`), in
    their order; `refresh`: look what has changed since the crawl was finished; `any_arguments`: those of the earlier
    runs need not be the same. `retries`: pages of which anything failed are gone through again in every run, and no run
    is the last. `keys`: the only tasks of this run, which are done again where they were done. `feeds`: the uris that
    its lines go to.
    """

    spider: str
    arguments: Mapping[str, Any]
    stages: tuple[str, ...] = ()
    refresh: bool = False
    any_arguments: bool = False
    retries: bool = False
    keys: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a run found: pages that are done or dead; those to go through again from their bodies; those that were at an
    end once, and are to be fetched again; and urls that wait. `is_new`: nothing, this is the job's first run.
    `finished`: there was nothing left to do.
    """

    is_new: bool
    finished: bool
    done: int
    stored: int
    again: int
    queued: int

    def __str__(self) -> str:
        parts = [f"{self.done} lines go into the feed again"]
        if self.stored:
            parts.append(f"{self.stored} pages are gone through from their stored bodies")
        if self.again:
            parts.append(f"{self.again} pages are fetched again")
        if self.finished:
            return f"This job was finished: {', '.join(parts)}"
        return f"Going on with a job: {', '.join(parts)}, {self.queued} urls wait"


class Job:
    """Made for one crawl. Raises ConfigError where the directory cannot be had: another crawl is in it, its file is
    damaged, or it was started with other arguments.
    """

    def __init__(
        self,
        folder: Path,
        wish: Wish,
        rules: JobRules,
        *,
        on_failure: Callable[[StorageFailed], None] = lambda _failure: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.wish = wish
        self._lock = lock_folder(folder)
        try:
            connection = open_job_file(folder / JOB_FILE)
            check_arguments(connection, folder, wish)
            check_bodies(connection, folder, wish)
            is_forced = _is_forced_anew(connection, wish)
            self.resumed = _begin(connection, wish, is_forced=is_forced)
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
        # Called with Scrapy's reason when nothing more will happen, and the job can still be written to.
        self.before_close: Callable[[str], None] = lambda _reason: None
        # The first stage that runs again from this run on; None when it only goes on with that.
        self.forced_from = wish.stages[0] if is_forced and not wish.keys else None
        self._database = Database(connection, folder / JOB_FILE, sync_seconds=rules.sync_seconds, on_failure=on_failure)
        self.ledger = Ledger(self._database, keep_bodies=rules.keep_bodies)
        self.frontier = SqliteFrontier(
            self._database, lease_seconds=rules.lease_seconds, max_leases=rules.max_leases, clock=clock
        )

    async def open(self) -> None:
        """Before the first request. Pages that come to an end from here on are this run's."""
        await self.frontier.open()  # which may give up pages that have taken down too many runs
        done, stored, again, queued = await self._database.run(_counts)
        self.resumed = replace(self.resumed, done=done, stored=stored, again=again, queued=queued)
        self.last_earlier_seq = await self.ledger.last_seq()

    async def restore(self, admission: Admission, relearn: Callable[[JobConnection], None]) -> None:
        """Have the urls of earlier runs count, and what was learned of them. It takes some seconds for a hundred
        thousand.
        """

        def recall(connection: JobConnection) -> None:
            redirected = connection.execute(
                "SELECT b.final_url FROM urls u JOIN bodies b ON b.url = u.id"
                " WHERE u.referer IS NULL AND b.final_url IS NOT NULL"
            )
            for (url,) in redirected:  # a start url may lead to another host, which then belongs to the crawl
                admission.scope.widen(url)
            rows = connection.execute(
                "SELECT url FROM urls WHERE referer IS NOT NULL AND state != ? ORDER BY id", (State.SEEN,)
            )
            admission.recall(url for (url,) in rows)
            relearn(connection)

        await self._database.run(recall)

    def note_feed(self, path: Path, file: int) -> None:
        """A feed is open for this job (`file` is its descriptor); it may have something in it already."""
        path = path.absolute()
        place = os.fstat(file)
        offset = place.st_size
        self._database.post(lambda connection: remember(connection, path, offset, place))

    def note_run(self, run: Run) -> None:
        """What this run has come to so far."""
        self._database.post(lambda connection: write_run(connection, run))

    async def close(self, reason: str) -> None:
        """`reason` is Scrapy's."""
        self.before_close(reason)
        is_finished = reason == "finished"

        def note(connection: JobConnection) -> None:
            write_value(connection, "state", "finished" if is_finished else "interrupted")
            write_value(connection, "reason", reason)
            if is_finished:
                write_value(connection, "forcing", [])

        try:
            await self._database.run(note)
        finally:
            await self._database.close()
            self._lock.release()


def keep_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """For `scrapy status` and the summary to show beside what came of it. Raises ConfigError as `Job` does."""
    lock = lock_folder(folder)
    try:
        with closing(open_job_file(folder / JOB_FILE)) as connection:
            write_value(connection, PLAN, plan)
    finally:
        lock.release()


def check_job(folder: Path, wish: Wish) -> None:
    """Raises ConfigError as `Job` does. Changes nothing."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"JOBDIR={folder}: it is a file, and not a folder")
    path = folder / JOB_FILE
    check_job_file(path, with_content=True)
    if (folder / LOCK_FILE).exists():
        lock_folder(folder).release()
    if holds_job(path):
        connection = read_job_file(path)
        try:
            check_arguments(connection, folder, wish)
            check_bodies(connection, folder, wish)
        finally:
            connection.close()
    elif wish.stages:
        raise ConfigError(f"force={','.join(wish.stages)}: {folder} holds no crawl whose stages could run again")


def check_arguments(connection: JobConnection, folder: Path, wish: Wish) -> None:
    spider, arguments = read_value(connection, "spider"), read_value(connection, "arguments", {})
    if spider is None or wish.any_arguments:
        return
    if spider != wish.spider:
        raise ConfigError(f"JOBDIR={folder} belongs to the spider {spider!r}, not {wish.spider!r}: name another JOBDIR")
    differing = differing_arguments(arguments, wish.arguments)
    if differing:
        raise ConfigError(
            f"JOBDIR={folder} was started with other arguments: {'; '.join(differing)}. Give those to resume it, "
            "name another JOBDIR, or add --force (or -s JOBDIR_FORCE=1) to go on with the new ones"
        )


def differing_arguments(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """In words."""
    return [
        f"{name} was {_shown(known.get(name))} and is {_shown(wanted.get(name))}"
        for name in sorted({*known, *wanted})
        if known.get(name) != wanted.get(name)
    ]


def _shown(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "not given" if value in (None, [], "") else text[:200]


def _is_forced_anew(connection: JobConnection, wish: Wish) -> bool:
    """And does not go on with what an interrupted run was forced to do."""
    return bool(_forcing(wish)) and _forcing(wish) != read_value(connection, "forcing", [])


def _forcing(wish: Wish) -> list[str]:
    return [*wish.stages, *(f"key={key}" for key in wish.keys)]


def _begin(connection: JobConnection, wish: Wish, *, is_forced: bool) -> Resumed:
    connection.execute("BEGIN IMMEDIATE")
    is_new = read_value(connection, "spider") is None
    finished = read_value(connection, "state") == "finished"
    is_same = read_value(connection, "arguments") == dict(wish.arguments)
    refreshes = wish.refresh and finished
    if refreshes:
        _refresh(connection)
    else:
        take_back(connection, wish.feeds if finished else None)
        _take_back_unsafe(connection)
    _put_first(connection)
    if is_forced and not wish.keys:
        _force(connection, wish.stages)
    if wish.retries:
        _retry(connection, wish, is_forced=is_forced)
    if is_forced or not _forcing(wish):
        write_value(connection, "forcing", _forcing(wish))
    now = time.time()
    values = {
        "spider": wish.spider,
        "arguments": wish.arguments,
        "state": "running",
        "started": read_value(connection, "started", now),
        "run_started": now,
        "runs": read_value(connection, "runs", 0) + 1,
    }
    for name, value in values.items():
        write_value(connection, name, value)
    connection.execute("COMMIT")
    return Resumed(is_new, finished and is_same and not refreshes and not wish.retries, *_counts(connection))


def _refresh(connection: JobConnection) -> None:
    """Everything is to be fetched once more, first what is known. Lines and bodies stay, to compare with; what the last
    crawl has written into files stays there.
    """
    write_value(connection, "generation", read_value(connection, "generation", 0) + 1)
    write_value(connection, "learned_seq", 0)
    write_value(connection, SPENT, {})  # a refresh is a crawl of its own, with a budget of its own
    connection.execute(
        "UPDATE urls SET state = ?, attempts = 0, rank = ? WHERE state IN (?, ?)",
        (State.QUEUED, AGAIN, State.DONE, State.DEAD),
    )
    connection.execute("UPDATE pages SET seq = NULL")
    connection.execute("DELETE FROM stages")
    connection.execute("DELETE FROM feeds")


def _take_back_unsafe(connection: JobConnection) -> None:
    """Pages that came to an end after what was learned was last kept. Their templates' names may mean something else in
    this run: they are gone through again, from their bodies and with what the stages found. Dead letters have none.
    """
    learned = read_value(connection, "learned_seq", 0)
    rows = connection.execute(
        "SELECT p.url FROM pages p JOIN bodies b ON b.url = p.url JOIN urls u ON u.id = p.url"
        " WHERE p.seq > ? AND b.body IS NOT NULL AND b.generation = ? AND u.state = ?",
        (learned, read_value(connection, "generation", 0), State.DONE),
    )
    return_to_queue(connection, [url for (url,) in rows])


def _put_first(connection: JobConnection) -> None:
    """Pages that were on their way, with something of them in the job. Urls found meanwhile may have a better rank, and
    would take their places among `max_pages`.
    """
    connection.execute(
        "UPDATE urls SET rank = ? WHERE state IN (?, ?) AND "
        "(EXISTS (SELECT 1 FROM bodies b WHERE b.url = urls.id AND b.body IS NOT NULL AND b.generation = ?)"
        " OR EXISTS (SELECT 1 FROM pages p WHERE p.url = urls.id AND p.line IS NOT NULL))",
        (AGAIN, State.QUEUED, State.LEASED, read_value(connection, "generation", 0)),
    )


def check_bodies(connection: JobConnection, folder: Path, wish: Wish) -> None:
    if not wish.stages or "fetch" in wish.stages:
        return
    if connection.execute("SELECT 1 FROM bodies WHERE body IS NOT NULL LIMIT 1").fetchone() is None:
        raise ConfigError(
            f"force={','.join(wish.stages)}: {folder} has no stored bodies that stages could run on (STORE_BODIES was "
            "off, or nothing was fetched); force=fetch fetches the pages again"
        )


def _retry(connection: JobConnection, wish: Wish, *, is_forced: bool) -> None:
    if wish.keys and is_forced:
        bring_back(connection, Choice(stages=wish.stages or ("fetch",), keys=wish.keys, is_forced=True))
    else:
        bring_back(connection, Choice(keys=wish.keys, dead=True, failed=True))
    park(connection, wish.keys)


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


def _counts(connection: JobConnection) -> tuple[int, int, int, int]:
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
