"""Holds the leases of a crawl, and returns them to the frontier when their items are through the pipelines."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler

from llmcrawler.crawl.context import CrawlContext
from llmcrawler.engine.page_budget import PageBudget
from llmcrawler.errors import StorageFailed, WorkGivenBack
from llmcrawler.frontier import Frontier, Lease
from llmcrawler.items import FeedItem, Page, StageRun
from llmcrawler.storage import Outcome

logger = logging.getLogger(__name__)


class LeaseKeeper(BaseScheduler):
    """The half of a scheduler that renews, acknowledges and releases leases.

    Where the frontier raises StorageFailed the crawl is being closed already, and the log says why.
    """

    def __init__(self, crawler: Crawler, crawl: CrawlContext) -> None:
        self.frontier: Frontier = crawl.frontier
        self._crawler = crawler
        self._crawl = crawl
        self._pages = PageBudget(crawl.options.max_pages)
        self._leases: dict[str, Lease] = {}  # by url, those that have not come back
        self._tasks: list[asyncio.Task[None]] = []
        crawler.signals.connect(self._item_is_through, signals.item_scraped)
        crawler.signals.connect(self._item_was_dropped, signals.item_dropped)
        crawler.signals.connect(self._item_failed, signals.item_error)

    def held_leases(self) -> list[Lease]:
        """Return the leases that have not come back, oldest first."""
        return list(self._leases.values())

    def holds(self, lease: Lease) -> bool:
        return lease.url in self._leases

    def _note_refund(self) -> None:
        """Do what has to be done when a place of `max_pages` is free again."""
        raise NotImplementedError

    async def _return_buffered(self) -> None:
        """Release the leases whose requests have not gone out."""
        raise NotImplementedError

    async def _keep_leases(self) -> None:
        with suppress(StorageFailed):
            while True:
                await asyncio.sleep(self._crawl.lease_seconds / 3)
                if self._crawl.crew is None:
                    await self.frontier.renew(self._leases)
                else:
                    await self._crawl.crew.frontier.renew_held()

    async def _item_is_through(self, item: object) -> None:
        if isinstance(item, FeedItem):
            is_dead = item.error is not None and item.error.stage == "fetch"
            await self._end(item, Outcome(item.as_line(), _runs(item), is_dead=is_dead))

    async def _item_was_dropped(self, item: object, exception: BaseException | None = None) -> None:
        """Note a url that a pipeline of the user's dropped, or return one that this worker leaves to others."""
        if not isinstance(item, FeedItem):
            return
        if not isinstance(getattr(exception, "__cause__", None), (StorageFailed, WorkGivenBack)):
            await self._end(item, Outcome(None, _runs(item)))
        elif self._leases.pop(item.id, None) is not None:
            with suppress(StorageFailed):
                await self.frontier.release(item.id)

    async def _item_failed(self, item: object) -> None:
        """Note a url on which a pipeline of the user's raised; Scrapy logs the error."""
        if isinstance(item, FeedItem):
            await self._end(item, Outcome(None, _runs(item), is_dead=True))

    async def _end(self, page: FeedItem, outcome: Outcome) -> None:
        if self._leases.pop(page.id, None) is None:
            return
        try:
            await self.frontier.ack(page.id, outcome)
            if isinstance(page, Page) and not self._crawl.note_end(page):
                await self._return_buffered()
        except StorageFailed:
            return
        self._crawl.learned.note_progress()
        if outcome.is_dead and self._pages.refund():
            self._note_refund()
        self._count()

    def _count(self) -> None:
        assert self._crawler.stats is not None
        counts = self.frontier.counts()
        for name in ("queued", "leased", "done"):
            self._crawler.stats.set_value(f"llmcrawler/frontier/{name}", getattr(counts, name))

    async def _close(self, reason: str) -> None:
        for task in self._tasks:
            task.cancel()
        if self._crawl.crew is not None:  # it is closed when the feeds are
            self._crawl.crew.leave()
        try:
            for url in list(self._leases):
                await self.frontier.release(url)
            if self._crawl.job is not None:
                await self._crawl.job.close(reason)
        except StorageFailed as failure:
            logger.error("%s", failure)
        self._leases.clear()


def _runs(page: FeedItem) -> dict[str, StageRun]:
    """Return the runs of a page's stages. What failed before it was a page is in its error only."""
    if page.error is not None and page.error.stage == "fetch":
        error = page.error
        run = StageRun("failed", f"{error.kind}: {error.message}", error.attempts, time.time(), 0.0)
        return {**page.stages, "fetch": run}
    return page.stages
