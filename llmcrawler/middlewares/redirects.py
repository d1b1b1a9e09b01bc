"""Redirects, kept inside of the crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware, MetaRefreshMiddleware, RedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

from llmcrawler.frontier import Lease
from llmcrawler.middlewares.encodings import head_of, may_refresh
from llmcrawler.middlewares.refusals import RequestRefused
from llmcrawler.urls import normalise_with_route, with_plain_origin
from llmcrawler.wiring import Crawl, crawl_of

if TYPE_CHECKING:
    _Base = BaseRedirectMiddleware
else:
    _Base = object


class _InsideTheCrawl(_Base):
    """Checks where a leased request is sent. The page's line stays under the url that was asked for.

    A start url may lead to another host, which then belongs to the crawl. A target with a line of its own is not
    fetched again for this one.
    """

    _crawl: Crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        middleware = super().from_crawler(crawler)
        middleware._crawl = crawl_of(crawler)
        return middleware

    def _build_redirect_request(
        self, source_request: Request, response: Response, *, url: str, **kwargs: Any
    ) -> Request:
        """The host that is judged is the one that is asked, and nobody's password goes along. ValueError where there is
        none to be asked: the response stays as it is.
        """
        target = with_plain_origin(url)
        if target is None:
            raise ValueError("it leads to no web page")
        return super()._build_redirect_request(source_request, response, url=target, **kwargs)

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        try:
            return super()._redirect(redirected, request, reason)
        except IgnoreRequest as error:
            raise RequestRefused("redirect_loop", str(error), redirected.url) from None

    async def _admitted(self, result: Request | Response, request: Request) -> Request | Response:
        lease: Lease | None = request.meta.get("lease")
        if isinstance(result, Response) or lease is None:
            return result
        target = normalise_with_route(result.url)
        if target is None:
            raise RequestRefused("redirect_offsite", f"redirects to {result.url}, which is not a web page")
        if target == lease.task.address:
            return result  # the server wants a cookie first; REDIRECT_MAX_TIMES ends it when it never has enough
        private = self._crawl.addresses.reason_to_refuse(target, request.url)
        scope = self._crawl.admission.scope
        if lease.task.referer is None and private is None:
            scope.widen(target)
        refusal = scope.reason_to_refuse(target, lease.task.depth)
        if private is not None and (refusal is None or lease.task.referer is None):
            raise RequestRefused("private_address", f"redirects to {target}: {private}", target)
        if refusal is not None:
            raise RequestRefused("redirect_offsite", f"redirects to {target}, outside of the crawl: {refusal}", target)
        if self._crawl.options.is_list:  # every entry of a list is wanted for itself
            return result
        if not await self._crawl.frontier.claim(target, lease.url) and target not in result.meta["redirect_urls"]:
            raise RequestRefused("redirect_seen", f"redirects to {target}, which has a line of its own", target)
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
