"""robots.txt, from the first request on."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from llmcrawler.downloader import HostRests
from llmcrawler.middlewares.backoff import REFUSAL_STATUSES
from llmcrawler.middlewares.refusals import RequestRefused

_MAX_REFUSALS = 3  # of a robots.txt, before its host counts as one that has none
_META = {"dont_obey_robotstxt": True, "max_retry_times": 1}  # one that hangs holds up the whole host

logger = logging.getLogger(__name__)


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's, with every request of a host waiting for its robots.txt.

    In Scrapy 2.19 all but the first two waiters of a host get None for the parser and pass: they share a Deferred,
    whose result the first callback takes away. Here they share a task, shielded as a cancelled waiter would cancel it.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._fetches: dict[str, asyncio.Task[RobotParser | None]] = {}
        self._refusals: Counter[str] = Counter()

    async def robot_parser(self, request: Request) -> RobotParser | None:
        netloc = urlparse_cached(request).netloc
        if netloc not in self._fetches:
            self._fetches[netloc] = asyncio.ensure_future(self._fetch(request, netloc))
        return await asyncio.shield(self._fetches[netloc])

    async def _fetch(self, request: Request, netloc: str) -> RobotParser | None:
        """None, which allows all, when there is no robots.txt to be had: the pages will show what is wrong."""
        url = f"{urlparse_cached(request).scheme}://{netloc}/robots.txt"
        # Scrapy's own parsing hands its result to those who wait for this; nobody does.
        self._parsers[netloc] = Deferred()
        assert self.crawler.engine is not None
        try:
            response = await self.crawler.engine.download_async(
                Request(url, priority=self.DOWNLOAD_PRIORITY, meta=dict(_META), callback=NO_CALLBACK)
            )
            self._check_refusal(response, netloc)
            await self._parse_robots(response, netloc, request)
        except HostRests:
            del self._fetches[netloc]  # the pages go back; the next one that comes asks again
            raise
        except Exception as error:  # noqa: BLE001 (whatever a download may raise)
            logger.warning("%s cannot be had, so nothing is forbidden: %s", url, error)
            self._robots_error(error, netloc)
        finally:
            self._stats.inc_value("robotstxt/request_count")
        parser = self._parsers[netloc]
        return None if isinstance(parser, Deferred) else parser

    def _check_refusal(self, response: Response, netloc: str) -> None:
        """A host that has no time now has no time for its pages either: they wait, some times."""
        if response.status in REFUSAL_STATUSES and self._refusals[netloc] < _MAX_REFUSALS:
            self._refusals[netloc] += 1
            raise HostRests(f"{netloc} answers {response.status} for its robots.txt")

    def process_request_2(self, rp: RobotParser | None, request: Request) -> None:
        try:
            super().process_request_2(rp, request)
        except IgnoreRequest:
            raise RequestRefused("robots", "robots.txt forbids it") from None
