"""A job's file, and the thread that works on it."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from llmcrawler.core.storage import Database, check_job_file, open_job_file, read_job_file
from llmcrawler.core.storage.job_file import (
    SCHEMA_VERSION,
    JobConnection,
    Run,
    holds_job,
    read_runs,
    read_value,
    write_run,
    write_value,
)
from llmcrawler.errors import ConfigError, StorageFailed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job" / "crawl.sqlite"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    database = Database(open_job_file(path), path)
    yield database
    await database.close()


def seen_by_another_process(path: Path, name: str) -> object:
    with closing(read_job_file(path)) as connection:
        return read_value(connection, name)


async def test_work_is_done_in_the_order_in_which_it_was_asked_for(database):
    for n in range(300):
        database.post(lambda connection, n=n: write_value(connection, "n", [*read_value(connection, "n", []), n]))
    assert await database.run(lambda connection: read_value(connection, "n")) == list(range(300))


async def test_what_was_waited_for_is_committed_with_all_that_was_queued_before_it(database, path):
    await database.run(lambda connection: write_value(connection, "awaited", 0))
    assert seen_by_another_process(path, "awaited") == 0
    database.post(lambda connection: time.sleep(0.1))
    database.post(lambda connection: write_value(connection, "a", 1))
    database.post_and_wait(lambda connection: write_value(connection, "b", 2))
    assert (seen_by_another_process(path, "a"), seen_by_another_process(path, "b")) == (1, 2)


async def test_waiting_for_work_that_fails_ends_and_the_file_is_told_as_failed(database):
    def fail(connection: JobConnection) -> None:
        raise KeyError("mine")

    database.post_and_wait(fail)
    database.post_and_wait(lambda connection: None)
    assert isinstance(database.failure, StorageFailed)


async def test_work_is_gathered_while_several_wait_and_done_at_once_where_one_does(database, monkeypatch):
    began: list[str] = []

    def note(connection: JobConnection) -> None:
        connection.set_trace_callback(lambda statement: began.append(statement) if "BEGIN" in statement else None)

    def nothing(connection: JobConnection) -> None:
        pass

    monkeypatch.setattr("llmcrawler.core.storage.database._BUSY_SECONDS", 1e9)
    monkeypatch.setattr("llmcrawler.core.storage.database._GATHER_SECONDS", 1e9)
    await database.run(note)
    for _ in range(3):
        database.post(nothing)
        await database.run(nothing)
    assert len(began) == 3
    waiting = [asyncio.ensure_future(database.run(nothing)) for _ in range(5)]
    await asyncio.wait(waiting[:1])  # it came alone
    assert len(began) == 4
    assert not any(one.done() for one in waiting[1:])
    database.post_and_wait(nothing)
    await asyncio.gather(*waiting)
    assert len(began) == 5


async def test_work_that_fails_leaves_nothing_and_harms_no_other(database):
    def fail(connection: JobConnection) -> None:
        write_value(connection, "bad", 1)
        raise KeyError("mine")

    results = await asyncio.gather(
        database.run(lambda connection: write_value(connection, "before", 1)),
        database.run(fail),
        database.run(lambda connection: write_value(connection, "after", 1)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), KeyError, type(None)]
    names = await database.run(lambda connection: connection.execute("SELECT name FROM job").fetchall())
    assert {*names} == {("before",), ("after",)}


async def test_closing_does_what_was_asked_for_and_later_work_is_refused(path):
    database = Database(open_job_file(path), path)
    database.post(lambda connection: write_value(connection, "last", 1))
    await database.close()
    assert seen_by_another_process(path, "last") == 1
    database.post(lambda connection: write_value(connection, "too late", 1))
    with pytest.raises(StorageFailed, match="closed"):
        await database.run(lambda connection: None)
    assert seen_by_another_process(path, "too late") is None


async def test_a_full_disk_is_told_once_and_what_was_committed_stays(path):
    connection = open_job_file(path)
    failures: list[StorageFailed] = []
    database = Database(connection, path, on_failure=failures.append)
    await database.run(lambda connection: write_value(connection, "kept", 1))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    for n in range(3):
        with pytest.raises(StorageFailed, match=r"crawl\.sqlite cannot be written: database or disk is full"):
            await database.run(partial(write_value, name=f"large{n}", value="x" * 100_000))
    with pytest.raises(StorageFailed):
        await database.run(lambda connection: write_value(connection, "small", 1))
    await database.close()
    assert len(failures) == 1
    assert seen_by_another_process(path, "kept") == 1
    assert seen_by_another_process(path, "small") is None


async def test_every_commit_is_written_to_the_disk_when_nothing_may_be_lost(path):
    database = Database(open_job_file(path), path, sync_seconds=0)
    await database.run(lambda connection: None)
    (mode,) = await database.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone())
    assert mode == 2  # FULL
    await database.close()


async def test_what_was_committed_is_written_to_the_disk_soon_even_when_nothing_more_comes(path):
    database = Database(open_job_file(path), path, sync_seconds=0.05)
    for n in range(2):  # the first commit is always synced, and the second follows too soon
        await database.run(partial(write_value, name="n", value=n))
    for _ in range(500):
        if seen_by_another_process(path, "synced") is not None:
            break
        await asyncio.sleep(0.02)
    assert seen_by_another_process(path, "synced") is not None
    await database.close()


def _foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")
        connection.commit()


def _of(pragma: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with closing(open_job_file(path)) as connection:
            connection.execute(f"PRAGMA {pragma}")

    return make


def _filled(path: Path) -> None:
    with closing(open_job_file(path)) as connection:
        for n in range(200):
            write_value(connection, f"name {n}", "x" * 500)


def _damaged(path: Path) -> None:
    if not path.exists():
        _filled(path)
    data = bytearray(path.read_bytes())
    data[5000:60000] = b"\x5a" * 55000
    path.write_bytes(data)


def _cut_off(path: Path) -> None:
    open_job_file(path).close()
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("my notes, not to be lost, not to be lost"), "is not a job file of llmcrawler"),
        (_foreign_database, "is a database of another program"),
        (_of(f"user_version = {SCHEMA_VERSION + 1}"), f"has format {SCHEMA_VERSION + 1}, and .* reads format 1;"),
        (_of(f"application_id = {0x6C6C6D63}"), "or of llmcrawler before 0.1.0"),
        (_damaged, "is damaged"),
        (_cut_off, "is damaged"),
    ],
)
def test_a_file_that_is_not_ours_or_damaged_is_refused_and_left_as_it_is(tmp_path, make, reason):
    path = tmp_path / "crawl.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=reason) as refusal:
        open_job_file(path)
    assert str(path) in str(refusal.value)
    assert f"it is left as it is: scrapy recover {tmp_path} saves" in str(refusal.value)
    assert path.read_bytes() == before


# Ends the process as `kill -9` does, with all tables made but not committed.
_KILLED_IN_BETWEEN = """
import os, signal, sys
from pathlib import Path
from llmcrawler.core.storage import open_job_file
from llmcrawler.core.storage.job_file import JobConnection

