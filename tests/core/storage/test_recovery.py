"""What is saved of a damaged job, and how damage is told."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from llmcrawler.core.reporting.html import make_report
from llmcrawler.core.storage.body_packer import pack
from llmcrawler.core.storage.job_file import JOB_FILE, check_job_file, checksum, open_job_file
from llmcrawler.core.storage.job_status import job_status, open_snapshot
from llmcrawler.core.storage.ledger import read_lines
from llmcrawler.core.storage.recovery import recover
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import BUSY, FINE, GONE, PAGES, QUEUED, STARTED, make_job


@pytest.fixture
async def job(tmp_path):
    return await make_job(tmp_path / "job")


def change(job, statement, *values):
    with closing(sqlite3.connect(job / JOB_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement, values)


def overwrite(job, start, end):
    with (job / JOB_FILE).open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * (end - start))


def urls_of(job):
    """The urls that have a line, in the feed's order, and the state of each url."""
    with open_snapshot(job) as connection:
        lines = [line["url"] for _seq, line in read_lines(connection, 0, 2**62, 1000)]
        return lines, dict(connection.execute("SELECT url, state FROM urls"))


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
        ("bodies", "headers", "{"),
        ("job", "value", "["),
    ],
)
async def test_a_wrong_value_is_told_before_a_crawl_and_cured(job, table, column, value):
    lines, states = urls_of(job)
    change(
        job, f"UPDATE {table} SET {column} = ? WHERE rowid = 1" if table != "job" else "UPDATE job SET value = ?", value
    )
    with pytest.raises(ConfigError, match=f"is damaged.*scrapy recover {job} saves"):
        check_job_file(job / JOB_FILE)
    recovered = recover(job)
    check_job_file(job / JOB_FILE)
    now, states_now = urls_of(job)
    assert states_now.keys() == states.keys()
    assert {*now} == {*lines} - {*recovered.gone}
    assert {url for url, state in states_now.items() if state == 0} == {QUEUED, *recovered.gone}
    assert len(recovered.gone) == (table == "pages")


async def test_a_line_that_fails_its_checksum_is_not_believed(job):
    change(job, "UPDATE pages SET line = ? WHERE url = 1", pack('{"kind": "page", "url": "https://a.example/made-up"}'))
    with pytest.raises(ConfigError, match="scrapy recover"):
        make_report(job, 100, "0", STARTED)
    assert recover(job).gone == (FINE.url,)
    lines, states = urls_of(job)
    assert lines == [page.url for page in PAGES[1:]]
    assert states[FINE.url] == 0
    assert job_status(job, STARTED).state == "interrupted"


async def test_where_the_first_pages_of_the_file_are_gone_the_rows_are_saved(job):
    before = urls_of(job)
    overwrite(job, 0, 4096)
    assert recover(job).lines == len(PAGES)
    assert urls_of(job) == before
    assert job_status(job, STARTED).state == "finished"


async def test_what_was_in_the_log_of_a_killed_crawl_is_saved(job, tmp_path):
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(open_job_file(job / JOB_FILE)) as connection:
        connection.execute("UPDATE urls SET attempts = 1")  # the first frames of the log
        connection.execute("UPDATE urls SET attempts = 2")
        for path in job.iterdir():
            shutil.copy(path, killed)
    log = bytearray((killed / f"{JOB_FILE}-wal").read_bytes())
    log[100] ^= 1
    (killed / f"{JOB_FILE}-wal").write_bytes(log)
    with pytest.raises(ConfigError, match="its log has pages that are not as they were written"):
        check_job_file(killed / JOB_FILE)
    recovered = recover(killed)
    assert {path.name.partition(".damaged")[0] for path in recovered.kept} == {JOB_FILE}
    with open_snapshot(killed) as connection:
        assert connection.execute("SELECT DISTINCT attempts FROM urls").fetchall() == [(2,)]


async def test_urls_lost_from_the_queue_are_found_again_through_the_links_of_all_pages(job):
    linked = (50, "https://a.example/linked", 1, 1, 1)
    query = "INSERT INTO urls (id, url, host, depth, referer, crc) VALUES (?, ?, ?, ?, ?, ?)"
    change(job, query, *linked, checksum(*linked))
    change(job, "UPDATE urls SET crc = 0 WHERE url = ?", QUEUED)
    recovered = recover(job)
    assert recovered.is_repeated
    lines, states = urls_of(job)
    assert lines == [GONE.url, BUSY.url]
    assert QUEUED not in states
    assert {url for url, state in states.items() if state == 0} >= {
        page.url for page in PAGES if page not in (GONE, BUSY)
    }


async def test_damaged_templates_are_set_aside_and_learned_again(job):
    (job / "templates.json").write_text("{")
    recovered = recover(job)
    assert [path.name.partition(".damaged")[0] for path in recovered.kept] == [JOB_FILE, "templates.json"]
    assert not (job / "templates.json").exists()


async def test_where_nothing_can_be_read_a_new_job_is_left(job):
    (job / JOB_FILE).write_bytes(b"\xa5" * 50_000)
    assert recover(job).lines == 0
    assert urls_of(job) == ([], {})


def test_where_there_is_no_job_nothing_is_made(tmp_path):
    with pytest.raises(ConfigError, match="no crawl with this JOBDIR"):
        recover(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
