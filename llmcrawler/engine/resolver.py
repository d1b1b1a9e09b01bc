"""Resolves names such that a public crawl stays out of private networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from scrapy.crawler import CrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.abstract import isIPv6Address
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import DNSLookupError

from llmcrawler.crawl.context import CrawlContext, find_crawl


class GuardedResolver(CachingThreadedResolver):
    """Refuses a name that resolves to an address the crawl must not touch: no name leads around the check of urls.

    Scrapy has one resolver for all crawls of a process: a name passes when one of them may use it.
    """

    def __init__(self, reactor: ReactorBase, cache_size: int, timeout: float, process: CrawlerProcess) -> None:
        super().__init__(reactor, cache_size, timeout)
        self._process = process

    @classmethod
    def from_crawler(cls, crawler: CrawlerProcess, reactor: ReactorBase) -> Self:  # type: ignore[override]
        # Scrapy hands the CrawlerProcess over here, not a Crawler.
        cache_size = crawler.settings.getint("DNSCACHE_SIZE") if crawler.settings.getbool("DNSCACHE_ENABLED") else 0
        return cls(reactor, cache_size, crawler.settings.getfloat("DNS_TIMEOUT"), crawler)

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> Deferred[str]:  # noqa: N802 (Twisted's interface)
        # Twisted asks for IPv6 addresses, too, and Scrapy's resolver takes them for names.
        found = succeed(name) if isIPv6Address(name) else super().getHostByName(name, timeout)
        return found.addCallback(self._check, name)

    def _check(self, address: str, name: str) -> str:
        crawls = [crawl for crawler in self._process.crawlers if (crawl := find_crawl(crawler)) is not None]
        refusals = [_refusal(crawl, address, name) for crawl in crawls]
        is_refused = bool(refusals) and all(refusals)
        for crawl, refusal in zip(crawls, refusals, strict=True):
            # Twisted drops this error's message on its way to the request: NameMiddleware asks the crawl for it.
            if is_refused and refusal is not None:
                crawl.note_refused_name(name, refusal)
            else:
                crawl.refused_names.pop(name, None)
        if is_refused:
            raise DNSLookupError(f"{name}: {refusals[0]}")
        return address


def _refusal(crawl: CrawlContext, address: str, name: str) -> str | None:
    if not crawl.options.urls:
        return None
    if crawl.is_proxy(name):
        return None  # the user's proxy; NameMiddleware judges what is asked of it
    return crawl.addresses.reason_to_refuse_address(address, name)
