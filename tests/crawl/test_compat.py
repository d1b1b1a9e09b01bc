"""What this project asks of Scrapy's engine, scraper and commands."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import ContextVar
from functools import partial
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.core.engine import ExecutionEngine
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred

from llmcrawler.crawl import compat
from tests.adapters.crawlers import NO_HANDLERS
from tests.adapters.stubs import stub

URL = "http://a.test/"


class Opened:
    """A crawler whose engine has a spider, as a crawl has it, and does nothing."""

    def __init__(self) -> None:
        self.crawler: Any = get_crawler(Spider, {"DOWNLOAD_HANDLERS": NO_HANDLERS, "SCHEDULER": Scheduler})
        self.crawler.spider = self.crawler._create_spider("test")
        self.scheduled: list[int] = []

    async def __aenter__(self):
        self.crawler.engine = ExecutionEngine(self.crawler, lambda _spider: None)
        await self.crawler.engine.open_spider_async()
        self.crawler.engine._slot.nextcall.schedule = lambda: self.scheduled.append(1)
        return self

    async def __aexit__(self, *_):
        if self.crawler.engine._slot is not None and self.crawler.engine._slot.closing is None:
            await self.crawler.engine.close_spider_async()


async def test_an_engine_is_closing_before_it_is_opened_while_and_after_it_is_closed():
    assert compat.is_closing(stub(engine=None))
    async with Opened() as opened:
        assert not compat.is_closing(opened.crawler)
        closing = asyncio.ensure_future(opened.crawler.engine.close_spider_async())
        await asyncio.sleep(0)
        assert compat.is_closing(opened.crawler)
        await closing
        assert compat.is_closing(opened.crawler)


async def test_the_engine_is_woken_by_its_next_call():
    compat.wake_engine(stub(engine=None))
    async with Opened() as opened:
        opened.scheduled.clear()
        compat.wake_engine(opened.crawler)
        assert opened.scheduled == [1]
    compat.wake_engine(opened.crawler)  # its slot is gone


async def test_a_spider_that_is_closed_soon_has_the_reason_and_is_closed_once():
    reasons = []
    async with Opened() as opened:
        closed = asyncio.Event()

        def note(reason):
            reasons.append(reason)
            closed.set()

        opened.crawler.signals.connect(note, signals.spider_closed, weak=False)
        compat.close_spider_soon(opened.crawler, "no_proxy")
        await asyncio.sleep(0)
        compat.close_spider_soon(opened.crawler, "another")
        await closed.wait()
    compat.close_spider_soon(opened.crawler, "a third")
    assert reasons == ["no_proxy"]


async def test_an_item_without_a_response_goes_to_the_pipelines_before_the_spider_is_closed():
    seen: list[str] = []
    async with Opened() as opened:
        opened.crawler.signals.connect(lambda: seen.append("item"), signals.item_scraped, weak=False)
        opened.crawler.signals.connect(lambda: seen.append("closed"), signals.spider_closed, weak=False)
        compat.process_item(opened.crawler, {"url": URL})
        assert not opened.crawler.engine.scraper.slot.is_idle()
        await opened.crawler.engine.close_spider_async()
    assert seen == ["item", "closed"]


class Running(Opened):
    """A crawl that notes whether it was closing when it was asked to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bool] = []
        compat.on_stop(self.crawler, lambda: self.asked.append(compat.is_closing(self.crawler)))

    def run(self) -> None:
        self.crawler.crawling = self.crawler.engine.running = self.crawler.engine._starting = True


async def test_a_crawl_that_runs_tells_that_it_is_to_stop_before_it_begins_to():
    async with Running() as opened:
        opened.run()
        await opened.crawler.stop_async()
        assert opened.crawler.engine.spider is None
    assert opened.asked == [False]


async def test_a_crawl_that_is_asked_to_stop_while_it_is_opened_stops_once_it_runs():
    async with Running() as opened:
        opened.crawler.crawling = True
        stopping = asyncio.ensure_future(opened.crawler.stop_async())
        done, _ = await asyncio.wait({stopping}, timeout=0.2)
        assert (done, opened.asked) == (set(), [])
        opened.run()
        await stopping
        assert opened.crawler.engine.spider is None
    assert opened.asked == [False]


async def test_a_crawl_that_cannot_be_opened_is_not_waited_for():
    async with Running() as opened:
        opened.crawler.crawling = True
        stopping = asyncio.ensure_future(opened.crawler.stop_async())
        await asyncio.sleep(0)
        assert not stopping.done()
        opened.crawler.crawling = False  # as Scrapy has it then
        await stopping
    assert not opened.asked


async def test_a_crawl_that_has_come_to_its_own_end_or_never_ran_was_not_told_to_stop():
    async with Running() as opened:
        await opened.crawler.stop_async()  # it does not crawl yet
        opened.run()
        await opened.crawler.engine.close_spider_async()
        await opened.crawler.stop_async()  # as Scrapy does then
    assert not opened.asked


def test_a_signal_that_comes_twice_at_once_counts_once_and_a_later_one_kills():
    seen, now = [], [100.0]
    process: Any = stub(_signal_shutdown=lambda *_: seen.append("stop"), _signal_kill=lambda *_: seen.append("kill"))
    compat.ignore_echo(process, 0.2, clock=lambda: now[0])
    process._signal_shutdown(15, None)
    now[0] += 0.1
    process._signal_kill(15, None)
    assert seen == ["stop"]
    now[0] += 0.2
    process._signal_kill(15, None)
    assert seen == ["stop", "kill"]


async def test_a_scraper_that_is_being_closed_looks_whether_it_is_idle():
    async with Opened() as opened:
        compat.settle_scraper(opened.crawler)
        slot = opened.crawler.engine.scraper.slot
        slot.closing = Deferred()
        compat.settle_scraper(opened.crawler)
        assert slot.closing.called
        compat.settle_scraper(opened.crawler)  # not a second time


async def test_what_comes_of_a_response_is_observed_from_before_its_callback_until_its_items_are_through():
    seen, current = [], ContextVar("current", default="")

    def begin(result, request):
        seen.append(f"begin {request.url} {result.status}")
        current.set(request.url)
        return lambda: seen.append(f"end {request.url}")

    async with Opened() as opened:
        opened.crawler.spider.parse = lambda _response: [{"n": 1}]
        opened.crawler.signals.connect(lambda: seen.append(f"item {current.get()}"), signals.item_scraped, weak=False)
        compat.observe_scraping(opened.crawler, begin)
        request = Request(URL)
        await maybe_deferred_to_future(opened.crawler.engine.scraper.enqueue_scrape(Response(URL), request))
    assert seen == [f"begin {URL} 200", f"item {URL}", f"end {URL}"]
    assert not current.get()


async def test_a_crawl_that_ends_with_failure_makes_scrapys_commands_exit_with_1():
    crawler: Any = Crawler(Spider)
    crawler.spider = Spider("test")
    runner = AsyncCrawlerRunner({"TWISTED_REACTOR_ENABLED": False})
    compat.end_with_failure(crawler)
    crawler.crawl_async = partial(crawler.signals.send_catch_log_async, signals.engine_stopped)
    await runner.crawl(crawler)
    await asyncio.sleep(0)
    assert runner.bootstrap_failed
    assert "bootstrap_failed" in inspect.getsource(CrawlCommand.run)
