"""Feeds Scrapy's engine from the frontier, as many pages as `max_pages` and `max_pages_per_site` let through.

`next_request` must not wait, and the frontier may be slow: a background task keeps a small buffer of leases filled.
Requests are built when the engine takes them, because a frontier can hold a million urls. What comes in through
`enqueue_request` (retries, redirects, sitemaps, a spider's own requests) goes out before new leases.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred

from llmcrawler.core.frontier.list_patterns import ITEMS
from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import Counts, Frontier, Lease, UrlTask
from llmcrawler.core.reporting.account import FAILED_PER_PAGE
from llmcrawler.core.storage import REQUEUED_PRIORITY, JobConnection, Outcome
from llmcrawler.core.urls import site_of
from llmcrawler.crawl.compat import close_spider_soon, engine_of, process_item, stats_of, wake_engine
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.engine.downloader import PoliteDownloader, check_downloader, downloader_of
from llmcrawler.engine.failures import error_page, spider_line, unasked_line
from llmcrawler.engine.host_queues import DelayedRequests, HostQueues
from llmcrawler.engine.request_context import context_of, update_context
from llmcrawler.errors import STOPPED, ConfigError, StorageFailed, WorkGivenBack
from llmcrawler.items import FeedItem, Page, StageRun

if TYPE_CHECKING:
    from llmcrawler.core.frontier.sqlite import SqliteFrontier
    from llmcrawler.crawl.job import Job, ResumeState

_SOON_SECONDS = 0.1  # what was handed in and waits for no gap is under way by then, unless it waits for a robots.txt


def idle_hosts(downloader: PoliteDownloader, waiting: Collection[str]) -> tuple[Counter[str], float | None]:
    """Return how many requests of each host count as held when at most CONCURRENT_REQUESTS_PER_DOMAIN are: all of them
    where one waits to go out, all but one where the gap after the last one is over. Return also after how many seconds
    to look again, None where only an answer can change anything.
    """
    most = downloader.domain_concurrency
    held, gaps = downloader.fetching.copy(), []
    for host, slot in downloader.slots.items():
        gap = slot.lastseen + slot.download_delay() - monotonic()
        if slot.free_transfer_slots() <= 0:
            held[host] = most
        elif host in waiting or held[host] > len(slot.transferring):
            held[host] = most
            gaps.append(max(gap, _SOON_SECONDS))
        elif gap > 0:
            held[host] = most
            gaps.append(gap)
        elif slot.delay:
            held[host] = most - 1
    return held, min(gaps, default=None)


logger = logging.getLogger(__name__)


class PageBudget:
    """Counts leases of this run and of earlier ones. A url that could not be fetched gives its place back, so that
    `max_pages` pages come of a site that has them; but no more than `free_failures` do. So does a page that repeats
    another one, of which `max_pages` are free. `repeats` are pages of earlier runs that will be leased again; they are
    counted already.
    """

    def __init__(self, max_pages: int) -> None:
        self.max_pages = max_pages
        self.free_failures = FAILED_PER_PAGE * max_pages
        self.repeats = 0
        self.spent = 0
        self.refunds = self.free_failures
        self.free_duplicates = max_pages

    def start(self, counts: Counts) -> None:
        """Count what the frontier has from earlier runs."""
        self.refunds = max(0, self.free_failures - counts.dead)
        free = min(counts.duplicates, self.max_pages)
        self.free_duplicates = self.max_pages - free
        self.spent = counts.done - free + max(0, counts.dead - self.free_failures)

    def resume(self, resumed: ResumeState) -> None:
        """Keep places for the pages that a resumed job goes through again; a finished job leases nothing else.

        Dead letters and duplicates are among them. With these they may be more than `max_pages`, and what they give
        back is no place for a new url before that is made up for.
        """
        self.repeats = resumed.stored + resumed.again
        self.spent += self.repeats
        if resumed.finished:
            self.max_pages, self.refunds, self.free_duplicates = self.spent, 0, 0

    def left(self) -> int:
        """Return how many urls may be leased for the first time."""
        return max(0, self.max_pages - self.spent)

    def left_among_workers(self, counts: Counts) -> int:
        """Return the same where several workers share the frontier, by its counts."""
        done = counts.done - min(counts.duplicates, self.max_pages)
        return self.max_pages - counts.leased - done - max(0, counts.dead - self.free_failures)

    def spend(self, lease: Lease) -> None:
        if self.takes_place(lease):
            self.spent += 1
        elif self.repeats and (lease.is_stored or lease.is_known):
            self.repeats -= 1

    def takes_place(self, lease: Lease) -> bool:
        """Return whether a lease takes a new place: not that of a page of an earlier run, nor that of an entry of a
        list that cannot be fetched.
        """
        return not lease.task.fault and not (self.repeats and (lease.is_stored or lease.is_known))

    def refund(self, *, is_duplicate: bool) -> bool:
        """Give the place of a url back that could not be fetched, or of a page that repeats another one. Return False
        when too many of them were given back.
        """
        if (self.free_duplicates if is_duplicate else self.refunds) <= 0:
            return False
        self.free_duplicates -= is_duplicate
        self.refunds -= not is_duplicate
        self.spent -= 1
        return True


@dataclass
class SiteBudgets:
    """Leases urls for a crawl of one process, and of no site more than its share; www.example.com and example.com are
    one site. None: there is no share.
    """

    frontier: Frontier
    max_pages: int | None
    _of_host: dict[str, PageBudget] = field(default_factory=dict)

    def start(self, earlier: Mapping[str, tuple[Counts, int]]) -> None:
        """Count what earlier runs have of each host, and how many of its pages will be leased again."""
        if self.max_pages is None:
            return
        sites: dict[str, tuple[list[str], Counter[str]]] = {}
        for host, (counts, repeats) in earlier.items():
            hosts, sums = sites.setdefault(site_of(host), ([], Counter()))
            hosts.append(host)
            sums.update(done=counts.done, dead=counts.dead, duplicates=counts.duplicates, repeats=repeats)
        for hosts, sums in sites.values():
            budget = PageBudget(self.max_pages)
            budget.start(Counts(done=sums["done"], dead=sums["dead"], duplicates=sums["duplicates"]))
            budget.repeats = sums["repeats"]
            budget.spent += budget.repeats
            self._of_host |= dict.fromkeys((*hosts, site_of(hosts[0])), budget)

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None) -> list[Lease]:
        """Lease as `Frontier.lease` does, within the shares, and count what is leased."""
        if self.max_pages is None:
            return await self.frontier.lease(limit, held, per_host, worst)
        busy = {**held}
        for host, budget in self._of_host.items():
            if (left := budget.left() + budget.repeats) < per_host:
                busy[host] = max(busy.get(host, 0), per_host - left)
        leases = []
        for lease in await self.frontier.lease(limit, busy, per_host, worst):
            budget = self._budget(lease.task.host)
            if budget.left() > 0 or not budget.takes_place(lease):
                budget.spend(lease)
                leases.append(lease)
            else:  # of a new host, or of one that is leased from under two names
                await self.frontier.release(lease.url)
        return leases

    def has_queued(self) -> bool:
        """Tell whether urls are queued that may be leased, now or later."""
        if not self.frontier.counts().queued or self.max_pages is None:
            return bool(self.frontier.counts().queued)
        frontier = cast("MemoryFrontier | SqliteFrontier", self.frontier)  # no other one is that of one process
        budgets = map(self._budget, frontier.queued_hosts())
        return any(budget.left() > 0 or budget.repeats for budget in budgets)

    def refund(self, lease: Lease, *, is_duplicate: bool) -> bool:
        """Give a place back as PageBudget does; return whether it was one of its site's share."""
        return self.max_pages is not None and self._budget(lease.task.host).refund(is_duplicate=is_duplicate)

    def _budget(self, host: str) -> PageBudget:
        if host not in self._of_host:
            assert self.max_pages is not None
            site = site_of(host)
            self._of_host[host] = self._of_host.setdefault(site, PageBudget(self.max_pages))
        return self._of_host[host]


