"""No request of a public crawl to a private host, by its url, by its name, or through a proxy."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from llmcrawler.frontier import Lease
from llmcrawler.middlewares.refusals import RequestRefused
from llmcrawler.scheduler import LEASE
from llmcrawler.wiring import Crawl, crawl_of

FOUND_AT = "found_at"  # in the meta of a request without a lease: the url of what named it


class AddressMiddleware:
    """Judges the host as it is written, before anything is done for the request; resolver.py judges what it resolves
    to.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if not crawl.options.urls:
            raise NotConfigured("a person chooses each url")  # scrapy shell, scrapy fetch
        return cls(crawl)

    def process_request(self, request: Request) -> None:
        refusal = self._crawl.addresses.reason_to_refuse(request.url, source_of(request))
        if refusal is not None:
            raise RequestRefused("private_address", refusal)


class NameMiddleware(AddressMiddleware):
    """Stands next to the downloader, where it is known which proxy a request takes, whoever chose that.

    A proxy looks names up, where the resolver sees nothing of it. So they are looked up here too. A name that is
    unknown here passes: where all traffic goes through a proxy, there may be no name service at all.
    """

    async def process_request(self, request: Request) -> None:  # type: ignore[override]
        host, proxy = urlparse_cached(request).hostname or "", request.meta.get("proxy")
        if proxy:
            self._crawl.note_proxy(proxy)
        # The resolver lets the name of a proxy pass. A page may still not lead to the proxy's own machine.
        if not (self._crawl.checks_names if proxy else self._crawl.is_proxy(host)):
            return
        for address in await self._crawl.names.addresses(host):
            refusal = self._crawl.addresses.reason_to_refuse_address(address, host)
            if refusal is not None:
                raise RequestRefused("private_address", refusal)

    def process_exception(self, request: Request, exception: Exception) -> None:
        """A name that the resolver refused is known, so nothing is gained by another try."""
        if isinstance(exception, CannotResolveHostError) and not request.meta.get("proxy"):
            refusal = self._crawl.refused_names.get(urlparse_cached(request).hostname or "")
            if refusal is not None:
                raise RequestRefused("private_address", refusal)


def source_of(request: Request) -> str | None:
    """The url of the page, list or redirect that leads to a request; None when the user asked for it."""
    redirected: list[str] = request.meta.get("redirect_urls") or []
    if redirected:
        return redirected[-1]
    lease: Lease | None = request.meta.get(LEASE)
    if lease is not None:
        return lease.task.referer
    found_at: str | None = request.meta.get(FOUND_AT)
    return found_at
