"""Files of older versions: brought up to date when they are opened to be written to, and readable as they are."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from llmcrawler.core.storage import check_job_file, open_job_file, read_job_file
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.job_schema import SCHEMA_VERSION
from llmcrawler.core.storage.job_status import job_status
from llmcrawler.core.storage.ledger import read_lines, read_page
from tests.core.storage.old_jobs import URL, make_old_job

# Ends the process as `kill -9` does, with all of the migration done but its COMMIT.
_KILLED_IN_BETWEEN = """
import os, signal, sys
from pathlib import Path
from llmcrawler.core.storage import open_job_file
from llmcrawler.core.storage.keys import JobConnection

def executescript(self, script):
    before, commit, _ = script.rpartition("COMMIT;")
    assert commit
    super(JobConnection, self).executescript(before)
    os.kill(os.getpid(), signal.SIGKILL)

JobConnection.executescript = executescript
open_job_file(Path(sys.argv[1]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_old_job(tmp_path) / JOB_FILE


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def schema_of(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: "".join(sql.split()) for name, sql in rows}


def test_an_older_file_becomes_what_a_new_one_is_and_keeps_its_lines_and_bodies(path, tmp_path):
    open_job_file(tmp_path / "new.sqlite").close()
    with closing(open_job_file(path)) as connection:
        lines = [line for _seq, line in read_lines(connection, 0, 100, 100)]
        assert len(lines) == 4
        for line in lines:
            body = read_page(connection, line["url"]).body
            assert body is not None
            assert body.body is not None
            assert line["title"].encode() in body.body
        states = connection.execute("SELECT state, count(*) FROM urls GROUP BY state").fetchall()
        assert states == [(0, 2), (1, 6), (2, 4)]
    assert version_of(path) == SCHEMA_VERSION
    assert schema_of(path) == schema_of(tmp_path / "new.sqlite")
    open_job_file(path).close()


def test_an_older_file_can_be_read_as_it_is(path):
    before = path.read_bytes()
    check_job_file(path, with_content=True)
    status = job_status(path.parent, 0.0)
    assert status.urls == {"queued": 2, "leased": 6, "done": 4, "dead": 0, "seen": 0}
    with closing(read_job_file(path)) as connection:
        assert read_page(connection, URL).line is not None
    assert path.read_bytes() == before


@pytest.mark.server
def test_a_migration_that_is_killed_leaves_the_older_file_and_is_done_at_the_next_opening(path):
    killed = subprocess.run([sys.executable, "-c", _KILLED_IN_BETWEEN, str(path)], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert version_of(path) == 2
    assert "dictionaries" not in schema_of(path)
    open_job_file(path).close()
    assert version_of(path) == SCHEMA_VERSION
    assert "dictionaries" in schema_of(path)
