"""robots.txt, from the first request on."""

from __future__ import annotations

import asyncio

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached

from llmcrawler.middlewares.refusals import RequestRefused


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
            self._fetches[netloc] = asyncio.ensure_future(super().robot_parser(request))
        return await asyncio.shield(self._fetches[netloc])

    def process_request_2(self, rp: RobotParser | None, request: Request) -> None:
        try:
            super().process_request_2(rp, request)
        except IgnoreRequest:
            raise RequestRefused("robots", "robots.txt forbids it") from None
