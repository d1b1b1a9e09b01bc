"""Keeps the requests and items of any spider in a JOBDIR, so that a crawl that is killed loses nothing.

A request is leased from the frontier in the job's file, and acknowledged there in one transaction with the items that
came of it, when those are through the pipelines and its own requests are in the file.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import insort_right
from collections import Counter, deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from llmcrawler.core.frontier import Lease, UrlTask
from llmcrawler.crawl.context import find_crawl
from llmcrawler.crawl.job import open_request_job
from llmcrawler.engine.compat import close_spider_soon, end_with_failure, wake_engine
from llmcrawler.engine.delayed_requests import DelayedRequests
from llmcrawler.engine.kept_requests import pack_request, unpack_request
from llmcrawler.engine.request_context import update_context
from llmcrawler.engine.request_runs import RequestIdentities, RequestRun, RequestRuns, earlier_items
from llmcrawler.errors import ConfigError, CrawlerError, StorageFailed

logger = logging.getLogger(__name__)


class RequestScheduler(BaseScheduler):
    """Filters and orders requests as Scrapy's scheduler does: by fingerprint, and higher priorities first; within one
    priority, those that came first go out first.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._continued: deque[Request] = deque()  # retries and redirects
        self._delayed = DelayedRequests(crawler, self._continue)
        self._redirecting = 0  # those whose target is looked up
        self._new: list[UrlTask] = []
        self._adding: Counter[int] = Counter()  # priorities of what is on its way into the file
        self._buffer: list[Lease] = []  # best priority first
        self._leasing = 0
        self._is_leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        crawler.signals.connect(self._replay, signals.engine_started)
        crawler.signals.connect(self._end_orphans, signals.spider_idle)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    # -- Scrapy's interface -------------------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None] | None:
        self._spider = spider
        self.job = open_request_job(self._crawler, self._end_in_failure)
        crawl = find_crawl(self._crawler)
        if crawl is not None:
            crawl.stop.goes_on_later = True
        assert self._crawler.request_fingerprinter is not None
        self._identities = RequestIdentities(self._crawler.request_fingerprinter, self.job.run_number)
        self._runs = RequestRuns(self._crawler, self._finish, self._refuse)
        return deferred_from_coro(self.job.open())

    def close(self, reason: str) -> Deferred[None] | None:
        return deferred_from_coro(self._close(reason)) if hasattr(self, "job") else None

    def enqueue_request(self, request: Request) -> bool:
        run = self._runs.of(request)
        if run is not None and not run.is_with_spider:
            target = self._identities.redirected(request, run)
            if target is None:
                self._continue(request)
            else:
                self._redirecting += 1
                self._spawn(self._redirect(request, run, target))
            return True
        source = self._runs.current()
        try:
            task = self._task_of(request, source)
        except ConfigError as error:
            if source is not None:
                source.is_whole = False
            self._refuse(error)
            return False
        self._new.append(task)
        self._adding[task.priority] += 1
        if len(self._new) == 1:
            self._spawn(self._add_new())
        return True

    def next_request(self) -> Request | None:
        if self._continued:
            return self._continued.popleft()
        lease = self._take()
        if not self._leasing and (lease is None or len(self._buffer) < self._low_water()):
            self._spawn(self._fill())
        if lease is None:
            return None
        self._runs.start(lease)
        try:
            request = unpack_request(lease.task.payload or "", self._spider)
        except ConfigError as error:
            self._refuse(error)
            return None
        update_context(request, lease=lease)
        self._count("scheduler/dequeued")
        return request

    def has_pending_requests(self) -> bool:
        here = self._continued or self._delayed or self._redirecting or self._adding or self._buffer or self._leasing
        return bool(here or self.job.frontier.counts().queued)

    # -- what comes in ------------------------------------------------------------------------------------------------

    def _task_of(self, request: Request, source: RequestRun | None) -> UrlTask:
        assert self._crawler.engine is not None
        payload = pack_request(request, self._spider)
        return UrlTask(
            self._identities.identify(request, source),
            self._crawler.engine.downloader.get_slot_key(request),
            depth=request.meta.get("depth", 0),
            referer=None if source is None else source.lease.task.address,
            priority=-request.priority,
            payload=payload,
        )

    async def _add_new(self) -> None:
        tasks, self._new = self._new, []
        if not tasks:
            return
        try:
            new = await self.job.frontier.add(tasks)
            self._count("scheduler/enqueued", new)
            self._count("dupefilter/filtered", len(tasks) - new)
            if new:
                # Not before these are here may worse ones go out.
                await self._fill(best_new=min(task.priority for task in tasks))
        finally:
            self._adding -= Counter(task.priority for task in tasks)
            wake_engine(self._crawler)

    async def _redirect(self, request: Request, run: RequestRun, target: str) -> None:
        """Go on to where a request was redirected, unless that was asked for before, as Scrapy does."""
        try:
            is_new = await self.job.frontier.reserve_target(target, run.lease.url)
        finally:
            self._redirecting -= 1
        if is_new:
            self._continue(request)
        else:
            self._count("dupefilter/filtered")
            self._runs.end(run)
        wake_engine(self._crawler)

    def _continue(self, request: Request) -> None:
        if not self._delayed.hold(request):
            self._continued.append(request)

    # -- what goes out ------------------------------------------------------------------------------------------------

    def _take(self) -> Lease | None:
        """Take the best lease of a host that may have another request, unless a better one is on its way."""
        best, fetching = min(self._adding, default=None), self._runs.fetching()
        for index, lease in enumerate(self._buffer):
            if best is not None and lease.task.priority > best:
                return None
            if fetching[lease.task.host] < self._concurrency(lease.task.host):
                return self._buffer.pop(index)
        return None

    async def _fill(self, best_new: int | None = None) -> None:
        limit = 2 * self._low_water() - len(self._buffer)
        if best_new is not None and self._buffer and best_new < self._buffer[-1].task.priority:
            limit = max(limit, self._low_water())
        if limit <= 0 or self._is_leaving or not self.job.frontier.counts().queued:
            return
        self._leasing += 1
        try:
            leases = await self.job.frontier.lease(limit, self._held(), 2 * self._concurrency() + 2)
            for lease in leases:
                insort_right(self._buffer, lease, key=lambda lease: lease.task.priority)
        finally:
            self._leasing -= 1
        if leases or not self.has_pending_requests():
            wake_engine(self._crawler)

    def _low_water(self) -> int:
        return max(8, self._concurrency())

    def _concurrency(self, host: str = "") -> int:
        """Return how many requests of a host may be under way."""
        assert self._crawler.engine is not None
        downloader = self._crawler.engine.downloader
        slot = downloader.slots.get(host)
        here = downloader.domain_concurrency if slot is None else int(slot.concurrency)
        return here or downloader.total_concurrency

    def _held(self) -> Counter[str]:
        return self._runs.fetching() + Counter(lease.task.host for lease in self._buffer)

    # -- what is through ----------------------------------------------------------------------------------------------

    def _finish(self, run: RequestRun) -> None:
        self._spawn(self._acknowledge(run))

    async def _acknowledge(self, run: RequestRun) -> None:
        await self._add_new()  # the file takes these, and what is on its way there, before it takes the end of the run
        if run.is_whole:
            await self.job.frontier.ack(run.lease.url, run.outcome())
        else:
            await self.job.frontier.release(run.lease.url)

    def _end_orphans(self) -> None:
        """End the runs whose requests some component has dropped silently: nothing is under way now."""
        for run in self._runs.drain():
            run.fail("fetch", None, "the request was dropped on its way, by an offsite filter for example")
            self._finish(run)

    async def _replay(self) -> None:
        """Give the feeds the items of earlier runs. They are open by now, and the first request waits for this."""
        if self.job.resumed.is_new:
            return
        logger.info("%s", self.job.resumed)
        exporter = self._crawler.get_extension(FeedExporter)
        try:
            async for item in earlier_items(self.job):
                self._count("llmcrawler/replayed")
                if exporter is not None:
                    exporter.item_scraped(item, self._spider)
        except CrawlerError as error:
            self._refuse(error)

    def _refuse(self, error: CrawlerError) -> None:
        """End the crawl for what it cannot keep; what it has kept stays."""
        if not self._is_leaving:
            self._is_leaving = True
            logger.error("%s", error)
            self._end_in_failure("not_kept")

    def _end_in_failure(self, reason: str) -> None:
        end_with_failure(self._crawler)
        close_spider_soon(self._crawler, reason)

    async def _close(self, reason: str) -> None:
        self._is_leaving = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        try:
            for lease in (*self._buffer, *(run.lease for run in self._runs.drain())):
                await self.job.frontier.release(lease.url)
            waiting = self.job.frontier.counts().queued
            await self.job.close(reason)
        except StorageFailed as failure:
            logger.error("%s", failure)
            return
        if reason != "finished":
            logger.info(
                "The crawl is not at its end (%s, %d requests wait): run the same command again to go on",
                reason,
                waiting,
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_unless_failed(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _count(self, name: str, count: int = 1) -> None:
        assert self._crawler.stats is not None
        if count:
            self._crawler.stats.inc_value(name, count)


async def _unless_failed(work: Coroutine[Any, Any, None]) -> None:
    with suppress(StorageFailed):  # the crawl is being closed already, and the log says why
        await work
