"""Unpacks bodies without holding up the event loop, and decides their encoding."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import Final, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils._compression import _DecompressionMaxSizeExceeded

from llmcrawler.core.content.body_limiter import BodyLimiter
from llmcrawler.crawl.configuration import LimitSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.responses import decoded

# Bodies that take a millisecond or two to unpack. Both sizes count: 40 bytes of brotli unpack to 20 MB, and 64 kB of
# gzip may be 3,000 files of nothing, which take longer than as much text.
_INLINE_PACKED_BYTES: Final = 32 * 1024
_INLINE_BYTES: Final = 512 * 1024
_ORDINARY_BYTES: Final = 2 * 2**20  # a larger body waits for its turn, so that few of them are here at once
_MAX_CODINGS: Final = 5  # as curl has it; a file that unpacks to itself could be unpacked for each of 40,000 of them
# The meta key of a request whose body is worth nothing when it is cut: Scrapy unpacks what there is of one.
WHOLE_BODY: Final = "whole_body"


class _UnpacksTooLarge(Exception):
    """Raised when a body has more bytes than it may have when it is unpacked."""


class BoundedUnpacking(HttpCompressionMiddleware):
    """Raises _UnpacksTooLarge for a body of more than `most_bytes` when it is unpacked. What exceeds DOWNLOAD_MAXSIZE
    is refused as Scrapy refuses it.
    """

    def __init__(self, *, crawler: Crawler, most_bytes: int) -> None:
        super().__init__(crawler=crawler)
        self._most_bytes = most_bytes

    def _handle_encoding(self, body: bytes, content_encoding: list[bytes], max_size: int) -> tuple[bytes, list[bytes]]:
        if 0 < max_size <= self._most_bytes:
            return super()._handle_encoding(body, content_encoding, max_size)
        try:
            return super()._handle_encoding(body, content_encoding, self._most_bytes)
        except _DecompressionMaxSizeExceeded as error:
            raise _UnpacksTooLarge from error


class CompressionMiddleware(HttpCompressionMiddleware):
    """Scrapy's middleware, which unpacks large bodies in a thread: a sitemap of 50 MB takes a third of a second."""

    def __init__(self, *, crawler: Crawler, intake: BodyLimiter) -> None:
        super().__init__(crawler=crawler)
        self._small = BoundedUnpacking(crawler=crawler, most_bytes=_INLINE_BYTES)
        self._ordinary = BoundedUnpacking(crawler=crawler, most_bytes=_ORDINARY_BYTES)
        self._max_bytes = LimitSettings.of(crawler.settings).download_maxsize
        self._intake = intake

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.getbool("COMPRESSION_ENABLED"):
            raise NotConfigured
        return cls(crawler=crawler, intake=crawl_of(crawler).intake)

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        codings = response.headers.getlist("Content-Encoding")
        if not codings:
            return response
        if sum(one.count(b",") + 1 for one in codings) > _MAX_CODINGS:
            raise RequestRefused(RefusalKind.BODY, f"the body is encoded more than {_MAX_CODINGS} times")
        unpacked = await self._unpacked(request, response)
        is_gzip = codings[0].strip().lower() in (b"gzip", b"x-gzip")
        if is_gzip and request.meta.get(WHOLE_BODY) and await asyncio.to_thread(_is_cut, response.body):
            raise RequestRefused(RefusalKind.BODY, "the compressed body is truncated")
        return unpacked

    async def _unpacked(self, request: Request, response: Response) -> Request | Response:
        with suppress(_UnpacksTooLarge):
            if len(response.body) <= _INLINE_PACKED_BYTES:
                return self._small.process_response(request, response)
        with suppress(_UnpacksTooLarge):
            return await asyncio.to_thread(self._ordinary.process_response, request, response)
        most_bytes: int = request.meta.get("download_maxsize", self._max_bytes)
        async with self._intake.unpacking(most_bytes):
            return await asyncio.to_thread(super().process_response, request, response)


def _is_cut(packed: bytes) -> bool:
    """Return whether the first file of a gzip body, which can be unpacked within its limit, has no end."""
    unpacker = zlib.decompressobj(wbits=31)
    unpacker.decompress(packed)
    return not unpacker.eof


_DECODED_INLINE_BYTES = 64 * 1024  # what takes about a millisecond


class EncodingMiddleware:
    """Stands right outside of the one that unpacks bodies: those of the HTTP cache and of a JOBDIR pass here too."""

    async def process_response(self, request: Request, response: Response) -> Response:  # noqa: ARG002 - Scrapy's
        if len(response.body) <= _DECODED_INLINE_BYTES:
            return decoded(response)
        return await asyncio.to_thread(decoded, response)
