"""Requests of a crawl that is being stopped go back to the scheduler, wherever they wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler

from llmcrawler.engine.downloader import HostPaused, PoliteDownloader
from tests.adapters.stubs import stub

HANG = "http://a.test/hang"


class SlowLookup:
    """A downloader middleware that waits before a request, as for a name server, and tells when it does."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def process_request(self, request: Request) -> None:
        if "lookup" in request.url:
            self.waits.set()
            await asyncio.Event().wait()


class Host:
    """Stands in for the download handlers: what it is asked for comes when it is told to, the page HANG never."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def download_request_async(self, request: Request) -> Response:
        self.asked.append(request.url)
        self.was_asked.set()
        await (asyncio.Event() if request.url == HANG else self.answers).wait()
        return Response(request.url)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def downloader(host: Host) -> PoliteDownloader:
    no_handlers = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))
    settings: dict[str, Any] = {"DOWNLOAD_DELAY": 60, "DOWNLOADER_MIDDLEWARES": {SlowLookup: 10}}
    crawler = get_crawler(Spider, {"DOWNLOAD_HANDLERS": no_handlers, "DOWNLOADER": PoliteDownloader, **settings})
    crawler.spider = crawler._create_spider("test")
    downloader = PoliteDownloader(crawler)
    downloader.handlers = host  # type: ignore[assignment]
    crawler.engine = stub(downloader=downloader, scheduler=None)
    return downloader


def fetch(downloader: PoliteDownloader, url: str, **options: Any) -> asyncio.Future[Response | Request]:
    return asyncio.ensure_future(maybe_deferred_to_future(downloader.fetch(Request(url, **options))))


def parse(_response: Response) -> None:
    """Stand for a spider's callback."""


async def test_what_was_not_sent_goes_back_at_once_and_what_was_has_its_time(
    downloader: PoliteDownloader, host: Host
) -> None:
    (lookup,) = [one for one in downloader.middleware.middlewares if isinstance(one, SlowLookup)]
    sent = fetch(downloader, "http://a.test/1", callback=parse)
    waits_for_the_gap = fetch(downloader, "http://a.test/2", callback=parse)
    waits_for_a_name = fetch(downloader, "http://b.test/lookup", callback=parse)
    await host.was_asked.wait()
    await lookup.waits.wait()
    assert downloader.take_back(unsent_only=True) == 2
    for waiting in (waits_for_the_gap, waits_for_a_name):
        again = await waiting
        assert isinstance(again, Request)
        assert again.dont_filter
    with pytest.raises(HostPaused):
        await fetch(downloader, "http://c.test/", callback=parse)
    host.answers.set()
    assert isinstance(await sent, Response)
    assert host.asked == ["http://a.test/1"]
    assert not downloader.active
    downloader.close()


async def test_what_hangs_goes_back_when_its_time_is_over(downloader: PoliteDownloader, host: Host) -> None:
    hanging = fetch(downloader, HANG, callback=parse)
    await host.was_asked.wait()
    assert downloader.take_back(unsent_only=True) == 0
    assert downloader.take_back(unsent_only=False) == 1
    again = await hanging
    assert isinstance(again, Request)
    assert not downloader.active
    downloader.close()


async def test_nobody_waits_for_a_robots_txt(downloader: PoliteDownloader, host: Host) -> None:
    robots = fetch(downloader, "http://a.test/robots.txt", callback=NO_CALLBACK)
    await host.was_asked.wait()
    assert downloader.take_back(unsent_only=True) == 1
    with pytest.raises(HostPaused):
        await robots
    downloader.close()
