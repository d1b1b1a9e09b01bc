"""Crawls whose model is asked through the Batch API: each call is paid once, whatever takes the crawl down."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.reporting import ExitStatus
from llmcrawler.core.storage.job_status import job_status
from tests.e2e.killing import JobCrawl, lines_of
from tests.e2e.test_records import served
from tests.servers.batch_api import FakeBatchLLM
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite
from tests.servers.record_sites import make_shop
from tests.servers.teacher import answer_from_truth

SHOP = make_shop(14)


@pytest.fixture
def site() -> Iterator[MockSite]:
    with served(SHOP).in_thread() as site:
        yield site


@pytest.fixture
def llm() -> Iterator[FakeBatchLLM]:
    with FakeBatchLLM(answer_from_truth(SHOP.truth())).in_thread() as llm:
        yield llm


def batch_crawl(folder: Path, site: MockSite, llm: FakeLLM, **settings: Any) -> JobCrawl:
    folder.mkdir(exist_ok=True)
    known = {
        "LLM_PROVIDER": "openai",
        "LLM_BASE_URL": llm.base_url,
        "LLM_BATCH_API": True,
        "LLM_BATCH_API_QUIET_SECONDS": 0.3,
        "LLM_BATCH_API_POLL_SECONDS": 0.1,
        "LLM_CACHE": "",
    }
    return JobCrawl(folder, site.url("/"), {**known, **settings}, feeds=["-O", folder / "pages.jsonl"])


def pages_of(crawl: JobCrawl) -> dict[str, tuple[str, Any]]:
    """Return the page type and the record of each url, which has one line."""
    pages = [line for line in lines_of(crawl.folder / "pages.jsonl") if line["kind"] == "page"]
    assert len({page["url"] for page in pages}) == len(pages)
    return {page["url"]: (page["page_type"], page["record"]) for page in pages}


def paid_twice(llm: FakeBatchLLM) -> list[str]:
    """Return the documents that were paid for more than once."""
    return [document for document, times in Counter(map(repr, llm.paid)).items() if times > 1]


def is_whole(record: Any) -> bool:
    """Tell whether it has what every product of the shop has."""
    return record is not None and record.keys() >= {"title", "price"}


def errors_of_the_model(crawl: JobCrawl) -> list[Any]:
    errors = [line["error"] for line in lines_of(crawl.folder / "pages.jsonl") if line["kind"] == "page"]
    return [error for error in errors if error and error["stage"] != "fetch"]


def test_a_crawl_in_batches_says_what_one_call_by_call_says_for_half_the_price(tmp_path, site, llm):
    prices = {"LLM_MODEL": "gpt-6-luna"}
    usual = batch_crawl(tmp_path / "usual", site, llm, LLM_BATCH_API=False, **prices)
    assert usual.run() == 0, usual.logs[-1]
    calls = llm.calls
    assert calls > 2
    batched = batch_crawl(tmp_path / "batched", site, llm, **prices)
    assert batched.run() == 0, batched.logs[-1]
    records = [
        {
            url: (record["title"], record["price"])
            for url, (_type, record) in pages_of(crawl).items()
            if is_whole(record)
        }
        for crawl in (usual, batched)
    ]
    assert len(records[0]) > 10
    assert records[0] == records[1]
    assert llm.calls == calls  # not one went the usual way
    assert llm.paid
    assert not paid_twice(llm)
    assert "waits for answers" in batched.logs[-1]


@pytest.mark.parametrize("event", ["uploaded", "created", "looked", "download"])
def test_a_crawl_that_is_killed_at_any_moment_pays_no_call_twice(tmp_path, site, llm, event):
    crawl = batch_crawl(tmp_path, site, llm)
    kills = [1, 3]  # so many events later

    def on_event(name: str) -> None:
        if name != event or not kills:
            return
        kills[0] -= 1
        if not kills[0]:
            kills.pop(0)
            process.kill()

    with crawl.running() as process:
        llm.on_event = on_event
    assert process.returncode == -signal.SIGKILL, crawl.logs[-1]
    with crawl.running() as process:  # how many batches are still to come is a matter of the machine's pace
        pass
    assert process.returncode in (-signal.SIGKILL, 0), crawl.logs[-1]
    kills.clear()
    assert crawl.run() == 0, crawl.logs[-1]
    assert pages_of(crawl)
    assert not paid_twice(llm)


def test_a_crawl_that_only_waits_ends_and_the_same_command_goes_on(tmp_path, site, llm):
    crawl = batch_crawl(tmp_path, site, llm, LLM_BATCH_API_WAIT_SECONDS=0.5)
    llm.is_held = True
    assert crawl.run() == ExitStatus.INTERRUPTED, crawl.logs[-1]
    assert "run the same command again" in crawl.logs[-1]
    assert len(llm.batches) == job_status(crawl.jobdir, 0.0).batches > 0
    assert crawl.run() == ExitStatus.INTERRUPTED, crawl.logs[-1]
    llm.is_held = False
    crawl.settings["LLM_BATCH_API_WAIT_SECONDS"] = 0
    assert crawl.run() == 0, crawl.logs[-1]
    assert not paid_twice(llm)


def test_a_job_that_goes_on_without_batches_says_that_some_are_paid(tmp_path, site, llm):
    crawl = batch_crawl(tmp_path, site, llm, LLM_BATCH_API_WAIT_SECONDS=0.5)
    llm.is_held = True
    assert crawl.run() == ExitStatus.INTERRUPTED, crawl.logs[-1]
    crawl.settings["LLM_BATCH_API"] = False
    assert crawl.run() == 0, crawl.logs[-1]
    assert "are paid and wait at the server: LLM_BATCH_API=True takes them up" in crawl.logs[-1]


@pytest.mark.parametrize("ends", [["expired"] * 2, ["failed"], ["cancelled", "failed", "failed"]])
def test_calls_that_a_batch_leaves_are_asked_again_and_then_the_usual_way(tmp_path, site, llm, ends):
    llm.ends.extend(ends)
    crawl = batch_crawl(tmp_path, site, llm)
    assert crawl.run() == 0, crawl.logs[-1]
    assert not errors_of_the_model(crawl)


def test_faults_of_the_api_cost_neither_pages_nor_a_second_payment(tmp_path, site, llm):
    llm.create_faults.extend(["429", "reset", "500"])
    llm.file_faults.extend(["500", "429"])
    llm.line_faults.extend(["missing", "500", "429"])
    crawl = batch_crawl(tmp_path, site, llm)
    assert crawl.run() == 0, crawl.logs[-1]
    assert not errors_of_the_model(crawl)
    assert not paid_twice(llm)


def test_a_server_without_batches_ends_the_crawl_at_its_start(tmp_path, site):
    with FakeLLM().in_thread() as llm:
        crawl = batch_crawl(tmp_path, site, llm)
        assert crawl.run() not in (0, ExitStatus.INTERRUPTED)
    assert "it has no Batch API" in crawl.logs[-1]
    assert "LLM_BATCH_API=False" in crawl.logs[-1]
    assert "Traceback" not in crawl.logs[-1]


def test_the_budget_holds_for_calls_in_batches(tmp_path, site, llm):
    crawl = batch_crawl(tmp_path, site, llm, LLM_MAX_TOKENS=9_000)
    assert crawl.run() == ExitStatus.BUDGET, crawl.logs[-1]
    assert llm.paid
    assert llm.tokens <= 9_000
