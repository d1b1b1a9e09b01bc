"""Makes a crawl a worker among others: tells them that it is there, takes over what they leave, gives sites to them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured

from llmcrawler.core.frontier.protocol import Counts
from llmcrawler.core.urls import site_of
from llmcrawler.crawl.compat import engine_of, is_closing, stats_of
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.understanding_building import Understanding
from llmcrawler.engine.scheduler import FrontierScheduler, check_scheduler, running_scheduler
from llmcrawler.errors import StorageFailed
from llmcrawler.extensions import connect_handlers
from llmcrawler.extensions.throttle import policies_of
from llmcrawler.fleet.safe_lines import SafeLines
from llmcrawler.items import Page

if TYPE_CHECKING:
    from llmcrawler.fleet.session import DistributedSession

logger = logging.getLogger(__name__)

_RIGHTS = "llmcrawler/rights/"
_BEAT_SECONDS, _IDLE_BEAT_SECONDS = 1.0, 0.25
_RATE_SECONDS, _LEAST_RATE_SECONDS = 60.0, 5.0
_KEEP_SECONDS = 5.0  # the next owner begins with what was known of a host then


@dataclass(eq=False)
class DistributedWorker:
    """Sends heartbeats, and ends with the others. `lines` knows what a death of this worker would not take away."""

    crawler: Crawler
    session: DistributedSession
    lines: SafeLines
    understanding: Understanding

    def __post_init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_since: float | None = None
        self._counted: tuple[float, Counts] | None = None  # when Redis was asked last, and what it said
        self._kept_at = 0.0
        self._reason = "shutdown"
        self._is_paused = False
        self._recent_pages: deque[tuple[float, int]] = deque()  # monotonic seconds, and the pages until then
        connect_handlers(self.crawler, self, "spider_opened", "spider_idle", "spider_closed", "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.backend.session is None or crawl.backend.lines is None:
            raise NotConfigured
        check_scheduler(crawler.settings, FrontierScheduler)
        return cls(crawler, crawl.backend.session, crawl.backend.lines, crawl.understanding)

    def spider_opened(self) -> None:
        logger.info("This is worker %s of the crawl %s", self.session.worker, self.session.rules.crawl_id)
        self._tasks = [asyncio.ensure_future(work) for work in (self._beat(), self._leave_with_engine())]

    def spider_idle(self) -> None:
        """Keep the spider open when there is nothing to do here, until that is so everywhere."""
        self._idle_since = self._idle_since or time.monotonic()
        counts, counted = self.session.frontier.counts(), self._counted
        # What a worker that may have died has kept is to be written, too.
        may_come = counts.leased or self.session.membership.silent or (counts.queued and self._scheduler.may_lease())
        is_confirmed = counted is not None and counted[0] > self._idle_since and counted[1] == counts
        if may_come or not is_confirmed or (self._is_paused and counts.queued):
            raise DontCloseSpider

    def spider_closed(self, reason: str) -> None:
        self._reason = reason

    async def engine_stopped(self) -> None:
        """Leave the crawl and drop the lines that are safe: feeds are closed by now."""
        for task in self._tasks:
            task.cancel()
        self.session.safe_lines += self.lines.take_safe()
        try:
            await self.session.drop_lines()
            await self.session.keep({}, self._throttle_state())
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
                logger.exception("Error in this worker's heartbeat")
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
        session, started = self.session, time.monotonic()
        membership = await session.beat(**self._activity())
        if not membership.is_member:
            await self._join_again()
            return
        self._counted = started, session.frontier.counts()
        if membership.gone:
            self.lines.write([Page.of_line(line) for line in await session.inherit(membership.gone)])
        session.safe_lines += self.lines.take_safe()
        await session.drop_lines()
        if started >= self._kept_at + _KEEP_SECONDS:
            self._kept_at = started
            await session.keep({}, self._throttle_state())
        self._tell_of_sites()
        if is_closing(self.crawler):
            return
        await self._heed_pause(is_paused=membership.is_paused)
        for site in membership.leaving:
            await self._give_up(site)
        if self._scheduler.working():
            self._idle_since = None
        else:
            self._scheduler.look_again()

    async def _heed_pause(self, *, is_paused: bool) -> None:
        if is_paused:
            await self._scheduler.give_back()
        if is_paused and not self._is_paused:
            logger.info("The crawl is paused; resume it with: %s", self.session.resume_command())
        elif self._is_paused and not is_paused:
            logger.info("The crawl is no longer paused")
            self._scheduler.go_on()
        self._is_paused = is_paused
        stats_of(self.crawler).set_value("llmcrawler/paused", int(is_paused))

    def _tell_of_sites(self) -> None:
        stats = stats_of(self.crawler)
        stats.set_value("llmcrawler/sites_owned", len(self.session.frontier.sites))
        for event, count in self.session.site_events.items():
            stats.set_value(f"llmcrawler/sites/{event}", count)

    async def _join_again(self) -> None:
        """Begin anew: this worker was silent for so long that the others have taken over all it had."""
        logger.warning("The other workers have taken over this worker's sites: it was silent for too long")
        self._scheduler.lose_all()
        for site in self.session.frontier.sites:
            self.understanding.sites.forget(site)
        self.session.frontier.lose_all()
        await self.session.beat(joins=True, **self._activity())

    async def _give_up(self, site: str) -> None:
        """Give a site up when nothing of it is under way here any more; its pages wait for no others until then."""
        self.understanding.records.hurry(site)
        if not await self._scheduler.hand_back(site) or self.session.frontier.has_of(site):
            return  # what is written must not come back
        if site in self.session.frontier.sites:  # else nothing of it was leased yet
            learned = {site: self.understanding.templates.state_of(site)}
            await self.session.keep(learned, {site: self._throttle_state().get(site, {})})
            self.understanding.sites.forget(site)
        await self.session.give_up(site)

    def _throttle_state(self) -> dict[str, dict[str, dict[str, float]]]:
        found: dict[str, dict[str, dict[str, float]]] = {}
        for host, policy in policies_of(self.crawler).items():
            if site_of(host) in self.session.frontier.sites:
                found.setdefault(site_of(host), {})[host] = policy.state()
        return found

    def _activity(self) -> dict[str, Any]:
        stats = stats_of(self.crawler)
        pages = stats.get_value("llmcrawler/pages", 0)
        return {
            "pages": pages,
            "pages_a_minute": self._pages_a_minute(pages),
            "leases": len(self._scheduler.held_leases()),
            "in_flight": len(engine_of(self.crawler).downloader.active),
            "llm_calls": stats.get_value("llmcrawler/llm/calls", 0),
            "rights": {
                name.removeprefix(_RIGHTS): count
                for name, count in stats.get_stats().items()
                if name.startswith(_RIGHTS)
            },
            "tokens": sum(stats.get_value(f"llmcrawler/llm/{name}_tokens", 0) for name in ("prompt", "completion")),
        }

    def _pages_a_minute(self, pages: int) -> float:
        """Return how many pages came in the last minute, or as many as would have at the pace since the start."""
        now, recent = time.monotonic(), self._recent_pages
        recent.append((now, pages))
        while recent[0][0] < now - _RATE_SECONDS:
            recent.popleft()
        since, before = recent[0]
        return round((pages - before) * 60 / max(_LEAST_RATE_SECONDS, now - since), 1)

    @property
    def _scheduler(self) -> FrontierScheduler:
        return running_scheduler(self.crawler, FrontierScheduler)
