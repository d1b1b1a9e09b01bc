"""HTTP client for APIs that may be broken or hostile. Import it late: httpx2 takes 0.2 s to load."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import httpx2

# An error is told in a sentence; what follows is cut off.
_ERROR_BYTES = 16_384
# What a chunk costs beside its bytes: a body of a million chunks of one byte is not to take seconds.
_CHUNK_BYTES = 32
# Chunks that come in at a time before others get their turn.
_CHUNKS_AT_ONCE = 32
_KEPT_HEADERS = ("retry-after", "retry-after-ms")
_MAX_HEADER_CHARS = 200


def quieten(*names: str) -> None:
    """Keep these loggers at WARNING, but where the user has set their level: at DEBUG, Scrapy's default, they write
    whole prompts or dozens of lines a request, and at INFO the address of each, and some addresses hold a key.
    """
    for logger in map(logging.getLogger, (*names, "httpx2", "httpcore2")):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


def takes_proxy(url: str) -> bool:
    """Tell whether the proxy of the environment may stand before a server: it cannot reach one on this machine."""
    host = urlsplit(url).hostname or ""
    return host not in {"localhost", "::1"} and not host.startswith("127.")


class TooLargeError(Exception):
    """The body of an answer, unpacked, has more bytes than it may have, or is packed more than once."""


class APIClient(httpx2.AsyncClient):
    """Reads a body up to `max_bytes`, counted after unpacking, and raises TooLargeError beyond.

    It follows no redirect, so that a key goes to no other address, and keeps no cookies. Of an answer's headers only
    Retry-After is left: a text is UTF-8 whatever the server calls it.
    """

    def __init__(self, *, max_bytes: int, **options: Any) -> None:
        super().__init__(follow_redirects=False, **options)
        self._max_bytes = max_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:  # noqa: ARG002 - the body is always read here
        request.headers["Accept-Encoding"] = "identity"
        answer = await super().send(request, stream=True, **options)
        try:
            body = await self._read(answer)
        finally:
            self.cookies.clear()
            await answer.aclose()
        headers = {name: answer.headers.get(name, "")[:_MAX_HEADER_CHARS] for name in _KEPT_HEADERS}
        kept = {name: value for name, value in headers.items() if value and value.isascii()}
        return httpx2.Response(answer.status_code, headers=kept, content=body, request=request)

    async def _read(self, answer: httpx2.Response) -> bytes:
        if "," in answer.headers.get("Content-Encoding", ""):
            raise TooLargeError("the answer is compressed more than once")
        body = bytearray()
        chunks = 0
        async with aclosing(answer.aiter_bytes()) as parts:
            async for part in parts:
                body += part
                chunks += 1
                if answer.is_error and len(body) >= _ERROR_BYTES:
                    return bytes(body[:_ERROR_BYTES])
                if len(body) + chunks * _CHUNK_BYTES > self._max_bytes:
                    raise TooLargeError(f"the answer has more than {self._max_bytes:,} bytes")
                if chunks % _CHUNKS_AT_ONCE == 0:
                    await asyncio.sleep(0)
        return bytes(body)
