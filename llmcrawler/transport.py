"""Downloads over HTTP with bounds on what comes before a body, and faults of the other side known as such."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from scrapy import Request, exceptions
from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    TunnelError,
    _LenientHTTP11ClientFactory,
    _LenientHTTP11ClientProtocol,
    _LenientHTTPClientParser,
    _ScrapyAgent,
)
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils._download_handlers import wrap_twisted_exceptions
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet import error as network
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError
from twisted.web._newclient import Request as TwistedRequest
from twisted.web.client import ResponseFailed
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.iweb import IResponse

from llmcrawler.errors import ProtocolFault
from llmcrawler.intake import LARGE_BYTES, Intake
from llmcrawler.wiring import crawl_of

# Of all headers of an answer, those of its 1xx answers included. Browsers stop at 256 KB, web servers at 8 to 64 KB.
_MAX_HEAD_BYTES: Final = 256 * 1024
_MAX_HEAD_LINES: Final = 1000
_MAX_TRAILER_BYTES: Final = 8 * 1024
# The size of a chunk that is not the last one, and what may be said of the chunk.
_CHUNK_SIZE: Final = re.compile(rb"(0*[1-9A-Fa-f][0-9A-Fa-f]{0,7})(?:;[\t\x20-\x7e\x80-\xff]{0,100})?\r\n")
_PROTOCOL: Final = "_llmcrawler_protocol"  # of a response of Twisted's: the connection that it comes through
# What can go wrong between two machines, and what a part of the crawl decides. All else is the answer's fault.
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


class PageDownloadHandler(HTTP11DownloadHandler):
    """Scrapy's. Raises ProtocolFault for an answer that is no HTTP, and for a url that Twisted does not ask for."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._pool._factory = partial(_BoundedFactory, crawl_of(crawler).intake)  # type: ignore[assignment]

    async def download_request(self, request: Request) -> Response:
        try:
            return await self._download(request)
        except exceptions.DownloadFailedError as error:
            fault = _fault_of(error.__cause__)
            if fault is None:
                raise
            raise ProtocolFault(fault) from error
        except _KNOWN:
            raise
        except Exception as error:  # what Scrapy, Twisted and their like make of what came, or of the url
            raise ProtocolFault(f"{type(error).__name__}: {error}") from error

    async def _download(self, request: Request) -> Response:
        return await self._download_by(PatientAgent, request)

    async def _download_by(self, agent_class: type[PatientAgent], request: Request) -> Response:
        agent = agent_class(
            contextFactory=self._contextFactory,
            bindAddress=self._bind_address,
            pool=self._pool,
            maxsize=self._default_maxsize,
            warnsize=self._default_warnsize,
            fail_on_dataloss=self._fail_on_dataloss,
            crawler=self._crawler,
        )
        with wrap_twisted_exceptions():
            return await maybe_deferred_to_future(agent.download_request(request))


class PatientAgent(_ScrapyAgent):
    """The time that a body waits for others is not of its own timeout."""

    def _cb_bodyready(self, txresponse: Any, request: Request) -> Any:
        protocol = getattr(txresponse, _PROTOCOL, None)
        if protocol is not None:
            protocol.put_off = self._put_off
        return super()._cb_bodyready(txresponse, request)

    def _put_off(self, seconds: float) -> None:
        timer: Any = self._timeout_cl  # zope's interfaces mean nothing to mypy
        if timer.active():
            timer.delay(seconds)


