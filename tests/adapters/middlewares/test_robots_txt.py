"""When a robots.txt is asked for, and what becomes of the pages meanwhile: in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import CannotResolveHostError, DownloadTimeoutError
from scrapy.http import Response

from llmcrawler.core.politeness.robots import RobotsCache
from llmcrawler.engine.downloader import HostPaused
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.extensions.throttle import AdaptiveThrottle, rules_of
from llmcrawler.middlewares.robots_txt import RobotsMiddleware
from tests.adapters.crawlers import FIXED, downloader_of
from tests.virtual_time import run_fast

HOST = "a.test"
RULES = b"User-agent: *\nDisallow: /shut\n"
DAY = 24 * 3600.0
Answering = Callable[[Request], Awaitable[Response]]


class Site:
    """A middleware in the middle of a crawl whose downloads are answered by `answer`. `asked` has when what was asked
    for, in seconds since the start.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answering) -> None:
        clock = asyncio.get_running_loop().time
        for module in ("engine.downloader", "extensions.throttle", "middlewares.robots_txt"):
            monkeypatch.setattr(f"llmcrawler.{module}.monotonic", clock)
        self.woken: list[float] = []
        monkeypatch.setattr("llmcrawler.engine.downloader.wake_engine", lambda _crawler: self.woken.append(clock()))
        parser = {"ROBOTSTXT_PARSER": "llmcrawler.middlewares.robots_txt.GroupRobotParser", "USER_AGENT": "bot"}
        self.downloader = downloader_of(None, **FIXED, ROBOTSTXT_OBEY=True, **parser)
        crawler: Any = self.downloader.crawler
        crawler.engine.download_async = self._download
        self.throttle = AdaptiveThrottle(crawler, rules_of(crawler))
        self.middleware = RobotsMiddleware(crawler, RobotsCache(clock))
        self.asked: list[tuple[float, str]] = []
        self._answer = answer
        self._clock = clock

    async def _download(self, request: Request) -> Response:
        self.asked.append((round(self._clock(), 1), request.url))
        return await self._answer(request)

    async def verdict(self, url: str) -> str:
        """Return what becomes of a page: allowed, paused, or the kind of its error."""
        try:
            await self.middleware.process_request(Request(url))
        except HostPaused:
            return "paused"
        except RequestRefused as refused:
            return refused.kind
        return "allowed"


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[pytest.MonkeyPatch], None]:
    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        run_fast(test(monkeypatch))

    run.__name__ = test.__name__
    return run


async def rules(request: Request) -> Response:
    return Response(request.url, body=RULES)


async def busy(request: Request) -> Response:
    return Response(request.url, status=500)


def failing(error: Exception) -> Answering:
    async def fail(_request: Request) -> Response:
        raise error

    return fail


@in_virtual_time
async def test_a_file_is_asked_for_once_a_day_and_host(monkeypatch):
    site = Site(monkeypatch, rules)
    for hours in range(50):
        for path in ("/open", "/shut"):
            verdict = await site.verdict(f"http://{HOST}{path}")
            assert verdict == ("robots" if path == "/shut" else "allowed"), hours
        await asyncio.sleep(3600)
    assert [when for when, _ in site.asked] == [0, DAY, 2 * DAY]
    await site.verdict(f"https://{HOST}/open")
    await site.verdict(f"http://{HOST}:81/open")
    assert [url for _, url in site.asked[3:]] == [f"https://{HOST}/robots.txt", f"http://{HOST}:81/robots.txt"]


@in_virtual_time
async def test_all_pages_of_a_host_wait_for_one_question(monkeypatch):
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.9)
        return await rules(request)

    site = Site(monkeypatch, slow)
    verdicts = await asyncio.gather(*(site.verdict(f"http://{HOST}/shut") for _ in range(16)))
    assert verdicts == ["robots"] * 16
    assert len(site.asked) == 1


def test_a_file_that_cannot_be_had_is_asked_for_again_with_growing_rests_and_one_warning(monkeypatch, caplog):
    async def crawl() -> None:
        site = Site(monkeypatch, busy)
        for _second in range(200):
            if not site.downloader.is_resting(HOST):
                assert await site.verdict(f"http://{HOST}/open") == "paused"
            await asyncio.sleep(1)
        assert [when for when, _ in site.asked] == [0, 5, 15, 35, 75, 155]
        reason = site.throttle.policies()[HOST].reason_to_give_up()
        assert reason is not None
        assert "it was requested 6 times: 500 Internal Server Error" in reason

    with caplog.at_level(logging.WARNING):
        run_fast(crawl())
    (record,) = caplog.records
    assert record.getMessage() == (
        "http://a.test/robots.txt cannot be fetched, so nothing else is fetched from this host until it can: "
        "500 Internal Server Error"
    )


@in_virtual_time
async def test_a_page_that_comes_while_its_host_rests_waits_before_it_goes_back(monkeypatch):
    site = Site(monkeypatch, busy)
    await site.verdict(f"http://{HOST}/open")
    start = asyncio.get_running_loop().time()
    assert await site.verdict(f"http://{HOST}/open") == "paused"
    assert asyncio.get_running_loop().time() == start + 1
    assert len(site.asked) == 1


@in_virtual_time
async def test_a_host_is_worked_again_once_its_file_comes(monkeypatch):
    answers = [busy, busy, rules]

    async def third_time(request: Request) -> Response:
        return await answers[len(site.asked) - 1](request)

    site = Site(monkeypatch, third_time)
    verdicts = []
    for rest in (5, 10, 0):
        verdicts.append(await site.verdict(f"http://{HOST}/open"))
        await asyncio.sleep(rest)
    assert verdicts == ["paused", "paused", "allowed"]
    assert not site.throttle.policies()[HOST].robots.is_open
    assert await site.verdict(f"http://{HOST}/shut") == "robots"


