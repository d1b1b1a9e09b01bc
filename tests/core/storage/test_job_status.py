"""The status of a job as values, and as a DataFrame of the real pandas."""

import asyncio
import sqlite3
import sys
from contextlib import closing

import pandas as pd
import pytest
from filelock import FileLock

import llmcrawler
from llmcrawler.core.storage import open_job_file, write_value
from llmcrawler.core.storage.job_file import JOB_FILE, LOCK_FILE, lock_folder
from llmcrawler.core.storage.job_spec import JobSpec
from llmcrawler.core.storage.job_status import _ROWS_AT_ONCE, job_status
from llmcrawler.core.storage.ledger import STAGES
from llmcrawler.crawl.job import check_job
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import (
    ALL_WELL,
    CLASSIFY_FAILED,
    FINE,
    GONE,
    PAGES,
    QUEUED,
    STARTED,
    TARGET,
    Made,
    as_json,
    make_job,
    task,
    with_frontier,
)


@pytest.fixture
async def job(tmp_path):
    return await make_job(tmp_path / "job")


def test_it_counts_urls_stages_errors_and_page_types(job):
    status = job_status(job, STARTED + 10).as_dict()
    assert status["urls"] == {"queued": 1, "leased": 0, "done": 5, "dead": 2, "seen": 1}
    assert {stage: counts["statuses"] for stage, counts in status["stages"].items()} == {
        "fetch": {"failed": 2, "success": 5},
        "content": {"success": 4},
        "classify": {"failed": 1, "success": 3},
        "record": {"failed": 2, "skipped": 1, "success": 1},
        "own": {"success": 1},
    }
    assert list(status["stages"]) == ["fetch", "content", "classify", "record", "own"]
    assert status["stages"]["content"]["seconds"] == 2.0
    assert status["page_types"] == {"product": 2, "article": 1}
    assert {(one["stage"], one["kind"], one["pages"], one["url"], one["message"]) for one in status["errors"]} == {
        ("fetch", "http_404", 1, "https://a.example/gone", "so it is"),
        ("fetch", "http_503", 1, "https://b.example/busy", "so it is"),
        ("classify", "llm_failed", 1, "https://a.example/classify", "so it is"),
        ("content", "unreadable", 1, "https://a.example/unreadable", "so it is"),
    }
    assert status["hosts"] == [
        {"host": "a.example", "queued": 0, "leased": 0, "done": 3, "dead": 1},
        {"host": "b.example", "queued": 0, "leased": 0, "done": 2, "dead": 1},
        {"host": "c.example", "queued": 1, "leased": 0, "done": 0, "dead": 0},
    ]
    assert status["host_count"] == 3
    assert set(status["files"]) >= {JOB_FILE}
    assert status["files"][JOB_FILE] == (job / JOB_FILE).stat().st_size
    assert (status["spider"], status["arguments"]["max_pages"], status["runs"]) == ("explore", 500, 1)
    assert (status["first_line"], status["last_line"]) == (STARTED + 1, STARTED + 7)
    assert as_json(status) == status


async def test_errors_stand_in_the_order_of_their_number(tmp_path):
    kinds = ["dns", "timeout", "timeout", "http_500", "timeout", "dns"]
    pages = [Made(f"https://a.example/{n}", error=("fetch", kind)) for n, kind in enumerate(kinds)]
    status = job_status(await make_job(tmp_path, tuple(pages)), STARTED)
    assert [(error.kind, error.pages) for error in status.errors] == [("timeout", 3), ("dns", 2), ("http_500", 1)]


@pytest.mark.parametrize(
    ("noted", "is_locked", "state", "reason"),
    [
        ("running", True, "running", None),
        ("running", False, "interrupted", None),  # kill -9
        ("interrupted", False, "interrupted", "shutdown"),
        ("finished", False, "finished", "shutdown"),
        ("finished", True, "running", None),  # a crawl that begins
    ],
)
async def test_whether_a_crawl_is_running_is_told_by_the_lock(tmp_path, noted, is_locked, state, reason):
    job = await make_job(tmp_path / "job", state=noted, reason="shutdown")
    lock = FileLock(job / LOCK_FILE)
    if is_locked:
        lock.acquire()
    status = job_status(job, STARTED)
    lock.release()
    assert (status.state, status.reason) == (state, reason)


async def test_who_looks_is_in_no_crawls_way(job):
    job_status(job, STARTED)
    lock = lock_folder(job)
    assert lock.is_locked
    lock.release()


async def test_a_page_that_is_gone_through_again_is_on_its_way_in_a_running_crawl(job):
    async def look(frontier, _ledger):
        await frontier.lease(1, {}, 1)
        return job_status(job, STARTED)

    assert (await with_frontier(job, look)).urls["leased"] == 1


@pytest.fixture(scope="module")
def long_job(tmp_path_factory):
    many = tuple(Made(f"https://a.example/{n}") for n in range(600))
    return asyncio.run(make_job(tmp_path_factory.mktemp("long") / "job", many))


