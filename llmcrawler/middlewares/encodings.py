"""Decides the encoding of a response once, so that no component after it takes Scrapy's own guess."""

from __future__ import annotations

import asyncio

from scrapy import Request
from scrapy.http import Response

from llmcrawler.engine.response_text import decoded

_INLINE_BYTES = 64 * 1024  # what takes about a millisecond


class EncodingMiddleware:
    """Stands right outside of the one that unpacks bodies: those of the HTTP cache and of a JOBDIR pass here too."""

    async def process_response(self, request: Request, response: Response) -> Response:  # noqa: ARG002 - Scrapy's
        if len(response.body) <= _INLINE_BYTES:
            return decoded(response)
        return await asyncio.to_thread(decoded, response)