def executescript(self, script):
    before, commit, _ = script.rpartition("COMMIT;")
    assert commit
    super(JobConnection, self).executescript(before)
    os.kill(os.getpid(), signal.SIGKILL)

JobConnection.executescript = executescript
open_job_file(Path(sys.argv[1]))
"""


@pytest.mark.server
def test_a_process_killed_while_it_makes_the_tables_leaves_a_file_that_the_next_one_opens(path):
    path.parent.mkdir()
    path.touch()  # an empty file becomes a job
    killed = subprocess.run([sys.executable, "-c", _KILLED_IN_BETWEEN, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not holds_job(path)
    open_job_file(path).close()
    assert holds_job(path)
    with closing(read_job_file(path)) as connection:
        assert connection.execute("SELECT count(*) FROM urls").fetchone() == (0,)


def test_a_file_is_gone_through_once_for_as_long_as_nobody_changes_it(tmp_path):
    path = tmp_path / "crawl.sqlite"
    _filled(path)
    check_job_file(path)
    before = path.stat()
    _damaged(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    check_job_file(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(ConfigError, match="is damaged"):
        check_job_file(path)


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        open_job_file(tmp_path / "file" / "crawl.sqlite")


def test_the_last_word_on_a_run_stands_and_the_oldest_are_forgotten(tmp_path):
    run = Run(1, 100.0, 160.0, None, {"stats": {"llmcrawler/pages": 3}}, {"width_seconds": 1.0, "buckets": []})
    with closing(open_job_file(tmp_path / "crawl.sqlite")) as connection:
        write_run(connection, run)
        write_run(connection, replace(run, reason="finished"))
        assert read_runs(connection) == [replace(run, reason="finished")]
        for number in range(2, 100):
            write_run(connection, replace(run, number=number))
        assert [run.number for run in read_runs(connection)] == list(range(40, 100))
