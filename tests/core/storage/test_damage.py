"""How damage of a job is told."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from llmcrawler.core.reporting.html import make_report
from llmcrawler.core.storage import job_file
from llmcrawler.core.storage.body_packer import pack
from llmcrawler.core.storage.job_file import JOB_FILE, check_job_file, open_job_file
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import QUEUED, STARTED, make_job


@pytest.fixture
async def job(tmp_path):
    return await make_job(tmp_path / "job")


def change(job, statement, *values):
    with closing(sqlite3.connect(job / JOB_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        return connection.execute(statement, values).fetchall()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("urls", "state", 99),
        ("urls", "state", 0),
        ("urls", "url", "https://a.example/wrong"),
        ("urls", "host", 77),
        ("pages", "line", None),
        ("pages", "line", pack("{}")),
        ("pages", "url", 3000),
        ("pages", "seq", None),
        ("pages", "seq", 0),
        ("bodies", "headers", "{"),
        ("job", "value", "["),
    ],
)
async def test_a_wrong_value_is_told_before_a_crawl(job, table, column, value):
    statement = f"UPDATE {table} SET {column} = ? WHERE rowid = 1" if table != "job" else "UPDATE job SET value = ?"
    change(job, statement, value)
    with pytest.raises(ConfigError, match=r"is damaged.*name another JOBDIR"):
        check_job_file(job / JOB_FILE)


async def test_a_line_that_fails_its_checksum_is_not_believed(job):
    change(job, "UPDATE pages SET line = ? WHERE url = 1", pack('{"kind": "page", "url": "https://a.example/made-up"}'))
    with pytest.raises(ConfigError, match="the checksum of line 1 is wrong"):
        make_report(job, 100, "0", STARTED)


@pytest.mark.parametrize(("start", "damage"), [(0, bytes(32)), (100, b"\xa5")])
async def test_a_damaged_log_of_a_killed_crawl_is_told(job, tmp_path, start, damage):
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(open_job_file(job / JOB_FILE)) as connection:
        connection.execute("UPDATE urls SET attempts = 1")  # the first frames of the log
        connection.execute("UPDATE urls SET attempts = 2")
        for path in job.iterdir():
            shutil.copy(path, killed)
    log = bytearray((killed / f"{JOB_FILE}-wal").read_bytes())
    log[start : start + len(damage)] = damage
    (killed / f"{JOB_FILE}-wal").write_bytes(log)
    with pytest.raises(ConfigError, match="its log has pages that are not as they were written"):
        check_job_file(killed / JOB_FILE)


async def test_a_queued_url_that_looks_like_the_target_of_a_redirect_is_told(job):
    change(job, "UPDATE urls SET state = 4 WHERE url = ?", QUEUED)
    with pytest.raises(ConfigError, match="the state of a url does not fit its host"):
        check_job_file(job / JOB_FILE)


@pytest.mark.parametrize("statement", ["UPDATE keys SET url = url + 1", "UPDATE keys SET key = 1", "DELETE FROM keys"])
async def test_keys_that_would_lead_to_other_urls_are_told(tmp_path, monkeypatch, statement):
    monkeypatch.setattr(job_file, "_MIN_GATHERED", 3)
    job = await make_job(tmp_path / "job")
    change(job, f"{statement} WHERE url = 2")
    with pytest.raises(ConfigError, match="a key of a url is lost"):
        check_job_file(job / JOB_FILE)


async def test_columns_with_other_names_are_told(job):
    with closing(sqlite3.connect(job / JOB_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'seconds', 'secands') WHERE name = 'stages'")
    with pytest.raises(ConfigError, match="its tables are not those that were made"):
        check_job_file(job / JOB_FILE)


async def test_errors_of_sqlite_that_are_no_text_are_told(job):
    file = job / JOB_FILE
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE found", b"CREATE TABLE \xff\xff\xff\xff\xff"))
    with pytest.raises(ConfigError, match="is damaged or cannot be read"):
        check_job_file(file)


async def test_a_job_of_which_only_the_log_is_left_is_not_begun_anew(job, tmp_path):
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(open_job_file(job / JOB_FILE)) as connection:
        for columns in ("job SET crc = crc", "hosts SET id = id", "urls SET id = id", "pages SET url = url"):
            connection.execute(f"UPDATE {columns}")
        shutil.copy(job / f"{JOB_FILE}-wal", killed)
    with pytest.raises(ConfigError, match="only its log is left"):
        check_job_file(killed / JOB_FILE)
    (killed / JOB_FILE).touch()
    with pytest.raises(ConfigError, match="only its log is left"):
        open_job_file(killed / JOB_FILE)
