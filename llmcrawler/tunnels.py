"""Tunnels through proxies to https pages.

Scrapy 2.19 has none through proxies that speak TLS themselves (https://...), and takes an answer of any length from the
others.
"""

from __future__ import annotations

import re
from typing import Any, Protocol
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import (
    TunnelError,
    _tunnel_request_data,
    _TunnelingAgent,
)
from scrapy.http import Response
from scrapy.utils._download_handlers import normalize_bind_address
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.url import add_http_if_no_scheme
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.web.client import URI
from zope.interface import implementer  # type: ignore[import-untyped]

from llmcrawler.transport import PageDownloadHandler, PatientAgent

_MAX_HEAD_BYTES = 65536
_STATUS = re.compile(rb"HTTP/1\.. (\d{3})")


class TunnelDownloadHandler(PageDownloadHandler):
    async def _download(self, request: Request) -> Response:
        if not request.meta.get("proxy") or urlparse_cached(request).scheme != "https":
            return await super()._download(request)
        return await self._download_by(_Agent, request)


class _Agent(PatientAgent):
    def _get_agent(self, request: Request, timeout: float) -> _TunnelingAgent:
        from twisted.internet import reactor  # noqa: PLC0415 - importing it installs one

        proxy = urlsplit(add_http_if_no_scheme(request.meta["proxy"]))
        speaks_tls = proxy.scheme == "https"
        port = proxy.port or (443 if speaks_tls else 80)
        return (_TlsTunnelingAgent if speaks_tls else _PlainTunnelingAgent)(
            reactor=reactor,
            proxyConf=(proxy.hostname or "", port, request.headers.get(b"Proxy-Authorization")),
            contextFactory=self._contextFactory,
            connectTimeout=timeout,
            bindAddress=normalize_bind_address(request.meta.get("bindaddress") or self._bindAddress),
            pool=self._pool,
        )


class _PlainTunnelingAgent(_TunnelingAgent):
    def _getEndpoint(self, uri: URI) -> Any:  # noqa: N802 (Twisted's)
        host, port, authorization = self._proxyConf
        tcp: Any = TCP4ClientEndpoint(
            self._reactor, host, port, self._endpointFactory._connectTimeout, self._endpointFactory._bindAddress
        )
        policy: Any = self._contextFactory  # zope's interfaces mean nothing to mypy
        outer = self._wrapped(tcp, host, port)
        inner_options = policy.creatorForNetloc(uri.host, uri.port)
        greeting = _tunnel_request_data(uri.host.decode(), uri.port, authorization)
        return _TunnelEndpoint(outer, inner_options, greeting, f"{host}:{port}")

    def _wrapped(self, endpoint: Any, _host: str, _port: int) -> Any:
        return endpoint


class _TlsTunnelingAgent(_PlainTunnelingAgent):
    def _wrapped(self, endpoint: Any, host: str, port: int) -> Any:
        policy: Any = self._contextFactory  # zope's interfaces mean nothing to mypy
        return wrapClientTLS(policy.creatorForNetloc(host.encode(), port), endpoint)


class _Endpoint(Protocol):
    def connect(self, protocolFactory: Any) -> Deferred[Any]: ...  # noqa: N803 (Twisted's)


@implementer(IStreamClientEndpoint)
class _TunnelEndpoint:
    def __init__(self, outer: _Endpoint, inner_options: Any, greeting: bytes, proxy: str) -> None:
        self._outer = outer
        self._inner_options = inner_options
        self._greeting = greeting
        self._proxy = proxy

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:  # noqa: N803 (Twisted's)
        inner = TLSMemoryBIOFactory(self._inner_options, True, protocolFactory)
        protocol = _Connect(inner, self._greeting, self._proxy)
        connecting = self._outer.connect(Factory.forProtocol(lambda: protocol))
        connecting.addErrback(protocol.fail)
        return protocol.opened


class _Connect(TwistedProtocol):
    """Asks for a tunnel, and then hands what comes to the TLS of the page's server."""

    transport: Any

    def __init__(self, inner: TLSMemoryBIOFactory, greeting: bytes, proxy: str) -> None:
        self._factory = inner
        self._greeting = greeting
        self._proxy = proxy
        self._head = b""
        self._inner: Any = None
        self.opened: Deferred[Any] = Deferred(lambda _: self._hang_up())

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's)
        self.transport.write(self._greeting)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's)
        if self._inner is not None:
            self._inner.dataReceived(data)
            return
        self._head += data
        is_whole = b"\r\n\r\n" in self._head
        if not is_whole and len(self._head) <= _MAX_HEAD_BYTES:
            return
        found = _STATUS.match(self._head) if is_whole else None
        if found is None or found.group(1) != b"200":
            self._refused(str({"status": int(found.group(1))} if found else "no HTTP"))
            self._hang_up()
            return
        self._inner = self._factory.buildProtocol(None)
        self._inner.makeConnection(self.transport)
        self.opened.callback(self._inner.wrappedProtocol)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]  # noqa: N802 (Twisted's)
        if self._inner is not None:
            self._inner.connectionLost(reason)
        else:
            self._refused(reason.getErrorMessage())

    def _refused(self, answer: str) -> None:
        error = TunnelError(f"Could not open CONNECT tunnel with proxy {self._proxy} [{answer}]")
        self.fail(Failure(error))  # type: ignore[no-untyped-call]

    def fail(self, reason: Failure) -> None:
        if not self.opened.called:
            self.opened.errback(reason)

    def _hang_up(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()
