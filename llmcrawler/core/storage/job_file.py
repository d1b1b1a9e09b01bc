"""A job's folder (JOBDIR) and its lock; the tables of its file, and the checks before it is opened."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import sys
import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from llmcrawler.core.storage.body_packer import BodyPacker
from llmcrawler.core.urls import dedup_key
from llmcrawler.errors import ConfigError, JobBusy

APPLICATION_ID: Final = 0x6C6C6D6A  # "llmj"; "llmc" in files that no release has written
SCHEMA_VERSION: Final = 1
PAGE_BYTES: Final = 4096
REQUEST_MARK: Final = "#request:"  # between the url of a spider's own request and what alone identifies it

# groups: of urls that go out together, with their present priority; urls of the group 0 have no name
# urls:   one row for each url while it waits; a million of them is nothing unusual
# keys:   hashes by which urls are found, but for the newest ones (UrlKeys)
# pages:  the ends of urls. `seq`: the order of the ends; null while the page is on its way
#         `ends`: an index by which status need not read all lines
# bodies: responses, for stages that run again. `generation` counts the refreshes of the job
# stages: one row for each stage that a page went through
# tasks:  for urls that are no plain GET: the rest of the request as JSON, and the user's name for it
# found:  for the urls of a map: where each was found, with its date and title there
# runs:   figures of each run of the job, for the report
# feeds:  files that this job writes its lines to, and their size before
# dictionaries: by which bodies are packed (body_packer.py); `digest` tells a damaged one
# marks:  what status counts the ends of urls for (rights_marks.py), each combination once; urls without any have no row
# exchanges: the requests and answers of pages, in jobs whose feeds ask for them (archives/warc_writer.py)
# `crc` is a checksum of the columns before it: those that never change.
_TABLES = """
CREATE TABLE job (name TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID, STRICT;
CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE referers (id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, rank INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE tasks (url INTEGER PRIMARY KEY, name TEXT, payload TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE urls (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL,
    host INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    referer INTEGER,
    crc INTEGER NOT NULL,
    rank INTEGER NOT NULL DEFAULT 0,
    "group" INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 5),
    attempts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE keys (key INTEGER PRIMARY KEY, url INTEGER NOT NULL) STRICT;
CREATE INDEX queue ON urls (host, "group", rank, id) WHERE state = 0;
CREATE TABLE pages (
    url INTEGER PRIMARY KEY,
    line BLOB,
    crc INTEGER NOT NULL,
    seq INTEGER UNIQUE,
    status INTEGER,
    page_type TEXT,
    error_stage TEXT,
    error_kind TEXT,
    error TEXT,
    finished REAL
) STRICT;
CREATE INDEX ends ON pages (error_stage, error_kind, page_type) WHERE seq IS NOT NULL;
CREATE TABLE bodies (
    url INTEGER PRIMARY KEY,
    final_url TEXT,
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    fetched_at TEXT NOT NULL,
    crc INTEGER NOT NULL,
    latency REAL NOT NULL,
    change TEXT,
    generation INTEGER NOT NULL,
    body BLOB
) STRICT;
CREATE TABLE stages (
    url INTEGER NOT NULL,
    stage TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    attempts INTEGER NOT NULL DEFAULT 1,
    started REAL NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (url, stage)
) WITHOUT ROWID, STRICT;
CREATE TABLE found (
    url INTEGER PRIMARY KEY, source INTEGER NOT NULL CHECK (source BETWEEN 0 AND 5), lastmod TEXT, title TEXT
) STRICT;
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    reason TEXT,
    figures TEXT NOT NULL,
    timeline TEXT NOT NULL,
    crc INTEGER NOT NULL,
    started REAL NOT NULL,
    ended REAL NOT NULL
) STRICT;
CREATE TABLE feeds (
    path TEXT PRIMARY KEY, offset INTEGER NOT NULL, device INTEGER, inode INTEGER, crc INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE mark_sets (id INTEGER PRIMARY KEY, marks TEXT NOT NULL UNIQUE CHECK (json_valid(marks))) STRICT;
CREATE TABLE marks (url INTEGER PRIMARY KEY, mark_set INTEGER NOT NULL) STRICT;
CREATE TABLE dictionaries (
    id INTEGER PRIMARY KEY, site TEXT NOT NULL, content BLOB NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX dictionaries_by_site ON dictionaries (site);
CREATE TABLE exchanges (url INTEGER PRIMARY KEY, packed BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;
"""

# Urls whose requests should be in `tasks`, as those of all but redirects' targets are (4: State.SEEN).
LOST_REQUESTS: Final = (
    f"SELECT id FROM urls WHERE (url GLOB '*{REQUEST_MARK}*' OR url GLOB '*#{'[0-9a-f]' * 16}')"  # noqa: S608 - constants
    " AND state != 4 AND id NOT IN (SELECT url FROM tasks)"
)
# What else holds in every job, each with a query for what breaks it.
_RULES: Final[Mapping[str, str]] = {
    "the state of a url does not fit its line": (
        "SELECT 1 FROM urls WHERE (state IN (2, 3)) != (id IN (SELECT url FROM pages WHERE seq IS NOT NULL))"
    ),
    "the state of a url does not fit its host": "SELECT 1 FROM urls WHERE (state = 4) != (host = 0)",
    "the place of a line is lost": "SELECT 1 FROM pages WHERE seq < 1",
    "the url of a line is lost": "SELECT 1 FROM pages WHERE url NOT IN (SELECT id FROM urls)",
    "the request of a url is lost": LOST_REQUESTS,
    "the host of a url is lost": "SELECT 1 FROM urls WHERE host NOT IN (SELECT id FROM hosts UNION SELECT 0)",
    "the group of a url is lost": 'SELECT 1 FROM urls WHERE "group" NOT IN (SELECT id FROM groups UNION SELECT 0)',
    "a key of a url is lost": (
        "SELECT 1 WHERE (SELECT sum(checksum(key, url)) FROM keys)"
        " IS NOT (SELECT json_extract(value, '$[1]') FROM job WHERE name = 'keyed')"
    ),
}


def checksum(*values: object) -> int:
    return zlib.crc32(b"\0".join(one if isinstance(one, bytes) else str(one).encode() for one in values))


def whole_rows(connection: sqlite3.Connection) -> dict[str, str]:
    """Return what is true, in SQL, of the rows of each table that are as they were written."""
    connection.create_function("checksum", -1, checksum, deterministic=True)
    conditions = {}
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    for (table,) in connection.execute(tables).fetchall():
        names = [f'"{row[1]}"' for row in connection.execute(f"PRAGMA table_info({table})")]
        if '"crc"' in names:  # as blobs, since damaged text may be no text
            checked = (f"CAST({name} AS BLOB)" for name in names[: names.index('"crc"')])
            conditions[table] = f"crc = checksum({', '.join(checked)})"
        else:
            conditions[table] = f"checksum({', '.join(names)}) >= 0"  # which fails for text that is none
    return conditions


# Keys are spread evenly, so in a large table each of them changes a page of its own: a million urls would cost four
# times the writes of ten thousand. New ones are gathered in memory, and put in by the thousands in their order.
_MIN_GATHERED, _MAX_GATHERED = 20_000, 200_000
_GATHERED_SHARE = 50


def url_key(url: str) -> int:
    """Hash a normalised url to 64 bits: among ten million urls two collide once in 370,000 crawls."""
    _address, mark, identity = url.rpartition(REQUEST_MARK)
    digest = blake2b((identity if mark else dedup_key(url)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class UrlKeys:
    """The keys of one connection, for its thread alone. New ones wait in memory, and are made again after a crash."""

    def __init__(self, connection: JobConnection) -> None:
        self._connection = connection
        keyed, self._sum = read_value(connection, "keyed", (0, 0))
        rows = connection.execute("SELECT id, url FROM urls WHERE id > ?", (keyed,))
        self._gathered = {url_key(url): number for number, url in rows}
        (last,) = connection.execute("SELECT max(id) FROM urls").fetchone()
        self.next_number = (last or 0) + 1

    def find(self, key: int) -> int | None:
        number = self._gathered.get(key)
        if number is None:
            row = self._connection.execute("SELECT url FROM keys WHERE key = ?", (key,)).fetchone()
            number = None if row is None else row[0]
        return number

    def add(self, numbers: Mapping[int, int]) -> None:
        """Add the keys of urls that were just inserted: key -> number, counting on from `next_number`."""
        self._gathered.update(numbers)
        self.next_number += len(numbers)
        if len(self._gathered) >= min(max(_MIN_GATHERED, self.next_number // _GATHERED_SHARE), _MAX_GATHERED):
            rows = sorted(self._gathered.items())
            self._connection.executemany("INSERT INTO keys VALUES (?, ?)", rows)
            self._sum += sum(checksum(*row) for row in rows)
            write_value(self._connection, "keyed", (self.next_number - 1, self._sum))
            self._gathered.clear()


class JobConnection(sqlite3.Connection):
    """A connection to a job's file."""

    @cached_property
    def keys(self) -> UrlKeys:
        return UrlKeys(self)

    @cached_property
    def packer(self) -> BodyPacker:
        return BodyPacker(self)

    def damage(self, what: str) -> ConfigError:
        _number, _schema, path = self.execute("PRAGMA database_list").fetchone()
        return refusal(Path(path), f"is damaged ({what})")


def read_value(connection: JobConnection, name: str, default: Any = None) -> Any:
    row = connection.execute("SELECT value, crc FROM job WHERE name = ?", (name,)).fetchone()
    if row is None:
        return default
    if checksum(name, row[0]) != row[1]:
        raise connection.damage(f"the checksum of its value {name!r} is wrong")
    return json.loads(row[0])


def write_value(connection: JobConnection, name: str, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    connection.execute("INSERT OR REPLACE INTO job VALUES (?, ?, ?)", (name, text, checksum(name, text)))


JOB_FILE: Final = "crawl.sqlite"
LOCK_FILE: Final = "crawl.lock"


def lock_folder(folder: Path, cure: str = "wait for its end, or name another") -> FileLock:
    """Lock the folder until the lock is released. Raises JobBusy where another crawl holds it."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0.3)  # is_locked holds the lock for a moment
    except Timeout:
        raise JobBusy(f"JOBDIR={folder}: another crawl is running in it; {cure}") from None
    except OSError as error:
        raise ConfigError(f"JOBDIR={folder} cannot be written: {error.strerror or error}") from error
    return lock


def is_locked(folder: Path, name: str = LOCK_FILE) -> bool | None:
    """Tell whether a crawl (or who locks `name`) has the folder now; None where the lock is another user's."""
    if not (folder / name).exists():
        return False
    try:
        with FileLock(folder / name, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return None


_HEADER = b"SQLite format 3\0"
_Stamp = tuple[tuple[int, ...], ...]
_WHOLE_CHECK_BYTES = 200 * 2**20  # a second or two; of a larger file only its rows are looked at
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


def check_job_file(path: Path, *, is_whole: bool = False) -> None:
    """Raise ConfigError for a file that is damaged, of another program, or of another version. Changes nothing.

    `is_whole` skips the search for damage, which then shows when it is read. A damaged body is fetched again.
    """
    if not path.exists() or path.stat().st_size == 0:
        if log_of(path).exists() and log_of(path).stat().st_size:
            raise refusal(path, "is damaged (only its log is left)")
        return
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise refusal(path, "is not a job file of llmcrawler")
        with closing(_connect_to_read(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            is_blank = _is_blank(connection) and application == version == 0
            if application != APPLICATION_ID and not is_blank:
                raise refusal(path, "is a database of another program, or of llmcrawler before 0.1.0")
            if version != SCHEMA_VERSION and not is_blank:
                reads = f"this release of llmcrawler reads format {SCHEMA_VERSION}"
                raise refusal(path, f"has format {version}, and {reads}")
            damage = "" if is_whole else _damage(path, _stamp(path))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the second in the text of the first
        raise refusal(path, f"is damaged or cannot be read ({error})") from error
    except OSError as error:
        raise refusal(path, f"cannot be read ({error.strerror or error})") from error
    if damage:
        raise refusal(path, f"is damaged ({damage})")


def open_job_file(path: Path) -> JobConnection:
    """Open or create a job's file, for one thread at a time. Raises ConfigError, as `check_job_file` does."""
    check_job_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = JobConnection(path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            connection.execute("PRAGMA cache_size = -8192")
            if connection.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
                # In one transaction: whatever ends the process, the file is blank or whole.
                pragmas = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} {pragmas} COMMIT;")
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise refusal(
            path, f"cannot be written ({error})", "name a JOBDIR in a folder that you can write to"
        ) from error
    return connection


def holds_job(path: Path) -> bool:
    """Tell whether the file has a job in it. Raises ConfigError as `check_job_file` does."""
    check_job_file(path, is_whole=True)
    if not path.exists() or path.stat().st_size == 0:
        return False
    with closing(_connect_to_read(path)) as connection:
        return not _is_blank(connection)


def read_job_file(path: Path) -> JobConnection:
    """Open a job's file for reading, also while a crawl is running. Raises ConfigError where there is none."""
    if not holds_job(path):
        raise ConfigError(f"{path}: no such file: no crawl with this JOBDIR has been started")
    return _connect_to_read(path)


def count_duplicates(connection: JobConnection) -> int:
    """Count the pages with a line that repeat another one."""
    query = (
        "SELECT count(*) FROM pages INDEXED BY ends WHERE seq IS NOT NULL AND error_stage IS NULL "
        "AND error_kind IS NULL AND page_type = ?"
    )
    return int(connection.execute(query, (DUPLICATE,)).fetchone()[0])


def refusal(path: Path, what: str, cure: str = "") -> ConfigError:
    cure = cure or (
        f"it is left as it is: {recovery_of(path.parent)} saves what can be read of a damaged job; or name another "
        "JOBDIR, or remove the file to start anew"
    )
    return ConfigError(f"JOBDIR: {path} {what}; {cure}")


def recovery_of(folder: Path) -> str:
    """Return the command that recovers a job."""
    return f"scrapy recover {shlex.quote(str(folder))}"


def _connect_to_read(path: Path) -> JobConnection:
    # SQLite needs a second file to read a WAL database. Where that neither exists nor can be made, as in a folder of
    # another user or on a read-only disk, nobody writes, so the database is opened as immutable.
    is_alone = not os.access(path.parent, os.W_OK) and not log_of(path).exists()
    return JobConnection(f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' * is_alone}", uri=True)


def _is_blank(connection: sqlite3.Connection) -> bool:
    """Tell whether the process that made the file was ended before its tables were in it."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,))


@lru_cache(maxsize=1)
def _damage(path: Path, stamp: _Stamp) -> str:  # noqa: ARG001 - what the verdict holds for
    """Return what is damaged of a file, "" for nothing, cached for its state: a crawl asks before it starts and when it
    opens it.
    """
    with closing(_connect_to_read(path)) as connection:
        part = "urls" if path.stat().st_size > _WHOLE_CHECK_BYTES else 1
        (verdict,) = connection.execute(f"PRAGMA integrity_check({part})").fetchone()
        if verdict != "ok":
            return " ".join(str(verdict).split())
        log, index = (path.with_name(f"{path.name}-{name}") for name in ("wal", "shm"))
        if log.exists() and index.exists():  # SQLite takes the first wrong checksum for the end of the log
            last = int.from_bytes(index.read_bytes()[16:20], sys.byteorder)
            if any(place > last for place, _number, _page in committed_pages(log.read_bytes())[-1:]):
                return "its log has pages that are not as they were written"
        tables = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if any(sql not in _TABLES for (sql,) in tables):
            return "its tables are not those that were made"
        conditions = whole_rows(connection)
        for table, whole in conditions.items():
            if connection.execute(f"SELECT 1 FROM {table} WHERE NOT ({whole})").fetchone():  # noqa: S608 - a name of ours
                return f"a row of the table {table} is not as it was written"
        rules = _RULES if conditions else {}
        return next((what for what, query in rules.items() if connection.execute(query).fetchone()), "")


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def committed_pages(log: bytes) -> list[tuple[int, int, bytes]]:
    """Return the frames of SQLite's write-ahead log (sqlite.org/walformat.html) up to its last commit: the place in the
    log, the number and the content of a page.
    """
    places = range(32, len(log) - PAGE_BYTES - 23, PAGE_BYTES + 24)
    salts = [log[at + 8 : at + 16] for at in places]  # pages of before, which are left behind these, have another salt
    salt = log[16:24] if log[16:24] in salts else next((one for one in salts if salts.count(one) > 1), b"")
    frames = [(place, log[at : at + PAGE_BYTES + 24]) for place, at in enumerate(places, 1) if salts[place - 1] == salt]
    while frames and frames[-1][1][4:8] == bytes(4):  # it was not committed
        frames.pop()
    return [(place, int.from_bytes(frame[:4]), frame[24:]) for place, frame in frames]


def _stamp(path: Path) -> _Stamp:
    """Return a value that changes with the file and with the log beside it."""
    stats = [file.stat() for file in (path, log_of(path)) if file.exists()]
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


_MAX_KEPT = 60  # runs: two months of nights, some 3 MB at most


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of one run, the `number`-th of its job. Moments are seconds since 1970; `reason` is Scrapy's
    finish_reason, None where no end was noted; `figures` are stats by name; `timeline` is Timeline.as_json.
    """

    number: int
    started: float
    ended: float
    reason: str | None
    figures: Mapping[str, Any]
    timeline: Mapping[str, Any]


def write_run(connection: JobConnection, run: Run) -> None:
    """Write a run in place of its earlier figures, and drop the oldest runs."""
    figures, timeline = (json.dumps(value, separators=(",", ":")) for value in (run.figures, run.timeline))
    row = (run.number, run.reason, figures, timeline)
    query = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, (*row, checksum(*row), run.started, run.ended))
    connection.execute("DELETE FROM runs WHERE number <= ?", (run.number - _MAX_KEPT,))


def read_runs(connection: JobConnection) -> list[Run]:
    """Return the runs that are kept, oldest first."""
    rows = connection.execute("SELECT number, started, ended, reason, figures, timeline FROM runs ORDER BY number")
    return [
        Run(number, started, ended, reason, json.loads(figures), json.loads(timeline))
        for number, started, ended, reason, figures, timeline in rows
    ]
