"""Tells what a crawler's engine and scraper are doing, and makes them go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_closing: set[asyncio.Task[None]] = set()  # a task that nobody holds may be collected before it ends


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is being closed, is closed, or was never opened."""
    engine = crawler.engine
    return engine is None or engine._slot is None or engine._slot.closing is not None


class SpiderControl:
    """Tells whether a crawler's spider is closing, and closes it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    def is_closing(self) -> bool:
        return is_closing(self._crawler)

    def close_soon(self, reason: str) -> None:
        close_spider_soon(self._crawler, reason)


def wake_engine(crawler: Crawler) -> None:
    """Let the engine ask the scheduler for requests now and not at its next heartbeat, which comes every 5 s."""
    engine = crawler.engine
    if engine is not None and engine._slot is not None:
        engine._slot.nextcall.schedule()


def close_spider_soon(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider with this finish reason; nothing happens when it is closing already."""
    engine = crawler.engine
    if engine is not None and not is_closing(crawler):
        task = asyncio.ensure_future(engine.close_spider_async(reason=reason))
        _closing.add(task)
        task.add_done_callback(_closing.discard)


def process_item(crawler: Crawler, item: Any) -> None:
    """Send an item through the pipelines that no response brought. From now on the spider is not idle until it is
    through.
    """
    assert crawler.engine is not None
    crawler.engine.scraper._start_itemproc_nowait(item)


def settle_scraper(crawler: Crawler) -> None:
    """Let a scraper that is being closed look whether it is idle: it looks by itself only after a response."""
    assert crawler.engine is not None
    scraper = crawler.engine.scraper
    if scraper.slot is not None and scraper.slot.closing is not None and not scraper.slot.closing.called:
        scraper._check_if_closing()
