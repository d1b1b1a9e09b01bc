"""What is saved of a damaged job, and how damage is told."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from llmcrawler.core.reporting.html import make_report
from llmcrawler.core.storage import job_file
from llmcrawler.core.storage.body_packer import pack
from llmcrawler.core.storage.job_file import JOB_FILE, check_job_file, checksum, open_job_file
from llmcrawler.core.storage.job_spec import JobSpec
from llmcrawler.core.storage.job_status import job_status, open_snapshot
from llmcrawler.core.storage.ledger import id_of, read_lines
from llmcrawler.core.storage.recovery import recover
from llmcrawler.crawl.job import check_job
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import BUSY, FINE, GONE, PAGES, QUEUED, STARTED, make_job, with_frontier

LINKED = "https://a.example/linked"


@pytest.fixture
async def job(tmp_path):
    return await make_job(tmp_path / "job")


def change(job, statement, *values):
    with closing(sqlite3.connect(job / JOB_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        return connection.execute(statement, values).fetchall()


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
        ("pages", "seq", 0),
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


@pytest.mark.parametrize(("start", "damage"), [(0, bytes(32)), (100, b"\xa5")])
async def test_what_was_in_the_log_of_a_killed_crawl_is_saved(job, tmp_path, start, damage):
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
    recovered = recover(killed)
    assert {path.name.partition(".damaged")[0] for path in recovered.kept} == {JOB_FILE}
    with open_snapshot(killed) as connection:
        assert connection.execute("SELECT DISTINCT attempts FROM urls").fetchall() == [(2,)]


async def test_a_url_whose_referer_is_lost_has_none(job):
    row = (10, LINKED, 1, 1, 1)
    query = "INSERT INTO urls (id, url, host, depth, referer, crc) VALUES (?, ?, ?, ?, ?, ?)"
    change(job, query, *row, checksum(*row))
    change(job, "DELETE FROM referers")
    recover(job)
    leases = await with_frontier(job, lambda frontier, _ledger: frontier.lease(10, {}, 10))
    assert {lease.url: lease.task.referer for lease in leases} == {QUEUED: None, LINKED: None}


@pytest.mark.parametrize("lost", [QUEUED, LINKED])
async def test_urls_lost_from_the_queue_are_found_again_through_the_links_of_all_pages(job, lost):
    for url in ("https://a.example/other", LINKED):
        (last,) = max(change(job, "SELECT id FROM urls"))
        row = (last + 1, url, 1, 1, 1)
        query = "INSERT INTO urls (id, url, host, depth, referer, crc) VALUES (?, ?, ?, ?, ?, ?)"
        change(job, query, *row, checksum(*row))
    change(job, "UPDATE urls SET crc = 0 WHERE url = ?", lost)
    recovered = recover(job)
    assert recovered.is_repeated
    lines, states = urls_of(job)
    assert lines == [GONE.url, BUSY.url]
    assert lost not in states
    assert {url for url, state in states.items() if state == 0} >= {
        page.url for page in PAGES if page not in (GONE, BUSY)
    }


async def test_a_finished_job_whose_urls_cannot_be_read_has_them_from_its_lines(job):
    change(job, "DELETE FROM urls WHERE state NOT IN (2, 3)")
    ((page,),) = change(job, "SELECT rootpage FROM sqlite_master WHERE name = 'urls'")
    overwrite(job, (page - 1) * 4096, page * 4096)
    recovered = recover(job)
    assert (recovered.lines, recovered.gone, recovered.is_repeated) == (len(PAGES), (), False)
    assert urls_of(job)[0] == [page.url for page in PAGES]
    assert job_status(job, STARTED).state == "finished"


async def test_a_queued_url_that_looks_like_the_target_of_a_redirect_is_queued_again(job):
    change(job, "UPDATE urls SET state = 4 WHERE url = ?", QUEUED)
    with pytest.raises(ConfigError, match="the state of a url does not fit its host"):
        check_job_file(job / JOB_FILE)
    recover(job)
    assert urls_of(job)[1][QUEUED] == 0


@pytest.mark.parametrize("statement", ["UPDATE keys SET url = url + 1", "UPDATE keys SET key = 1", "DELETE FROM keys"])
async def test_keys_that_would_lead_to_other_urls_are_told_and_made_again(tmp_path, monkeypatch, statement):
    monkeypatch.setattr(job_file, "_MIN_GATHERED", 3)
    job = await make_job(tmp_path / "job")
    change(job, f"{statement} WHERE url = 2")
    with pytest.raises(ConfigError, match="a key of a url is lost"):
        check_job_file(job / JOB_FILE)
    recover(job)
    with closing(open_job_file(job / JOB_FILE)) as connection:
        urls = connection.execute("SELECT id, url FROM urls").fetchall()
        assert [id_of(connection, url) for _number, url in urls] == [number for number, _url in urls]


async def test_columns_with_other_names_are_told(job):
    with closing(sqlite3.connect(job / JOB_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'seconds', 'secands') WHERE name = 'stages'")
    with pytest.raises(ConfigError, match="its tables are not those that were made"):
        check_job_file(job / JOB_FILE)
    assert recover(job).lines == len(PAGES)


async def test_errors_of_sqlite_that_are_no_text_are_told(job):
    file = job / JOB_FILE
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE found", b"CREATE TABLE \xff\xff\xff\xff\xff"))
    with pytest.raises(ConfigError, match="scrapy recover"):
        check_job_file(file)
    assert recover(job).lines == len(PAGES)


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
    assert recover(killed).lines == len(PAGES)
    assert urls_of(killed) == urls_of(job)


async def test_what_is_lost_of_the_start_of_a_job_is_told_and_does_not_bar_its_next_run(job):
    change(job, "UPDATE job SET value = '[' WHERE name IN ('arguments', 'given')")
    recovered = recover(job)
    assert (recovered.spider, recovered.given) == ("explore", None)
    check_job(job, JobSpec("explore", {"url": ["https://a.example/"]}))
    with pytest.raises(ConfigError, match="belongs to the spider 'explore'"):
        check_job(job, JobSpec("map", {}))


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
