"""When requests start, in virtual time, and where they go when a crawl stops; the browser among the handlers."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler

from llmcrawler import errors
from llmcrawler.engine.downloader import HostPaused, PageHandlers, PoliteDownloader
from llmcrawler.engine.request_context import RENDER
from llmcrawler.extensions.throttle import AdaptiveThrottle, rules_of
from llmcrawler.middlewares.robots_txt import GroupRobotParser
from tests.adapters.crawlers import FIXED, NO_HANDLERS, downloader_of
from tests.adapters.stubs import stub
from tests.virtual_time import run_fast

URL = "http://a.test/"
HOST = "a.test"
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


def throttled(host: Host, settings: dict[str, Any], robots: str = "") -> PoliteDownloader:
    """A downloader whose throttle knows a robots.txt; it asks `host`."""
    downloader = downloader_of(host, **{"ROBOTSTXT_USER_AGENT": "bot", **settings})
    AdaptiveThrottle(downloader.crawler, rules_of(downloader.crawler)).spider_opened()
    if robots:
        request = Request(f"{URL}robots.txt")
        parser = GroupRobotParser.from_crawler(downloader.crawler, robots.encode())
        downloader.signals.send_catch_log(signals.robots_parsed, robotparser=parser, request=request)
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
        downloader = throttled(host, settings, robots)
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
        downloader = throttled(host, FIXED | {"DOWNLOAD_DELAY": 0.2, "DOWNLOAD_DELAY_JITTER": 0.5})
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


MOST = 4


def gapped(host: Host, gap_seconds: float) -> PoliteDownloader:
    delays = {"DOWNLOAD_DELAY": gap_seconds, "DOWNLOAD_DELAY_JITTER": 0, "CONCURRENT_REQUESTS": MOST}
    return downloader_of(host, **{**FIXED, **delays})


def test_no_more_requests_are_in_flight_than_allowed_however_many_hosts_there_are(monkeypatch):
    host = Host(1.0, fine)

    async def crawl() -> float:
        use_clock_of_loop(monkeypatch)
        downloader, start = gapped(host, 0.0), asyncio.get_running_loop().time()
        await asyncio.gather(*(fetch(downloader, f"http://{number}.test/") for number in range(20)))
        downloader.close()
        return asyncio.get_running_loop().time() - start

    assert run_fast(crawl()) == pytest.approx(5.0)
    assert host.most_in_flight == MOST


def test_what_waits_for_a_gap_keeps_no_other_host_away(monkeypatch):
    async def crawl() -> None:
        use_clock_of_loop(monkeypatch)
        await asyncio.sleep(1000)
        downloader = gapped(Host(0.1, fine), 10.0)
        fetches = [fetch(downloader, f"http://{host}.test/{page}") for host in range(MOST) for page in range(2)]
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
        downloader = gapped(Host(0.1, fine), gap_seconds)
        downloader.close()
        return downloader.wanted()

    assert [run_fast(wanted(gap)) for gap in (0.0, 0.2, 2.0)] == [12, 10, 2]


HANG = "http://a.test/hang"


class SlowLookup:
    """A downloader middleware that waits before a request, as for a name server, and tells when it does."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def process_request(self, request: Request) -> None:
        if "lookup" in request.url:
            self.waits.set()
            await asyncio.Event().wait()


class Stalling:
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
def host() -> Stalling:
    return Stalling()


@pytest.fixture
def downloader(host: Stalling) -> PoliteDownloader:
    return downloader_of(host, DOWNLOAD_DELAY=60, DOWNLOADER_MIDDLEWARES={SlowLookup: 10})


def fetch(downloader: PoliteDownloader, url: str, **options: Any) -> asyncio.Future[Response | Request]:
    return asyncio.ensure_future(maybe_deferred_to_future(downloader.fetch(Request(url, **options))))


def parse(_response: Response) -> None:
    """Stand for a spider's callback."""


async def test_what_was_not_sent_goes_back_at_once_and_what_was_has_its_time(
    downloader: PoliteDownloader, host: Stalling
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


async def test_what_hangs_goes_back_when_its_time_is_over(downloader: PoliteDownloader, host: Stalling) -> None:
    hanging = fetch(downloader, HANG, callback=parse)
    await host.was_asked.wait()
    assert downloader.take_back(unsent_only=True) == 0
    assert downloader.take_back(unsent_only=False) == 1
    again = await hanging
    assert isinstance(again, Request)
    assert not downloader.active
    downloader.close()


async def test_nobody_waits_for_a_robots_txt(downloader: PoliteDownloader, host: Stalling) -> None:
    robots = fetch(downloader, "http://a.test/robots.txt", callback=NO_CALLBACK)
    await host.was_asked.wait()
    assert downloader.take_back(unsent_only=True) == 1
    with pytest.raises(HostPaused):
        await robots
    downloader.close()


@pytest.fixture
def handlers() -> PageHandlers:
    return PageHandlers(get_crawler(settings_dict={"DOWNLOAD_HANDLERS": NO_HANDLERS}))


async def test_the_browser_is_imported_once_and_in_a_thread_with_the_first_page_that_wants_it(monkeypatch, handlers):
    imported: list[Any] = []
    made: list[Any] = []

    class Browser:
        def __init__(self):
            made.append(self)

        async def download_request(self, request):
            return Response(request.url)

    def noted(name):
        imported.append((name, threading.current_thread()))
        return stub(BrowserDownloadHandler=Browser)

    monkeypatch.setattr("importlib.import_module", noted)
    request = Request("http://a.test/", meta={RENDER: True})
    await asyncio.gather(*(handlers.download_request_async(request) for _ in range(2)))
    await handlers.download_request_async(request)
    assert {name for name, _ in imported} == {"llmcrawler.engine.browser.handler"}
    assert len(imported) <= 2
    assert threading.main_thread() not in {thread for _, thread in imported}
    assert len(made) == 1


async def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, handlers):
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    monkeypatch.delitem(sys.modules, "llmcrawler.engine.browser.handler", raising=False)
    monkeypatch.setattr(errors, "version", lambda _name: "1.0")
    with pytest.raises(NotSupported):  # there is no other handler either
        await handlers.download_request_async(Request("http://a.test/", meta={RENDER: True}))
    assert re.search(r'playwright.*: pip install "llmcrawler\[browser\]"$', handlers.no_browser or "")
