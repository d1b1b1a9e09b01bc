"""A job as a DataFrame, with the real pandas."""

import subprocess
import sys

import pandas as pd
import pytest

import llmcrawler
from llmcrawler.core.storage import open_job_file
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.job_status import _ROWS_AT_ONCE
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import CLASSIFY_FAILED, FINE, GONE, PAGES, QUEUED, STARTED, TARGET, make_job, task
from tests.crawl.jobs import with_frontier as with_frontier_of

STAGES = ["fetch", "content", "classify", "record"]


@pytest.fixture
async def job(tmp_path):
    return await make_job(tmp_path / "job")


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


def test_it_can_be_grouped_and_counted(job):
    frame = llmcrawler.read_status(job)
    assert dict(frame.groupby("host").size()) == {"a.example": 4, "b.example": 3, "c.example": 1}
    assert dict(frame.record_status.value_counts()) == {"failed": 2, "success": 1, "skipped": 1}
    assert frame.fetch_seconds.sum() == 3.5


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

    await with_frontier_of(tmp_path, add)
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


@pytest.mark.server
def test_the_package_itself_loads_nothing():
    code = (
        "import sys, llmcrawler; before = {name for name in sys.modules if name.startswith('llmcrawler.')};"
        "llmcrawler.status_summary;"
        "print(sorted(before), [name for name in ('scrapy', 'twisted', 'pandas') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[] []"


def test_what_it_does_not_have_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = llmcrawler.nothing
