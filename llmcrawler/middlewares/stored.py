"""Answers requests for pages that are kept, in the job's ledger or in a web archive, without asking the site; keeps
what was asked and answered for feeds that are archives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response

from llmcrawler.core.politeness.robots import NOFOLLOW, NOINDEX
from llmcrawler.core.storage import Ledger
from llmcrawler.core.storage.archives.archived_pages import page_at
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.core.storage.archives.warc_writer import Exchange, ExchangeStore, Pairs
from llmcrawler.crawl.arguments import ExtractOptions
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.start_checks import wants_exchanges
from llmcrawler.crawl.task_lists import place_of
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import RENDERED, context_of, response_context, update_context
from llmcrawler.engine.responses import NOT_STORED_COOKIES, response_of
from llmcrawler.items import Page


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
        if page.line is None or page.line.get("error") is not None or page.line.get("duplicate_of"):
            return None  # what it would be compared with is not what the feed should say; a first page may be gone
        if {NOINDEX, NOFOLLOW} & set(page.line.get("robots") or ()):
            return None  # that the header is gone which said so, a 304 would not tell
        for validator, header in (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")):
            if (value := page.body.header(validator)) is not None:
                request.headers.setdefault(header, value)
        return None


class ArchivedPageMiddleware:
    """Reads the record that a leased task names; the page has the date of that. Nothing else is asked of its host."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        options = crawl_of(crawler).options
        if not isinstance(options, ExtractOptions) or not options.is_archive:
            raise NotConfigured
        return cls()

    async def process_request(self, request: Request) -> Response | None:
        lease = context_of(request).lease
        place = None if lease is None else place_of(lease.task.details())
        if place is None:
            return None
        try:
            stored = await asyncio.to_thread(page_at, place)
        except (WarcFault, OSError) as error:
            raise RequestRefused(RefusalKind.BODY, f"{place.file} at byte {place.offset:,}: {error}") from error
        update_context(request, archived_at=stored.fetched_at or None)
        return response_of(stored).replace(url=request.url)


_NOT_KEPT: Final = frozenset((b"cookie", b"authorization", b"proxy-authorization", *NOT_STORED_COOKIES))
_MAX_REDIRECT_BYTES: Final = 64 * 2**10  # of the page that a redirect has with it


@dataclass(eq=False)
class ExchangeMiddleware:
    """Notes each answer next to the network, and gives a page what led to it when the spider gives the page.

    It is a middleware of the downloader and of the spider. What a job may have to write once more is in its file before
    the page's body is, so that there is no page whose request was lost.
    """

    store: ExchangeStore | None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if not wants_exchanges(crawler.settings):
            raise NotConfigured
        return cls(None if crawl.job is None else crawl.job.exchanges)

    def process_response(self, request: Request, response: Response) -> Response:
        context = context_of(request)
        if context.lease is None or (context.lease.is_stored and context.stored and context.stored.body is not None):
            return response  # of no page, or from the job and not from the site
        now = _exchange(request, response)
        if context.archived_at is not None:  # by whom it was asked for, and how, the archive has beside it
            now = replace(now, method="", date=context.archived_at)
        if now.is_redirect:
            body = response.body[:_MAX_REDIRECT_BYTES]
            now = replace(now, body=body, is_cut=len(body) < len(response.body))
        exchanges = (*(one for one in context.exchanges if one.is_redirect), now)
        update_context(request, exchanges=exchanges)
        if self.store is not None:
            self.store.keep(context.lease.url, exchanges)
        return response

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        lease = response_context(response).lease
        async for output in result:
            if isinstance(output, Page) and lease is not None and output.id == lease.url:
                await self._give(output, response)
            yield output

    async def _give(self, page: Page, response: Response) -> None:
        context = response_context(response)
        if page.is_withheld:
            page.exchanges = ()
        elif context.exchanges:
            page.exchanges = _whole(context.exchanges, response)
        elif self.store is not None:
            page.exchanges = await self.store.of_url(page.id)
            return
        # The body of what is no page, or of one that has not changed, is not in the job.
        if self.store is not None and page.exchanges is not None and (page.is_withheld or page.content is None):
            self.store.keep(page.id, page.exchanges)


def _whole(exchanges: tuple[Exchange, ...], response: Response) -> tuple[Exchange, ...]:
    last, before = exchanges[-1], response_context(response).stored
    if last.body is not None:  # a redirect that was not followed
        return exchanges
    if last.status == 304 and before is not None and before.body is not None:
        return (*exchanges[:-1], replace(last, body=b"", unchanged_since=before.body.fetched_at))
    is_encoded = "Content-Encoding" in response.headers
    return (*exchanges[:-1], replace(last, body=response.body, is_encoded=is_encoded))


def _exchange(request: Request, response: Response) -> Exchange:
    return Exchange(
        url=response.url,
        method=request.method,
        request_headers=_pairs(request.headers),
        request_body=request.body,
        status=response.status,
        headers=_pairs(response.headers),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        protocol=response.protocol if response.protocol in ("HTTP/1.0", "HTTP/1.1") else "HTTP/1.1",
        ip_address=None if response.ip_address is None else str(response.ip_address),
        is_rendered=RENDERED in response.flags,
        is_encoded="Content-Encoding" in response.headers,
    )


def _pairs(headers: Headers) -> Pairs:
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in headers.items()
        if name.lower() not in _NOT_KEPT
        for value in values or ()
    )
