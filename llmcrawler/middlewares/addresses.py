"""Keeps a public crawl from private hosts, asked for by url, by name, through a proxy or by a redirect, and redirects
inside of the crawl.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self, cast

from scrapy import Request
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware, MetaRefreshMiddleware, RedirectMiddleware
from scrapy.exceptions import CannotResolveHostError, IgnoreRequest, NotConfigured
from scrapy.http import HtmlResponse, Response
from scrapy.resolver import CachingThreadedResolver
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.abstract import isIPv6Address
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import DNSLookupError
from twisted.python.threadpool import ThreadPool

from llmcrawler.core.frontier.protocol import Frontier
from llmcrawler.core.urls import AddressGuard, Scope, normalise_with_route, with_plain_origin
from llmcrawler.core.urls.scope import UrlRefusal, UrlRefusalKind
from llmcrawler.crawl import signals
from llmcrawler.crawl.context import ReachableHosts, crawl_of, find_crawl
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of
from llmcrawler.engine.responses import head_of, may_refresh

if TYPE_CHECKING:
    from llmcrawler.fleet.session import DistributedSession


_TLS_PROXY = "a proxy that speaks TLS itself (https://...) is not supported: write its address as http://host:port"


@dataclass(eq=False)
class AddressMiddleware:
    """Judges a request's host as it is written; the resolver judges the address that it resolves to."""

    hosts: ReachableHosts

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        hosts = crawl_of(crawler).hosts
        if not hosts.is_guarded:
            raise NotConfigured  # in scrapy shell and scrapy fetch a person chooses each url
        return cls(hosts)

    def process_request(self, request: Request) -> None:
        refusal = self.hosts.addresses.reason_to_refuse(request.url, source_of(request))
        if refusal is None:
            return
        led_from = request.meta.get("redirect_urls") if request.meta.get("dont_obey_robotstxt") else None
        if not (led_from and self.hosts.addresses.admits_robots_txt(request.url, led_from[0])):
            raise RequestRefused(_kind_of(refusal), refusal)


class NameMiddleware(AddressMiddleware):
    """Judges the addresses of names that a proxy looks up, where the resolver does not see them.

    It stands next to the downloader, behind all that may choose a proxy. A name that is unknown here passes: where all
    traffic goes through a proxy, there may be no name service.
    """

    async def process_request(self, request: Request) -> None:  # type: ignore[override]
        host, proxy = urlparse_cached(request).hostname or "", request.meta.get("proxy")
        if proxy:
            if proxy.lower().startswith("https:"):
                raise RequestRefused(RefusalKind.PROXY, _TLS_PROXY)
            self.hosts.add_proxy(proxy)
        # The resolver lets the name of a proxy pass. A page may still not lead to the proxy's own machine.
        if not (self.hosts.checks_names if proxy else self.hosts.is_proxy(host)):
            return
        for address in await self.hosts.names.addresses(host):
            refusal = self.hosts.addresses.reason_to_refuse_address(address, host)
            if refusal is not None:
                raise RequestRefused(RefusalKind.PRIVATE_ADDRESS, refusal)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Refuse a request whose name the resolver refused: another try would end the same way."""
        if isinstance(exception, CannotResolveHostError) and not request.meta.get("proxy"):
            refusal = self.hosts.refused_names.get(urlparse_cached(request).hostname or "")
            if refusal is not None:
                raise RequestRefused(RefusalKind.PRIVATE_ADDRESS, refusal)


def _kind_of(refusal: UrlRefusal) -> RefusalKind:
    is_private = refusal.kind is UrlRefusalKind.PRIVATE_HOST
    return RefusalKind.PRIVATE_ADDRESS if is_private else RefusalKind.REDIRECT_OFFSITE


def source_of(request: Request) -> str | None:
    """Return the url of the page, list or redirect that leads to a request; None when the user asked for it."""
    redirected: list[str] = request.meta.get("redirect_urls") or []
    if redirected:
        return redirected[-1]
    context = context_of(request)
    return context.found_at if context.lease is None else context.lease.task.referer


if TYPE_CHECKING:
    _RedirectBase = BaseRedirectMiddleware
else:
    _RedirectBase = object


class _InsideTheCrawl(_RedirectBase):
    """Checks where a leased request is redirected. The page's item stays under the url that was asked for.

    A start url may lead to another host, which then belongs to the crawl. A target that has an item of its own is not
    fetched again.
    """

    _addresses: AddressGuard
    _scope: Scope
    _frontier: Frontier
    _session: DistributedSession | None
    _is_list: bool

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        middleware, crawl = super().from_crawler(crawler), crawl_of(crawler)
        middleware._addresses, middleware._scope = crawl.hosts.addresses, crawl.admission.scope
        middleware._frontier, middleware._is_list = crawl.frontier, crawl.options.is_list
        middleware._session = crawl.backend.session
        crawler.signals.connect(middleware._scope.widen, signals.scope_widened)
        return middleware

    def _build_redirect_request(
        self, source_request: Request, response: Response, *, url: str, **kwargs: Any
    ) -> Request:
        target = with_plain_origin(url)  # the host that is judged is the one that is asked, and gets no password
        if target is None:
            raise ValueError("it does not lead to a web page")
        return super()._build_redirect_request(source_request, response, url=target, **kwargs)

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        try:
            return super()._redirect(redirected, request, reason)
        except IgnoreRequest as error:
            raise RequestRefused(RefusalKind.REDIRECT_LOOP, str(error), redirected.url) from None

    async def _admitted(self, result: Request | Response, request: Request) -> Request | Response:
        lease = context_of(request).lease
        if isinstance(result, Response) or lease is None:
            return result
        target = normalise_with_route(result.url)
        if target is None:
            raise RequestRefused(RefusalKind.REDIRECT_OFFSITE, f"redirects to {result.url}, which is not a web page")
        if target == lease.task.address:
            return result  # the server wants a cookie first; REDIRECT_MAX_TIMES ends it when it never has enough
        private = self._addresses.reason_to_refuse(target, request.url)
        if lease.task.referer is None and private is None and not self._scope.has_site_of(target):
            self._scope.widen(target)
            if self._session is not None:
                await self._session.widen(target)
        refusal = self._scope.reason_to_refuse(target, lease.task.depth)
        if private is not None and (refusal is None or lease.task.referer is None):
            raise RequestRefused(_kind_of(private), f"redirects to {target}: {private}", target)
        if refusal is not None:
            message = f"redirects to {target}, outside of the crawl: {refusal}"
            raise RequestRefused(RefusalKind.REDIRECT_OFFSITE, message, target)
        if self._is_list:  # every entry of a list is wanted for itself
            return result
        if not await self._frontier.reserve_target(target, lease.url) and target not in result.meta["redirect_urls"]:
            message = f"redirects to {target}, which has a line of its own"
            raise RequestRefused(RefusalKind.REDIRECT_SEEN, message, target)
        return result


class CrawlRedirectMiddleware(_InsideTheCrawl, RedirectMiddleware):
    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        try:
            result = super().process_response(request, response)
        except ValueError:  # the target is no url at all: an http_3xx line, or the page as it is
            return response
        return await self._admitted(result, request)


class CrawlMetaRefreshMiddleware(_InsideTheCrawl, MetaRefreshMiddleware):
    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        if not isinstance(response, HtmlResponse) or not may_refresh(response):
            return response
        try:
            result = super().process_response(request, head_of(response))
        except ValueError:  # the target is no url at all: an http_3xx line, or the page as it is
            return response
        return response if isinstance(result, Response) else await self._admitted(result, request)


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
