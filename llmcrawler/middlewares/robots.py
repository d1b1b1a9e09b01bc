"""robots.txt, from the first request on."""

from __future__ import annotations

import asyncio
import logging

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from llmcrawler.middlewares.refusals import RequestRefused

logger = logging.getLogger(__name__)


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's, with every request of a host waiting for its robots.txt.

    In Scrapy 2.19 all but the first two waiters of a host get None for the parser and pass: they share a Deferred,
    whose result the first callback takes away. Here they share a task, shielded as a cancelled waiter would cancel it.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._fetches: dict[str, asyncio.Task[RobotParser | None]] = {}

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
                Request(url, priority=self.DOWNLOAD_PRIORITY, meta={"dont_obey_robotstxt": True}, callback=NO_CALLBACK)
            )
            await self._parse_robots(response, netloc, request)
        except Exception as error:  # noqa: BLE001 (whatever a download may raise)
            logger.warning("%s cannot be had, so nothing is forbidden: %s", url, error)
            self._robots_error(error, netloc)
        finally:
            self._stats.inc_value("robotstxt/request_count")
        parser = self._parsers[netloc]
        return None if isinstance(parser, Deferred) else parser

    def process_request_2(self, rp: RobotParser | None, request: Request) -> None:
        try:
            super().process_request_2(rp, request)
        except IgnoreRequest:
            raise RequestRefused("robots", "robots.txt forbids it") from None