class _JoinedChunks(_ChunkedTransferDecoder):
    """Hands on at once what has come at once: a body in chunks of one byte has 10,000 of them in each read, and Scrapy
    sends a signal for each part that it is handed.
    """

    def __init__(self, take: Callable[[bytes], None], finish: Callable[[bytes], None]) -> None:
        super().__init__(self._add, self._end)
        self._take = take
        self._finish = finish
        self._parts: list[bytes | bytearray] = []
        self._maxTrailerHeadersSize = _MAX_TRAILER_BYTES

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        try:
            super().dataReceived(data)
        finally:
            self._hand_on()

    def _dataReceived_CHUNK_LENGTH(self) -> bool:  # noqa: N802 (Twisted's)
        """Reads all whole chunks that are there, as Twisted takes three turns and several copies for each."""
        buffer, place = self._buffer, 0
        while size := _CHUNK_SIZE.match(buffer, place):
            start = size.end()
            end = start + int(size[1], 16)
            if buffer[end : end + 2] != b"\r\n":
                break
            self._parts.append(buffer[start:end])
            place = end + 2
        if not place:
            return super()._dataReceived_CHUNK_LENGTH()
        del size
        del buffer[:place]
        self._start = 0
        return True

    def _add(self, part: bytes) -> None:
        self._parts.append(part)

    def _hand_on(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._take(b"".join(parts))

    def _end(self, rest: bytes) -> None:
        self._hand_on()
        self._finish(rest)


class _BoundedParser(_LenientHTTPClientParser):
    """Scrapy gives the class to a parser that is there already, so what it counts begins with the class."""

    _transferDecoders = {b"chunked": _JoinedChunks}  # type: ignore[dict-item]  # noqa: N815, RUF012 (Twisted's)
    _bytes_so_far = 0
    _lines_so_far = 0

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 (Twisted's)
        self._bytes_so_far += len(line)
        self._lines_so_far += 1
        if self._bytes_so_far > _MAX_HEAD_BYTES or self._lines_so_far > _MAX_HEAD_LINES:
            raise _fault(f"more than {_MAX_HEAD_LINES} headers, or {_MAX_HEAD_BYTES} bytes of them")
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: ARG002, N802 (Twisted's)
        raise _fault(f"a header of more than {self.MAX_LENGTH} bytes")

    def statusReceived(self, status: bytes) -> None:  # noqa: N802 (Twisted's)
        super().statusReceived(status)  # type: ignore[no-untyped-call]
        if not 100 <= self.response.code <= 999:
            raise _fault("a status of other than three digits")


class _BoundedProtocol(_LenientHTTP11ClientProtocol):
    """A large body waits where others take the room (see Intake)."""

    intake: Intake
    put_off: Callable[[float], None] | None = None
    _received_bytes = 0
    _is_receiving = False
    _paused_at: float | None = None

    def request(self, request: TwistedRequest) -> Deferred[IResponse]:
        self._received_bytes, self._is_receiving, self.put_off = 0, True, None
        answer = super().request(request)
        assert self._parser is not None
        self._parser.__class__ = _BoundedParser
        return answer.addCallback(self._know)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        super().dataReceived(data)  # type: ignore[no-untyped-call]
        self._received_bytes += len(data)
        if self._is_receiving and self._received_bytes > LARGE_BYTES:
            self.intake.note(self, self._received_bytes)

    def pause(self) -> None:
        self._paused_at = time.monotonic()
        assert self.transport is not None
        self.transport.pauseProducing()

    def resume(self) -> None:
        self._put_off_timeout()
        assert self.transport is not None
        self.transport.resumeProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's)
        self._end()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def _finishResponse(self, rest: bytes) -> None:  # noqa: N802 (Twisted's)
        self._end()
        super()._finishResponse(rest)

    def _know(self, response: IResponse) -> IResponse:
        setattr(response, _PROTOCOL, self)
        return response

    def _end(self) -> None:
        self._is_receiving = False
        self.intake.end(self)

    def _put_off_timeout(self) -> None:
        if self._paused_at is not None and self.put_off is not None:
            self.put_off(time.monotonic() - self._paused_at)
        self._paused_at = None


class _BoundedFactory(_LenientHTTP11ClientFactory):
    def __init__(self, intake: Intake, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self._intake = intake

    def buildProtocol(self, addr: IAddress | None) -> _BoundedProtocol:  # noqa: ARG002, N802 (Twisted's)
        protocol = _BoundedProtocol(self._quiescentCallback)  # type: ignore[no-untyped-call]
        protocol.intake = self._intake
        return protocol


def _fault(message: str) -> ParseError:
    return ParseError(message, b"")  # type: ignore[no-untyped-call]


def _fault_of(error: BaseException | None) -> str | None:
    """What is wrong with an answer, where a connection failed by what was read from it. None: by anything else."""
    reasons = [reason.value for reason in error.reasons] if isinstance(error, ResponseFailed) else []
    faults = [reason for reason in reasons if isinstance(reason, (ParseError, ValueError, LookupError))]
    return f"no HTTP: {faults[0].args[0] if faults[0].args else faults[0]!r}" if faults else None
