"""Extensions that crawls of the tests run with."""

import asyncio
import logging
import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Self

from scrapy import signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler

from llmcrawler.core.frontier.sqlite import SqliteFrontier

logger = logging.getLogger(__name__)


class NoHeartbeat:
    """Stops the engine's heartbeat: what nobody wakes the engine for does not happen."""

    def __init__(self) -> None:
        ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 1e6


class DiskFullWhenOpened:
    """Lets the disk fail when what earlier runs left is taken over, after the start of this run was written down."""

    def __init__(self) -> None:
        def fail(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        SqliteFrontier._open = fail  # type: ignore[method-assign, assignment]


class SlowOpening:
    """Says that the crawl is being opened, and lets it take a while."""

    def __init__(self, crawler: Crawler) -> None:
        crawler.signals.connect(self._open, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def _open(self) -> None:
        logger.info("still being opened")
        await asyncio.sleep(1.0)


class LineTimes:
    """Writes into the file LINE_TIMES when the spider opened, and when each line went out: a moment and a url a row."""

    def __init__(self, crawler: Crawler) -> None:
        self._file = Path(os.environ["LINE_TIMES"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - for good
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._scraped, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _opened(self) -> None:
        self._file.write(f"{time.monotonic()} \n")

    def _scraped(self, item: Any) -> None:
        self._file.write(f"{time.monotonic()} {getattr(item, 'url', '')}\n")
