"""Holds the leases of a crawl, and returns them to the frontier: when their items are through the pipelines, or before
they went out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler

from llmcrawler.core.frontier import Admission, FocusedCrawl, Lease
from llmcrawler.core.storage import Outcome
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.urls import site_of
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.context import ArrivingPages
from llmcrawler.engine.compat import close_spider_soon, process_item
from llmcrawler.engine.delayed_requests import DelayedRequests
from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.engine.error_pages import error_page, spider_line
from llmcrawler.engine.host_queues import HostQueues
from llmcrawler.engine.page_budget import PageBudget, SiteBudgets
from llmcrawler.engine.request_context import context_of
from llmcrawler.errors import STOPPED, StorageFailed, WorkGivenBack
from llmcrawler.items import FeedItem, Page, StageRun

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LeaseKeeper(BaseScheduler):
    """The half of a scheduler that renews, acknowledges and releases leases. `_buffer` has those that wait to go out,
    `_waiting` and `_delayed` the requests that came back.

    Where the frontier raises StorageFailed the crawl is being closed already, and the log says why.
    """

    crawler: Crawler
    backend: CrawlBackend
    budget: PageBudget
    sites: SiteBudgets
    admission: Admission
    templates: TemplateStore
    arriving: ArrivingPages
    focused_crawl: FocusedCrawl | None = None

    def __post_init__(self) -> None:
        self.frontier = self.backend.frontier
        # Set when there may be urls to lease, or places under `max_pages`.
        self._refill = asyncio.Event() if self.focused_crawl is None else self.focused_crawl.news
        self._leases: dict[str, Lease] = {}  # by url, those that have not come back
        self._lost: set[str] = set()  # urls that were other workers' once their requests were under way here
        self._buffer: HostQueues[Lease] = HostQueues()
        self._waiting: HostQueues[Request] = HostQueues()
        self._delayed = DelayedRequests(self.crawler, self.enqueue_request)
        self._is_on_hold = self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.crawler.signals.connect(self._item_is_through, signals.item_scraped)
        self.crawler.signals.connect(self._item_was_dropped, signals.item_dropped)
        self.crawler.signals.connect(self._item_failed, signals.item_error)

    def held_leases(self) -> list[Lease]:
        """Return the leases that have not come back, oldest first."""
        return list(self._leases.values())

    def holds(self, lease: Lease) -> bool:
        return lease.url in self._leases

    def stop(self) -> None:
        """Give lines to the urls that were tried and will not be tried again, where no later run does that."""
        self._is_stopping = self.backend.job is None and self.backend.session is None
        if self._is_stopping:
            for request in (*self._waiting.drain(), *self._delayed.drain()):
                self._end_untried(request)

    async def give_back(self) -> None:
        """Release what is not under way yet, and lease nothing more until `go_on`."""
        self._is_on_hold = True
        with suppress(StorageFailed):
            await self._return_buffered()

    def go_on(self) -> None:
        self._is_on_hold = False
        self._refill.set()

    async def hand_back(self, site: str) -> bool:
        """Release the urls of a site that are not under way; return whether nothing of it is any more."""

        def is_of_site(host: str) -> bool:
            return site_of(host) == site

        await self._return_buffered(is_of_site)
        for request in self._take_waiting(is_of_site):
            lease = context_of(request).lease
            assert lease is not None
            if self._leases.pop(lease.url, None) is not None:
                await self.frontier.release(lease.url)
        hosts = (*self._downloader.fetching, *self._waiting, *(one.task.host for one in self._leases.values()))
        return not any(map(is_of_site, hosts))

    def lose_all(self) -> None:
        """Drop all leases: other workers have taken them over."""
        self._buffer.drain(lambda _host: True)
        self._lost |= self._leases.keys()
        self._leases.clear()
        self._take_waiting(lambda _host: True)

    def _take_waiting(self, of: Callable[[str], bool]) -> list[Request]:
        """Return the requests of some hosts that wait with their leases; those without one stay."""
        key_of = self._downloader.get_slot_key
        found = self._delayed.drain(lambda one: context_of(one).lease is not None and of(key_of(one)))
        for request in self._waiting.drain(of):
            if context_of(request).lease is None:
                self._waiting.put(key_of(request), request)
            else:
                found.append(request)
        return found

    def _is_lost(self, request: Request) -> bool:
        """Return whether another worker has the url of a request by now."""
        lease = context_of(request).lease
        return self.backend.session is not None and lease is not None and not self.holds(lease)

    def _end_untried(self, request: Request) -> bool:
        """Give a line to the url of a request that was sent before and will not be again; return whether it was."""
        context = context_of(request)
        if context.lease is None or context.started is None or not self.holds(context.lease):
            return False
        message = "the crawl was stopped before it was tried again"
        page = error_page(context.lease, STOPPED, message, request=request)
        process_item(self.crawler, spider_line(self.crawler, context.lease, page))
        return True

    async def _open(self) -> None:
        """Take over what earlier runs left, and begin to lease. Raises StorageFailed."""
        raise NotImplementedError

    async def _open_or_close(self) -> None:
        try:
            await self._open()
        except StorageFailed:  # the log says why
            close_spider_soon(self.crawler, "storage_failed")

    async def _return_buffered(self, of: Callable[[str], bool] = lambda _host: True) -> None:
        """Release the leases of some hosts whose requests have not gone out."""
        for lease in self._buffer.drain(of):
            del self._leases[lease.url]
            await self.frontier.release(lease.url)
            if self.focused_crawl is not None:
                self.focused_crawl.note_return(lease.url)

    @property
    def _downloader(self) -> PoliteDownloader:
        assert self.crawler.engine is not None
        downloader = self.crawler.engine.downloader
        assert isinstance(downloader, PoliteDownloader)  # checked by open()
        return downloader

    async def _keep_leases(self) -> None:
        with suppress(StorageFailed):
            while True:
                await asyncio.sleep(self.backend.lease_seconds / 3)
                await self.frontier.renew(self._leases)

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
        lease, lines = self._leases.pop(page.id, None), self.backend.lines
        if lease is None:
            if lines is not None:  # a spider of the user's may give pages that were not leased
                (lines.drop if page.id in self._lost else lines.write_held)(page.id)
            return
        try:
            if not await self.frontier.ack(page.id, outcome) and lines is not None:
                lines.drop(page.id)
            focused = self.focused_crawl
            if focused is not None and isinstance(page, Page) and not focused.end_page(page):
                await self._return_buffered()
        except StorageFailed:
            return
        self.templates.note_progress()
        if self._refund(lease, outcome):
            self._refill.set()
        self._count()

    def _refund(self, lease: Lease, outcome: Outcome) -> bool:
        """Give the place of a page back that does not count; return whether there is one more now."""
        if outcome.is_dead and not lease.task.fault:
            return self.sites.refund(lease) | self.budget.refund()
        return outcome.is_duplicate and self.sites.refund_duplicate(lease) | self.budget.refund_duplicate()

    def _count(self) -> None:
        assert self.crawler.stats is not None
        counts = self.frontier.counts()
        for name in ("queued", "leased", "done"):
            self.crawler.stats.set_value(f"llmcrawler/frontier/{name}", getattr(counts, name))
        if self.focused_crawl is not None:
            self.crawler.stats.set_value("llmcrawler/goal_records", self.focused_crawl.records)

    async def _close(self, reason: str) -> None:
        for task in self._tasks:
            task.cancel()
        if self.backend.session is not None:  # it is closed when the feeds are
            self.backend.session.leave()
        try:
            for url in list(self._leases):
                await self.frontier.release(url)
            if self.backend.job is not None:
                await self.backend.job.close(reason)
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
