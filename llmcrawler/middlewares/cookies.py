"""Keeps the cookies of a crawl, from the first one on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from llmcrawler.crawl.context import find_crawl

if TYPE_CHECKING:
    from llmcrawler.crawl.credentials import Credentials
    from llmcrawler.middlewares.cookie_jars import CookieJars


class CrawlCookiesMiddleware:
    """Makes CookieJars when the first cookie comes: many sites set none, and loading Scrapy's middleware for them is a
    thirtieth of a start.
    """

    jars: CookieJars | None = None

    def __init__(self, crawler: Crawler) -> None:
        crawl = find_crawl(crawler)
        self._crawler = crawler
        self._credentials = None if crawl is None else crawl.credentials
        self._loading = asyncio.Lock()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.getbool("COOKIES_ENABLED"):
            raise NotConfigured
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | Response | None:
        if self.jars is None and not (request.cookies or "Cookie" in request.headers or self._has_own(request)):
            return None
        return (await self._loaded()).process_request(request)

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        if self.jars is None and not response.headers.getlist("Set-Cookie"):
            return response
        return (await self._loaded()).process_response(request, response)

    def _has_own(self, request: Request) -> bool:
        return self._credentials is not None and bool(self._credentials.cookies_for(request.url))

    async def _loaded(self) -> CookieJars:
        async with self._loading:
            if self.jars is None:
                self.jars = await asyncio.to_thread(_make_jars, self._crawler, self._credentials)
        return self.jars


def _make_jars(crawler: Crawler, credentials: Credentials | None) -> CookieJars:
    from llmcrawler.middlewares.cookie_jars import CookieJars

    return CookieJars.of(crawler, credentials)
