"""Keeps what was asked and answered for each page, for feeds that are archives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response

from llmcrawler.core.storage.archives.warc_writer import Exchange, ExchangeStore, Pairs
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.start_checks import wants_exchanges
from llmcrawler.engine.request_context import RENDERED, context_of, response_context, update_context
from llmcrawler.engine.stored_bodies import NOT_STORED_COOKIES
from llmcrawler.items import Page

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
        if context.lease is None or _is_stored(request):
            return response
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
        async for output in result:
            if isinstance(output, Page):
                await self._give(output, response)
            yield output

    async def _give(self, page: Page, response: Response) -> None:
        context = response_context(response)
        if context.lease is None or page.id != context.lease.url:
            return
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


def _is_stored(request: Request) -> bool:
    """Tell whether a request was answered from the job, and not by the site."""
    context = context_of(request)
    return context.lease is not None and context.lease.is_stored and context.stored is not None
