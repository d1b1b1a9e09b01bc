"""A job's folder (JOBDIR) and its lock; the tables of its file, and the checks before it is opened."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from llmcrawler.core.storage.body_packer import PackingError, unpack
from llmcrawler.core.storage.job_schema import APPLICATION_ID, SCHEMA_VERSION, prepare_tables
from llmcrawler.core.storage.keys import JobConnection
from llmcrawler.errors import ConfigError, JobBusy

JOB_FILE: Final = "crawl.sqlite"
LOCK_FILE: Final = "crawl.lock"

_PATIENCE_SECONDS = 0.3  # is_locked holds the lock for a moment


def lock_folder(folder: Path, cure: str = "wait for its end, or name another") -> FileLock:
    """Lock the folder until the lock is released. Raises JobBusy where another crawl holds it."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=_PATIENCE_SECONDS)
    except Timeout:
        raise JobBusy(f"JOBDIR={folder}: another crawl is running in it; {cure}") from None
    except OSError as error:
        raise ConfigError(f"JOBDIR={folder} cannot be written: {error.strerror or error}") from error
    return lock


def is_locked(folder: Path) -> bool | None:
    """Tell whether a crawl has the folder now; None where the lock is another user's and cannot be read."""
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        with FileLock(folder / LOCK_FILE, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return None


_CURE = "it is left as it is: name another JOBDIR, or remove the file to start anew"
_HEADER = b"SQLite format 3\0"
_Stamp = tuple[tuple[int, ...], ...]
_QUICK_CHECK_BYTES = 200 * 2**20  # a second or two; beyond that damage shows when the crawl comes across it
REQUEUED_PRIORITY: Final = -2  # the priority of urls that an earlier run had: they go out before all others
DUPLICATE: Final = "duplicate of another page"  # stands for the page type of a page that repeats another one
# The rank of such a url in SQL: the pages that others repeat come before those.
REQUEUED_RANK: Final = (
    f"{REQUEUED_PRIORITY} - NOT EXISTS (SELECT 1 FROM pages d WHERE d.url = urls.id AND d.page_type = '{DUPLICATE}')"  # noqa: S608 - constants are put in
)


class State(IntEnum):
    """The state of a url."""

    QUEUED = 0
    LEASED = 1
    DONE = 2  # its line is in `pages`
    DEAD = 3  # the same, and the line says why it could not be fetched
    SEEN = 4  # a redirect's target, reserved for the url in `referer`: it has no line of its own
    PARKED = 5  # not of this run, which is for the tasks of other keys


def check_job_file(path: Path, *, is_whole: bool = False, with_content: bool = False) -> None:
    """Raise ConfigError for a file that is damaged, of another program, or of another version. Changes nothing.

    `is_whole` skips the search for damage, which then shows when it is read. `with_content` checks lines and bodies
    too.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise refusal(path, "is no job file of llmcrawler")
        with closing(_connect_to_read(path)) as connection:
            _check_identity(connection, path)
            verdict = "ok" if is_whole else _verdict(path, _stamp(path))
            if with_content and verdict == "ok":
                _check_content(connection, path)
    except (sqlite3.DatabaseError, PackingError, TypeError) as error:
        raise refusal(path, f"is damaged or cannot be read ({error})") from error
    except OSError as error:
        raise refusal(path, f"cannot be read ({error.strerror or error})") from error
    if verdict != "ok":
        raise refusal(path, f"is damaged ({verdict})")


def open_job_file(path: Path) -> JobConnection:
    """Open or create a job's file; any one thread at a time may use the connection. Raises ConfigError as
    `check_job_file` does, and where the file cannot be made.
    """
    check_job_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = JobConnection(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise refusal(path, f"cannot be written ({error})", "name a JOBDIR in a folder of yours") from error
    return connection


def holds_job(path: Path) -> bool:
    """Tell whether the file has a job in it. Raises ConfigError as `check_job_file` does."""
    check_job_file(path, is_whole=True)
    if not path.exists() or path.stat().st_size == 0:
        return False
    with closing(_connect_to_read(path)) as connection:
        return not _is_blank(connection)


def read_job_file(path: Path) -> JobConnection:
    """Open a job's file for reading, also while a crawl is running. Raises ConfigError where there is none; damage
    within the file shows when it is read.
    """
    if not holds_job(path):
        raise ConfigError(f"{path}: there is no such file: no crawl with this JOBDIR has been started")
    return _connect_to_read(path)


def count_duplicates(connection: JobConnection) -> int:
    """Count the pages with a line that repeat another one."""
    query = (
        "SELECT count(*) FROM pages INDEXED BY ends WHERE seq IS NOT NULL AND error_stage IS NULL "
        "AND error_kind IS NULL AND page_type = ?"
    )
    return int(connection.execute(query, (DUPLICATE,)).fetchone()[0])


def refusal(path: Path, what: str, cure: str = _CURE) -> ConfigError:
    return ConfigError(f"JOBDIR: {path} {what}; {cure}")


def _connect_to_read(path: Path) -> JobConnection:
    # SQLite needs a second file to read a WAL database. Where that neither exists nor can be made, as in a folder of
    # another user or on a read-only disk, nobody writes, so the database is opened as immutable.
    is_alone = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    return JobConnection(f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' * is_alone}", uri=True)


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == version == 0 and _is_blank(connection):
        return
    if application != APPLICATION_ID:
        raise refusal(path, "is a database of another program, or of llmcrawler before 0.1.0")
    if version != SCHEMA_VERSION:
        raise refusal(path, f"has format {version}, and this release of llmcrawler reads format {SCHEMA_VERSION}")


def _is_blank(connection: sqlite3.Connection) -> bool:
    """Tell whether the process that made the file was ended before its tables were in it."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,))


@lru_cache(maxsize=1)
def _verdict(path: Path, stamp: _Stamp) -> str:  # noqa: ARG001 - what the verdict holds for
    """Return SQLite's verdict on a file, cached for its state: a crawl asks before it starts and when it opens it."""
    if path.stat().st_size > _QUICK_CHECK_BYTES:
        return "ok"
    with closing(_connect_to_read(path)) as connection:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return str(verdict)


def _stamp(path: Path) -> _Stamp:
    """Return a value that changes with the file and with the log beside it."""
    files = [path, path.with_name(path.name + "-wal")]
    stats = [file.stat() for file in files if file.exists()]
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


def _check_content(connection: JobConnection, path: Path) -> None:
    """Unpack all lines and bodies: SQLite has no checksums, but compressed values have. A body whose dictionary is lost
    is fetched again.
    """
    if path.stat().st_size <= _QUICK_CHECK_BYTES and not _is_blank(connection):
        for (line,) in connection.execute("SELECT line FROM pages WHERE line IS NOT NULL"):
            unpack(line)
        for (body,) in connection.execute("SELECT body FROM bodies WHERE body IS NOT NULL"):
            connection.packer.unpack(body)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA cache_size = -8192")
    prepare_tables(connection)
