"""Jars of cookies, in bounded numbers and without asking third parties. Is loaded when there is a cookie to keep."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from http.cookiejar import Cookie, DefaultCookiePolicy
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import cookies as scrapy_cookies
from scrapy.http import Response
from scrapy.http.cookies import CookieJar
from scrapy.utils.httpobj import urlparse_cached
from tldextract import TLDExtract

from llmcrawler.crawl.credentials import Credentials

# As browsers have them (RFC 6265, 6.1, asks for 50 cookies of 4096 bytes at least).
_MAX_COOKIE_CHARACTERS = 4096
_MAX_COOKIES = 180  # of one domain
_MAX_DOMAINS = 1000  # in one jar
_MAX_IN_A_RESPONSE = 180


class CookieJars(scrapy_cookies.CookiesMiddleware):
    """Scrapy's middleware with the list of public suffixes that ships with tldextract.

    Scrapy asks publicsuffix.org for that list when the first cookie comes, and waits for the answer in the event loop.
    Here it is read in the thread that makes this: it has 10,000 suffixes.
    """

    _credentials: Credentials | None  # the user's own cookies
    _filled: set[tuple[Any, str]]  # jars, and hosts whose cookies of the user they have

    @classmethod
    def of(cls, crawler: Crawler, credentials: Credentials | None) -> Self:
        middleware = cls.from_crawler(crawler)
        suffixes = TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
        suffixes("example.com")
        scrapy_cookies._split_domain = suffixes
        # As browsers do, and Scrapy does not: a cookie without a Domain does not go to subdomains.
        policy = DefaultCookiePolicy(strict_ns_domain=DefaultCookiePolicy.DomainStrictNonDomain)
        middleware.jars.default_factory = partial(CookieJar, policy)
        middleware._credentials = credentials
        middleware._filled = set()
        return middleware

    def process_request(self, request: Request, spider: Any = None) -> Request | Response | None:  # noqa: ARG002 (Scrapy's)
        key = request.meta.get("cookiejar"), urlparse_cached(request).netloc
        own: Any = ()
        if self._credentials is not None and key not in self._filled:
            own = self._credentials.cookies_for(request.url)
        if own:  # the site may replace them later
            self._filled.add(key)
            jar = self.jars[key[0]]
            for one in own:
                del one["domain"]  # so that it is for this very host
            given = self._get_request_cookies(jar, Request(request.url, cookies=own))
            self._process_cookies(given, jar=jar, request=request)
        return super().process_request(request)

    def process_response(
        self,
        request: Request,
        response: Response,
        spider: Any = None,  # noqa: ARG002 (Scrapy's)
    ) -> Request | Response:
        set_by_site = response.headers.getlist("Set-Cookie")
        if len(set_by_site) > _MAX_IN_A_RESPONSE:
            response.headers.setlist("Set-Cookie", set_by_site[:_MAX_IN_A_RESPONSE])
        return super().process_response(request, response)

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
