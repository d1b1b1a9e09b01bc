"""A worker among others: it says that it is there, waits for what the others find, and knows when a line is safe."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured
from scrapy.extensions.feedexport import FeedExporter, FeedSlot, FileFeedStorage, StdoutFeedStorage

from llmcrawler.errors import StorageFailed
from llmcrawler.items import Page
from llmcrawler.middlewares.leases import error_page
from llmcrawler.scheduler import FrontierScheduler
from llmcrawler.wiring import Crawl, crawl_of

if TYPE_CHECKING:
    from llmcrawler.crew import Crew

logger = logging.getLogger(__name__)

_BEAT_SECONDS, _IDLE_BEAT_SECONDS = 1.0, 0.25
# In these formats a file is of use as it is at any moment; others are whole when they are closed.
_LINES = frozenset({"jsonlines", "jsonl", "jl", "csv"})


class CrewExtension:
    def __init__(self, crawler: Crawler, crawl: Crawl, crew: Crew) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._crew = crew
        self._feeds = SafeFeeds(crawler)
        self._beating: asyncio.Task[None] | None = None
        self._idle_since: float | None = None
        self._confirmed_at = 0.0
        self._reason = "shutdown"
        crew.frontier.make_safe, crew.frontier.on_kept = self._feeds.unsafe, self._feeds.note_kept
        for handler, signal in (
            (self.spider_opened, signals.spider_opened),
            (self.spider_idle, signals.spider_idle),
            (self.spider_closed, signals.spider_closed),
            (self.engine_stopped, signals.engine_stopped),
        ):
            crawler.signals.connect(handler, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler) if crawler.settings.get("REDIS_URL") else None
        if crawl is None or crawl.crew is None:
            raise NotConfigured
        return cls(crawler, crawl, crawl.crew)

    def spider_opened(self) -> None:
        logger.info("This is worker %s of the crawl %s", self._crew.worker, self._crew.rules.crawl_id)
        self._beating = asyncio.ensure_future(self._beat())

    def spider_idle(self) -> None:
        """There is nothing to do here; the crawl is at its end when that is so everywhere."""
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        counts = self._crew.frontier.counts()
        left = counts.leased or (counts.queued and self._scheduler.may_lease())
        if left or self._confirmed_at <= self._idle_since:
            raise DontCloseSpider

    def spider_closed(self, reason: str) -> None:
        self._reason = reason

    async def engine_stopped(self) -> None:
        """Feeds are closed by now."""
        if self._beating is not None:
            self._beating.cancel()
        try:
            await self._crew.drop_lines(self._feeds.take_safe())
            await self._crew.close(self._reason)
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

    async def _beat_once(self) -> None:
        started = time.monotonic()
        await self._crew.beat(**self._words())
        self._confirmed_at = started
        await self._inherit()
        await self._crew.drop_lines(self._feeds.take_safe())
        self._write_lost()
        if self._is_closing():
            self._crew.desk.leave()
            await self._scheduler.give_back()
        elif self._scheduler.working():
            self._idle_since = None
        else:
            self._scheduler.look_again()

    def _words(self) -> dict[str, Any]:
        engine, stats = self._crawler.engine, self._crawler.stats
        assert engine is not None
        assert stats is not None
        pages, slot = stats.get_value("llmcrawler/pages", 0), engine.scraper.slot
        minutes = max(1.0, time.time() - self._crew.words.started) / 60
        return {
            "pages": pages,
            "pages_a_minute": round(pages / minutes, 1),
            "in_flight": len(engine.downloader.active),
            "working": 0 if self._is_closing() else self._scheduler.working(),
            "held": self._crawl.records.held_count,
            "pressed": "backing_out" if slot is not None and slot.needs_backout() else None,
            "llm_calls": stats.get_value("llmcrawler/llm/calls", 0),
            "tokens": sum(stats.get_value(f"llmcrawler/llm/{name}_tokens", 0) for name in ("prompt", "completion")),
        }

    async def _inherit(self) -> None:
        lines = await self._crew.inherited_lines() if self._crew.roll.gone else []
        for gone in self._crew.roll.gone:
            logger.warning("Worker %s is gone; what it had comes back", gone)
        self._feeds.write([Page.of_line(line) for line in lines])

    def _write_lost(self) -> None:
        """Urls that took down their workers: nobody has a page of them."""
        lost, self._crew.frontier.lost = self._crew.frontier.lost, []
        assert self._crawler.engine is not None
        for lease in lost:
            message = f"the crawl was taken down {lease.attempts - 1} times while it was read"
            self._crawler.engine.scraper._start_itemproc_nowait(error_page(lease, "lost", message))

    def _is_closing(self) -> bool:
        engine = self._crawler.engine
        return engine is None or not engine.running or engine._slot is None or engine._slot.closing is not None

    @property
    def _scheduler(self) -> FrontierScheduler:
        assert self._crawler.engine is not None
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, FrontierScheduler)
        return scheduler


class SafeFeeds:
    """Which pages' lines are where a death of this process does not reach them: in a file of lines that was flushed, or
    in a feed that is closed. Made before the FeedExporter, so that it sees in which feeds an item goes.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._open: dict[str, set[int]] = {}  # url -> feeds that have it and are not closed
        self._slots: dict[int, FeedSlot] = {}
        self._keeping: set[str] = set()  # urls whose lines are on their way to Redis
        self._kept: set[str] = set()  # and those that are there
        self._needless: set[str] = set()  # of both, those whose feeds are closed
        self._failures = 0
        crawler.signals.connect(self._item_scraped, signals.item_scraped)
        crawler.signals.connect(self._feed_slot_closed, signals.feed_slot_closed)

    def unsafe(self, urls: Iterable[str]) -> set[str]:
        """Those of these pages whose lines are not safe now; they are to be kept in Redis."""
        for slot in self._slots.values():
            if _is_lines(slot) and slot.file is not None and not slot.file.closed:
                slot.file.flush()
        unsafe = {url for url in urls if any(not _is_lines(self._slots[at]) for at in self._open.get(url, ()))}
        for url in urls:
            if url not in unsafe:
                self._open.pop(url, None)
        self._keeping |= unsafe
        return unsafe

    def note_kept(self, urls: Iterable[str]) -> None:
        self._keeping.difference_update(urls)
        self._kept.update(urls)

    def take_safe(self) -> list[str]:
        """Urls whose lines need not be kept any more."""
        safe = self._kept & self._needless
        self._kept -= safe
        self._needless -= safe
        return list(safe)

    def write(self, pages: list[Page]) -> None:
        """Lines of others, past the pipelines: they have been through them."""
        exporter, spider = self._crawler.get_extension(FeedExporter), self._crawler.spider
        assert spider is not None
        for page in pages:
            self._item_scraped(page)
            if exporter is not None:
                exporter.item_scraped(page, spider)
        urls = [page.url for page in pages]
        unsafe = self.unsafe(urls)
        self.note_kept(urls)  # they are in Redis already
        self._needless.update(url for url in urls if url not in unsafe)

    def _item_scraped(self, item: Any) -> None:
        exporter = self._crawler.get_extension(FeedExporter)
        if not isinstance(item, Page) or exporter is None:
            return
        slots = [slot for slot in exporter.slots if slot.filter.accepts(item)]
        self._slots |= {id(slot): slot for slot in slots}
        self._open[item.url] = {id(slot) for slot in slots}

    def _feed_slot_closed(self, slot: FeedSlot) -> None:
        self._slots.pop(id(slot), None)
        assert self._crawler.stats is not None
        stats = self._crawler.stats.get_stats()
        failures = sum(value for name, value in stats.items() if name.startswith("feedexport/failed_count"))
        failed, self._failures = failures > self._failures, failures
        for url, slots in list(self._open.items()):
            if id(slot) in slots:
                slots.discard(id(slot))
                if failed:
                    self._kept.discard(url)  # it stays in Redis, for another worker's feed
                    self._keeping.discard(url)
                elif not slots and (url in self._keeping or url in self._kept):
                    self._needless.add(url)
                if not slots:
                    del self._open[url]


def _is_lines(slot: FeedSlot) -> bool:
    is_local = isinstance(slot.storage, (FileFeedStorage, StdoutFeedStorage))
    return is_local and slot.format in _LINES and "postprocessing" not in slot.feed_options
