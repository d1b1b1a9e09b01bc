"""Keeps the cookies of a crawl, in bounded numbers and without asking third parties."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from http.cookiejar import Cookie, DefaultCookiePolicy
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import cookies as scrapy_cookies
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached
from tldextract import TLDExtract

from llmcrawler.crawl.context import find_crawl

# As browsers have them (RFC 6265, 6.1, asks for 50 cookies of 4096 bytes at least).
_MAX_COOKIE_CHARACTERS = 4096
_MAX_COOKIES = 180  # of one domain
_MAX_DOMAINS = 1000  # in one jar
_MAX_IN_A_RESPONSE = 180


class CrawlCookiesMiddleware(scrapy_cookies.CookiesMiddleware):
    """Scrapy's middleware with the list of public suffixes that ships with tldextract.

    Scrapy asks publicsuffix.org for that list when the first cookie comes, and waits for the answer in the event loop.
    Here its 10,000 suffixes are read in a thread then.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler.settings.getbool("COOKIES_DEBUG"))
        self.crawler = crawler
        crawl = find_crawl(crawler)
        self._credentials = None if crawl is None else crawl.credentials  # the user's own cookies
        self._filled: set[tuple[Any, str]] = set()  # jars, and hosts whose cookies of the user they have
        self._suffixes = TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
        self._are_read = False
        self._reading = asyncio.Lock()
        scrapy_cookies._split_domain = self._suffixes
        # As browsers do, and Scrapy does not: a cookie without a Domain does not go to subdomains.
        policy = DefaultCookiePolicy(strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)
        self.jars.default_factory = partial(CookieJar, policy)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> CrawlCookiesMiddleware:
        if not crawler.settings.getbool("COOKIES_ENABLED"):
            raise NotConfigured
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | Response | None:  # type: ignore[override]
        key = request.meta.get("cookiejar"), urlparse_cached(request).netloc
        own: Any = ()
        if self._credentials is not None and key not in self._filled:
            own = self._credentials.cookies_for(request.url)
        if own or request.cookies or "Cookie" in request.headers:
            await self._read_suffixes()
        if own:  # the site may replace them later
            self._filled.add(key)
            jar = self.jars[key[0]]
            for one in own:
                del one["domain"]  # so that it is for this very host
            given = self._get_request_cookies(jar, Request(request.url, cookies=own))
            self._process_cookies(given, jar=jar, request=request)
        return super().process_request(request)

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        set_by_site = response.headers.getlist("Set-Cookie")
        if not set_by_site:
            return response
        await self._read_suffixes()
        response.headers.setlist("Set-Cookie", set_by_site[:_MAX_IN_A_RESPONSE])
        return super().process_response(request, response)

    async def _read_suffixes(self) -> None:
        async with self._reading:
            if not self._are_read:
                await asyncio.to_thread(self._suffixes, "example.com")
                self._are_read = True

    def _process_cookies(self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request) -> None:
        for cookie in cookies:
            if _has_room(cookie, jar._cookies):
                super()._process_cookies((cookie,), jar=jar, request=request)


def _has_room(cookie: Cookie, kept: dict[str, dict[str, dict[str, Cookie]]]) -> bool:
    """Return whether a cookie may go into the jar, which has `kept` by domain, path and name; a full jar still takes
    new values for the names that it has.
    """
    if sum(map(len, (cookie.name, cookie.value or "", cookie.path, cookie.domain))) > _MAX_COOKIE_CHARACTERS:
        return False
    of_domain = kept.get(cookie.domain)
    if of_domain is None:
        return len(kept) < _MAX_DOMAINS
    return cookie.name in of_domain.get(cookie.path, ()) or sum(map(len, of_domain.values())) < _MAX_COOKIES
