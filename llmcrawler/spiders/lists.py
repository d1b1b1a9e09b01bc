"""Asks a site for its lists of urls: sitemaps and their indexes, feeds, llms.txt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from scrapy import Request
from scrapy.http import Response
from scrapy.robotstxt import RobotParser
from twisted.python.failure import Failure

from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.core.urls import (
    AddressGuard,
    Sitemap,
    normalise,
    origin_of,
    parse_llms_txt,
    parse_packed_sitemap,
    parse_sitemap,
)
from llmcrawler.engine.failures import failure_kind
from llmcrawler.engine.request_context import CONTEXT, RequestContext
from llmcrawler.errors import ContentError

logger = logging.getLogger(__name__)

SITEMAP, FEED, LLMS_TXT = "sitemap", "feed", "llms.txt"
_MAX_BYTES = 50 * 2**20  # sitemaps.org
# A larger one is read in another process.
_SMALL_BYTES = 64 * 2**10
_PARSE_SECONDS, _PARSE_SECONDS_PER_BYTE = 3.0, 1e-6
_MAX_NAMED = 2000  # of the addresses that one list names are looked at
_NAMED_AT_ONCE = 100  # in some milliseconds
_MAX_SHOWN = 200
_MAX_TOLD = 5  # private addresses among the lists, in the log


@dataclass(frozen=True, slots=True)
class ListLimits:
    """Limits for the lists of a site: `files` of all kinds, `feeds` among them; indexes lead `levels` down."""

    files: int = 50
    feeds: int = 10
    levels: int = 3


@dataclass(eq=False)
class SiteLists:
    """Sends the requests for lists (`send`) and gives `take` what a list says, its kind and its address.

    `wants_more` is asked before a list is asked for. Large lists are read in `processes`.

    Each file is asked for once, retried once, and leaves a line in the log. Those beyond the limits are counted where
    they are named, and neither remembered nor logged one by one.
    """

    send: Callable[[Request], object]
    addresses: AddressGuard
    processes: BoundedProcesses
    take: Callable[[Sitemap, str, str], Awaitable[str]]
    wants_more: Callable[[], bool]
    limits: ListLimits

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self._feeds = 0
        self._has_told_of_limit = False
        self._refusals = 0
        self.pending = 0

    def ask(self, base: str, url: str, *, kind: str = SITEMAP, level: int = 0, is_guess: bool = False) -> None:
        """Ask for a list, if there is room for it. `is_guess`: nothing says that there is such a file."""
        if self._is_full() or (kind == FEED and self._feeds >= self.limits.feeds) or not self.wants_more():
            return
        target = normalise(url, base)
        if target is None or target in self._seen:
            return
        refusal = self.addresses.reason_to_refuse(target, base)
        if refusal is not None:  # it is not remembered: the host's own pages may still ask for it
            if self._refusals < _MAX_TOLD:
                logger.warning("List %s is not read: %s", target[:_MAX_SHOWN], refusal[:_MAX_SHOWN])
            self._refusals += 1
            return
        self._feeds += kind == FEED
        self._seen.add(target)
        self.pending += 1
        self.send(
            Request(
                target,
                callback=self._parse,
                errback=self._failed,
                cb_kwargs={"kind": kind, "level": level, "is_guess": is_guess},
                # It is large, and may hang.
                meta={
                    "max_retry_times": 1,
                    "autothrottle_dont_adjust_delay": True,
                    "download_maxsize": _MAX_BYTES,
                    CONTEXT: RequestContext(found_at=base),
                },
                dont_filter=True,
            )
        )

    async def ask_named(self, robotparser: RobotParser, base: str) -> None:
        """Ask for the lists that the robots.txt at `base` names."""
        passed_over = await self._ask_all(base, getattr(robotparser, "sitemaps", ()), 0)
        if passed_over:
            logger.warning("robots.txt of %s: %s", origin_of(base), passed_over)

    async def _ask_all(self, base: str, urls: Sequence[str], level: int) -> str:
        """Ask for lists, and return in words how many of them are passed over, "" when none is."""
        if not urls or not self.wants_more():
            return ""
        if level > self.limits.levels:
            return f"{len(urls):,} lists are nested too deep, and not read, such as {urls[0][:_MAX_SHOWN]}"
        looked_at = 0
        while looked_at < min(len(urls), _MAX_NAMED) and len(self._seen) < self.limits.files:
            self.ask(base, urls[looked_at], level=level)
            looked_at += 1
            if looked_at % _NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if looked_at == len(urls):
            return ""
        example = urls[looked_at][:_MAX_SHOWN]
        return f"{len(urls) - looked_at:,} lists over {self.limits.files} are not read, such as {example}"

    def _is_full(self) -> bool:
        if len(self._seen) < self.limits.files:
            return False
        if not self._has_told_of_limit:
            self._has_told_of_limit = True
            logger.warning("No more than %d lists are read", self.limits.files)
        return True

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
        found = await self._parsed(parse, response)
        if found.is_feed:
            kind = FEED
        words = [await self.take(found, kind, response.url) if found.urls else "no urls"]
        if found.sitemaps:
            words[0] += f", {len(found.sitemaps):,} more lists"
        passed_over = await self._ask_all(response.url, found.sitemaps, level + 1)
        words += filter(None, (passed_over, found.fault))
        is_expected = is_guess or not (found.fault or passed_over)
        logger.log(_level(is_expected), "List %s (%s): %s", response.url, kind, "; ".join(words))

    async def _parsed(self, parse: Callable[[bytes], Sitemap], response: Response) -> Sitemap:
        body = response.body
        if len(body) <= _SMALL_BYTES:
            return await asyncio.to_thread(parse, body)
        if parse is parse_sitemap:
            parse = parse_packed_sitemap
        seconds = _PARSE_SECONDS + len(body) * _PARSE_SECONDS_PER_BYTE
        try:
            return await self.processes.run(parse, body, seconds=seconds, share=origin_of(response.url))
        except ContentError as error:
            return Sitemap(fault=str(error))

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
