"""AutoThrottle with robots.txt's Crawl-delay as a floor."""

from __future__ import annotations

from scrapy import Request, Spider, signals
from scrapy.core.downloader import Slot
from scrapy.crawler import Crawler
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Response
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached


class CrawlDelayThrottle(AutoThrottle):
    """Scrapy's AutoThrottle; a host's delay never falls under its Crawl-delay, and jitter does not shorten that."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._floor_seconds: dict[str, float] = {}
        self._user_agent = str(crawler.settings["ROBOTSTXT_USER_AGENT"] or crawler.settings["USER_AGENT"])
        crawler.signals.connect(self._robots_parsed, signals.robots_parsed)

    def _robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        parser = getattr(robotparser, "rp", None)  # Protego, Scrapy's default
        delay = parser.crawl_delay(self._user_agent) if parser is not None else None
        if not delay:
            return
        key = urlparse_cached(request).netloc
        self._floor_seconds[key] = min(float(delay), self._max_delay())
        assert self.crawler.engine is not None
        slot = self.crawler.engine.downloader.slots.get(key)
        if slot is not None:
            self._raise_to_floor(key, slot)

    def _response_downloaded(self, response: Response, request: Request, spider: Spider) -> None:
        super()._response_downloaded(response, request, spider)
        key, slot = self._get_slot(request, spider)
        if key is not None and slot is not None:
            self._raise_to_floor(key, slot)

    def _raise_to_floor(self, key: str, slot: Slot) -> None:
        floor = self._floor_seconds.get(key)
        if floor is not None and slot.delay <= floor:
            slot.delay, slot.jitter = floor, 0.0
