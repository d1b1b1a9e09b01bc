"""Ends a crawl soon when it is asked to stop, by Ctrl-C or SIGTERM, and says what it waits for."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.core.reporting.text import many
from llmcrawler.crawl.compat import engine_of, on_stop
from llmcrawler.crawl.configuration import LimitSettings
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.engine.scheduler import FrontierScheduler, has_scheduler, running_scheduler
from llmcrawler.extensions import connect_handlers

logger = logging.getLogger(__name__)

_SAY_SECONDS = 2.0


@dataclass(eq=False)
class OrderlyStop:
    """Takes back what has not begun: waiting requests and questions to the model. What is in flight gets
    `patience_seconds`.
    """

    crawler: Crawler
    crawl: CrawlContext
    patience_seconds: float

    def __post_init__(self) -> None:
        self._waiting: asyncio.Task[None] | None = None
        on_stop(self.crawler, self._begin)
        connect_handlers(self.crawler, self, "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawl_of(crawler), LimitSettings.of(crawler.settings).stop_seconds)

    def engine_stopped(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _begin(self) -> None:
        if self.crawl.stop.has_begun:
            return
        self.crawl.stop.has_begun = True
        model = self.crawl.understanding.model
        calls = 0 if model is None else model.give_up()
        if has_scheduler(self.crawler.settings, FrontierScheduler):
            running_scheduler(self.crawler, FrontierScheduler).stop()
        requests = self._take_back(unsent_only=True)
        later = "put back for the next run" if self.crawl.stop.goes_on_later else "left out"
        given_up = f"{many(requests, 'waiting request')} {later}, {many(calls, 'question')} to the model given up"
        self._waiting = asyncio.ensure_future(self._wait(f"; {given_up}"))

    async def _wait(self, given_up: str) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience_seconds
        await asyncio.sleep(0)  # until what was given up is gone
        self._say(given_up, seconds=self.patience_seconds)
        while (left := end - loop.time()) > _SAY_SECONDS:
            await asyncio.sleep(_SAY_SECONDS)
            self._say(seconds=left - _SAY_SECONDS)
        await asyncio.sleep(max(0.0, left))
        logger.info("Stopping: cutting off %s", self._under_way())
        self.crawl.stop.end()
        self._take_back(unsent_only=False)
        self.crawl.understanding.cut_off()
        while True:  # what cannot be cut off: a pipeline of the user's, say
            await asyncio.sleep(_SAY_SECONDS)
            logger.info("Stopping: still waiting for %s", self._under_way())

    def _say(self, more: str = "", *, seconds: float) -> None:
        logger.info("Stopping: waiting for %s, %.0f s at most%s", self._under_way(), seconds, more)

    def _under_way(self) -> str:
        engine = engine_of(self.crawler)
        in_flight = sum(len(slot.transferring) for slot in engine.downloader.slots.values())
        scraper = engine.scraper.slot
        pages = 0 if scraper is None else len(scraper.active) + len(scraper.queue)
        return f"{many(in_flight, 'request')} in flight and {many(pages, 'page')} in progress"

    def _take_back(self, *, unsent_only: bool) -> int:
        downloader = engine_of(self.crawler).downloader
        return downloader.take_back(unsent_only=unsent_only) if isinstance(downloader, PoliteDownloader) else 0
