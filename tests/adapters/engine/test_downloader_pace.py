"""When requests start: Scrapy's downloader with our slots and throttle, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from llmcrawler import settings as defaults
from llmcrawler.engine.downloader import HostPaused, PoliteDownloader
from llmcrawler.extensions.throttle import AdaptiveThrottle, rules_of
from llmcrawler.middlewares.robots_txt import GroupRobotParser
from tests.adapters.stubs import stub
from tests.virtual_time import run_fast

URL = "http://a.test/"
HOST = "a.test"
OURS = {name: value for name, value in vars(defaults).items() if name.startswith("THROTTLE_")}
FIXED: dict[str, Any] = OURS | {"AUTOTHROTTLE_ENABLED": False, "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 5}
ADAPTIVE: dict[str, Any] = FIXED | {
    "AUTOTHROTTLE_ENABLED": True,
    "AUTOTHROTTLE_START_DELAY": 0.5,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
}
Answering = Callable[[int], Response]


def fine(_number: int) -> Response:
    return Response(URL)


class Host:
    """Stands in for the handlers that would ask a server: notes when requests come, and how many it works on."""

    def __init__(self, latency_seconds: float, answer: Answering) -> None:
        self.starts: list[float] = []
        self.most_in_flight = 0
        self._latency_seconds = latency_seconds
        self._answer = answer
        self._in_flight = 0

    async def download_request_async(self, _request: Request) -> Response:
        self.starts.append(asyncio.get_running_loop().time())
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        number = len(self.starts)
        await asyncio.sleep(self._latency_seconds)
        self._in_flight -= 1
        return self._answer(number)

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.starts)]


class Pages:
    """Pages that are asked of a downloader, as many at a time as it has room for; what was put back is asked again."""

    def __init__(self, downloader: PoliteDownloader, count: int) -> None:
        self._downloader = downloader
        self._left = [Request(f"{URL}{number}") for number in range(count)]
        self.fetched: Counter[str] = Counter()

    async def fetch_all(self) -> None:
        running: set[asyncio.Task[None]] = set()
        while self._left or running:
            while self._left and not self._downloader.is_resting(HOST) and len(running) < 40:
                running.add(asyncio.create_task(self._fetch(self._left.pop(0))))
            await asyncio.wait(running or {asyncio.ensure_future(asyncio.sleep(0.05))}, return_when="FIRST_COMPLETED")
            running = {one for one in running if not one.done()}

    async def _fetch(self, request: Request) -> None:
        with suppress(HostPaused):
            response = await self._downloader._enqueue_request(request)
            if response.status == 200:
                self.fetched[request.url] += 1
                return
        self._left.append(Request(request.url))


def downloader_of(host: Host, settings: dict[str, Any], robots: str) -> PoliteDownloader:
    """Make a downloader as a crawl has it, whose throttle knows a robots.txt; it asks `host`."""
    no_handlers = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))
    ours = {"DOWNLOAD_HANDLERS": no_handlers, "DOWNLOADER": PoliteDownloader, "ROBOTSTXT_USER_AGENT": "bot"}
    crawler = get_crawler(Spider, {**ours, **settings})
    crawler.spider = crawler._create_spider("test")
    downloader = PoliteDownloader(crawler)
    downloader.handlers = host  # type: ignore[assignment]
    crawler.engine = stub(downloader=downloader, scheduler=None)
    AdaptiveThrottle(crawler, rules_of(crawler)).spider_opened()
    if robots:
        request = Request(f"{URL}robots.txt")
        parser = GroupRobotParser.from_crawler(crawler, robots.encode())
        crawler.signals.send_catch_log(signals.robots_parsed, robotparser=parser, request=request)
    return downloader


def use_clock_of_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all that counts seconds read the running loop's clock, and jitter be the same each time."""
    ours = ("engine.downloader", "extensions.throttle")
    for module in ("scrapy.core.downloader", *(f"llmcrawler.{one}" for one in ours)):
        monkeypatch.setattr(f"{module}.monotonic", asyncio.get_running_loop().time)
    monkeypatch.setattr("llmcrawler.engine.downloader.random", Random(1))
    monkeypatch.setattr("llmcrawler.engine.downloader.wake_engine", lambda _crawler: None)


