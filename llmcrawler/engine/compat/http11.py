"""Speaks HTTP/1.1 as Scrapy and Twisted do, with hooks where bounds belong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from scrapy import Request
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
from scrapy.http import Response
from scrapy.utils._download_handlers import wrap_twisted_exceptions
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError
from twisted.web._newclient import Request as TwistedRequest
from twisted.web.client import URI, ResponseFailed
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.iweb import IResponse

_PROTOCOL: Final = "_llmcrawler_protocol"  # of a response of Twisted's: the connection that it comes through
_IDLE_SECONDS: Final = 20  # of a connection; Twisted's 240 would take thousands of sockets where hosts are many
_MAX_TUNNEL_BYTES: Final = 64 * 1024  # of a proxy's answer to CONNECT
_STATUS: Final = re.compile(rb"HTTP/1\.. (\d{3})")


class ClientProtocol(_LenientHTTP11ClientProtocol):
    """A connection. `parser_class` reads the heads of answers. `put_off` gives a download more time; it is set once the
    head of an answer is there.
    """

    parser_class: ClassVar[type[HeadParser]]
    put_off: Callable[[float], None] | None = None

    def answer_begins(self) -> None:
        """Do what has to be done when a request is about to be sent."""

    def answer_ends(self) -> None:
        """Do what has to be done when an answer is whole, or the connection is lost."""

    def headers_of(self, method: str, url: str) -> Mapping[str, str]:  # noqa: ARG002 (overridden)
        """Return headers to add to a request that is about to be sent."""
        return {}

    def request(self, request: TwistedRequest) -> Deferred[IResponse]:
        self.put_off = None
        self.answer_begins()
        for name, value in self.headers_of(request.method.decode(), (request.absoluteURI or b"").decode()).items():
            request.headers.setRawHeaders(name, [value])
        answer = super().request(request)
        assert self._parser is not None
        self._parser.__class__ = self.parser_class  # as Scrapy does it, too
        return answer.addCallback(self._know)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's)
        self.answer_ends()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def _finishResponse(self, rest: bytes) -> None:  # noqa: N802 (Twisted's)
        self.answer_ends()
        super()._finishResponse(rest)

    def _know(self, response: IResponse) -> IResponse:
        setattr(response, _PROTOCOL, self)
        return response


class HeadParser(_LenientHTTPClientParser):
    """Reads the head of an answer. A parser that is there already becomes one of these, so nothing is set up for it."""

    def __init_subclass__(cls, decoder: type[ChunkDecoder] | None = None) -> None:
        if decoder is not None:
            cls._transferDecoders = {b"chunked": decoder}


class ChunkDecoder(_ChunkedTransferDecoder):
    """Takes a chunked body apart. `max_trailer_bytes` is the most that may follow the last chunk."""

    max_trailer_bytes: ClassVar[int]

    def __init__(self, take: Callable[[bytes], None], finish: Callable[[bytes], None]) -> None:
        super().__init__(take, finish)
        self._maxTrailerHeadersSize = self.max_trailer_bytes

    def take_chunks(self, buffer: bytearray) -> int:  # noqa: ARG002 (overridden)
        """Handle whole chunks at the beginning of `buffer`, and return how many of its bytes they were."""
        return 0

    def _dataReceived_CHUNK_LENGTH(self) -> bool:  # noqa: N802 (Twisted's)
        taken = self.take_chunks(self._buffer)
        if not taken:
            return super()._dataReceived_CHUNK_LENGTH()
        del self._buffer[:taken]
        self._start = 0
        return True


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


class _TunnelAgent(_TunnelingAgent):
    def _getEndpoint(self, uri: URI) -> _Tunnel:  # noqa: N802 (Twisted's)
        return _Tunnel(
            reactor=self._reactor,
            host=uri.host,
            port=uri.port,
            proxyConf=self._proxyConf,
            contextFactory=self._contextFactory,
            timeout=self._endpointFactory._connectTimeout,
            bindAddress=self._endpointFactory._bindAddress,
        )


class PageAgent(_ScrapyAgent):
    """Agent for one download, whose connection can put off the timeout."""

    def _get_agent(self, request: Request, timeout: float) -> Any:
        agent = super()._get_agent(request, timeout)
        if type(agent) is _TunnelingAgent:
            agent.__class__ = _TunnelAgent
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


class _Factory(_LenientHTTP11ClientFactory):
    make_protocol: Callable[[Callable[[Any], None]], ClientProtocol]

    def buildProtocol(self, addr: IAddress | None) -> ClientProtocol:  # noqa: ARG002, N802 (Twisted's)
        return self.make_protocol(self._quiescentCallback)


class ClientHandler(HTTP11DownloadHandler):
    """Scrapy's download handler with connections of our own."""

    def use_protocol(self, make_protocol: Callable[[Callable[[Any], None]], ClientProtocol]) -> None:
        """Make connections by this function from now on; it is given what a ClientProtocol is made with."""

        def factory(*args: Any, **kwargs: Any) -> _Factory:
            made = _Factory(*args, **kwargs)  # type: ignore[no-untyped-call]
            made.make_protocol = make_protocol
            return made

        self._pool._factory = factory  # type: ignore[assignment]
        self._pool.cachedConnectionTimeout = _IDLE_SECONDS

    async def download(self, request: Request) -> Response:
        """Download a request. Scrapy's own errors are raised for what goes wrong between two machines."""
        agent = PageAgent(
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


def answer_fault(message: str) -> ParseError:
    """Return the error to raise in a HeadParser for an answer that is not to be read on."""
    return ParseError(message, b"")  # type: ignore[no-untyped-call]


def fault_in_answer(error: BaseException | None) -> str | None:
    """Return what is wrong with an answer when a connection failed by what was read from it, else None."""
    reasons = [reason.value for reason in error.reasons] if isinstance(error, ResponseFailed) else []
    faults = [reason for reason in reasons if isinstance(reason, (ParseError, ValueError, LookupError))]
    return f"no HTTP: {faults[0].args[0] if faults[0].args else faults[0]!r}" if faults else None
