"""Many hosts at once: what waits for a gap takes no place of CONCURRENT_REQUESTS, and that limit holds all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from llmcrawler.engine.downloader import PoliteDownloader
from tests.adapters.engine.test_downloader_pace import FIXED, use_clock_of_loop
from tests.adapters.stubs import stub
from tests.virtual_time import run_fast

MOST = 4


class Hosts:
    """Stands in for the handlers: answers after `seconds`, and notes how many requests are in flight to all hosts."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.in_flight = self.most = 0

    async def download_request_async(self, request: Request) -> Response:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.sleep(self._seconds)
        self.in_flight -= 1
        return Response(request.url)


def downloader_of(hosts: Hosts, gap_seconds: float) -> PoliteDownloader:
    settings: dict[str, Any] = {**FIXED, "DOWNLOAD_DELAY": gap_seconds, "DOWNLOAD_DELAY_JITTER": 0}
    no_handlers = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))
    ours = {"DOWNLOAD_HANDLERS": no_handlers, "DOWNLOADER": PoliteDownloader, "CONCURRENT_REQUESTS": MOST}
    crawler = get_crawler(Spider, {**settings, **ours})
    crawler.spider = crawler._create_spider("test")
    downloader = PoliteDownloader(crawler)
    downloader.handlers = hosts  # type: ignore[assignment]  # of which it needs one method
    crawler.engine = stub(downloader=downloader, scheduler=None)
    return downloader


def test_no_more_requests_are_in_flight_than_allowed_however_many_hosts_there_are(monkeypatch):
    hosts = Hosts(1.0)

    async def crawl() -> float:
        use_clock_of_loop(monkeypatch)
        downloader, start = downloader_of(hosts, 0.0), asyncio.get_running_loop().time()
        await asyncio.gather(
            *(
                downloader.fetch(Request(f"http://{host}.test/")).asFuture(asyncio.get_running_loop())
                for host in range(20)
            )
        )
        downloader.close()
        return asyncio.get_running_loop().time() - start

    assert run_fast(crawl()) == pytest.approx(5.0)
    assert hosts.most == MOST


def test_what_waits_for_a_gap_keeps_no_other_host_away(monkeypatch):
    async def crawl() -> None:
        use_clock_of_loop(monkeypatch)
        await asyncio.sleep(1000)
        downloader = downloader_of(Hosts(0.1), 10.0)
        fetches = [
            downloader.fetch(Request(f"http://{host}.test/{page}")).asFuture(asyncio.get_running_loop())
            for host in range(MOST)
            for page in range(2)
        ]
        await asyncio.sleep(0.05)
        assert downloader.needs_backout()
        await asyncio.sleep(1)
        assert len(downloader.active) == MOST  # the second page of each
        assert not downloader.needs_backout()
        assert downloader.has_room("another.test")
        assert not downloader.has_room("0.test")
        await asyncio.gather(*fetches)
        assert downloader.has_room("0.test")
        downloader.close()

    run_fast(crawl())


def test_a_host_with_long_gaps_is_given_few_urls_ahead(monkeypatch):
    async def wanted(gap_seconds: float) -> int:
        use_clock_of_loop(monkeypatch)
        downloader = downloader_of(Hosts(0.1), gap_seconds)
        downloader.close()
        return downloader.wanted()

    assert [run_fast(wanted(gap)) for gap in (0.0, 0.2, 2.0)] == [12, 10, 2]
