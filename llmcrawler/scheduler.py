"""Feeds Scrapy's engine from the frontier.

The frontier may be slow, `next_request` may not wait: a background task keeps a small buffer of leased urls filled.
Requests are built when they are handed out, because a frontier can hold a million urls. What comes in through
`enqueue_request` (retries, redirects, sitemaps, a spider's own requests) is handed out before new leases.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Protocol, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from llmcrawler.downloader import PoliteDownloader
from llmcrawler.errors import ConfigError, StorageFailed, WorkGivenBack
from llmcrawler.frontier import Frontier, Lease, UrlTask
from llmcrawler.items import Line, Page, StageRun
from llmcrawler.job_resume import Resumed
from llmcrawler.storage import Outcome
from llmcrawler.storage.schema import AGAIN
from llmcrawler.wiring import Crawl, crawl_of

LEASE = "lease"
NOT_BEFORE_SECONDS = "not_before_seconds"  # in the meta of a request that comes back: how long it waits here

# Pages may come in faster than they can be read: so many of them wait as bodies.
_MOST_ARRIVING = 32
_LOOK_AGAIN_SECONDS = 5.0

logger = logging.getLogger(__name__)


class LeasingSpider(Protocol):
    """A spider whose urls come from the frontier."""

    def request_of(self, lease: Lease) -> Request: ...


class FrontierScheduler(BaseScheduler):
    """Leases urls until `max_pages` came, and acknowledges them when their page is through the pipelines.

    A url that could not be fetched does not count, but no more than `max_pages` of those are passed over.
    """

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        self.frontier: Frontier = crawl.frontier
        self._crawler = crawler
        self._crawl = crawl
        self._pursuit = crawl.pursuit
        self._max_pages = max_pages = crawl.options.max_pages
        self._spent = 0
        self._refundable = max_pages
        self._again = 0  # pages of earlier runs that are to be leased again; `_spent` has them already
        self._leases: dict[str, Lease] = {}
        self._buffer: dict[str, deque[Lease]] = {}
        self._buffered = 0
        self._is_dry = False  # the last look into the frontier found all there was
        self._is_leasing = False  # what the frontier hands out just now is neither queued nor here
        self._waiting: dict[str, deque[Request]] = {}
        self._delayed = 0
        self._is_leaving = False
        self._wanted = asyncio.Event() if self._pursuit is None else self._pursuit.news
        self._tasks: list[asyncio.Task[None]] = []
        crawler.signals.connect(self._item_is_through, signals.item_scraped)
        crawler.signals.connect(self._item_was_dropped, signals.item_dropped)
        crawler.signals.connect(self._item_failed, signals.item_error)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if crawler.settings.get("JOBDIR") and not hasattr(crawler.spider, "request_of"):
            logger.warning(
                "JOBDIR: the requests of the spider %s are kept in memory and lost when it stops; for a spider that "
                "makes its own requests set SCHEDULER to scrapy.core.scheduler.Scheduler",
                crawler.spidercls.name,
            )
        return cls(crawler, crawl_of(crawler))

    def open(self, spider: Spider) -> Deferred[None] | None:  # noqa: ARG002 (Scrapy's interface)
        assert self._crawler.engine is not None
        if not isinstance(self._crawler.engine.downloader, PoliteDownloader):
            raise ConfigError(f"DOWNLOADER must be a subclass of {PoliteDownloader.__module__}.PoliteDownloader")
        return deferred_from_coro(self._open())

    def close(self, reason: str) -> Deferred[None] | None:
        return deferred_from_coro(self._close(reason))

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        await self._prefer()
        try:
            new = await self.frontier.add(tasks)
        except StorageFailed:  # the crawl is being closed, and says why
            return 0
        if new:
            self._wanted.set()
        return new

    def held_leases(self) -> list[Lease]:
        """The leases that have not come back, oldest first."""
        return list(self._leases.values())

    def holds(self, lease: Lease) -> bool:
        return lease.url in self._leases

    def waits_only_for(self, hosts: Collection[str]) -> bool:
        """Whether nothing is left to do but for these hosts."""
        if self._delayed or self._is_leasing or not self._is_dry or self._wanted.is_set():
            return False
        return all(host in hosts for host in (*self._waiting, *self._buffer, *self._downloader.fetching))

    def enqueue_request(self, request: Request) -> bool:
        wait_seconds = request.meta.pop(NOT_BEFORE_SECONDS, 0.0)
        if wait_seconds:
            self._delayed += 1
            call_later(wait_seconds, self._come_back, request)
        else:
            self._waiting.setdefault(self._downloader.get_slot_key(request), deque()).append(request)
        return True

    def next_request(self) -> Request | None:
        if self._crawl.arriving >= _MOST_ARRIVING:  # the engine asks again when one of them is through
            return None
        for host, requests in self._waiting.items():
            if self._downloader.room(host) > 0:
                del self._waiting[host]
                request = requests.popleft()
                if requests:
                    self._waiting[host] = requests
                return request
        for host, leases in self._buffer.items():
            if self._downloader.room(host) > 0:
                return self._hand_out(host, leases)
        self._wanted.set()
        return None

    def has_pending_requests(self) -> bool:
        here = self._waiting or self._delayed or self._buffered or self._is_leasing
        if here or self._room() <= 0 or not self.frontier.counts().queued:
            return bool(here)
        # What waits to be known better is not pending: pages that wait for company must not wait for it.
        return self._pursuit is None or not (self._is_dry and self._pursuit.is_waiting)

    def _hand_out(self, host: str, leases: deque[Lease]) -> Request:
        lease = leases.popleft()
        self._buffered -= 1
        # A host goes to the end when it was served, so that all hosts take turns.
        del self._buffer[host]
        if leases:
            self._buffer[host] = leases
        if self._awake() < self._low_water():
            self._wanted.set()
        spider: LeasingSpider = self._crawler.spider  # type: ignore[assignment]  # others have no leases
        request = spider.request_of(lease)
        request.meta[LEASE] = lease
        return request

    async def _open(self) -> None:
        job, crew = self._crawl.job, self._crawl.crew
        await (crew or job or self.frontier).open()
        counts = self.frontier.counts()
        self._refundable = max(0, self._max_pages - counts.dead)
        self._spent = counts.done + max(0, counts.dead - self._max_pages)
        if job is not None and not job.resumed.is_new:
            await job.restore(self._crawl.admission, self._crawl.relearn)
            self._limit_to(job.resumed)
        self._tasks = [asyncio.ensure_future(self._keep_filled()), asyncio.ensure_future(self._keep_leases())]

    def _limit_to(self, resumed: Resumed) -> None:
        """Pages that are gone through again are no more pages than there were."""
        self._again = resumed.stored + resumed.again
        self._spent += self._again
        if resumed.finished:
            self._max_pages, self._refundable = self._spent, 0
        else:
            self._max_pages = max(self._max_pages, self._spent)

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(self._crawl.lease_seconds / 3)
            try:
                if self._crawl.crew is None:
                    await self.frontier.renew(self._leases)
                else:
                    await self._crawl.crew.frontier.renew_held()
            except StorageFailed:  # the crawl is being closed, and says why
                return

    async def _keep_filled(self) -> None:
        while True:
            await self._until_wanted()
            try:
                await self._fill()
            except StorageFailed:  # the crawl is being closed, and says why
                return

    async def _fill(self) -> None:
        limit = min(self._room(), 2 * self._low_water() - self._awake())
        was_dry = self._is_dry
        # To look for nothing would hold a crawl open that is at its end, until the engine's next heartbeat. Among other
        # workers a look also takes back what the dead ones held.
        may_find = self._crawl.crew is not None or self.frontier.counts().queued
        self._is_dry = limit <= 0 or not may_find
        if self._is_dry:
            return
        self._is_leasing = True
        try:
            leases = await self._lease(limit)
            self._is_dry = len(leases) < limit
            self._take(leases)
        finally:
            self._is_leasing = False
        self._count()
        if leases or not was_dry:  # when it ran dry just now, the crawl may be at its end
            self._wake_engine()

    def _take(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._leases[lease.url] = lease
            self._buffer.setdefault(lease.task.host, deque()).append(lease)
            self._buffered += 1
            if self._again and (lease.is_stored or lease.is_known):
                self._again -= 1
            else:
                self._spent += 1

    async def _until_wanted(self) -> None:
        if self._pursuit is None:
            await self._wanted.wait()
        else:  # it does not wait for a page that takes too long
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), _LOOK_AGAIN_SECONDS)
        self._wanted.clear()

    async def _lease(self, limit: int) -> list[Lease]:
        await self._prefer()
        leases: list[Lease] = []
        if self._again:  # however new urls rank, and whichever host has no room just now, their places are kept
            leases = await self.frontier.lease(limit, self._held(), self._per_host(), AGAIN)
        limit = min(limit - len(leases), self._budget())
        if limit > 0:
            held = self._held() + Counter(lease.task.host for lease in leases)
            worst = None if self._pursuit is None else self._pursuit.reach()
            leases += await self.frontier.lease(limit, held, self._per_host(), worst)
        if self._pursuit is not None:
            for lease in leases:
                self._pursuit.note_lease(lease.task)
        return leases

    async def _prefer(self) -> None:
        if self._pursuit is None:
            return
        try:
            await self.frontier.prefer(self._pursuit.goal.changed_ranks())
        except StorageFailed:  # the crawl is being closed, and says why
            return

    def _room(self) -> int:
        """How many leases may still be had."""
        budget = self._budget()
        return budget + self._again if self._may_go_on() else 0

    def _may_go_on(self) -> bool:
        return not self._is_leaving and (self._pursuit is None or not self._pursuit.is_done)

    def _budget(self) -> int:
        """How many urls may still be leased for the first time."""
        if not self._may_go_on():
            return 0
        if self._crawl.crew is not None:  # what all workers have spent
            counts = self.frontier.counts()
            return self._max_pages - counts.leased - counts.done - max(0, counts.dead - self._max_pages)
        return self._max_pages - self._spent

    def _low_water(self) -> int:
        # With a goal, what is buffered here was the best before the pages on their way were known.
        return max(8, self._per_host()) if self._pursuit is None else max(2, self._downloader.domain_concurrency // 2)

    def _per_host(self) -> int:
        """How many leases of one host are held here, buffered or downloading: enough to keep it busy."""
        if self._pursuit is not None:
            return self._downloader.domain_concurrency + self._low_water()
        return 2 * self._downloader.domain_concurrency + 2

    def _awake(self) -> int:
        """How many of the buffered leases could go out: those of a resting host must not keep others away."""
        return sum(len(leases) for host, leases in self._buffer.items() if not self._downloader.is_resting(host))

    def _held(self) -> Counter[str]:
        held = self._downloader.fetching + Counter({host: len(leases) for host, leases in self._buffer.items()})
        return held + Counter({host: len(requests) for host, requests in self._waiting.items()})

    def _come_back(self, request: Request) -> None:
        self._delayed -= 1
        self.enqueue_request(request)
        self._wake_engine()

    @property
    def _downloader(self) -> PoliteDownloader:
        assert self._crawler.engine is not None
        downloader = self._crawler.engine.downloader
        assert isinstance(downloader, PoliteDownloader)  # checked by open()
        return downloader

    def _wake_engine(self) -> None:
        """Have the engine ask now: its own heartbeat is 5 s, and Scrapy has no public way to say so."""
        engine = self._crawler.engine
        if engine is not None and engine._slot is not None:
            engine._slot.nextcall.schedule()

    async def _item_is_through(self, item: object) -> None:
        if isinstance(item, Line):
            is_dead = item.error is not None and item.error.stage == "fetch"
            await self._end(item, Outcome(item.as_line(), _runs(item), is_dead=is_dead))

    async def _item_was_dropped(self, item: object, exception: BaseException | None = None) -> None:
        """By a pipeline of the user's: there is no line of it. Or this worker leaves, and others have it."""
        if not isinstance(item, Line):
            return
        cause = getattr(exception, "__cause__", None)
        if not isinstance(cause, (StorageFailed, WorkGivenBack)):
            await self._end(item, Outcome(None, _runs(item)))
        elif self._leases.pop(item.id, None) is not None:
            with suppress(StorageFailed):  # the crawl is being closed, and says why
                await self.frontier.release(item.id)

    async def _item_failed(self, item: object) -> None:
        """In a pipeline of the user's: the log says how."""
        if isinstance(item, Line):
            await self._end(item, Outcome(None, _runs(item), is_dead=True))

    async def _end(self, page: Line, outcome: Outcome) -> None:
        if self._leases.pop(page.id, None) is None:
            return
        try:
            await self.frontier.ack(page.id, outcome)
            if isinstance(page, Page) and not self._crawl.note_end(page):
                await self._return_buffered()
        except StorageFailed:  # the crawl is being closed, and says why
            return
        self._crawl.learned.note_progress()
        if outcome.is_dead and self._refundable > 0:
            self._refundable -= 1
            self._spent -= 1
            self._wanted.set()
        self._count()

    def may_lease(self) -> bool:
        return self._budget() > 0

    def look_again(self) -> None:
        """Others may have queued something, or be at the crawl's end."""
        self._wanted.set()
        counts = self.frontier.counts()
        if not counts.leased and not (counts.queued and self.may_lease()):
            self._wake_engine()

    def working(self) -> int:
        """Urls that are on their way to the site."""
        return (
            self._buffered + self._delayed + sum(map(len, self._waiting.values())) + self._downloader.fetching.total()
        )

    async def give_back(self) -> None:
        """What is held here and not under way, at once. Nothing more is leased."""
        self._is_leaving = True
        try:
            await self._return_buffered()
        except StorageFailed:  # the crawl is being closed, and says why
            return

    async def _return_buffered(self) -> None:
        leases = [lease for buffered in self._buffer.values() for lease in buffered]
        self._buffer.clear()
        self._buffered = 0
        for lease in leases:
            del self._leases[lease.url]
            await self.frontier.release(lease.url)
            if self._pursuit is not None:
                self._pursuit.note_return(lease.url)

    def _count(self) -> None:
        assert self._crawler.stats is not None
        counts = self.frontier.counts()
        self._crawler.stats.set_value("llmcrawler/frontier/queued", counts.queued)
        self._crawler.stats.set_value("llmcrawler/frontier/leased", counts.leased)
        self._crawler.stats.set_value("llmcrawler/frontier/done", counts.done)

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


def scheduler_of(crawler: Crawler) -> FrontierScheduler:
    assert crawler.engine is not None
    scheduler = crawler.engine.scheduler
    assert isinstance(scheduler, FrontierScheduler)
    return scheduler


def _runs(page: Line) -> dict[str, StageRun]:
    """The runs of a page's stages. What failed before it was a page is in its error only."""
    if page.error is not None and page.error.stage == "fetch":
        error = page.error
        run = StageRun("failed", f"{error.kind}: {error.message}", error.attempts, time.time(), 0.0)
        return {**page.stages, "fetch": run}
    return page.stages
