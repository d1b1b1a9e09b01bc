"""Extensions that crawls of the tests run with."""

import os
import time
from pathlib import Path
from typing import Any, Self

from scrapy import Request, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.http import Response

from llmcrawler.engine.request_context import context_of


class NoHeartbeat:
    """Stops the engine's heartbeat: what nobody wakes the engine for does not happen."""

    def __init__(self) -> None:
        ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 1e6


class PagesAhead:
    """In the stats: how many pages had come at most that were not yet items."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._ahead = 0
        crawler.signals.connect(self._came, signals.response_received)
        crawler.signals.connect(self._is_through, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _came(self) -> None:
        self._ahead += 1
        assert self._crawler.stats is not None
        self._crawler.stats.max_value("test/pages_ahead", self._ahead)

    def _is_through(self) -> None:
        self._ahead -= 1


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


class RequestTimes:
    """Writes into the file REQUEST_TIMES of each request that was answered when it started, when its answer was here,
    and with which status: the crawler's clock, as a server on a busy machine sees them come late by what it likes.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._file = Path(os.environ["REQUEST_TIMES"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - for good
        crawler.signals.connect(self._downloaded, signals.response_downloaded)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _downloaded(self, response: Response, request: Request) -> None:
        self._file.write(f"{context_of(request).started} {time.monotonic()} {response.status}\n")


# Beside what holds the gaps, and told of an answer before it.
WITH_REQUEST_TIMES = {
    "EXTENSIONS": '{"tests.e2e.extensions.RequestTimes": -1, "llmcrawler.extensions.throttle.AdaptiveThrottle": 0}'
}