class FrontierScheduler(BaseScheduler):
    """Leases urls until `max_pages` came, and acknowledges or releases them. A url that could not be fetched does not
    count, up to a limit (PageBudget). `_buffer` has the leases that wait to go out, `_waiting` and `_delayed` the
    requests that came back.

    Where the frontier raises StorageFailed the crawl is being closed already, and the log says why.
    """

    def __init__(self, crawler: Crawler, crawl: CrawlContext) -> None:
        self.crawler = crawler
        self.backend, self.frontier = crawl.backend, crawl.backend.frontier
        self.admission, self.focused_crawl = crawl.admission, crawl.focused_crawl
        self.templates, self.arriving = crawl.understanding.templates, crawl.arriving_pages
        self.budget = PageBudget(crawl.options.max_pages)
        self.sites = SiteBudgets(self.frontier, crawl.options.max_pages_per_site)
        # Set when there may be urls to lease, or places under `max_pages`.
        self._refill = asyncio.Event() if self.focused_crawl is None else self.focused_crawl.news
        self._leases: dict[str, Lease] = {}  # by url, those that have not come back
        self._lost: set[str] = set()  # urls that were other workers' once their requests were under way here
        self._buffer: HostQueues[Lease] = HostQueues()
        self._waiting: HostQueues[Request] = HostQueues()
        self._delayed = DelayedRequests(self.crawler, self.enqueue_request)
        self._is_on_hold = self._is_stopping = False
        self._filling: asyncio.Task[None] | None = None
        self.crawler.signals.connect(self._item_is_through, signals.item_scraped)
        self.crawler.signals.connect(self._item_was_dropped, signals.item_dropped)
        self.crawler.signals.connect(self._item_failed, signals.item_error)
        self._is_dry = False  # the last look into the frontier found all there was
        self._is_leasing = False  # what the frontier leases just now is neither queued nor here
        self._idle_in: float | None = None  # seconds until a host that has only lists left may get one
        # Not when such a page is through: it may wait long for a model's answer, and the crawl does not.
        self.arriving.on_room = partial(wake_engine, self.crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawl_of(crawler))

    # -- Scrapy's interface -------------------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None] | None:  # noqa: ARG002 (Scrapy's interface)
        check_downloader(self.crawler)
        self._downloader.on_room = self._note_room

        async def open_or_close() -> None:
            try:
                await self._open()
            except StorageFailed:  # the log says why
                close_spider_soon(self.crawler, "storage_failed")

        return deferred_from_coro(open_or_close())

    def close(self, reason: str) -> Deferred[None] | None:
        return deferred_from_coro(self._close(reason))

    def enqueue_request(self, request: Request) -> bool:
        lease = context_of(request).lease
        is_lost = self.backend.session is not None and lease is not None and not self.holds(lease)
        if (self._is_stopping and self._end_untried(request)) or is_lost:  # another worker has the url by now
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
        spider: Any = self.crawler.spider
        leased: Request = spider.request_of(lease)  # it has leases, so it has this
        update_context(leased, lease=lease)
        return leased

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

    # -- leasing ------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        job = self.backend.job
        await (self.backend.session or job or self.frontier).open()
        self.budget.start(self.frontier.counts())
        if job is not None and not job.resumed.is_new:
            await job.restore(self.admission, self._relearn)
            self.sites.start(await job.counts_by_host())
            self._resume_budget(job)
        self._filling = asyncio.ensure_future(self._keep_filled())

    def _relearn(self, connection: JobConnection) -> None:
        if self.focused_crawl is not None:
            from llmcrawler.core.frontier.focused_crawl import restore_link_scorer

            restore_link_scorer(connection, self.focused_crawl)

    def _resume_budget(self, job: Job) -> None:
        self.budget.resume(job.resumed)

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
        ranks = self.admission.list_patterns.ranks  # with a goal nothing is ranked
        worst = self.focused_crawl.reach() if self.focused_crawl is not None else ITEMS if ranks else None
        leases = await self.sites.lease(limit, held, self._per_host(), worst)
        if ranks and len(leases) < limit:  # pages under way may lead to more items: lists only for idle hosts
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
        ranking = self.admission.list_patterns if self.focused_crawl is None else self.focused_crawl.scorer
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
        """Count what is held of each host: handed to the downloader, in one of the queues, or just leased. A host that
        wants more or less than a new one has so many less or more: a frontier is told one number for all.
        """
        usual, fetching = self._per_host(), self._downloader.fetching
        held = Counter({host: count + usual - self._per_host(host) for host, count in fetching.items()})
        for queue in (self._buffer, self._waiting):
            for host in queue:
                if host not in held:
                    held[host] = usual - self._per_host(host)
                held[host] += queue.count(host)
        held.update(lease.task.host for lease in leases)
        return held

    def _note_room(self, host: str) -> None:
        has_room = self._downloader.has_room
        if self._buffer.look_again(host, has_room) | self._waiting.look_again(host, has_room):
            wake_engine(self.crawler)

    # -- ending leases -------------------------------------------------------------------------------------------------

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

    def _end_untried(self, request: Request) -> bool:
        """Give a line to the url of a request that was sent before and will not be again; return whether it was."""
        context = context_of(request)
        if context.lease is None or context.started is None or not self.holds(context.lease):
            return False
        message = "the crawl was stopped before it was tried again"
        page = error_page(context.lease, STOPPED, message, request=request)
        process_item(self.crawler, spider_line(self.crawler, context.lease, page))
        return True

    async def _return_buffered(self, of: Callable[[str], bool] = lambda _host: True) -> None:
        """Release the leases of some hosts whose requests have not gone out."""
        for lease in self._buffer.drain(of):
            del self._leases[lease.url]
            await self.frontier.release(lease.url)
            if self.focused_crawl is not None:
                self.focused_crawl.note_return(lease.url)

    @property
    def _downloader(self) -> PoliteDownloader:
        return downloader_of(self.crawler)

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
        is_failed = outcome.is_dead and not lease.task.fault
        if is_failed or outcome.is_duplicate:  # such a page does not count, and gives its place back
            of_site = self.sites.refund(lease, is_duplicate=not is_failed)
            if self.budget.refund(is_duplicate=not is_failed) or of_site:
                self._refill.set()
        self._count()

    def _count(self) -> None:
        stats, counts = stats_of(self.crawler), self.frontier.counts()
        for name in ("queued", "leased", "done"):
            stats.set_value(f"llmcrawler/frontier/{name}", getattr(counts, name))
        if self.focused_crawl is not None:
            stats.set_value("llmcrawler/goal_records", self.focused_crawl.records)

    def _stop_filling(self) -> None:
        if self._filling is not None:
            self._filling.cancel()

    async def _close(self, reason: str) -> None:
        self._stop_filling()
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


