"""The egg that `scrapyd-deploy` builds, in a real Scrapyd, by the commands of docs/scrapyd.md."""

import asyncio
from threading import Event

import pytest

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import TIMEOUT_SECONDS
from tests.e2e.scrapyd_server import scrapyd
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_pages import plain
from tests.servers.mock_site import MockSite, html

pytestmark = pytest.mark.nightly


def test_a_nightly_schedule_crawls_then_refreshes_and_is_refused_while_it_runs(tmp_path):
    arrived, released = Event(), Event()

    async def hold(_request):
        arrived.set()
        await asyncio.to_thread(released.wait, TIMEOUT_SECONDS)
        return html(plain("Held", 30))

    label = label_by_url([("/product/", "product"), ("/category/", "listing")], "other")
    with (
        scrapyd(tmp_path / "daemon") as daemon,
        FakeLLM(label).in_thread() as llm,
        MockSite({"/hold": hold}).in_thread() as site,
    ):
        assert '"spiders": ' in daemon.deploy(tmp_path / "project")
        daemon.check_health()
        settings = [
            f"LLM_BASE_URL={llm.base_url}",
            "LLM_CACHE=False",
            "DOWNLOAD_DELAY=0",
            "CONTENT_WORKERS=1",  # pages are read in a process that has to find the egg too
        ]
        schedule = (f"{site.url()},{site.url('/hold')}", tmp_path / "jobs" / "shop", *settings)
        first = daemon.schedule(*schedule)
        assert arrived.wait(TIMEOUT_SECONDS)
        assert daemon.listed("running") == [first]
        overlapping = daemon.schedule(*schedule)
        assert daemon.status_of(overlapping) == ExitStatus.BUSY
        assert "another crawl is running in it; wait for its end" in daemon.log_of(overlapping)
        released.set()
        assert daemon.status_of(first) == ExitStatus.FINISHED
        calls = llm.calls
        second = daemon.schedule(*schedule)
        assert daemon.status_of(second) == ExitStatus.FINISHED
        assert {first, overlapping, second} == set(daemon.listed("finished"))
        pages = [[line for line in daemon.items_of(job) if line["kind"] == "page"] for job in (first, second)]
        log = daemon.log_of(first)
        assert 0 < calls == llm.calls
    assert len(pages[0]) == len(pages[1]) == 12
    assert {page["page_type"] for page in pages[0]} >= {"product", "listing"}
    assert {page["change"] for page in pages[0]} == {"new"}
    assert {page["change"] for page in pages[1]} == {"unchanged"}
    assert not [page["error"] for page in pages[0] if page["error"]]
    assert "Exit status 0: finished" in log
