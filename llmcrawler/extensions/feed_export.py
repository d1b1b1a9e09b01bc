"""Scrapy's feed exports that tell when a feed is incomplete: it is named once and counted, the others go on, and the
crawl ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.extensions.feedexport import FeedExporter, FeedSlot, ItemFilter, StdoutFeedStorage
from scrapy.utils.defer import ensure_awaitable

from llmcrawler.core.reporting.summary import WrittenFeed
from llmcrawler.crawl.arguments import DROP
from llmcrawler.crawl.compat import close_spider_soon, stats_of
from llmcrawler.crawl.context import find_crawl
from llmcrawler.errors import ConfigError

logger = logging.getLogger(__name__)

_MOST_CHARS = 300  # of what a storage says about its failure


class Feeds(FeedExporter):
    """Counts what is written, and incomplete feeds as `feedexport/failed_count/...` for the exit status: Scrapy's
    counter of logged errors is gone by the time that feeds are closed.
    """

    def __init__(self, crawler: Crawler) -> None:
        try:
            super().__init__(crawler)
        except NotConfigured:
            if not crawler.settings["FEEDS"] and not crawler.settings["FEED_URI"]:
                raise
            # Scrapy would crawl without any feed.
            raise ConfigError("a requested feed cannot be created, see the error above") from None
        for uri, options in list(self.feeds.items()):
            feeds_of: Callable[..., dict[str, tuple[dict[str, Any], ItemFilter]]] | None
            feeds_of = getattr(self.exporters[options["format"]], "feeds_of", None)
            if feeds_of is not None:
                del self.feeds[uri]
                for name, given in feeds_of(crawler, uri, options, self.filters[uri]).items():
                    self.feeds[name], self.filters[name] = given
        crawl = self._crawl = find_crawl(crawler)
        self._lines = None if crawl is None else crawl.backend.lines
        if crawl is not None and crawl.options.duplicates == DROP:
            self.filters = {uri: _WithoutDuplicates(inner) for uri, inner in self.filters.items()}
        self._failed: WeakSet[FeedSlot] = WeakSet()
        self._lacking: WeakSet[FeedSlot] = WeakSet()
        self._written: dict[str, WrittenFeed] = {}

    @property
    def written(self) -> list[WrittenFeed]:
        """Return what has been closed of each feed; the batches of one are one."""
        return list(self._written.values())

    def has_failed(self, slot: FeedSlot) -> bool:
        return slot in self._failed or slot in self._lacking

    def open_spider(self, spider: Spider) -> None:
        try:
            super().open_spider(spider)
            for slot in self.slots:
                prepare: Callable[[], None] | None = getattr(self.exporters[slot.format], "prepare", None)
                if prepare is not None:
                    prepare()
        except Exception as error:  # noqa: BLE001 - a name with a placeholder that nobody fills, say
            self._count("unopened")
            if isinstance(error, KeyError):
                named = f"nothing fills %({error.args[0]})s in its name: time, batch_id and attributes of the spider do"
                error = ConfigError(named)
            self._tell_and_close("a requested feed", error)

    def item_scraped(self, item: Any, spider: Spider) -> None:
        if self._lines is None or not self._lines.hold(item):
            self.write(item, spider)

    def write(self, item: Any, spider: Spider) -> None:
        slots: list[FeedSlot] = []
        for slot in self.slots:
            self.slots = [slot]  # one at a time, so that a feed that fails takes no line from those after it
            if slot not in self._failed:
                try:
                    super().item_scraped(item, spider)
                except (OSError, ConfigError) as error:
                    self.fail(slot, error)
                except Exception:  # noqa: BLE001 - an exporter of the user's may raise anything
                    self._count_lack(slot, item)
            slots += self.slots
        self.slots = slots

    def fail(self, slot: FeedSlot, error: Exception) -> None:
        """Write nothing more into this feed, and end the crawl."""
        if slot in self._failed:
            return
        if slot not in self._lacking:
            self._count(type(slot.storage).__name__)
        self._failed.add(slot)
        self._tell_and_close(_shown(slot.uri), error)

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:  # noqa: ARG002 (Scrapy's)
        is_void = self._crawl is not None and self._crawl.understanding.is_void
        stores_empty = slot.store_empty and slot.batch_id == 1 and not is_void
        if not (slot.itemcount or stores_empty or self.has_failed(slot)):
            return
        if slot not in self._failed:
            try:
                await self._store(slot)
            except Exception as error:  # noqa: BLE001 - storages raise what their libraries do
                self.fail(slot, error)
        if slot in self._failed:
            _abandon(slot)
        uri, lines, is_whole = _written_to(slot), _lines_of(slot), not self.has_failed(slot)
        if (before := self._written.get(slot.uri_template)) is not None:
            uri, lines = _shown(slot.uri_template), lines + before.lines
            is_whole = is_whole and before.is_whole
        self._written[slot.uri_template] = WrittenFeed(uri, slot.format, lines, is_whole)
        await self.crawler.signals.send_catch_log_async(signals.feed_slot_closed, slot=slot)

    async def _store(self, slot: FeedSlot) -> None:
        slot.start_exporting()  # does nothing if that was done for its first item
        await asyncio.to_thread(slot.finish_exporting)  # some write all of their lines now
        file = self._get_file(slot)
        file.flush()
        await ensure_awaitable(slot.storage.store(file))
        if slot in self._lacking:
            return
        logger.info("Stored %s feed (%d lines) in: %s", slot.format, _lines_of(slot), _written_to(slot))
        stats_of(self.crawler).inc_value(f"feedexport/success_count/{type(slot.storage).__name__}")

    def _count_lack(self, slot: FeedSlot, item: Any) -> None:
        """Count an item that an exporter failed on, by an error in its code. The feed goes on without it."""
        if slot in self._lacking:
            return
        self._lacking.add(slot)
        self._count(type(slot.storage).__name__)
        what = getattr(item, "url", None) or type(item).__name__
        logger.exception(
            "The feed %s lacks %s, and maybe others, because of an error in its exporter", _shown(slot.uri), what
        )

    def _count(self, kind: str) -> None:
        stats_of(self.crawler).inc_value(f"feedexport/failed_count/{kind}")

    def _tell_and_close(self, feed: str, error: Exception) -> None:
        cause = " ".join(str(error).split())[:_MOST_CHARS]
        if not isinstance(error, (OSError, ConfigError)) or not cause:
            cause = f"{type(error).__name__}: {cause}"
        logger.error("The feed cannot be written (%s): %s. Other feeds are kept", feed, cause)
        close_spider_soon(self.crawler, "storage_failed")


class _WithoutDuplicates(ItemFilter):
    """Leaves out pages that repeat another one, and what another filter leaves out."""

    def __init__(self, inner: ItemFilter) -> None:
        super().__init__(None)
        self._inner = inner

    def accepts(self, item: Any) -> bool:
        return getattr(item, "duplicate_of", None) is None and self._inner.accepts(item)


def _abandon(slot: FeedSlot) -> None:
    """Close the files of a failed feed without errors: closing, and Python's end, would try to write again."""
    with suppress(Exception):
        slot.finish_exporting()
    with suppress(Exception):
        file = Feeds._get_file(slot)
        if isinstance(slot.storage, StdoutFeedStorage):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, file.fileno())
            os.close(nothing)
        else:
            file.close()


def _lines_of(slot: FeedSlot) -> int:
    """Return what the exporter says that it has written: some leave out items, such as templates; else all it got."""
    return int(getattr(slot.exporter, "lines", slot.itemcount))


def _written_to(slot: FeedSlot) -> str:
    """Return where the lines are: beside the feed's file where that was left as it was."""
    return _shown(getattr(slot.storage, "written_to", None) or slot.uri)


def _shown(uri: str) -> str:
    """Return the uri without the password that one of FTP has."""
    return re.sub(r"(?<=://)[^/@]*:[^/]*@", "***@", uri)
