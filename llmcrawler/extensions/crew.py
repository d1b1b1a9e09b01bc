"""A worker among others: it says that it is there, and waits for what the others find."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from llmcrawler.engine.compat import is_closing, process_item
from llmcrawler.engine.error_pages import error_page
from llmcrawler.errors import StorageFailed
from llmcrawler.extensions.safe_feeds import SafeFeeds
from llmcrawler.items import Page
from llmcrawler.scheduler import FrontierScheduler, scheduler_of
from llmcrawler.wiring import Crawl, crawl_of

if TYPE_CHECKING:
    from llmcrawler.crew import Crew

logger = logging.getLogger(__name__)

_BEAT_SECONDS, _IDLE_BEAT_SECONDS = 1.0, 0.25


class CrewExtension:
    def __init__(self, crawler: Crawler, crawl: Crawl, crew: Crew) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._crew = crew
        self._feeds = SafeFeeds(crawler)
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_since: float | None = None
        self._confirmed_at = 0.0
        self._reason = "shutdown"
        crew.frontier.make_safe, crew.frontier.on_kept = self._feeds.unsafe, self._feeds.note_kept
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.spider_idle, signals.spider_idle),
            (self.spider_closed, signals.spider_closed),
            (self.engine_stopped, signals.engine_stopped),
        ):
            crawler.signals.connect(handler, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler) if crawler.settings.get("REDIS_URL") else None
        if crawl is None or crawl.crew is None:
            raise NotConfigured
        return cls(crawler, crawl, crawl.crew)

    def spider_opened(self) -> None:
        logger.info("This is worker %s of the crawl %s", self._crew.worker, self._crew.rules.crawl_id)
        self._tasks = [asyncio.ensure_future(self._beat()), asyncio.ensure_future(self._leave_with_engine())]

    def spider_idle(self) -> None:
        """There is nothing to do here; the crawl is at its end when that is so everywhere."""
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        counts = self._crew.frontier.counts()
        left = counts.leased or (counts.queued and self._scheduler.may_lease())
        if left or self._confirmed_at <= self._idle_since:
            raise DontCloseSpider

    def spider_closed(self, reason: str) -> None:
        self._reason = reason

    async def engine_stopped(self) -> None:
        """Feeds are closed by now."""
        for task in self._tasks:
            task.cancel()
        try:
            await self._crew.drop_lines(self._feeds.take_safe())
            await self._crew.close(self._reason)
        except StorageFailed as failure:
            logger.error("%s", failure)

    async def _beat(self) -> None:
        while True:
            try:
                await self._beat_once()
            except StorageFailed:  # the crawl is being closed, and says why
                return
            except Exception:  # a bug of ours must not make this worker look dead
                logger.exception("Error in what this worker tells the others")
            is_idle = self._idle_since is not None or self._scheduler.working() == 0
            await asyncio.sleep(_IDLE_BEAT_SECONDS if is_idle else _BEAT_SECONDS)

    async def _leave_with_engine(self) -> None:
        """Apart from the beat, which waits for a Redis that is away."""
        while True:
            await asyncio.sleep(_IDLE_BEAT_SECONDS)
            if is_closing(self._crawler):
                self._crew.leave()
                await self._scheduler.give_back()

    async def _beat_once(self) -> None:
        started = time.monotonic()
        await self._crew.beat(**self._words())
        self._confirmed_at = started
        await self._inherit()
        await self._crew.drop_lines(self._feeds.take_safe())
        self._write_lost()
        if is_closing(self._crawler):
            return
        if self._scheduler.working():
            self._idle_since = None
        else:
            self._scheduler.look_again()

    def _words(self) -> dict[str, Any]:
        engine, stats = self._crawler.engine, self._crawler.stats
        assert engine is not None
        assert stats is not None
        pages, slot = stats.get_value("llmcrawler/pages", 0), engine.scraper.slot
        minutes = max(1.0, time.time() - self._crew.words.started) / 60
        return {
            "pages": pages,
            "pages_a_minute": round(pages / minutes, 1),
            "in_flight": len(engine.downloader.active),
            "working": 0 if is_closing(self._crawler) else self._scheduler.working(),
            "held": self._crawl.records.held_count,
            "pressed": "backing_out" if slot is not None and slot.needs_backout() else None,
            "llm_calls": stats.get_value("llmcrawler/llm/calls", 0),
            "tokens": sum(stats.get_value(f"llmcrawler/llm/{name}_tokens", 0) for name in ("prompt", "completion")),
        }

    async def _inherit(self) -> None:
        lines = await self._crew.inherited_lines() if self._crew.roll.gone else []
        for gone in self._crew.roll.gone:
            logger.warning("Worker %s is gone; what it had comes back", gone)
        self._feeds.write([Page.of_line(line) for line in lines])

    def _write_lost(self) -> None:
        """Urls that took down their workers: nobody has a page of them."""
        lost, self._crew.frontier.lost = self._crew.frontier.lost, []
        for lease in lost:
            message = f"the crawl was taken down {lease.attempts - 1} times while it was read"
            process_item(self._crawler, error_page(lease, "lost", message))

    @property
    def _scheduler(self) -> FrontierScheduler:
        return scheduler_of(self._crawler)
