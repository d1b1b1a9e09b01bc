"""Tells when a page's line is where the death of its worker does not reach it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter, FeedSlot, FileFeedStorage, StdoutFeedStorage

from llmcrawler.items import Page

# In these formats a file is of use as it is at any moment; others are whole when they are closed.
_LINES = frozenset({"jsonlines", "jsonl", "jl", "csv"})


class SafeLines:
    """Tells the pages whose lines no death of this process can take away: they are in a file of lines that was flushed,
    or in a feed that is closed. Made before the feeds' extension, so that it sees in which feeds an item goes.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._open: dict[str, set[int]] = {}  # url -> feeds that have it and are not closed
        self._slots: dict[int, FeedSlot] = {}
        self._keeping: set[str] = set()  # urls whose lines are on their way to Redis
        self._kept: set[str] = set()  # and those that are there
        self._needless: set[str] = set()  # of both, those whose feeds are closed
        crawler.signals.connect(self._item_scraped, signals.item_scraped)
        crawler.signals.connect(self._feed_slot_closed, signals.feed_slot_closed)

    def unsafe(self, urls: Iterable[str]) -> set[str]:
        """Return those of these pages whose lines are not safe now; they are to be kept in Redis."""
        flushed = {at for at, slot in self._slots.items() if _is_lines(slot) and self._flush(slot)}
        unsafe = {url for url in urls if not flushed.issuperset(self._open.get(url, ()))}
        for url in urls:
            if url not in unsafe:
                self._open.pop(url, None)
        self._keeping |= unsafe
        return unsafe

    def set_kept(self, urls: Iterable[str]) -> None:
        self._keeping.difference_update(urls)
        self._kept.update(urls)

    def take_safe(self) -> list[str]:
        """Return the urls whose lines need not be kept any more, each once."""
        safe = self._kept & self._needless
        self._kept -= safe
        self._needless -= safe
        return list(safe)

    def write(self, pages: list[Page]) -> None:
        """Write lines of other workers, past the pipelines: they have been through them."""
        exporter, spider = self._feeds, self._crawler.spider
        assert spider is not None
        for page in pages:
            self._item_scraped(page)
            if exporter is not None:
                exporter.item_scraped(page, spider)
        urls = [page.id for page in pages]
        unsafe = self.unsafe(urls)
        self.set_kept(urls)  # they are in Redis already
        self._needless.update(url for url in urls if url not in unsafe)

    def _flush(self, slot: FeedSlot) -> bool:
        """Flush a feed; False where not all that went into it is where it belongs."""
        try:
            if slot.file is not None and not slot.file.closed:
                slot.file.flush()
        except OSError as error:
            self._feeds.fail(slot, error)
        return not self._feeds.has_failed(slot)

    @property
    def _feeds(self) -> Any:
        """The project's Feeds, which stands above this; None without any feed."""
        exporter = self._crawler.get_extension(FeedExporter)
        return exporter if hasattr(exporter, "has_failed") else None

    def _item_scraped(self, item: Any) -> None:
        exporter = self._feeds
        if not isinstance(item, Page) or exporter is None:
            return
        slots = [slot for slot in exporter.slots if slot.filter.accepts(item)]
        self._slots |= {id(slot): slot for slot in slots}
        self._open[item.id] = {id(slot) for slot in slots}

    def _feed_slot_closed(self, slot: FeedSlot) -> None:
        self._slots.pop(id(slot), None)
        failed = self._feeds.has_failed(slot)
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
