"""No request of a public crawl to a private host."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from llmcrawler.middlewares.refusals import RequestRefused
from llmcrawler.urls import AddressGuard
from llmcrawler.wiring import crawl_of


class AddressMiddleware:
    """Looks at the host as it is written; resolver.py looks at what it resolves to."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if not crawl.options.urls:
            raise NotConfigured("a person chooses each url")  # scrapy shell, scrapy fetch
        return cls(crawl.addresses)

    def process_request(self, request: Request) -> None:
        refusal = self._guard.reason_to_refuse(urlparse_cached(request).hostname or "")
        if refusal is not None:
            raise RequestRefused("private_address", refusal)