def fetch_all(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    count: int,
    *,
    latency_seconds: float = 0.1,
    answer: Answering = fine,
    robots: str = "",
) -> Host:
    """Fetch so many pages, each once, in virtual time; return the host, which has noted the requests."""
    host = Host(latency_seconds, answer)

    async def crawl() -> None:
        use_clock_of_loop(monkeypatch)
        await asyncio.sleep(1000)  # a clock of a machine that runs for a while
        downloader = downloader_of(host, settings, robots)
        pages = Pages(downloader, count)
        await pages.fetch_all()
        downloader.close()
        assert sorted(pages.fetched.values()) == [1] * count

    run_fast(crawl())
    return host


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_a_host_never_has_more_requests_in_flight_than_allowed(monkeypatch, delay):
    host = fetch_all(monkeypatch, FIXED | {"DOWNLOAD_DELAY": delay}, 40)
    assert host.most_in_flight == 5


def test_the_delay_is_between_any_two_requests(monkeypatch):
    host = fetch_all(monkeypatch, FIXED | {"DOWNLOAD_DELAY": 0.2, "DOWNLOAD_DELAY_JITTER": 0}, 12)
    assert host.gaps == pytest.approx([0.2] * 11)


def test_the_delay_is_the_mean_where_it_is_jittered(monkeypatch):
    host = fetch_all(monkeypatch, FIXED | {"DOWNLOAD_DELAY": 0.2, "DOWNLOAD_DELAY_JITTER": 0.5}, 100)
    assert min(host.gaps) >= 0.1
    assert 0.199 <= sum(host.gaps) / len(host.gaps) <= 0.22
    assert len({round(gap, 6) for gap in host.gaps}) > 90


def test_what_waited_while_redis_stood_still_does_not_go_out_at_once(monkeypatch):
    host, stood_still = Host(0.1, fine), (1001.0, 1031.0)

    async def may_start(*_about: object) -> bool:
        now = asyncio.get_running_loop().time()
        if stood_still[0] <= now < stood_still[1]:
            await asyncio.sleep(stood_still[1] - now)
        return True

    async def crawl() -> None:
        use_clock_of_loop(monkeypatch)
        await asyncio.sleep(1000)
        downloader = downloader_of(host, FIXED | {"DOWNLOAD_DELAY": 0.2, "DOWNLOAD_DELAY_JITTER": 0.5}, "")
        downloader._session = stub(may_start=may_start)
        await Pages(downloader, 40).fetch_all()
        downloader.close()

    run_fast(crawl())
    assert len(host.starts) == 40
    assert max(host.gaps) > 20, "it stood still"
    assert min(host.gaps) >= 0.0999


@pytest.mark.parametrize("latency", [0.0, 0.15])
def test_the_first_second_sends_three_requests_at_most(monkeypatch, latency):
    host = fetch_all(monkeypatch, ADAPTIVE, 60, latency_seconds=latency)
    assert sum(start - host.starts[0] < 1.0 for start in host.starts) <= 3
    assert len({round(gap, 6) for gap in host.gaps[:20]}) == 20
    assert host.most_in_flight <= 32


@pytest.mark.parametrize("adaptive", [True, False])
def test_no_request_starts_before_retry_after_is_over(monkeypatch, adaptive):
    def refuse_the_third(number: int) -> Response:
        return Response(URL, status=503, headers={"Retry-After": "2"}) if number == 3 else Response(URL)

    settings = ADAPTIVE | {"AUTOTHROTTLE_ENABLED": adaptive, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    host = fetch_all(monkeypatch, settings, 12, answer=refuse_the_third)
    refused_at = host.starts[2] + 0.1
    after = [start for start in host.starts if start > refused_at]
    assert len(after) >= 4
    assert min(after) >= refused_at + 2.0


@pytest.mark.parametrize("line", ["Crawl-delay: 0.7", "Request-rate: 10/7"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_the_gap_of_robots_txt_is_never_shortened(monkeypatch, line, adaptive):
    settings = ADAPTIVE | {"AUTOTHROTTLE_ENABLED": adaptive, "DOWNLOAD_DELAY": 0.1, "DOWNLOAD_DELAY_JITTER": 0.5}
    host = fetch_all(monkeypatch, settings, 12, robots=f"User-agent: *\n{line}\n")
    assert len(host.gaps) == 11
    assert min(host.gaps) >= 0.7
