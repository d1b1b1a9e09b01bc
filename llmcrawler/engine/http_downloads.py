"""Downloads over HTTP/1.1 as Scrapy and Twisted do, with bounds on what comes before a body, and faults of the other
side known as such. Private names of Scrapy's and Twisted's HTTP client are used here and nowhere else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Self

from scrapy import Request, exceptions
from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    TunnelError,
    _LenientHTTP11ClientFactory,
    _LenientHTTP11ClientProtocol,
    _LenientHTTPClientParser,
    _ScrapyAgent,
    _TunnelingAgent,
    _TunnelingTCP4ClientEndpoint,
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
from twisted.web.client import URI, ResponseFailed
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.iweb import IResponse

from llmcrawler.core.content.body_limiter import LARGE_BYTES, BodyLimiter
from llmcrawler.crawl.context import crawl_of
from llmcrawler.errors import ProtocolFault

_PROTOCOL: Final = "_llmcrawler_protocol"  # of a response of Twisted's: the connection that it comes through
_IDLE_SECONDS: Final = 20  # of a connection; Twisted's 240 would take thousands of sockets where hosts are many
_MAX_TUNNEL_BYTES: Final = 64 * 1024  # of a proxy's answer to CONNECT
_MAX_TRAILER_BYTES: Final = 8 * 1024  # behind the last chunk
_STATUS: Final = re.compile(rb"HTTP/1\.. (\d{3})")
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


class PageDownloadHandler(HTTP11DownloadHandler):
    """Raises ProtocolFault for an answer that is no HTTP, and for a url that Twisted does not ask for; Scrapy's own
    errors for what goes wrong between two machines.
    """

    def __init__(self, crawler: Crawler, intake: BodyLimiter, sign: SignRequest) -> None:
        super().__init__(crawler)

        class Factory(_LenientHTTP11ClientFactory):
            def buildProtocol(self, addr: IAddress | None) -> ClientProtocol:  # noqa: ARG002, N802 (Twisted's)
                return ClientProtocol(self._quiescentCallback, intake, sign)

        self._pool._factory = Factory
        self._pool.cachedConnectionTimeout = _IDLE_SECONDS

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        return cls(crawler, crawl.intake, crawl.headers_when_sent)

    async def download_request(self, request: Request) -> Response:
        agent = PageAgent(
            contextFactory=self._contextFactory,
            bindAddress=self._bind_address,
            pool=self._pool,
            maxsize=self._default_maxsize,
            warnsize=self._default_warnsize,
            fail_on_dataloss=self._fail_on_dataloss,
            crawler=self._crawler,
        )
        try:
            with wrap_twisted_exceptions():
                return await maybe_deferred_to_future(agent.download_request(request))
        except exceptions.DownloadFailedError as error:
            fault = fault_in_answer(error.__cause__)
            if fault is None:
                raise
            raise ProtocolFault(fault) from error
        except _KNOWN:
            raise
        except Exception as error:  # what Scrapy, Twisted and their like make of what came, or of the url
            raise ProtocolFault(f"{type(error).__name__}: {error}") from error


def fault_in_answer(error: BaseException | None) -> str | None:
    """Return what is wrong with an answer when a connection failed by what was read from it, else None."""
    reasons = [reason.value for reason in error.reasons] if isinstance(error, ResponseFailed) else []
    faults = [reason for reason in reasons if isinstance(reason, (ParseError, ValueError, LookupError))]
    return f"not HTTP: {faults[0].args[0] if faults[0].args else faults[0]!r}" if faults else None


class JoinedChunks(_ChunkedTransferDecoder):
    """Hands on all chunks of a read at once: a body in chunks of one byte has 10,000 of them in each read, and Scrapy
    sends a signal for each part that it is handed.
    """

    def __init__(self, take: Callable[[bytes], None], finish: Callable[[bytes], None]) -> None:
        super().__init__(self._add, self._end)
        self._maxTrailerHeadersSize = _MAX_TRAILER_BYTES
        self._take = take
        self._finish = finish
        self._parts: list[bytes | bytearray] = []

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        try:
            super().dataReceived(data)
        finally:
            self._hand_on()

    def _dataReceived_CHUNK_LENGTH(self) -> bool:  # noqa: N802 (Twisted's)
        """Read all whole chunks that are there: Twisted takes three turns and several copies for each."""
        place = 0
        while size := _CHUNK_SIZE.match(self._buffer, place):
            start = size.end()
            end = start + int(size[1], 16)
            if self._buffer[end : end + 2] != b"\r\n":
                break
            self._parts.append(self._buffer[start:end])
            place = end + 2
        if not place:
            return super()._dataReceived_CHUNK_LENGTH()
        del self._buffer[:place]
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


class HeadParser(_LenientHTTPClientParser):
    """Reads the head of an answer. A parser that is there already becomes one of these, so nothing is set up for it."""

    _transferDecoders: ClassVar[dict[bytes, Any]] = {b"chunked": JoinedChunks}  # type: ignore[misc]  # noqa: N815 (Twisted's)
    _bytes_so_far = 0
    _lines_so_far = 0

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 (Twisted's)
        self._bytes_so_far += len(line)
        self._lines_so_far += 1
        if self._bytes_so_far > _MAX_HEAD_BYTES or self._lines_so_far > _MAX_HEAD_LINES:
            raise _answer_fault(f"more than {_MAX_HEAD_LINES} headers, or {_MAX_HEAD_BYTES} bytes of them")
        super().lineReceived(line)

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: ARG002, N802 (Twisted's)
        raise _answer_fault(f"a header of more than {self.MAX_LENGTH} bytes")

    def statusReceived(self, status: bytes) -> None:  # noqa: N802 (Twisted's)
        super().statusReceived(status)  # type: ignore[no-untyped-call]
        if not 100 <= self.response.code <= 999:
            raise _answer_fault("a status that does not have three digits")


def _answer_fault(message: str) -> ParseError:
    return ParseError(message, b"")  # type: ignore[no-untyped-call]


class ClientProtocol(_LenientHTTP11ClientProtocol):
    """A connection. It pauses a large body while others take the room (see BodyLimiter); `put_off`, which is set once
    the head of an answer is there, keeps the pause from counting for the download's timeout.

    Requests are signed here, where each is sent: also one that Twisted sends again, as its connection was closed.
    """

    put_off: Callable[[float], None] | None = None

    def __init__(self, when_quiet: Callable[[Any], None], intake: BodyLimiter, sign: SignRequest) -> None:
        super().__init__(when_quiet)  # type: ignore[no-untyped-call]
        self._intake = intake
        self._sign = sign
        self._received_bytes = 0
        self._is_receiving = False
        self._paused_at: float | None = None

    def request(self, request: TwistedRequest) -> Deferred[IResponse]:
        self.put_off = None
        self._received_bytes, self._is_receiving = 0, True
        for name, value in self._sign(request.method.decode(), (request.absoluteURI or b"").decode()).items():
            request.headers.setRawHeaders(name, [value])
        answer = super().request(request)
        assert self._parser is not None
        self._parser.__class__ = HeadParser  # as Scrapy does it: Twisted takes no other class

        def know(response: IResponse) -> IResponse:
            setattr(response, _PROTOCOL, self)
            return response

        return answer.addCallback(know)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        super().dataReceived(data)  # type: ignore[no-untyped-call]
        self._received_bytes += len(data)
        if self._is_receiving and self._received_bytes > LARGE_BYTES:
            self._intake.note(self, self._received_bytes)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's)
        self._end_answer()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

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

    def _finishResponse(self, rest: bytes) -> None:  # noqa: N802 (Twisted's)
        self._end_answer()
        super()._finishResponse(rest)

    def _end_answer(self) -> None:
        self._is_receiving = False
        self._intake.end(self)


class _Tunnel(_TunnelingTCP4ClientEndpoint):
    """Scrapy's way through a proxy to an https page, for proxies that talk without end, hang up or say what nobody
    should repeat: the error has the status alone.
    """

    def connect(self, protocolFactory: Any) -> Deferred[Any]:  # noqa: N803 (Twisted's)
        return super().connect(protocolFactory).addErrback(self._refused)

    def requestTunnel(self, protocol: Any) -> Any:  # noqa: N802 (Twisted's)
        lost = protocol.connectionLost

        def connection_lost(reason: Failure = connectionDone) -> None:
            self._fail("the connection was closed")
            lost(reason)

        protocol.connectionLost = connection_lost
        return super().requestTunnel(protocol)

    def processProxyResponse(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        super().processProxyResponse(data)
        if len(self._connectBuffer) > _MAX_TUNNEL_BYTES:
            self._fail("too long an answer")

    def _fail(self, why: str) -> None:
        if not self._tunnelReadyDeferred.called:
            self._tunnelReadyDeferred.errback(TunnelError(why))

    def _refused(self, failure: Failure) -> Failure:
        protocol = getattr(self, "_protocol", None)
        if protocol is not None and protocol.transport is not None:
            protocol.transport.abortConnection()
        if not failure.check(TunnelError):  # type: ignore[no-untyped-call]
            return failure
        status = _STATUS.match(self._connectBuffer)
        said = str({"status": int(status[1])} if status else "no HTTP")
        proxy = f"{self._host}:{self._port}"
        return Failure(TunnelError(f"Could not open CONNECT tunnel with proxy {proxy} [{said}]"))  # type: ignore[no-untyped-call]


class PageAgent(_ScrapyAgent):
    """Agent for one download, whose connection can put off the timeout."""

    def _get_agent(self, request: Request, timeout: float) -> Any:
        agent = super()._get_agent(request, timeout)
        if not isinstance(agent, _TunnelingAgent):
            return agent

        def endpoint(uri: URI) -> _Tunnel:
            return _Tunnel(
                reactor=agent._reactor,
                host=uri.host,
                port=uri.port,
                proxyConf=agent._proxyConf,
                contextFactory=agent._contextFactory,
                timeout=agent._endpointFactory._connectTimeout,
                bindAddress=agent._endpointFactory._bindAddress,
            )

        agent._getEndpoint = endpoint  # type: ignore[method-assign]
        return agent

    def _cb_bodyready(self, txresponse: Any, request: Request) -> Any:
        protocol: ClientProtocol | None = getattr(txresponse, _PROTOCOL, None)
        if protocol is not None:
            protocol.put_off = self._put_off
        return super()._cb_bodyready(txresponse, request)

    def _put_off(self, seconds: float) -> None:
        timer: Any = self._timeout_cl  # zope's interfaces mean nothing to mypy
        if timer.active():
            timer.delay(seconds)
