"""Makes a crawl a worker among others: tells them that it is there, takes over what they leave, gives sites to them."""

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
from llmcrawler.crawl.understanding import Understanding
from llmcrawler.engine.compat import is_closing
from llmcrawler.engine.own_schedulers import check_scheduler, running_scheduler
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.errors import StorageFailed
from llmcrawler.extensions.connecting import connect_handlers
from llmcrawler.extensions.throttle import AdaptiveThrottle
from llmcrawler.items import Page
from llmcrawler.urls import site_of

if TYPE_CHECKING:
    from llmcrawler.crawl.distributed_session import DistributedSession

logger = logging.getLogger(__name__)

_RIGHTS = "llmcrawler/rights/"
_BEAT_SECONDS, _IDLE_BEAT_SECONDS = 1.0, 0.25
_KEEP_SECONDS = 5.0  # the next owner begins with what was known of a host then


@dataclass(eq=False)
class DistributedWorker:
    """Sends heartbeats, and ends with the others. `lines` knows what a death of this worker would not take away."""

    crawler: Crawler
    session: DistributedSession
    watch: EngineWatch
    lines: SafeLines
    understanding: Understanding

    def __post_init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._idle_since: float | None = None
        self._confirmed_at = self._kept_at = 0.0
        self._reason = "shutdown"
        connect_handlers(self.crawler, self, "spider_opened", "spider_idle", "spider_closed", "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.backend.session is None or crawl.backend.lines is None:
            raise NotConfigured
        check_scheduler(crawler.settings, FrontierScheduler)
        return cls(crawler, crawl.backend.session, crawl.watch, crawl.backend.lines, crawl.understanding)

    def spider_opened(self) -> None:
        logger.info("This is worker %s of the crawl %s", self.session.worker, self.session.rules.crawl_id)
        self._tasks = [asyncio.ensure_future(self._beat()), asyncio.ensure_future(self._leave_with_engine())]

    def spider_idle(self) -> None:
        """Keep the spider open when there is nothing to do here, until that is so everywhere."""
        self._idle_since = self._idle_since or time.monotonic()
        counts = self.session.frontier.counts()
        state = replace(
            self.watch.state(),
            # What a worker that may have died has kept is to be written, too.
            is_left=bool(counts.leased or self.session.membership.silent)
            or bool(counts.queued and self._scheduler.may_lease()),
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
            await self.session.ownership.keep({}, self._manners())
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
        membership = await self.session.beat(**self._activity())
        if not membership.is_member:
            await self._join_again()
            return
        self._confirmed_at = started
        if membership.gone:
            self.lines.write([Page.of_line(line) for line in await self.session.inherit()])
        await self.session.drop_lines(self.lines.take_safe())
        if started >= self._kept_at + _KEEP_SECONDS:
            self._kept_at = started
            await self.session.ownership.keep({}, self._manners())
        if is_closing(self.crawler):
            return
        for site in membership.leaving:
            await self._give_up(site)
        if self._scheduler.working():
            self._idle_since = None
        else:
            self._scheduler.look_again()

    async def _join_again(self) -> None:
        """Begin anew: this worker was silent for so long that the others have taken over all it had."""
        logger.warning("The other workers have taken over what this one had: it was not heard of for too long")
        self._scheduler.lose_all()
        for site in self.session.frontier.sites:
            self.understanding.records.give_back(site)
            self.understanding.sites.forget(site)
        self.session.frontier.lose_all()
        await self.session.beat(joins=True, **self._activity())

    async def _give_up(self, site: str) -> None:
        """Give a site up when nothing of it is under way here any more; its pages that wait to be learned go back."""
        self.understanding.records.give_back(site)
        if not await self._scheduler.hand_back(site) or not self.session.frontier.is_settled(site):
            return  # what is written must not come back
        if site in self.session.frontier.sites:  # else nothing of it was leased yet
            learned = {site: self.understanding.templates.state_of(site)}
            await self.session.ownership.keep(learned, {site: self._manners().get(site, {})})
            self.understanding.sites.forget(site)
        await self.session.give_up(site)

    def _manners(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return how the hosts of this worker's sites are to be treated, by site."""
        throttle = self.crawler.get_extension(AdaptiveThrottle)
        found: dict[str, dict[str, dict[str, float]]] = {}
        for host, manners in ({} if throttle is None else throttle.manners()).items():
            if site_of(host) in self.session.frontier.sites:
                found.setdefault(site_of(host), {})[host] = manners
        return found

    def _activity(self) -> dict[str, Any]:
        engine, stats = self.crawler.engine, self.crawler.stats
        assert engine is not None
        assert stats is not None
        pages = stats.get_value("llmcrawler/pages", 0)
        minutes = max(1.0, time.time() - self.session.report.started) / 60
        return {
            "pages": pages,
            "pages_a_minute": round(pages / minutes, 1),
            "in_flight": len(engine.downloader.active),
            "llm_calls": stats.get_value("llmcrawler/llm/calls", 0),
            "rights": {
                name.removeprefix(_RIGHTS): count
                for name, count in stats.get_stats().items()
                if name.startswith(_RIGHTS)
            },
            "tokens": sum(stats.get_value(f"llmcrawler/llm/{name}_tokens", 0) for name in ("prompt", "completion")),
        }

    @property
    def _scheduler(self) -> FrontierScheduler:
        return running_scheduler(self.crawler, FrontierScheduler)
