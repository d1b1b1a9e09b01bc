"""Extensions that crawls of the tests run with."""

from typing import Self

from scrapy import signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler


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
