"""Scrapy's feed exports, of which one that cannot be written ends the crawl, in place of an error for each page."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter, FeedSlot

from llmcrawler.errors import ConfigError

logger = logging.getLogger(__name__)


class Feeds(FeedExporter):
    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._has_failed = False
        self._closing: asyncio.Future[None] | None = None  # a task that nobody holds may be collected

    def item_scraped(self, item: Any, spider: Spider) -> None:
        if self._has_failed:
            return
        try:
            super().item_scraped(item, spider)
        except (OSError, ConfigError) as error:
            self._fail(error)

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:
        try:
            slot.finish_exporting()
            if slot.file is not None:
                slot.file.flush()  # Scrapy's own message of a disk that is full is a traceback
            await super()._close_slot(slot, spider)
        except (OSError, ConfigError) as error:
            self._fail(error)
            if slot.file is not None:
                with suppress(OSError):  # it has been told already, and closing tries to write again
                    slot.file.close()

    def _fail(self, error: Exception) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        where = ", ".join(slot.uri for slot in self.slots)
        logger.error("The feed cannot be written (%s): %s", where, error)
        engine = self.crawler.engine
        if engine is not None and engine.spider is not None:
            self._closing = asyncio.ensure_future(engine.close_spider_async(reason="storage_failed"))
