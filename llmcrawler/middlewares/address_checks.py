"""Keeps a public crawl from private hosts, asked for by url, by name, or through a proxy."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from llmcrawler.crawl.context import ReachableHosts, crawl_of
from llmcrawler.engine.refusals import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of

_TLS_PROXY = "a proxy that speaks TLS itself (https://...) is not supported: write its address as http://host:port"


class AddressMiddleware:
    """Judges a request's host as it is written; the resolver judges the address that it resolves to."""

    def __init__(self, hosts: ReachableHosts) -> None:
        self._hosts = hosts

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        hosts = crawl_of(crawler).hosts
        if not hosts.is_guarded:
            raise NotConfigured  # in scrapy shell and scrapy fetch a person chooses each url
        return cls(hosts)

    def process_request(self, request: Request) -> None:
        refusal = self._hosts.addresses.reason_to_refuse(request.url, source_of(request))
        if refusal is None:
            return
        led_from = request.meta.get("redirect_urls") if request.meta.get("dont_obey_robotstxt") else None
        if not (led_from and self._hosts.addresses.admits_robots_txt(request.url, led_from[0])):
            raise RequestRefused(RefusalKind.PRIVATE_ADDRESS, refusal)


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
            self._hosts.add_proxy(proxy)
        # The resolver lets the name of a proxy pass. A page may still not lead to the proxy's own machine.
        if not (self._hosts.checks_names if proxy else self._hosts.is_proxy(host)):
            return
        for address in await self._hosts.names.addresses(host):
            refusal = self._hosts.addresses.reason_to_refuse_address(address, host)
            if refusal is not None:
                raise RequestRefused(RefusalKind.PRIVATE_ADDRESS, refusal)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Refuse a request whose name the resolver refused: another try would end the same way."""
        if isinstance(exception, CannotResolveHostError) and not request.meta.get("proxy"):
            refusal = self._hosts.refused_names.get(urlparse_cached(request).hostname or "")
            if refusal is not None:
                raise RequestRefused(RefusalKind.PRIVATE_ADDRESS, refusal)


def source_of(request: Request) -> str | None:
    """Return the url of the page, list or redirect that leads to a request; None when the user asked for it."""
    redirected: list[str] = request.meta.get("redirect_urls") or []
    if redirected:
        return redirected[-1]
    context = context_of(request)
    return context.found_at if context.lease is None else context.lease.task.referer
