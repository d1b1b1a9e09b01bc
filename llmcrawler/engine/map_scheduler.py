"""Feeds the engine with the pages that a map looks through, and the feed with the urls that it does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from scrapy import signals

from llmcrawler.core.frontier import LISTED_ONLY_PRIORITY, TEST_PRIORITY, Lease, MapAdmission, UrlTask
from llmcrawler.core.storage import Outcome
from llmcrawler.engine.compat import is_closing, settle_scraper, wake_engine
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.items import PageError, Url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider
    from scrapy.core.engine import ExecutionEngine


_LINES_AT_ONCE = 100


class ListReader(Protocol):
    """A spider that reads a site's lists of urls."""

    @property
    def reads_lists(self) -> bool:
        """Return whether a list is on its way: it may say more of urls that wait."""


class MapScheduler(FrontierScheduler):
    """Leases pages to be looked through; when those are enough, it gives the lines of the urls that wait as they are.

    Each url is acknowledged with its line like any other, so a map that was killed goes on where it was.
    """

    _aside: tuple[Lease, ...] = ()  # leased to be listed
    _early: tuple[Lease, ...] = ()  # leased, and to go back
    _only_tests_wait = False

    def has_pending_requests(self) -> bool:
        return bool(super().has_pending_requests() or self._aside or self.frontier.counts().queued)

    async def pass_over(self, lease: Lease) -> None:
        """Acknowledge a url that was looked through and is not listed."""
        if self._leases.pop(lease.url, None) is not None:
            await self.frontier.ack(lease.url, Outcome(None, {}))
            self._count()

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = await super().add(tasks)
        self._only_tests_wait = self._only_tests_wait and not new
        return new

    @property
    def _admission(self) -> MapAdmission:
        assert isinstance(self.admission, MapAdmission)
        return self.admission

    @property
    def _engine(self) -> ExecutionEngine:
        assert self.crawler.engine is not None
        return self.crawler.engine

    def _new_leases_left(self) -> int:
        return 0 if self._admission.reason_to_end is not None else super()._new_leases_left()

    async def _open(self) -> None:
        await super()._open()
        self.budget.refunds = 0  # a page that could not be had has cost a request too
        if self.backend.job is not None:
            self.budget.spent = await self.backend.job.ledger.tried_count()

    def _resume_budget(self) -> None:
        """Do nothing: most lines of earlier runs were no pages, and `_open` counts those that were."""

    async def _fill(self) -> None:
        if self._reads_lists():  # which tell what the pages are worth
            return
        if not self.may_lease():
            self._note_end()
            await self._list_all()
        elif not (self._only_tests_wait and self._has_better()):
            await super()._fill()
            for lease in self._early:
                await self.frontier.release(lease.url)
            self._early = ()
            await self._list(self._aside)

    def _reads_lists(self) -> bool:
        spider: ListReader = self.crawler.spider  # type: ignore[assignment]  # the one that chose this scheduler
        scraper = self._engine.scraper.slot
        is_quiet = not self._waiting and not self._delayed and not self._engine.downloader.active
        # A request that was dropped without a word is no reason to wait.
        return spider.reads_lists and not (is_quiet and (scraper is None or scraper.is_idle()))

    def _has_better(self) -> bool:
        """Return whether pages that no list has are on their way: they may lead to more of their kind."""
        return any(lease.task.priority < TEST_PRIORITY for lease in self._leases.values())

    def _take(self, leases: Iterable[Lease]) -> None:
        wanted = list(leases)
        super()._take(lease for lease in wanted if lease.task.priority < TEST_PRIORITY)
        tests = tuple(lease for lease in wanted if TEST_PRIORITY <= lease.task.priority < LISTED_ONLY_PRIORITY)
        if self._has_better():
            self._early, self._only_tests_wait = tests, bool(tests)
        else:
            super()._take(tests)
        self._aside = tuple(lease for lease in wanted if lease.task.priority >= LISTED_ONLY_PRIORITY)
        if self._aside:
            self._refill.set()  # they leave room for others

    async def _list_all(self) -> None:
        self._aside = tuple(self._buffer.drain())
        self.budget.spent -= len(self._aside)
        while self._aside or self.frontier.counts().queued:
            await self._list(self._aside)
            if is_closing(self.crawler):
                break
            self._is_leasing = True
            try:
                self._aside = tuple(await self.frontier.lease(_LINES_AT_ONCE, {}, _LINES_AT_ONCE))
            finally:
                self._is_leasing = False
        wake_engine(self.crawler)

    async def _list(self, leases: tuple[Lease, ...]) -> None:
        """Send the lines of these urls through the pipelines, as those of pages."""
        if not leases:
            return
        self._leases |= {lease.url: lease for lease in leases}
        scraper = self._engine.scraper
        passed_over = [self.pass_over(lease) for lease in leases if not self._admission.matches(lease.url)]
        lines = [line_of_task(lease) for lease in leases if self._admission.matches(lease.url)]
        await asyncio.gather(*passed_over, *(scraper.start_itemproc_async(line, response=None) for line in lines))
        self._aside = ()
        settle_scraper(self.crawler)  # one that is being closed waits for these lines too

    def _note_end(self) -> None:
        assert self.crawler.stats is not None
        if self.crawler.stats.get_value("llmcrawler/map_end") is None:
            reason = self._admission.reason_to_end
            more = self.frontier.counts().queued + len(self._buffer)
            reason = reason or f"max_pages={self.budget.max_pages} looked through, {more:,} more urls were not"
            self.crawler.stats.set_value("llmcrawler/map_end", reason)

    async def _item_is_through(self, item: object) -> None:
        if isinstance(item, Url) and item.id in self._leases:
            self._count_line(item)
        await super()._item_is_through(item)

    def _count_line(self, line: Url) -> None:
        stats = self.crawler.stats
        assert stats is not None
        stats.inc_value("llmcrawler/urls")
        stats.inc_value(f"llmcrawler/urls/{line.source}")
        if line.was_tried:
            stats.inc_value("llmcrawler/pages")
        if line.error is not None:
            stats.inc_value(f"llmcrawler/errors/{line.error.stage}/{line.error.kind}")

    async def _close(self, reason: str) -> None:
        if self.backend.job is None and reason != "finished":
            for task in self._tasks:
                task.cancel()
            await self._list_at_the_end()
        await super()._close(reason)

    async def _list_at_the_end(self) -> None:
        """Write the lines of all urls that are known, when a map is cut short and cannot go on. The pipelines are
        closed by now, the feeds are not.
        """
        leases = self.held_leases()
        while leases:
            self._leases |= {lease.url: lease for lease in leases}
            lines = [line_of_task(lease) for lease in leases if self._admission.matches(lease.url)]
            spider: Spider | None = self.crawler.spider
            for line in lines:
                await self.crawler.signals.send_catch_log_async(
                    signal=signals.item_scraped, item=line, response=None, spider=spider
                )
            leases = await self.frontier.lease(_LINES_AT_ONCE, {}, _LINES_AT_ONCE)


def line_of_task(lease: Lease, error: PageError | None = None) -> Url:
    """Return the item of a url whose page was not fetched, or failed."""
    line = lease.task.url_line()
    line.error = PageError("fetch", "url", lease.task.fault) if lease.task.fault else error
    return line
