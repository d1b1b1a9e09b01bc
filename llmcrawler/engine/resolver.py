"""Resolves names such that a public crawl stays out of private networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import Any, Final, Self, cast

from scrapy.crawler import CrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.abstract import isIPv6Address
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import DNSLookupError
from twisted.python.threadpool import ThreadPool

from llmcrawler.crawl.context import ReachableHosts, find_crawl

_THREADS: Final = 10


class _NameThreads:
    """The reactor with other threads, for names: those of the reactor's own pool are waited for when it stops, and a
    name server that is silent holds one for half a minute.
    """

    def __init__(self, reactor: ReactorBase) -> None:
        self._reactor = reactor
        self._threads = ThreadPool(0, _THREADS, name="resolver")
        self._threads.threadFactory = partial(Thread, daemon=True)  # type: ignore[assignment]  # a class attribute
        self._threads.start()

    def getThreadPool(self) -> ThreadPool:  # noqa: N802 (Twisted's)
        return self._threads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)


class GuardedResolver(CachingThreadedResolver):
    """Refuses a name that resolves to an address the crawl must not touch: no name leads around the check of urls.

    Scrapy has one resolver for all crawls of a process (`hosts` returns those of each): a name passes when one of them
    may use it.
    """

    def __init__(
        self, reactor: ReactorBase, cache_size: int, timeout: float, hosts: Callable[[], Sequence[ReachableHosts]]
    ) -> None:
        super().__init__(cast(ReactorBase, _NameThreads(reactor)), cache_size, timeout)
        self._hosts = hosts

    @classmethod
    def from_crawler(cls, crawler: CrawlerProcess, reactor: ReactorBase) -> Self:  # type: ignore[override]
        # Scrapy hands the CrawlerProcess over here, not a Crawler.
        cache_size = crawler.settings.getint("DNSCACHE_SIZE") if crawler.settings.getbool("DNSCACHE_ENABLED") else 0

        def hosts() -> list[ReachableHosts]:
            return [crawl.hosts for one in crawler.crawlers if (crawl := find_crawl(one)) is not None]

        return cls(reactor, cache_size, crawler.settings.getfloat("DNS_TIMEOUT"), hosts)

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> Deferred[str]:  # noqa: N802 (Twisted's interface)
        # Twisted asks for IPv6 addresses, too, and Scrapy's resolver takes them for names.
        found = succeed(name) if isIPv6Address(name) else super().getHostByName(name, timeout)
        return found.addCallback(self._check, name)

    def _check(self, address: str, name: str) -> str:
        crawls = self._hosts()
        refusals = [hosts.reason_to_refuse(address, name) for hosts in crawls]
        is_refused = bool(refusals) and all(refusals)
        for hosts, refusal in zip(crawls, refusals, strict=True):
            # Twisted drops this error's message on its way to the request: NameMiddleware asks the hosts for it.
            if is_refused and refusal is not None:
                hosts.add_refused_name(name, refusal)
            else:
                hosts.refused_names.pop(name, None)
        if is_refused:
            raise DNSLookupError(f"{name}: {refusals[0]}")
        return address