@pytest.mark.parametrize(
    ("run_started", "now", "is_running", "pages", "a_minute", "lately"),
    [
        (STARTED, STARTED + 1e6, False, 600, 60.0, 60.0),  # up to its end
        (STARTED, STARTED + 1200, True, 600, 30.0, 0.0),  # nothing came for ten minutes
        (STARTED, STARTED + 630, True, 600, 57.1, 30.0),
        (STARTED + 590, STARTED + 610, True, 10, 30.0, 30.0),  # the second run
        (STARTED + 700, STARTED + 710, True, 0, 0.0, 0.0),
        (STARTED + 700, STARTED + 710, False, 0, None, None),  # a run that came to nothing
    ],
)
def test_rates_are_of_the_latest_run_and_of_its_last_minute(
    long_job, *, run_started, now, is_running, pages, a_minute, lately
):
    with closing(open_job_file(long_job / JOB_FILE)) as connection:
        write_value(connection, "run_started", run_started)
    lock = FileLock(long_job / LOCK_FILE)
    if is_running:
        lock.acquire()
    rate = job_status(long_job, now).rate
    lock.release()
    assert (rate.pages, rate.pages_per_minute, rate.pages_per_minute_lately) == (pages, a_minute, lately)


async def test_only_the_hosts_with_the_most_urls_are_named(tmp_path):
    async def add(frontier, _ledger):
        await frontier.add([task(f"https://h{n}.example/") for n in range(150)])
        await frontier.add([task("https://h149.example/2")])

    await with_frontier(tmp_path, add)
    status = job_status(tmp_path, STARTED)
    assert (len(status.hosts), status.host_count) == (100, 150)
    assert (status.hosts[0].host, status.hosts[0].queued) == ("h149.example", 2)


async def test_a_job_file_whose_maker_was_ended_at_once_is_begun_anew(tmp_path):
    with closing(sqlite3.connect(tmp_path / JOB_FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # as it is before the tables are made
    with pytest.raises(ConfigError, match="no crawl with this JOBDIR"):
        job_status(tmp_path, STARTED)
    check_job(tmp_path, JobSpec("explore", {}))
    open_job_file(tmp_path / JOB_FILE).close()
    status = job_status(tmp_path, STARTED)
    assert status.urls == {"queued": 0, "leased": 0, "done": 0, "dead": 0, "seen": 0}
    assert (status.state, status.spider, status.last_line, status.hosts) == ("interrupted", None, None, ())
    assert status.runs == 0


def overwritten(path):
    """The pages behind the first ones are no pages."""
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"x" * (len(content) - 4096))


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: path.write_bytes(b""), "no such file"),
        (overwritten, "damaged"),
    ],
)
async def test_a_file_that_is_none_of_ours_is_refused_and_left_as_it_is(tmp_path, harm, named):
    path = await make_job(tmp_path, (Made("https://a.example/", ALL_WELL),)) / JOB_FILE
    harm(path)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(ConfigError, match=named):
        job_status(tmp_path, STARTED)
    assert (path.read_bytes() if path.exists() else None) == before


async def test_a_job_in_a_folder_that_cannot_be_written_can_be_looked_at(tmp_path):
    job = await make_job(tmp_path / "job")
    job.chmod(0o555)
    try:
        assert job_status(job, STARTED).urls["done"] == 5
    finally:
        job.chmod(0o755)


def test_there_is_one_row_for_each_url(job):
    frame = llmcrawler.read_status(job)
    assert list(frame.url) == [*(page.url for page in PAGES), TARGET, QUEUED]
    rows = frame.set_index("url")
    assert list(rows.state) == ["done"] * 5 + ["dead"] * 2 + ["seen", "queued"]
    fine, failed, gone, queued = (rows.loc[url] for url in (FINE.url, CLASSIFY_FAILED.url, GONE.url, QUEUED))
    assert (fine.host, fine.depth, fine.page_type, fine.http_status) == ("a.example", 1, "article", 200)
    assert fine.finished == pd.Timestamp(STARTED + 1, unit="s", tz="UTC")
    assert fine.record_status == "success"
    assert fine.record_started == pd.Timestamp(STARTED + 3, unit="s", tz="UTC")
    assert (fine.record_attempts, fine.record_seconds) == (1, 0.5)
    assert (failed.error_stage, failed.error_kind, failed.error) == ("classify", "llm_failed", "so it is")
    assert (failed.classify_status, failed.classify_error) == ("failed", "llm_failed: so it is")
    assert failed.own_status == "success"
    assert (gone.error_kind, gone.fetch_status) == ("http_404", "failed")
    assert queued[["page_type", "error_kind", "finished", "fetch_status", "fetch_attempts"]].isna().all()


def test_a_job_that_has_just_begun_has_the_same_columns_and_no_rows(job, tmp_path):
    open_job_file(tmp_path / JOB_FILE).close()
    frame = llmcrawler.read_status(str(tmp_path))
    full = llmcrawler.read_status(job)
    own = [name for name in full if name.startswith("own_")]
    assert len(frame) == 0
    assert dict(frame.dtypes) == dict(full.drop(columns=own).dtypes)
    assert [name for name in frame if name.endswith("_status")] == ["http_status", *(f"{one}_status" for one in STAGES)]


async def test_rows_come_in_portions_and_all_of_them(tmp_path):
    count = _ROWS_AT_ONCE + 7

    async def add(frontier, _ledger):
        await frontier.add([task(f"https://a.example/{n}") for n in range(count)])

    await with_frontier(tmp_path, add)
    frame = llmcrawler.read_status(tmp_path)
    assert list(frame.index) == list(range(count))
    assert frame.url.iloc[-1] == f"https://a.example/{count - 1}"


@pytest.mark.parametrize("read", [llmcrawler.read_status, llmcrawler.status_summary])
def test_where_there_is_no_job_it_is_said(tmp_path, read):
    with pytest.raises(ConfigError, match="no crawl with this JOBDIR"):
        read(tmp_path)


def test_without_pandas_it_is_said_what_to_install(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        llmcrawler.read_status(job)
    assert llmcrawler.status_summary(job)["runs"] == 1
