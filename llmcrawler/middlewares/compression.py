"""Bodies are unpacked without holding up the event loop."""

from __future__ import annotations

import asyncio

from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import Response

_INLINE_BYTES = 64 * 1024  # what takes about a millisecond


class CompressionMiddleware(HttpCompressionMiddleware):
    """Scrapy's, in a thread where the body is large: a sitemap of 50 MB would take a third of a second, a bomb too."""

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        if len(response.body) <= _INLINE_BYTES or not response.headers.get("Content-Encoding"):
            return super().process_response(request, response)
        return await asyncio.to_thread(super().process_response, request, response)
