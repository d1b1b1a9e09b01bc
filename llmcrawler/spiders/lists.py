"""Asks a site for its lists of urls: sitemaps and their indexes, feeds, llms.txt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.robotstxt import RobotParser
from twisted.python.failure import Failure

from llmcrawler.spiders.failures import failure_kind
from llmcrawler.urls import Sitemap, normalise, parse_llms_txt, parse_sitemap

logger = logging.getLogger(__name__)

SITEMAP, FEED, LLMS_TXT = "sitemap", "feed", "llms.txt"
_MAX_BYTES = 50 * 2**20  # sitemaps.org


@dataclass(frozen=True, slots=True)
class ListLimits:
    """`files` of all kinds are asked for, `feeds` among them; indexes lead `levels` down."""

    files: int = 50
    feeds: int = 10
    levels: int = 3


class SiteLists:
    """`take` gets what a list says, its kind and its address. `wants_more` is asked before a list is asked for.

    Each file is asked for once, retried once, and leaves a line in the log.
    """

    def __init__(
        self,
        crawler: Crawler,
        take: Callable[[Sitemap, str, str], Awaitable[str]],
        wants_more: Callable[[], bool],
        limits: ListLimits,
    ) -> None:
        self._crawler = crawler
        self._take = take
        self._wants_more = wants_more
        self._limits = limits
        self._seen: set[str] = set()
        self._feeds = 0
        self.pending = 0

    def ask(self, base: str, url: str, *, kind: str = SITEMAP, level: int = 0, is_guess: bool = False) -> None:
        """`is_guess`: nothing says that there is such a file."""
        target = normalise(url, base)
        if target is None or target in self._seen or not self._wants_more():
            return
        if level > self._limits.levels or len(self._seen) >= self._limits.files:
            limit = "nested too deep" if level > self._limits.levels else f"over {self._limits.files} files"
            logger.warning("List %s is not read: %s", target, limit)
            return
        if kind == FEED:
            self._feeds += 1
            if self._feeds > self._limits.feeds:
                return
        self._seen.add(target)
        self.pending += 1
        assert self._crawler.engine is not None
        self._crawler.engine.crawl(
            Request(
                target,
                callback=self._parse,
                errback=self._failed,
                cb_kwargs={"kind": kind, "level": level, "is_guess": is_guess},
                # It is large, and may hang.
                meta={"max_retry_times": 1, "autothrottle_dont_adjust_delay": True, "download_maxsize": _MAX_BYTES},
                dont_filter=True,
            )
        )

    def ask_named(self, robotparser: RobotParser, base: str) -> None:
        """For those that the robots.txt at `base` names."""
        for url in getattr(getattr(robotparser, "rp", None), "sitemaps", ()):
            self.ask(base, str(url))

    async def _parse(self, response: Response, kind: str, level: int, is_guess: bool) -> None:
        try:
            if response.status == 200:
                await self._read(response, kind, level, is_guess)
            else:
                logger.log(_level(is_guess), "List %s: there is none (%d)", response.url, response.status)
        finally:
            self.pending -= 1

    async def _read(self, response: Response, kind: str, level: int, is_guess: bool) -> None:
        parse = parse_llms_txt if kind == LLMS_TXT else parse_sitemap
        found = await asyncio.to_thread(parse, response.body)
        if found.is_feed:
            kind = FEED
        words = await self._take(found, kind, response.url) if found.urls else "no urls"
        logger.log(
            _level(is_guess or not found.fault),
            "List %s (%s): %s%s%s",
            response.url,
            kind,
            words,
            f", {len(found.sitemaps)} more lists" if found.sitemaps else "",
            f"; {found.fault}" if found.fault else "",
        )
        for url in found.sitemaps:
            self.ask(response.url, url, level=level + 1)

    def _failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy's scraper
        self.pending -= 1
        is_guess = bool(request.cb_kwargs.get("is_guess"))
        kind, message = failure_kind(failure.value)
        if kind == "too_large":
            message = f"it is larger than {_MAX_BYTES // 2**20} MB, and not read"
        logger.log(_level(is_guess), "List %s: %s", request.url, message)


def _level(is_expected: bool) -> int:
    return logging.INFO if is_expected else logging.WARNING
