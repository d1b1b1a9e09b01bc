"""Obeys robots.txt from the first request on."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler, load_object

from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.downloader import HostPaused
from llmcrawler.engine.refusals import OVERLOAD_STATUSES, RefusalKind, RequestRefused
from llmcrawler.politeness.robots import MAX_BYTES, RobotsCache

_MAX_REFUSALS = 3  # of a robots.txt, before its host counts as one that has none
# More is fetched than is read (RFC 9309, 2.5), so that a file which is too long is cut and not lost.
_MAX_FETCHED_BYTES = 20 * 2**20
_META = {
    "dont_obey_robotstxt": True,
    "max_retry_times": 1,  # one that hangs holds up the whole host
    "download_maxsize": _MAX_FETCHED_BYTES,
}
_INLINE_BYTES = 16 * 1024  # what is parsed in some milliseconds
_FORBIDS_ALL = b"User-agent: *\nDisallow: /"

logger = logging.getLogger(__name__)


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's middleware, with every request of a host waiting for its robots.txt.

    In Scrapy 2.19 all but the first two waiters of a host get None for the parser and pass: they share a Deferred,
    whose result the first callback takes away. Here they share a task, shielded as a cancelled waiter would cancel it.
    """

    def __init__(self, crawler: Crawler, known: RobotsCache[RobotParser]) -> None:
        super().__init__(crawler)
        assert crawler.stats is not None
        self.stats = crawler.stats
        self._parser_class = load_object(crawler.settings["ROBOTSTXT_PARSER"])
        self._known = known
        self._fetches: dict[str, asyncio.Task[RobotParser]] = {}
        self._refusals: Counter[str] = Counter()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawl_of(crawler).robots)

    async def robot_parser(self, request: Request) -> RobotParser:
        netloc = urlparse_cached(request).netloc
        known = self._known.get(netloc)
        if known is not None:
            return known
        if netloc not in self._fetches:
            fetch = self._fetches[netloc] = asyncio.ensure_future(self._fetch(request, netloc))
            fetch.add_done_callback(partial(self._forget, netloc))
        return await asyncio.shield(self._fetches[netloc])

    def _forget(self, netloc: str, fetch: asyncio.Task[RobotParser]) -> None:
        del self._fetches[netloc]
        if not fetch.cancelled():
            fetch.exception()  # which asyncio would log where all who waited are gone

    async def _fetch(self, request: Request, netloc: str) -> RobotParser:
        """Return the parser of a host's robots.txt. One that cannot be had forbids nothing: the pages will show why."""
        url = f"{urlparse_cached(request).scheme}://{netloc}/robots.txt"
        assert self.crawler.engine is not None
        try:
            response = await self.crawler.engine.download_async(
                Request(url, priority=self.DOWNLOAD_PRIORITY, meta=dict(_META), callback=NO_CALLBACK)
            )
            self._check_refusal(response, netloc)
            self.stats.inc_value("robotstxt/response_count")
            self.stats.inc_value(f"robotstxt/response_status_count/{response.status}")
            parser = await self._parse(response.body)
            await self.crawler.signals.send_catch_log_async(
                signal=signals.robots_parsed, robotparser=parser, request=request
            )
        except HostPaused:
            raise  # the pages go back; the next one that comes asks again
        except Exception as error:  # noqa: BLE001 (whatever a download may raise)
            parser = await self._without_file(url, error)
        finally:
            self.stats.inc_value("robotstxt/request_count")
        self._known.keep(netloc, parser, getattr(parser, "size_bytes", MAX_BYTES))
        return parser

    async def _parse(self, body: bytes) -> RobotParser:
        parse = partial(build_from_crawler, self._parser_class, self.crawler, body)
        parser: RobotParser = parse() if len(body) <= _INLINE_BYTES else await asyncio.to_thread(parse)
        return parser

    async def _without_file(self, url: str, error: Exception) -> RobotParser:
        """Return the parser in place of a file that cannot be read. One that is too long is there, and forbids all."""
        if not isinstance(error, IgnoreRequest):
            self.stats.inc_value(f"robotstxt/exception_count/{type(error)}")
        is_too_long = "MAXSIZE" in str(error) or isinstance(error, DownloadCancelledError)
        means = "everything is forbidden" if is_too_long else "nothing is forbidden"
        logger.warning("%s cannot be had, so %s: %s", url, means, error)
        return await self._parse(_FORBIDS_ALL if is_too_long else b"")

    def _check_refusal(self, response: Response, netloc: str) -> None:
        """Raise HostPaused for a host that has no time now, a few times: it has none for its pages either."""
        if response.status in OVERLOAD_STATUSES and self._refusals[netloc] < _MAX_REFUSALS:
            self._refusals[netloc] += 1
            raise HostPaused(f"{netloc} answers {response.status} for its robots.txt")

    def process_request_2(self, rp: RobotParser | None, request: Request) -> None:
        try:
            super().process_request_2(rp, request)
        except IgnoreRequest:
            raise RequestRefused(RefusalKind.ROBOTS, "robots.txt forbids it") from None