@in_virtual_time
async def test_a_stalled_file_holds_its_host_and_gives_the_places_of_its_pages_back(monkeypatch):
    async def stalled(request: Request) -> Response:
        if HOST in request.url:
            await asyncio.sleep(30)
        return await rules(request)

    site = Site(monkeypatch, stalled)
    start = asyncio.get_running_loop().time()
    waiting = asyncio.ensure_future(site.verdict(f"http://{HOST}/open"))
    await asyncio.sleep(4.5)
    assert not waiting.done()  # nobody else wants its place
    monkeypatch.setattr("llmcrawler.engine.downloader._MOST_WAITING", 16)
    site.downloader.active = {Request(f"http://b.test/{number}") for number in range(8)}
    assert await waiting == "paused"
    assert asyncio.get_running_loop().time() == start + 5
    assert not site.downloader.has_room(HOST)
    assert await site.verdict("http://b.test/open") == "allowed"
    await asyncio.sleep(30)
    assert site.downloader.has_room(HOST)
    assert site.woken[-1] == start + 30
    assert await site.verdict(f"http://{HOST}/open") == "allowed"
    assert len(site.asked) == 2


@in_virtual_time
async def test_the_last_copy_holds_while_no_newer_one_can_be_had(monkeypatch):
    async def once(request: Request) -> Response:
        return await (rules if len(site.asked) == 1 else busy)(request)

    site = Site(monkeypatch, once)
    for day in range(29):
        assert await site.verdict(f"http://{HOST}/shut") == "robots", day
        assert await site.verdict(f"http://{HOST}/open") == "allowed", day
        await asyncio.sleep(DAY)
    assert len(site.asked) == 29
    await asyncio.sleep(2 * DAY)
    assert await site.verdict(f"http://{HOST}/open") == "paused"


@in_virtual_time
async def test_what_befalls_the_pages_too_is_told_of_them(monkeypatch):
    with pytest.raises(CannotResolveHostError):
        await Site(monkeypatch, failing(CannotResolveHostError("a.test"))).verdict(f"http://{HOST}/open")
    private = failing(RequestRefused(RefusalKind.PRIVATE_ADDRESS, "it is 10.0.0.1"))
    assert await Site(monkeypatch, private).verdict(f"http://{HOST}/open") == "private_address"


@in_virtual_time
async def test_what_is_wrong_with_another_host_that_has_the_file_is_told_of_the_file(monkeypatch):
    async def away(request: Request) -> Response:
        if HOST in request.url:
            return Response(request.url, status=301, headers={"Location": "http://b.test/robots.txt"})
        raise CannotResolveHostError("b.test")

    site = Site(monkeypatch, away)
    assert await site.verdict(f"http://{HOST}/open") == "paused"
    reason = site.throttle.policies()[HOST].robots.reason
    assert reason == "it leads to http://b.test/robots.txt: dns (b.test)"


@in_virtual_time
async def test_the_file_that_redirects_lead_to_is_that_of_the_first_host(monkeypatch):
    async def away(request: Request) -> Response:
        number = int(request.url.removesuffix(".test/robots.txt").rpartition("-")[2]) if "-" in request.url else 0
        if number == 6:
            return await rules(request)
        return Response(request.url, status=302, headers={"Location": f"https://host-{number + 1}.test/robots.txt"})

    site = Site(monkeypatch, away)
    assert await site.verdict(f"http://{HOST}/shut") == "robots"
    assert [url for _, url in site.asked][-1] == "https://host-6.test/robots.txt"
    assert await site.verdict(f"http://{HOST}/open") == "allowed"
    assert len(site.asked) == 7


@in_virtual_time
async def test_a_scheme_that_does_not_answer_does_not_hold_the_one_that_does(monkeypatch):
    async def https_alone(request: Request) -> Response:
        if request.url.startswith("http://"):
            await asyncio.sleep(30)
            raise DownloadTimeoutError("no answer in 30 s")
        return await rules(request)

    site = Site(monkeypatch, https_alone)
    assert await site.verdict(f"https://{HOST}/open") == "allowed"
    assert await site.verdict(f"http://{HOST}/open") == "robots_unreachable"
    assert await site.verdict(f"http://{HOST}/other") == "robots_unreachable"
    assert not site.downloader.is_resting(HOST)
    assert len(site.asked) == 2
    await asyncio.sleep(300)
    assert await site.verdict(f"http://{HOST}/other") == "robots_unreachable"
    assert len(site.asked) == 3


@in_virtual_time
async def test_a_file_that_waits_for_the_end_of_the_crawl_is_no_missing_one(monkeypatch):
    site = Site(monkeypatch, failing(HostPaused("the crawl is being stopped")))
    assert await site.verdict(f"http://{HOST}/open") == "paused"
    assert HOST not in site.throttle.policies()


def test_a_gap_that_is_capped_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def patient(request: Request) -> Response:
        return Response(request.url, body=b"User-agent: *\nCrawl-delay: 3600\n")

    async def crawl() -> None:
        site = Site(monkeypatch, patient)
        for _day in range(3):
            await site.verdict(f"http://{HOST}/open")
            await asyncio.sleep(DAY)
        assert len(site.asked) == 3

    with caplog.at_level(logging.INFO, "llmcrawler"):
        run_fast(crawl())
    (line,) = [record.getMessage() for record in caplog.records if "3600" in record.getMessage()]
    assert "robots.txt asks for a gap of 3600 s and gets 60 s (AUTOTHROTTLE_MAX_DELAY)" in line
