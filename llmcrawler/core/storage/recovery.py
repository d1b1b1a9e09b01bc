"""Saves what can be read of a damaged job into a new file, and queues again what is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.core.storage.body_packer import unpack
from llmcrawler.core.storage.job_file import (
    JOB_FILE,
    LOST_REQUESTS,
    PAGE_BYTES,
    JobConnection,
    State,
    check_job_file,
    checksum,
    committed_pages,
    lock_folder,
    log_of,
    open_job_file,
    read_value,
    refusal,
    whole_rows,
    write_value,
)
from llmcrawler.core.storage.ledger import return_to_queue
from llmcrawler.core.storage.templates_file import TemplatesFile
from llmcrawler.errors import ConfigError

_OF_URLS: Final = ("pages", "bodies", "stages", "tasks", "found", "marks", "exchanges")  # tables, by the urls' numbers
_MAX_TRIES: Final = 100  # for each page of the file


@dataclass(frozen=True, slots=True)
class Recovered:
    """What of a job was saved: `lines`; `gone` are urls that are queued because their lines are lost. `is_repeated`:
    urls are lost, so all pages are gone through again for their links. `kept`: the damaged files. `spider` and `given`
    are those of the crawl that has to be run next, None where they are lost.
    """

    lines: int
    gone: tuple[str, ...]
    is_repeated: bool
    kept: tuple[Path, ...]
    spider: str | None
    given: Mapping[str, str] | None


def recover(folder: Path) -> Recovered:
    """Put a new file in the place of a job's damaged one, which is kept beside it. Raises ConfigError where there is no
    job, a crawl is running in it, or the disk does not let it.
    """
    path = folder / JOB_FILE
    if not path.is_file() and not log_of(path).is_file():
        raise ConfigError(f"{path}: there is no such file: no crawl with this JOBDIR has been started")
    with lock_folder(folder, "stop it, or wait for its end"):
        try:
            path.touch()
            with TemporaryDirectory(dir=folder, prefix=".recover-") as work:
                return _recover(path, Path(work))
        except (OSError, sqlite3.Error) as error:
            raise refusal(path, f"cannot be recovered ({error})", "it is left as it is") from error


def _recover(path: Path, work: Path) -> Recovered:
    old, new = work / "old", work / JOB_FILE
    open_job_file(new).close()
    blank = new.read_bytes()
    with closing(open_job_file(new)) as connection:
        _write_readable(path, old, connection, blank)
        connection.execute("BEGIN")
        with closing(sqlite3.connect(old)) as source:
            source.execute("PRAGMA cell_size_check = ON")
            counts = {
                table: _copy(source, connection, table, whole)
                for table, whole in whole_rows(source).items()
                if table != "keys"  # which are made again
            }
        connection.execute("DELETE FROM job WHERE name = 'keyed'")
        has_lost = _mend_urls(connection, counts)
        gone, is_repeated = _queue(connection, has_lost=has_lost)
        kept = _set_aside_templates(path)
        if kept:
            write_value(connection, "learned_seq", 0)  # what is learned gets other names
        if gone or has_lost or kept:
            write_value(connection, "state", "interrupted")
            write_value(connection, "reason", "recovered")
        (lines,) = connection.execute("SELECT count(line) FROM pages WHERE seq IS NOT NULL").fetchone()
        spider, given = read_value(connection, "spider"), read_value(connection, "given")
        connection.execute("COMMIT")
    check_job_file(new)
    aside = _aside(path)
    shutil.copyfile(path, aside)
    if log_of(path).exists():
        log_of(path).replace(log_of(aside))
    new.replace(path)
    return Recovered(lines, gone, is_repeated, (aside, *kept), spider, given)


def _write_readable(path: Path, old: Path, new: JobConnection, blank: bytes) -> None:
    """Copy a job's file with what its log has. The pages that say where the tables begin are those of a blank job: they
    are the same in every job.
    """
    shutil.copyfile(path, old)
    log = log_of(path).read_bytes() if log_of(path).exists() else b""
    most = max(len(blank), old.stat().st_size + len(log)) // PAGE_BYTES
    pages = {number: page for _place, number, page in committed_pages(log)}
    roots = {root for (root,) in new.execute("SELECT rootpage FROM sqlite_master")}
    for number in {*range(1, len(blank) // PAGE_BYTES + 1)} - roots:
        pages[number] = blank[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]
    with old.open("r+b") as file:
        for number, page in pages.items():
            if 0 < number <= most:
                file.seek((number - 1) * PAGE_BYTES)
                file.write(page)
        count = max(file.seek(0, SEEK_END), len(blank)) // PAGE_BYTES
        file.truncate(count * PAGE_BYTES)
        file.seek(28)  # the place of the count of pages
        file.write(count.to_bytes(4, "big"))


def _copy(source: sqlite3.Connection, target: JobConnection, table: str, whole: str) -> int:
    """Copy the rows of a table that are whole, as far as they can be read. Return how many rows there were, -1 where
    that cannot be told.
    """
    columns = source.execute(f"PRAGMA table_info({table})").fetchall()
    rows = f"SELECT * FROM {table} WHERE {whole}"  # noqa: S608 - names of ours
    insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - likewise
    ranges = [(1 << n, (2 << n) - 1) for n in reversed(range(40))]  # the lowest at the end
    if table in ("job", "feeds"):  # small, and without numbers
        with suppress(sqlite3.DatabaseError):
            target.executemany(insert, source.execute(rows))
        ranges = []
    # Behind the last row that can be read any range may meet damage.
    tries = _MAX_TRIES * source.execute("PRAGMA page_count").fetchone()[0]
    while ranges and tries:
        tries -= 1
        low, high = ranges.pop()
        try:
            target.executemany(insert, source.execute(f"{rows} AND {columns[0][1]} BETWEEN ? AND ?", (low, high)))
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                raise
            if low < high:  # it holds a damaged page or row: look for it in each half
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
    with suppress(sqlite3.DatabaseError):  # rows may be lost without an error when the others are read
        if source.execute(f"PRAGMA quick_check({table})").fetchone() == ("ok",):
            return int(source.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - a name of ours
    return -1


def _mend_urls(connection: JobConnection, counts: Mapping[str, int]) -> bool:
    """Make the urls whole again from what else is known of them; tell whether any are lost. `counts`: of the rows that
    the tables had.
    """
    query = "SELECT (SELECT count(*) FROM pages), EXISTS (SELECT 1 FROM urls WHERE state IN (0, 1))"
    is_complete = read_value(connection, "state") == "finished" and (
        connection.execute(query).fetchone() == (counts["pages"], 0)  # all urls have lines
    )
    (tasks,) = connection.execute("SELECT count(*) FROM tasks").fetchone()
    tasks += connection.execute(f"DELETE FROM urls WHERE id IN ({LOST_REQUESTS})").rowcount  # noqa: S608 - a constant
    connection.execute('UPDATE urls SET "group" = 0 WHERE "group" NOT IN (SELECT id FROM groups)')
    hosts = "SELECT host, min(url) FROM urls WHERE host != 0 AND host NOT IN (SELECT id FROM hosts) GROUP BY host"
    for number, url in connection.execute(hosts).fetchall():
        host = urlsplit(url).netloc
        for name in (host, f"{host} {number}"):  # the second where the first is that of another number
            connection.execute("INSERT OR IGNORE INTO hosts VALUES (?, ?)", (number, name))
    # Numbers of referers that are lost must not be given to others.
    connection.execute("INSERT OR IGNORE INTO referers SELECT max(referer), '' FROM urls WHERE referer > 0")
    lines = (
        "SELECT url, line FROM pages WHERE seq IS NOT NULL AND line IS NOT NULL AND url NOT IN (SELECT id FROM urls)"
    )
    # The url of a task says more than its line does.
    for number, packed in [] if tasks else connection.execute(lines).fetchall():
        line = json.loads(unpack(packed))
        host = urlsplit(line["url"]).netloc
        connection.execute("INSERT OR IGNORE INTO hosts (name) VALUES (?)", (host,))
        (host_id,) = connection.execute("SELECT id FROM hosts WHERE name = ?", (host,)).fetchone()
        referer = None if line.get("referer") is None else 0  # which has no name
        row = (number, line["url"], host_id, line.get("depth", 0), referer)
        state = State.DEAD if (line.get("error") or {}).get("stage") == "fetch" else State.DONE
        query = "INSERT INTO urls (id, url, host, depth, referer, crc, state) VALUES (?, ?, ?, ?, ?, ?, ?)"
        connection.execute(query, (*row, checksum(*row), state))
    (count, last) = connection.execute("SELECT count(*), coalesce(max(id), 0) FROM urls").fetchone()
    for table in _OF_URLS:
        connection.execute(f"DELETE FROM {table} WHERE url NOT IN (SELECT id FROM urls)")  # noqa: S608 - names of ours
    return not (count == last == counts["urls"] or (is_complete and tasks == 0))


def _queue(connection: JobConnection, *, has_lost: bool) -> tuple[tuple[str, ...], bool]:
    """Make the states of urls fit their lines. Return the urls that are queued because their lines are lost, and
    whether all pages are, since they may link to urls that are lost.
    """
    connection.execute("UPDATE urls SET state = iif(host = 0, 4, 0) WHERE (state = 4) != (host = 0)")  # 4: State.SEEN
    connection.execute("UPDATE pages SET seq = NULL WHERE seq < 1")
    ended = "(SELECT url FROM pages WHERE seq IS NOT NULL)"
    connection.execute(f"UPDATE urls SET state = 2 WHERE state NOT IN (2, 3) AND id IN {ended}")  # noqa: S608 - a constant
    query = f"SELECT id, url FROM urls WHERE state IN (2, 3) AND id NOT IN {ended}"  # noqa: S608 - a constant
    gone = dict(connection.execute(query).fetchall())
    connection.executemany("DELETE FROM stages WHERE url = ?", [(number,) for number in gone])
    follows = "EXISTS (SELECT 1 FROM urls WHERE referer IS NOT NULL AND state != 4)"
    query = f"SELECT id FROM urls WHERE state = 2 AND {follows}"  # noqa: S608 - a constant
    again = [number for (number,) in connection.execute(query)] if has_lost else []
    return_to_queue(connection, [*{*gone, *again}])
    return tuple(gone.values()), bool(again)


def _set_aside_templates(job: Path) -> tuple[Path, ...]:
    """Set the job's file of learned templates aside where it is damaged, and return its new path."""
    path = job.with_name("templates.json")
    try:
        for site in TemplatesFile(path, "JOBDIR").load().values():
            site.state()
    except (ConfigError, ValueError):
        return (path.replace(_aside(path)),)
    return ()


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged-{time.time():.0f}")
