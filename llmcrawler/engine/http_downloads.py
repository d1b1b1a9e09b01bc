"""Downloads over HTTP with bounds on what comes before a body, and faults of the other side known as such."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from scrapy import Request, exceptions
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.internet import error as network

from llmcrawler.core.content.body_limiter import LARGE_BYTES, BodyLimiter
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.compat.http11 import (
    ChunkDecoder,
    ClientHandler,
    ClientProtocol,
    HeadParser,
    answer_fault,
    fault_in_answer,
)
from llmcrawler.errors import ProtocolFault

# All headers of an answer, those of its 1xx answers included. Browsers stop at 256 KB, web servers at 8 to 64 KB.
_MAX_HEAD_BYTES: Final = 256 * 1024
_MAX_HEAD_LINES: Final = 1000
# The size of a chunk that is not the last one, and what may be said of the chunk.
_CHUNK_SIZE: Final = re.compile(rb"(0*[1-9A-Fa-f][0-9A-Fa-f]{0,7})(?:;[\t\x20-\x7e\x80-\xff]{0,100})?\r\n")
# Faults between two machines, and decisions of a part of the crawl. Every other error is the answer's fault.
_KNOWN: Final = (
    exceptions.CannotResolveHostError,
    exceptions.DownloadCancelledError,
    exceptions.DownloadConnectionRefusedError,
    exceptions.DownloadFailedError,
    exceptions.DownloadTimeoutError,
    exceptions.IgnoreRequest,
    exceptions.ResponseDataLossError,
    exceptions.StopDownload,
    exceptions.UnsupportedURLSchemeError,
    network.ConnectError,
    network.ConnectionClosed,
    TunnelError,
    OSError,
)

SignRequest = Callable[[str, str], Mapping[str, str]]  # of method and url


class PageDownloadHandler(ClientHandler):
    """Raises ProtocolFault for an answer that is no HTTP, and for a url that Twisted does not ask for."""

    def __init__(self, crawler: Crawler, intake: BodyLimiter, sign: SignRequest) -> None:
        super().__init__(crawler)
        self.use_protocol(lambda when_quiet: _BoundedProtocol(when_quiet, intake, sign))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        return cls(crawler, crawl.intake, crawl.signature_headers)

    async def download_request(self, request: Request) -> Response:
        try:
            return await self.download(request)
        except exceptions.DownloadFailedError as error:
            fault = fault_in_answer(error.__cause__)
            if fault is None:
                raise
            raise ProtocolFault(fault) from error
        except _KNOWN:
            raise
        except Exception as error:  # what Scrapy, Twisted and their like make of what came, or of the url
            raise ProtocolFault(f"{type(error).__name__}: {error}") from error


class _JoinedChunks(ChunkDecoder):
    """Hands on all chunks of a read at once: a body in chunks of one byte has 10,000 of them in each read, and Scrapy
    sends a signal for each part that it is handed.
    """

    max_trailer_bytes = 8 * 1024

    def __init__(self, take: Callable[[bytes], None], finish: Callable[[bytes], None]) -> None:
        super().__init__(self._add, self._end)
        self._take = take
        self._finish = finish
        self._parts: list[bytes | bytearray] = []

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        try:
            super().dataReceived(data)
        finally:
            self._hand_on()

    def take_chunks(self, buffer: bytearray) -> int:
        """Read all whole chunks that are there: Twisted takes three turns and several copies for each."""
        place = 0
        while size := _CHUNK_SIZE.match(buffer, place):
            start = size.end()
            end = start + int(size[1], 16)
            if buffer[end : end + 2] != b"\r\n":
                break
            self._parts.append(buffer[start:end])
            place = end + 2
        return place

    def _add(self, part: bytes) -> None:
        self._parts.append(part)

    def _hand_on(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._take(b"".join(parts))

    def _end(self, rest: bytes) -> None:
        self._hand_on()
        self._finish(rest)


class _BoundedParser(HeadParser, decoder=_JoinedChunks):
    _bytes_so_far = 0
    _lines_so_far = 0

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 (Twisted's)
        self._bytes_so_far += len(line)
        self._lines_so_far += 1
        if self._bytes_so_far > _MAX_HEAD_BYTES or self._lines_so_far > _MAX_HEAD_LINES:
            raise answer_fault(f"more than {_MAX_HEAD_LINES} headers, or {_MAX_HEAD_BYTES} bytes of them")
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: ARG002, N802 (Twisted's)
        raise answer_fault(f"a header of more than {self.MAX_LENGTH} bytes")

    def statusReceived(self, status: bytes) -> None:  # noqa: N802 (Twisted's)
        super().statusReceived(status)  # type: ignore[no-untyped-call]
        if not 100 <= self.response.code <= 999:
            raise answer_fault("a status of other than three digits")


class _BoundedProtocol(ClientProtocol):
    """Pauses a large body while others take the room (see BodyLimiter). The pause does not count for its timeout.
    Requests are signed here, where each is sent: also one that Twisted sends again, as its connection was closed.
    """

    parser_class = _BoundedParser

    def __init__(self, when_quiet: Callable[[Any], None], intake: BodyLimiter, sign: SignRequest) -> None:
        super().__init__(when_quiet)  # type: ignore[no-untyped-call]
        self._intake = intake
        self._sign = sign
        self._received_bytes = 0
        self._is_receiving = False
        self._paused_at: float | None = None

    def headers_of(self, method: str, url: str) -> Mapping[str, str]:
        return self._sign(method, url)

    def answer_begins(self) -> None:
        self._received_bytes, self._is_receiving = 0, True

    def answer_ends(self) -> None:
        self._is_receiving = False
        self._intake.end(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        super().dataReceived(data)  # type: ignore[no-untyped-call]
        self._received_bytes += len(data)
        if self._is_receiving and self._received_bytes > LARGE_BYTES:
            self._intake.note(self, self._received_bytes)

    def pause(self) -> None:
        self._paused_at = time.monotonic()
        assert self.transport is not None
        self.transport.pauseProducing()

    def resume(self) -> None:
        if self._paused_at is not None and self.put_off is not None:
            self.put_off(time.monotonic() - self._paused_at)
        self._paused_at = None
        assert self.transport is not None
        self.transport.resumeProducing()
