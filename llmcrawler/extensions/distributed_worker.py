"""Makes a crawl a worker among others: tells them that it is there, and waits for what they find."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.engine_state import EngineWatch, Phase, phase_of
from llmcrawler.crawl.safe_lines import SafeLines
from llmcrawler.engine.compat import is_closing, process_item
from llmcrawler.engine.error_pages import error_page
from llmcrawler.engine.own_schedulers import check_scheduler, running_scheduler
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.errors import StorageFailed
from llmcrawler.extensions.connecting import connect_handlers
from llmcrawler.extraction import Records
from llmcrawler.items import Page

if TYPE_CHECKING:
    from llmcrawler.crawl.distributed_session import DistributedSession

logger = logging.getLogger(__name__)

_RIGHTS = "llmcrawler/rights/"
_BEAT_SECONDS, _IDLE_BEAT_SECONDS = 1.0, 0.25


@dataclass(eq=False)
class DistributedWorker:
    """Sends heartbeats, and ends with the others. `lines` knows what a death of this worker would not take away."""

    crawler: Crawler
    session: DistributedSession
    watch: EngineWatch
    lines: SafeLines
    records: Records

    def __post_init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_since: float | None = None
        self._confirmed_at = 0.0
        self._reason = "shutdown"
        connect_handlers(self.crawler, self, "spider_opened", "spider_idle", "spider_closed", "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.backend.session is None or crawl.backend.lines is None:
            raise NotConfigured
        check_scheduler(crawler.settings, FrontierScheduler)
        return cls(crawler, crawl.backend.session, crawl.watch, crawl.backend.lines, crawl.understanding.records)

    def spider_opened(self) -> None:
        logger.info("This is worker %s of the crawl %s", self.session.worker, self.session.rules.crawl_id)
        self._tasks = [asyncio.ensure_future(self._beat()), asyncio.ensure_future(self._leave_with_engine())]

    def spider_idle(self) -> None:
        """Keep the spider open when there is nothing to do here, until that is so everywhere."""
        self._idle_since = self._idle_since or time.monotonic()
        counts = self.session.frontier.counts()
        state = replace(
            self.watch.state(),
            is_left=bool(counts.leased or (counts.queued and self._scheduler.may_lease())),
            is_confirmed=self._confirmed_at > self._idle_since,
        )
        if phase_of(state) is not Phase.FINISHED:
            raise DontCloseSpider

    def spider_closed(self, reason: str) -> None:
        self._reason = reason

    async def engine_stopped(self) -> None:
        """Leave the crawl and drop the lines that are safe: feeds are closed by now."""
        for task in self._tasks:
            task.cancel()
        try:
            await self.session.drop_lines(self.lines.take_safe())
            await self.session.close(self._reason)
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
        """Run beside the beat, which waits for a Redis that is away."""
        while True:
            await asyncio.sleep(_IDLE_BEAT_SECONDS)
            if is_closing(self.crawler):
                self.session.leave()
                await self._scheduler.give_back()

    async def _beat_once(self) -> None:
        started = time.monotonic()
        await self.session.beat(**self._activity())
        self._confirmed_at = started
        await self._inherit()
        await self.session.drop_lines(self.lines.take_safe())
        self._write_lost()
        if is_closing(self.crawler):
            return
        if self._scheduler.working():
            self._idle_since = None
        else:
            self._scheduler.look_again()

    def _activity(self) -> dict[str, Any]:
        engine, stats = self.crawler.engine, self.crawler.stats
        assert engine is not None
        assert stats is not None
        pages, slot = stats.get_value("llmcrawler/pages", 0), engine.scraper.slot
        minutes = max(1.0, time.time() - self.session.report.started) / 60
        return {
            "pages": pages,
            "pages_a_minute": round(pages / minutes, 1),
            "in_flight": len(engine.downloader.active),
            "working": 0 if is_closing(self.crawler) else self._scheduler.working(),
            "held": self.records.held_count,
            "pressed": "backing_out" if slot is not None and slot.needs_backout() else None,
            "llm_calls": stats.get_value("llmcrawler/llm/calls", 0),
            "rights": {
                name.removeprefix(_RIGHTS): count
                for name, count in stats.get_stats().items()
                if name.startswith(_RIGHTS)
            },
            "tokens": sum(stats.get_value(f"llmcrawler/llm/{name}_tokens", 0) for name in ("prompt", "completion")),
        }

    async def _inherit(self) -> None:
        lines = await self.session.inherited_lines() if self.session.membership.gone else []
        for gone in self.session.membership.gone:
            logger.warning("Worker %s is gone; what it had comes back", gone)
        self.lines.write([Page.of_line(line) for line in lines])

    def _write_lost(self) -> None:
        """Write lines for urls that took down their workers: nobody has a page of them."""
        lost, self.session.frontier.lost = self.session.frontier.lost, []
        for lease in lost:
            message = f"the crawl was taken down {lease.attempts - 1} times while it was read"
            process_item(self.crawler, error_page(lease, "lost", message))

    @property
    def _scheduler(self) -> FrontierScheduler:
        return running_scheduler(self.crawler, FrontierScheduler)
