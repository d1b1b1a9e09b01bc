"""Files that other processes may use meanwhile: an SQLite file that many of them share, and files replaced whole."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from llmcrawler.errors import ConfigError, StorageFailed

T = TypeVar("T")

_BUSY_SECONDS: Final = 30.0


class SharedFile:
    """Does each piece of work in a transaction of its own, on a thread of its own. `setting` is named in errors,
    `application`, if given, is the number that SQLite keeps in the file's head: another program's file is left as it
    is.
    """

    def __init__(self, path: Path, schema: str, *, setting: str, application: int | None = None) -> None:
        self.path = path
        self._schema = schema
        self._setting = setting
        self._application = application
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shared-file")
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` returns, after the commit. Raises StorageFailed where the file cannot be used."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    def check(self) -> None:
        """Raise ConfigError where a crawl could not use the file."""
        try:
            self._thread.submit(self._transaction, lambda _connection: None).result()
        except StorageFailed as error:
            raise ConfigError(f"{error}: name a file on a local disk of this machine, or leave it out") from error
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file once all work is done."""
        self._thread.submit(self._disconnect)
        self._thread.shutdown(wait=True)

    # Everything below runs on the file's own thread.

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = connect_shared(self.path, self._schema, _BUSY_SECONDS, self._application)
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            raise StorageFailed(f"{self._setting}={self.path}: it cannot be used ({error})") from error

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect_shared(path: Path, schema: str, busy_seconds: float, application: int | None = None) -> sqlite3.Connection:
    """Open or make a file with these tables, for connections of several processes; each statement is a transaction
    unless one is begun. Raises sqlite3.Error or OSError, for a file of another `application` too.
    """
    # SQLite's own timeout does not cover the change to WAL, which fails at once where another process makes it.
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            return _connect(path, schema, busy_seconds, application)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _connect(path: Path, schema: str, busy_seconds: float, application: int | None) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
    try:
        # One statement: between two of them another process may have made the file.
        looked = "SELECT application_id, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id"
        found, tables = connection.execute(looked).fetchone()
        if application is not None and application != found and tables:
            raise sqlite3.DatabaseError("it is the file of something else")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # a power cut may lose the last changes
        mark = "" if application is None else f"PRAGMA application_id={application};"
        connection.executescript(f"BEGIN IMMEDIATE; {mark} {schema} COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def temporary_of(path: Path) -> Path:
    """Return the path for new content: beside the file, so that one rename puts it in place."""
    target = path.resolve()  # a link stays a link
    return target.with_name(f".{target.name}.tmp")


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content, not its mode; as a whole, or raise OSError. Not for two calls at once."""
    target, temporary = path.resolve(), temporary_of(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def delete_database(path: Path) -> None:
    """Delete an SQLite file and its log, if they are there, so that another one can take its place."""
    # First the database: a log without one is nothing to SQLite, one of another is damage.
    for one in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        one.unlink(missing_ok=True)
