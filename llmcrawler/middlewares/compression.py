"""Bodies are unpacked without holding up the event loop."""

from __future__ import annotations

import asyncio
from typing import Final

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import Response
from scrapy.utils._compression import _DecompressionMaxSizeExceeded

from llmcrawler.middlewares.refusals import RequestRefused
from llmcrawler.wiring import crawl_of

# What takes a millisecond or two. Both count: 40 bytes of brotli unpack to 20 MB, and 64 kB of gzip may be 3,000 files
# of nothing, which take longer than as much text.
_INLINE_PACKED_BYTES: Final = 32 * 1024
_INLINE_BYTES: Final = 512 * 1024
_ORDINARY_BYTES: Final = 2 * 2**20  # a larger body waits for its turn, so that few of them are here at once
_MAX_CODINGS: Final = 5  # as curl has it; a file that unpacks to itself could be unpacked for each of 40,000 of them


class CompressionMiddleware(HttpCompressionMiddleware):
    """Scrapy's, in a thread where the body is large: a sitemap of 50 MB would take a third of a second, a bomb too."""

    def __init__(self, *, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        self._small = _SmallBodies(crawler=crawler, most_bytes=_INLINE_BYTES)
        self._ordinary = _SmallBodies(crawler=crawler, most_bytes=_ORDINARY_BYTES)
        self._intake = crawl_of(crawler).intake

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        codings = response.headers.getlist("Content-Encoding")
        if not codings:
            return response
        if sum(one.count(b",") + 1 for one in codings) > _MAX_CODINGS:
            raise RequestRefused("body", f"the body is encoded more than {_MAX_CODINGS} times")
        if len(response.body) <= _INLINE_PACKED_BYTES:
            try:
                return self._small.process_response(request, response)
            except _Large:
                pass
        try:
            return await asyncio.to_thread(self._ordinary.process_response, request, response)
        except _Large:
            pass
        async with self._intake.unpacking(self._most_bytes(request)):
            return await asyncio.to_thread(super().process_response, request, response)

    def _most_bytes(self, request: Request) -> int:
        most: int = request.meta.get("download_maxsize", self._max_size)
        return most


class _Large(Exception):
    """The body takes longer to unpack than the event loop may be held."""


class _SmallBodies(HttpCompressionMiddleware):
    """Raises _Large for a body that is larger than `most_bytes` when it is unpacked."""

    def __init__(self, *, crawler: Crawler, most_bytes: int) -> None:
        super().__init__(crawler=crawler)
        self._most_bytes = most_bytes

    def _handle_encoding(self, body: bytes, content_encoding: list[bytes], max_size: int) -> tuple[bytes, list[bytes]]:
        if 0 < max_size <= self._most_bytes:
            return super()._handle_encoding(body, content_encoding, max_size)
        try:
            return super()._handle_encoding(body, content_encoding, self._most_bytes)
        except _DecompressionMaxSizeExceeded as error:
            raise _Large from error
