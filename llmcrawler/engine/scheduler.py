"""Feeds Scrapy's engine from the frontier.

`next_request` must not wait, and the frontier may be slow: a background task keeps a small buffer of leases filled.
Requests are built when the engine takes them, because a frontier can hold a million urls. What comes in through
`enqueue_request` (retries, redirects, sitemaps, a spider's own requests) goes out before new leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from llmcrawler.core.frontier import Lease, UrlTask
from llmcrawler.core.frontier.focused_crawl import restore_link_scorer
from llmcrawler.core.frontier.site_views import THINGS
from llmcrawler.core.storage import REQUEUED_PRIORITY, JobConnection
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.compat import process_item, wake_engine
from llmcrawler.engine.downloader import check_downloader
from llmcrawler.engine.error_pages import unasked_line
from llmcrawler.engine.lease_demand import held_by_host, idle_hosts
from llmcrawler.engine.lease_keeper import LeaseKeeper
from llmcrawler.engine.page_budget import PageBudget, SiteBudgets
from llmcrawler.engine.request_context import update_context
from llmcrawler.errors import StorageFailed

_MOST_BUFFERED = 4096  # leases of 1 KB; those of hosts that are not asked now wait here too
_RETRY_SECONDS = 5.0  # with a goal: between two looks into the frontier when nothing else causes one

logger = logging.getLogger(__name__)


class LeasingSpider(Protocol):
    """A spider whose urls come from the frontier."""

    def request_of(self, lease: Lease) -> Request: ...


class FrontierScheduler(LeaseKeeper):
    """Leases urls until `max_pages` came.

    A url that could not be fetched does not count, up to a limit (PageBudget).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._is_dry = False  # the last look into the frontier found all there was
        self._is_leasing = False  # what the frontier leases just now is neither queued nor here
        self._idle_in: float | None = None  # seconds until a host that has only views left may get one
        # Not when such a page is through: it may wait long for a model's answer, and the crawl does not.
        self.arriving.on_room = partial(wake_engine, self.crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if crawler.settings.get("JOBDIR") and not hasattr(crawler.spider, "request_of"):
            logger.warning(
                "JOBDIR: the requests of the spider %s are kept in memory and lost when it stops; for a spider that "
                "makes its own requests set SCHEDULER to scrapy.core.scheduler.Scheduler",
                crawler.spidercls.name,
            )
        crawl = crawl_of(crawler)
        budget = PageBudget(crawl.options.max_pages)
        sites = SiteBudgets(crawl.backend.frontier, crawl.options.max_pages_per_site)
        parts = (crawl.admission, crawl.understanding.templates, crawl.arriving_pages, crawl.focused_crawl)
        return cls(crawler, crawl.backend, budget, sites, *parts)

    # -- Scrapy's interface -------------------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None] | None:  # noqa: ARG002 (Scrapy's interface)
        check_downloader(self.crawler)
        self._downloader.on_room = self._note_room
        return deferred_from_coro(self._open_or_close())

    def close(self, reason: str) -> Deferred[None] | None:
        return deferred_from_coro(self._close(reason))

    def enqueue_request(self, request: Request) -> bool:
        if (self._is_stopping and self._end_untried(request)) or self._is_lost(request):
            return True
        if not self._delayed.hold(request):
            self._waiting.put(self._downloader.get_slot_key(request), request)
        return True

    def next_request(self) -> Request | None:
        if self.arriving.is_full:
            return None
        if self._waiting and (request := self._waiting.take(self._downloader.has_room)) is not None:
            return request
        lease = self._buffer.take(self._downloader.has_room)
        if lease is None:
            self._refill.set()
            return None
        if self._buffer.ready < self._low_water():
            self._refill.set()
        if lease.task.fault or lease.is_lost:  # there is nothing to ask for
            process_item(self.crawler, unasked_line(self.crawler, lease))
            return self.next_request()
        spider: LeasingSpider = self.crawler.spider  # type: ignore[assignment]  # others have no leases
        request = spider.request_of(lease)
        update_context(request, lease=lease)
        return request

    def has_pending_requests(self) -> bool:
        here = self._waiting or self._delayed or self._buffer or self._is_leasing
        if here or self._leasable() <= 0 or not self.sites.has_queued():
            return bool(here)
        # Urls that wait to be known better are not pending: pages that wait for company must not wait for them.
        return self.focused_crawl is None or not (self._is_dry and self.focused_crawl.is_waiting)

    # -- for the spider and its components ----------------------------------------------------------------------------

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        """Queue urls, and return how many were new."""
        new = 0
        with suppress(StorageFailed):
            await self._set_priorities()
            new = await self.frontier.add(tasks)
        if new:
            self._refill.set()
        return new

    def waits_only_for(self, hosts: Collection[str]) -> bool:
        """Return whether nothing is left to do but for these hosts."""
        if self._delayed or self._is_leasing or not self._is_dry or self._refill.is_set():
            return False
        return all(host in hosts for host in (*self._waiting, *self._buffer, *self._downloader.fetching))

    def may_lease(self) -> bool:
        return self._new_leases_left() > 0

    def look_again(self) -> None:
        """Look into the frontier: other workers may have queued urls, or be at the crawl's end."""
        self._refill.set()
        counts = self.frontier.counts()
        if not counts.leased and not (counts.queued and self.may_lease()):
            wake_engine(self.crawler)

    def working(self) -> int:
        """Return how many urls are on their way to the site."""
        return len(self._buffer) + len(self._delayed) + len(self._waiting) + self._downloader.fetching.total()

    # -- leasing ------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        job = self.backend.job
        await (self.backend.session or job or self.frontier).open()
        self.budget.start(self.frontier.counts())
        if job is not None and not job.resumed.is_new:
            await job.restore(self.admission, self._relearn)
            self.sites.start(await job.counts_by_host())
            self._resume_budget()
        self._tasks = [asyncio.ensure_future(self._keep_filled()), asyncio.ensure_future(self._keep_leases())]

    def _relearn(self, connection: JobConnection) -> None:
        if self.focused_crawl is not None:
            restore_link_scorer(connection, self.focused_crawl)

    def _resume_budget(self) -> None:
        assert self.backend.job is not None
        self.budget.resume(self.backend.job.resumed)

    async def _keep_filled(self) -> None:
        with suppress(StorageFailed):
            while True:
                with suppress(TimeoutError):  # with a goal it does not wait for a page that takes too long
                    seconds, self._idle_in = self._idle_in, None if self.focused_crawl is None else _RETRY_SECONDS
                    await asyncio.wait_for(self._refill.wait(), seconds)
                self._refill.clear()
                await self._fill()

    async def _fill(self) -> None:
        limit = min(self._leasable(), 2 * self._low_water() - self._buffer.ready, _MOST_BUFFERED - len(self._buffer))
        was_dry = self._is_dry
        # To look for nothing would hold a crawl open that is at its end, until the engine's next heartbeat.
        self._is_dry = limit <= 0 or not self.sites.has_queued()
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
            wake_engine(self.crawler)

    async def _lease(self, limit: int) -> list[Lease]:
        await self._set_priorities()
        leases: list[Lease] = []
        if self.budget.repeats:  # their places are kept, however new urls rank and whichever host has no room now
            leases = await self.sites.lease(limit, self._held(), self._per_host(), REQUEUED_PRIORITY)
        if (limit := min(limit - len(leases), self._new_leases_left())) > 0:
            leases += await self._lease_new(limit, self._held(leases))
        if self.focused_crawl is not None:
            for lease in leases:
                self.focused_crawl.note_lease(lease.task)
        return leases

    async def _lease_new(self, limit: int, held: Counter[str]) -> list[Lease]:
        ranks = self.admission.views.ranks  # with a goal nothing is ranked
        worst = self.focused_crawl.reach() if self.focused_crawl is not None else THINGS if ranks else None
        leases = await self.sites.lease(limit, held, self._per_host(), worst)
        if ranks and len(leases) < limit:  # pages under way may lead to more things: views only for idle hosts
            waiting = {*self._buffer, *self._waiting, *(lease.task.host for lease in leases)}
            held, self._idle_in = idle_hosts(self._downloader, waiting)
            leases += await self.sites.lease(limit - len(leases), held, self._downloader.domain_concurrency, None)
        return leases

    def _take(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if lease.url in self._leases:
                continue  # a Redis that came back without its last moments has leased it again; it is under way
            self._leases[lease.url] = lease
            self._buffer.put(lease.task.host, lease)
            self.budget.spend(lease)

    async def _set_priorities(self) -> None:
        ranking = self.admission.views if self.focused_crawl is None else self.focused_crawl.scorer
        if changed := ranking.changed_priorities():
            await self.frontier.set_priorities(changed)

    def _leasable(self) -> int:
        """Return how many more leases may be had, those of earlier runs' pages included."""
        return self._new_leases_left() + self.budget.repeats if self._may_go_on() else 0

    def _may_go_on(self) -> bool:
        return not self._is_on_hold and (self.focused_crawl is None or not self.focused_crawl.is_done)

    def _new_leases_left(self) -> int:
        """Return how many urls may still be leased for the first time."""
        if not self._may_go_on():
            return 0
        if self.backend.session is not None:
            return self.budget.left_among_workers(self.frontier.counts())
        return self.budget.left()

    def _low_water(self) -> int:
        # With a goal, what is buffered here was the best before the pages on their way were known.
        if self.focused_crawl is not None:
            return max(2, self._downloader.domain_concurrency // 2)
        return max(8, self._per_host())

    def _per_host(self, host: str = "") -> int:
        """Return how many leases of a host are held here, buffered or downloading: enough to keep it busy."""
        most = None if self.focused_crawl is None else self._downloader.domain_concurrency + self._low_water()
        return self._downloader.wanted(host, most)

    def _held(self, leases: Iterable[Lease] = ()) -> Counter[str]:
        return held_by_host(self._downloader, (self._buffer, self._waiting), leases, self._per_host)

    def _note_room(self, host: str) -> None:
        has_room = self._downloader.has_room
        if self._buffer.look_again(host, has_room) | self._waiting.look_again(host, has_room):
            wake_engine(self.crawler)
