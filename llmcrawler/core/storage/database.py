"""Runs all work on one SQLite file in one thread, which gathers pieces of work into transactions."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

from llmcrawler.core.storage.job_file import JobConnection, write_value
from llmcrawler.errors import StorageFailed

T = TypeVar("T")
Work = Callable[[JobConnection], T]

# While several wait for work at a time, it is gathered for so long: to wake the thread, to commit and to wake the event
# loop cost more than most of the work itself. What comes alone, as each piece that waits for the last, is done at once.
_GATHER_SECONDS = 0.01
_BUSY_SECONDS = 0.1  # several waited at a time so short ago
_MAX_GATHERED = 500
# Errors of one piece of work, which leave the file usable.
_WORK_ERRORS = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.NotSupportedError)


@dataclass(slots=True)
class _Task:
    work: Work[Any]
    future: asyncio.Future[Any] | None = None
    done: Event | None = None
    result: Any = None
    error: BaseException | None = None


class Database:
    """Does pieces of work on the file in the order in which they were given.

    A commit survives the end of the process (kill -9) at once. It survives a power cut when the disk was told to write
    it, which is done once in `sync_seconds`; 0: with every commit. A power cut loses the newest commits only.

    The first error of the disk ends it: `on_failure` is called once, on the event loop, and all later work raises
    StorageFailed. Earlier commits stay.
    """

    def __init__(
        self,
        connection: JobConnection,
        path: Path,
        *,
        sync_seconds: float = 1.0,
        on_failure: Callable[[StorageFailed], None] = lambda _failure: None,
    ) -> None:
        self.failure: StorageFailed | None = None
        self._connection = connection
        self._path = path
        self._sync_seconds = sync_seconds
        self._on_failure = on_failure
        self._pending: list[_Task] = []  # gathered here for the thread
        self._timer: asyncio.TimerHandle | None = None
        self._awaited = 0
        self._busy_until = -inf
        self._queue: SimpleQueue[list[_Task] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._is_closed = False
        self._synced = 0.0
        self._has_unsynced = False
        self._is_full: bool | None = None  # what `synchronous` of the connection is

    async def run(self, work: Work[T]) -> T:
        """Return what `work` returns, after the commit. Raises what `work` raises, and StorageFailed."""
        if self.failure is not None:
            raise self.failure
        if self._is_closed:
            raise StorageFailed(f"{self._path} is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(_Task(work, future))
        return await future

    def post(self, work: Work[object]) -> None:
        """Queue work without waiting for it. Its errors count as errors of the file."""
        if self.failure is None and not self._is_closed:
            self._put(_Task(work))

    def post_and_wait(self, work: Work[object]) -> None:
        """As `post`, but hold the event loop until it is committed, with all that was queued before."""
        if self.failure is None and not self._is_closed:
            done = Event()
            self._put(_Task(work, done=done))
            done.wait()

    async def close(self) -> None:
        """Finish all work, write it to the disk, and close the file."""
        if self._thread is not None:
            self._hand_over()
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._is_closed = True
        self._connection.close()

    def _put(self, task: _Task) -> None:
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._work_off, name="job-file", daemon=True)
            self._thread.start()
        assert self._loop is not None
        self._pending.append(task)
        now = self._loop.time()
        if task.future is not None:
            if self._awaited:
                self._busy_until = now + _BUSY_SECONDS
            self._awaited += 1
        if task.done is not None or (task.future is not None and now >= self._busy_until):
            self._hand_over()
        elif self._timer is None:
            self._timer = self._loop.call_later(_GATHER_SECONDS, self._hand_over)

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            self._queue.put(self._pending)
            self._pending = []

    def _settle(self, tasks: list[_Task]) -> None:
        self._awaited -= len(tasks)
        for task in tasks:
            assert task.future is not None
            if task.future.done():  # its caller was cancelled
                continue
            if task.error is not None:
                task.future.set_exception(task.error)
            else:
                task.future.set_result(task.result)

    # Everything below runs on the thread.

    def _work_off(self) -> None:
        is_open = True
        while is_open:
            tasks: list[_Task] = []
            try:
                some = self._queue.get(timeout=self._sync_seconds if self._has_unsynced else None)
                while some is not None:
                    tasks += some
                    if len(tasks) >= _MAX_GATHERED:
                        break
                    some = self._queue.get_nowait()
                is_open = some is not None
            except Empty:
                pass
            if tasks:
                self._transact(tasks)
                self._notify(tasks)
            elif self._has_unsynced and self.failure is None:
                # A commit without a change writes nothing, and so would not make the disk write what came before.
                self._transact([_Task(lambda to: write_value(to, "synced", time.time()))], sync=True)

    def _transact(self, tasks: list[_Task], *, sync: bool = False) -> None:
        sync = sync or time.monotonic() - self._synced >= self._sync_seconds
        try:
            if self.failure is not None:
                raise self.failure
            if sync != self._is_full:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
                self._is_full = sync
            self._connection.execute("BEGIN IMMEDIATE")
            for task in tasks:
                self._do(task)
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 (callers that wait must get it; the thread goes on to fail later work)
            self._fail(error, tasks)
            return
        self._has_unsynced = not sync
        if sync:
            self._synced = time.monotonic()

    def _do(self, task: _Task) -> None:
        if task.future is not None:
            self._connection.execute("SAVEPOINT task")
        try:
            task.result = task.work(self._connection)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and (task.future is None or not isinstance(error, _WORK_ERRORS)):
                raise
            if task.future is None:  # nobody waits: an error of the file, which takes back the whole transaction
                raise StorageFailed(f"{self._path}: {type(error).__name__}: {error}") from error
            task.error = error
            self._connection.execute("ROLLBACK TO task")
        if task.future is not None:
            self._connection.execute("RELEASE task")

    def _fail(self, error: Exception, tasks: list[_Task]) -> None:
        with suppress(sqlite3.Error):  # a broken disk; nothing was committed in any case
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        if self.failure is None:
            if not isinstance(error, StorageFailed):
                error = StorageFailed(f"{self._path} cannot be written: {error}")
            self.failure = error
            self._call(self._on_failure, self.failure)
        for task in tasks:
            task.error = self.failure

    def _notify(self, tasks: list[_Task]) -> None:
        for task in tasks:
            if task.done is not None:
                task.done.set()
        if awaited := [task for task in tasks if task.future is not None]:
            self._call(self._settle, awaited)

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)
