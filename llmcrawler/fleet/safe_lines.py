"""Writes lines of pages that are surely this worker's, and tells when they are where its death does not reach them."""

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
    """Holds lines until their pages are acknowledged. Safe are those in a flushed file of lines or a closed feed."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._held: dict[str, Page] = {}
        self._open: dict[str, set[int]] = {}  # url -> feeds that have it and are not closed
        self._slots: dict[int, FeedSlot] = {}
        self._keeping: set[str] = set()  # urls whose lines are on their way to Redis
        self._kept: set[str] = set()  # and those that are there
        self._needless: set[str] = set()  # of both, those whose feeds are closed
        crawler.signals.connect(self._feed_slot_closed, signals.feed_slot_closed)

    def hold(self, item: Any) -> bool:
        """Hold the line of a page that came through the pipelines; return whether it is one."""
        if isinstance(item, Page):
            self._held[item.id] = item
        return isinstance(item, Page)

    def write_held(self, url: str) -> None:
        """Write the line of a page, if it is held."""
        if (page := self._held.pop(url, None)) is not None:
            self._write(page)

    def drop(self, url: str) -> None:
        """Drop the line of a page that is another worker's by now."""
        self._held.pop(url, None)

    def unsafe(self, urls: Iterable[str]) -> set[str]:
        """Write the lines of these pages; return those that are not safe then, which are to be kept in Redis."""
        for url in urls:
            self.write_held(url)
        flushed = {at for at, slot in self._slots.items() if self._flush(slot)}
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
        for page in pages:
            self._write(page)
        urls = [page.id for page in pages]
        unsafe = self.unsafe(urls)
        self.set_kept(urls)  # they are in Redis already
        self._needless.update(url for url in urls if url not in unsafe)

    def _flush(self, slot: FeedSlot) -> bool:
        """Flush a file of lines; False for another feed, or where not all that went into it is where it belongs."""
        is_local = isinstance(slot.storage, (FileFeedStorage, StdoutFeedStorage))
        if not is_local or slot.format not in _LINES or "postprocessing" in slot.feed_options:
            return False
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

    def _write(self, page: Page) -> None:
        exporter = self._feeds
        if exporter is None:
            return
        slots = [slot for slot in exporter.slots if slot.filter.accepts(page)]
        self._slots |= {id(slot): slot for slot in slots}
        self._open[page.id] = {id(slot) for slot in slots}
        exporter.write(page, self._crawler.spider)

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
