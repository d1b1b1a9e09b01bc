"""Tells when waiting pages go on, when a crawl ends, and how far its stopping is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from scrapy.crawler import Crawler

from llmcrawler.crawl.compat import is_closing


@dataclass(frozen=True)
class EngineWatch:
    """Looks at a crawler's engine. `is_worker`: others go on with the crawl when this one is stopped."""

    crawler: Crawler
    is_worker: bool = False

    def reason_to_flush(self, waiting: int | None = None) -> str | None:
        """Say why pages must not wait any longer for company; None while more are on their way. `waiting` pages of
        those that are being worked on wait for just this; None: the others do not matter.
        """
        engine = self.crawler.engine
        slot = None if engine is None else engine.scraper.slot
        if engine is None or slot is None or not engine.running:
            return "leaving" if self.is_worker else "stopped"
        if is_closing(self.crawler):
            return "closing"  # requests that are left will not be handed out
        if slot.needs_backout():
            return "backing_out"  # waiting pages hold up the downloads
        scheduler = engine.scheduler
        if scheduler is not None and (engine.downloader.active or scheduler.has_pending_requests()):
            return None
        under_way = len(slot.active) + len(slot.queue)
        return None if waiting is not None and under_way > waiting else "idle"

    def is_ending(self) -> bool:
        """Tell whether all urls that are known are on their way: no others follow but for links on their pages."""
        engine = self.crawler.engine
        if engine is None or engine.scraper.slot is None or not engine.running:
            return False
        return is_closing(self.crawler) or engine.scheduler is None or not engine.scheduler.has_pending_requests()


def active_bytes(crawler: Crawler) -> int:
    """Return how many bytes the bodies have whose pages are not through."""
    try:
        slot = None if crawler.engine is None else crawler.engine.scraper.slot
    except RuntimeError:  # the engine is being built
        return 0
    return 0 if slot is None else slot.active_size


@dataclass(slots=True)
class CrawlStop:
    """State of the stopping. `has_begun`: nothing new is asked of a site or a model. `is_over`: what was under way then
    has had its time. `goes_on_later`: pages that are cut off stay in the queue, for the next run or for other workers;
    otherwise they get their lines with what is known.
    """

    goes_on_later: bool = False
    has_begun: bool = False
    is_over: bool = False
    _timeouts: set[asyncio.Timeout] = field(default_factory=set)

    @contextmanager
    def cuts_off(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Let this timeout, which has been entered, expire when the time is over."""
        self._timeouts.add(timeout)
        if self.is_over:
            self._expire(timeout)
        try:
            yield
        finally:
            self._timeouts.discard(timeout)

    def end(self) -> None:
        """Cut off what is still under way."""
        self.has_begun = self.is_over = True
        for timeout in self._timeouts:
            self._expire(timeout)

    @staticmethod
    def _expire(timeout: asyncio.Timeout) -> None:
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())
