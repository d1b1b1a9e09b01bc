"""Ends a crawl soon when it is asked to stop, by Ctrl-C or SIGTERM, and says what it waits for."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Self

from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler

from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.engine.compat import on_stop
from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.extensions.connecting import connect_handlers

logger = logging.getLogger(__name__)

_SAY_SECONDS = 2.0


@dataclass(eq=False)
class OrderlyStop:
    """Takes back at once what was not begun: requests that wait, and questions to the model. Requests in flight, and
    what is done with pages that came, get `patience_seconds`.
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
        return cls(crawler, crawl_of(crawler), crawler.settings.getfloat("STOP_SECONDS"))

    def engine_stopped(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _begin(self) -> None:
        if self.crawl.stop.has_begun:
            return
        self.crawl.stop.has_begun = True
        model, scheduler = self.crawl.understanding.model, self._engine.scheduler
        calls = 0 if model is None else model.give_up()
        if isinstance(scheduler, FrontierScheduler):
            scheduler.stop()
        requests = self._take_back(unsent_only=True)
        later = "are for the next run" if self.crawl.stop.goes_on_later else "are left out"
        self._say(
            f"; {_count(requests, 'request')} that waited {later}, {_count(calls, 'question')} to the model given up"
        )
        self._waiting = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience_seconds
        while (left := end - loop.time()) > 0:
            await asyncio.sleep(min(_SAY_SECONDS, left))
            self._say(seconds=max(0.0, end - loop.time()))
        self.crawl.stop.end()
        self._take_back(unsent_only=False)
        self.crawl.understanding.cut_off()

    def _say(self, more: str = "", *, seconds: float | None = None) -> None:
        in_flight = sum(len(slot.transferring) for slot in self._engine.downloader.slots.values())
        scraper = self._engine.scraper.slot
        pages = 0 if scraper is None else len(scraper.active) + len(scraper.queue)
        waits = f"{_count(in_flight, 'request')} in flight and {_count(pages, 'page')} being worked on"
        seconds = self.patience_seconds if seconds is None else seconds
        logger.info("Stopping: waiting for %s, %.0f s at most%s", waits, seconds, more)

    def _take_back(self, *, unsent_only: bool) -> int:
        downloader = self._engine.downloader
        return downloader.take_back(unsent_only=unsent_only) if isinstance(downloader, PoliteDownloader) else 0

    @property
    def _engine(self) -> ExecutionEngine:
        assert self.crawler.engine is not None
        return self.crawler.engine


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
