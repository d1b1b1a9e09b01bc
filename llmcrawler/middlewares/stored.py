"""Pages whose bodies are in the job's ledger are not asked of the site again."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from llmcrawler.content import decode_page
from llmcrawler.frontier import Lease
from llmcrawler.scheduler import LEASE
from llmcrawler.storage import Ledger, StoredBody, StoredPage
from llmcrawler.wiring import crawl_of

STORED_PAGE = "stored_page"  # in a request's meta: what the ledger has of it (storage.StoredPage)

# The body is stored unpacked, and cookies are nobody's business.
_NOT_STORED = {b"content-encoding", b"transfer-encoding", b"content-length", b"set-cookie"}


class StoredPageMiddleware:
    """And a crawl that refreshes asks for the others only if they have changed (RFC 9110, 13.1)."""

    def __init__(self, ledger: Ledger, *, refresh: bool) -> None:
        self._ledger = ledger
        self._refresh = refresh

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.ledger is None:
            raise NotConfigured
        return cls(crawl.ledger, refresh=crawl.options.refresh)

    async def process_request(self, request: Request) -> Response | None:
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None or STORED_PAGE in request.meta or not (lease.is_stored or (self._refresh and lease.is_known)):
            return None
        page = await self._ledger.page(lease.url)
        request.meta[STORED_PAGE] = page
        if page.body is None:
            return None
        if lease.is_stored:
            return response_of(page.body)
        _ask_conditionally(request, page)
        return None


def _ask_conditionally(request: Request, page: StoredPage) -> None:
    if page.body is None or page.line is None or page.line.get("error") is not None:
        return  # what it would be compared with is not what the feed should say
    for validator, header in (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")):
        value = page.body.header(validator)
        if value is not None:
            request.headers.setdefault(header, value)


def response_of(stored: StoredBody) -> Response:
    assert stored.body is not None
    headers = Headers()
    for name, value in stored.headers:
        headers.appendlist(name, value)
    kind = responsetypes.from_args(headers=headers, url=stored.url, body=stored.body)
    return kind(url=stored.url, status=stored.status, headers=headers, body=stored.body)


def text_of(stored: StoredBody) -> str:
    assert stored.body is not None
    return decode_page(stored.body, stored.header("content-type"))


def body_of(response: Response, fetched_at: str) -> StoredBody:
    """What the ledger keeps of a response."""
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        if name.lower() not in _NOT_STORED
        for value in values or ()
    )
    latency = round(response.meta.get("download_latency", 0.0), 4)
    return StoredBody(response.url, response.status, headers, response.body, fetched_at, latency)
