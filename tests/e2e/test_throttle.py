"""How a crawl treats hosts that have limits, ask for a rest, or fail: as the servers saw it."""

from __future__ import annotations

import asyncio
import re

import pytest
from aiohttp import web

from tests.e2e.crawling import explore
from tests.servers.limited_site import limited_site
from tests.servers.mock_site import MockSite

ADAPTIVE = {"AUTOTHROTTLE_ENABLED": True, "DOWNLOAD_DELAY": 0}
WIDE = ADAPTIVE | {"CONCURRENT_REQUESTS_PER_DOMAIN": 32}


@pytest.mark.nightly
def test_a_limit_of_the_host_is_found_and_no_page_is_lost(tmp_path):
    # So slow that a busy machine, too, has more in flight than it takes.
    with limited_site(pages=60, latency_seconds=0.4, busy_above=3, retry_after="1").in_thread() as site:
        outcome = explore(tmp_path, site.url(), WIDE | {"RETRY_TIMES": 0, "AUTOTHROTTLE_DEBUG": True})
        assert not outcome.error_kinds()
        assert len([page for page in outcome.pages if "/page/" in page["url"]]) == 60
        assert site.measures.statuses["429"] >= 1
    assert re.search(r"throttle\] INFO: \S+: 429, Retry-After 1 s with \d+ in flight: concurrency", outcome.log)
    assert re.search(r"throttle/host/\S+/latency_p95'", outcome.log)
    assert "'llmcrawler/throttle/decisions/refused'" in outcome.log


@pytest.mark.nightly
def test_a_host_that_answers_503_throughout_takes_nothing_from_the_other(tmp_path):
    down = limited_site(pages=60, down=True, retry_after="0")
    with limited_site(pages=60).in_thread() as good, down.in_thread() as bad:
        settings = {"DOWNLOAD_DELAY": 0.05, "THROTTLE_BREAKER_REST_SECONDS": 0.1, "CONCURRENT_REQUESTS": 8}
        outcome = explore(tmp_path, f"{good.url()},{bad.url()},{bad.url('/page/1')}", ADAPTIVE | settings)
        asked = bad.measures.hits["/"] + bad.measures.hits["/page/1"]
    failed = [page for page in outcome.pages if page["error"]]
    assert len([page for page in outcome.pages if page["url"].startswith(good.url()) and not page["error"]]) >= 60
    assert {page["url"] for page in failed} == {bad.url(), bad.url("/page/1")}
    # Five, and three probes; and more where the good one's pages took so long that there was time for them.
    (failures,) = {int(re.search(r"failed (\d+) times in a row", page["error"]["message"])[1]) for page in failed}
    assert failures >= 8
    assert failures <= asked <= failures + 1  # two were in flight when the first was refused: that counts once
    assert outcome.error_kinds() == {"host_down": 2}
    assert outcome.exit_status == 0


def test_a_page_that_is_always_refused_is_an_error_line_with_the_reason(tmp_path):
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=503)

    with MockSite({"/about/": refuse}).in_thread() as site:
        outcome = explore(tmp_path, site.url(), ADAPTIVE | {"THROTTLE_PUT_BACKS": 3}, max_pages=25)
        assert site.measures.hits["/about/"] == 4
    error = outcome.page("/about/")["error"]
    assert (error["kind"], error["attempts"]) == ("http_503", 4)
    assert error["message"] == "503 Service Unavailable, still after 3 times that it was put back"
    assert outcome.error_kinds() == {"http_503": 1}


@pytest.mark.nightly
def test_a_host_that_asks_for_hours_is_given_up_when_nothing_else_is_left(tmp_path):
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "7200"})

    with MockSite({"/robots.txt": "", "/": refuse}).in_thread() as site:
        outcome = explore(tmp_path, site.url(), ADAPTIVE)
        assert site.measures.hits["/"] == 1
    assert outcome.error_kinds() == {"host_down": 1}
    assert "asks for a pause of" in outcome.pages[0]["error"]["message"]


@pytest.mark.nightly
def test_a_sitemap_that_hangs_is_tried_twice(tmp_path):
    async def hang(_request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    robots = "Sitemap: /sitemap.xml\n"
    with MockSite({"/robots.txt": robots, "/sitemap.xml": hang}).in_thread() as site:
        outcome = explore(tmp_path, site.url(), ADAPTIVE | {"DOWNLOAD_TIMEOUT": 1}, max_pages=30)
        assert site.measures.hits["/sitemap.xml"] == 2
        assert len(outcome.pages) == 30