_MOST_BUFFERED = 4096  # leases of 1 KB; those of hosts that are not asked now wait here too
_RETRY_SECONDS = 5.0  # with a goal: between two looks into the frontier when nothing else causes one


SchedulerT = TypeVar("SchedulerT")


def has_scheduler(settings: BaseSettings, needed: type[Any]) -> bool:
    """Return whether SCHEDULER names this class or a subclass of it."""
    return needed in load_object(settings["SCHEDULER"]).__mro__


def check_scheduler(settings: BaseSettings, needed: type[Any]) -> None:
    """Raise ConfigError where SCHEDULER names neither this class nor a subclass of it."""
    if not has_scheduler(settings, needed):
        raise _refusal(settings, needed)


def running_scheduler(crawler: Crawler, needed: type[SchedulerT]) -> SchedulerT:
    """Return the scheduler of a crawl that is open; raise ConfigError where it is none of the class that is needed."""
    scheduler = engine_of(crawler).scheduler
    if needed not in type(scheduler).__mro__:
        raise _refusal(crawler.settings, needed)
    return cast("SchedulerT", scheduler)


def _refusal(settings: BaseSettings, needed: type[Any]) -> ConfigError:
    return ConfigError(
        f"SCHEDULER={settings['SCHEDULER']!r} does not support this crawl: leave it out, or name"
        f" {global_object_name(needed)} or a subclass of it"
    )
