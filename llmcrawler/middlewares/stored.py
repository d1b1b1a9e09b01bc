"""Pages whose bodies are in the job's ledger are not asked of the site again."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from llmcrawler.frontier import Lease
from llmcrawler.storage import Ledger, StoredBody
from llmcrawler.wiring import crawl_of

STORED_PAGE = "stored_page"  # in a request's meta: what the ledger has of it (storage.StoredPage)

# The body is stored unpacked, and cookies are nobody's business.
_NOT_STORED = {b"content-encoding", b"transfer-encoding", b"content-length", b"set-cookie"}


class StoredPageMiddleware:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        ledger = crawl_of(crawler).ledger
        if ledger is None:
            raise NotConfigured("no JOBDIR")
        return cls(ledger)

    async def process_request(self, request: Request) -> Response | None:
        lease: Lease | None = request.meta.get("lease")
        if lease is None or not lease.is_stored or STORED_PAGE in request.meta:
            return None
        page = await self._ledger.page(lease.url)
        if page.body is None:
            return None
        request.meta[STORED_PAGE] = page
        return _response_of(page.body)


def _response_of(stored: StoredBody) -> Response:
    headers = Headers()
    for name, value in stored.headers:
        headers.appendlist(name, value)
    kind = responsetypes.from_args(headers=headers, url=stored.url, body=stored.body)
    return kind(url=stored.url, status=stored.status, headers=headers, body=stored.body)


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
