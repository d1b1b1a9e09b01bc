"""Answers requests for pages whose bodies are in the job's ledger, without asking the site again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from llmcrawler.core.politeness.robots import NOFOLLOW, NOINDEX
from llmcrawler.core.storage import Ledger, StoredPage
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.request_context import context_of, update_context
from llmcrawler.engine.stored_bodies import response_of


@dataclass(eq=False)
class StoredPageMiddleware:
    """Answers requests from stored bodies; a refresh asks for pages only if they have changed (RFC 9110, 13.1)."""

    ledger: Ledger
    refreshes: bool

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.ledger is None:
            raise NotConfigured
        return cls(crawl.ledger, refreshes=crawl.options.refresh)

    async def process_request(self, request: Request) -> Response | None:
        context = context_of(request)
        lease = context.lease
        if lease is None or context.stored is not None:
            return None
        if not (lease.is_stored or (self.refreshes and lease.is_known)):
            return None
        page = await self.ledger.page(lease.url)
        update_context(request, stored=page)
        if page.body is None:
            return None
        if lease.is_stored:
            return response_of(page.body)
        _ask_conditionally(request, page)
        return None


def _ask_conditionally(request: Request, page: StoredPage) -> None:
    if page.body is None or page.line is None or page.line.get("error") is not None or page.line.get("duplicate_of"):
        return  # what it would be compared with is not what the feed should say; a first page may be gone
    if {NOINDEX, NOFOLLOW} & set(page.line.get("robots") or ()):
        return  # that the header is gone which said so, a 304 would not tell
    for validator, header in (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")):
        value = page.body.header(validator)
        if value is not None:
            request.headers.setdefault(header, value)
