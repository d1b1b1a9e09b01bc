"""Keeps redirects inside of the crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware, RedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

from llmcrawler.core.frontier import Frontier
from llmcrawler.core.urls import AddressGuard, Scope, normalise_with_route, with_plain_origin
from llmcrawler.crawl import signals
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.compat.components import RedirectHooks
from llmcrawler.engine.refusals import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of
from llmcrawler.engine.response_text import head_of, may_refresh

if TYPE_CHECKING:
    from llmcrawler.fleet.session import DistributedSession


class _InsideTheCrawl(RedirectHooks):
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
        crawler.signals.connect(middleware._take_in, signals.scope_widened)
        return middleware

    def _take_in(self, url: str) -> None:
        self._scope.widen(url)

    def redirect_target(self, url: str) -> str:
        """Judge the same host that is asked, and send no password along."""
        target = with_plain_origin(url)
        if target is None:
            raise ValueError("it leads to no web page")
        return target

    def too_many_redirects(self, redirected: Request, error: IgnoreRequest) -> IgnoreRequest:
        return RequestRefused(RefusalKind.REDIRECT_LOOP, str(error), redirected.url)

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
            raise RequestRefused(RefusalKind.PRIVATE_ADDRESS, f"redirects to {target}: {private}", target)
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
