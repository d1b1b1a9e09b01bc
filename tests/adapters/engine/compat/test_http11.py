"""What is private of HTTP/1.1 as Scrapy and Twisted speak it."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.core.downloader.handlers import http11
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web import _newclient
from twisted.web.client import URI, HTTPConnectionPool, ResponseFailed
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.http_headers import Headers

from llmcrawler.engine import http_downloads as compat_http11
from tests.adapters.engine.compat.private_names import check_overridden, check_read
from tests.adapters.stubs import stub


@pytest.mark.parametrize(
    ("base", "original", "names"),
    [
        (compat_http11.ClientProtocol, _newclient.HTTP11ClientProtocol, ["_finishResponse"]),
        (compat_http11.JoinedChunks, _ChunkedTransferDecoder, ["_dataReceived_CHUNK_LENGTH"]),
        (compat_http11.PageAgent, http11._ScrapyAgent, ["_get_agent", "_cb_bodyready"]),
    ],
)
def test_what_is_overridden_is_there_with_the_same_parameters(base, original, names):
    check_overridden(base, original, names)


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (http11, {"_LenientHTTP11ClientFactory", "_LenientHTTP11ClientProtocol", "_LenientHTTPClientParser"}),
        (http11._TunnelingTCP4ClientEndpoint, {"connect", "requestTunnel", "processProxyResponse"}),
        (http11._TunnelingAgent, {"_getEndpoint"}),
        (_newclient.HTTPClientParser, {"_transferDecoders"}),
    ],
)
def test_what_is_called_is_there(owner, names):
    assert not {name for name in names if not hasattr(owner, name)}


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (
            http11.HTTP11DownloadHandler,
            "_pool _contextFactory _bind_address _default_maxsize _default_warnsize _fail_on_dataloss _crawler",
        ),
        (http11._ScrapyAgent, "_timeout_cl"),
        (http11._TunnelingAgent, "_proxyConf _contextFactory _endpointFactory _reactor"),
        (http11._TunnelingTCP4ClientEndpoint, "_connectBuffer _tunnelReadyDeferred _protocol _host _port"),
        (HTTPConnectionPool, "_factory"),
        (_newclient.HTTP11ClientProtocol, "_parser"),
        (http11._LenientHTTP11ClientFactory, "_quiescentCallback"),
        (_ChunkedTransferDecoder, "_buffer _start _maxTrailerHeadersSize"),
    ],
)
def test_what_is_read_of_objects_is_in_their_code(owner, names):
    check_read(owner, names.split())


class Intake:
    """What the limiter of bodies is told."""

    ended = 0

    def end(self, _protocol):
        self.ended += 1


def test_a_connection_tells_where_an_answer_ends_and_is_known_by_its_response():
    answers: list[Any] = []
    intake = Intake()
    protocol = compat_http11.ClientProtocol(lambda _: None, intake, lambda *_: {})  # type: ignore[arg-type]
    protocol.makeConnection(StringTransport())
    request = _newclient.Request(b"GET", b"/", Headers({b"host": [b"a.test"]}), None, persistent=True)
    protocol.request(request).addCallback(answers.append)
    assert (protocol._is_receiving, intake.ended) == (True, 0)
    assert type(protocol._parser) is compat_http11.HeadParser
    protocol.dataReceived(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    assert getattr(answers[0], compat_http11._PROTOCOL) is protocol
    protocol.dataReceived(b"ok")
    assert (protocol._is_receiving, intake.ended) == (False, 1)


def test_headers_are_added_anew_each_time_that_a_request_is_sent():
    """Twisted sends a request again, the same object, where a kept connection turns out to be closed."""
    asked: list[str] = []

    def sign(method, url):
        asked.append(f"{len(asked) + 1} {method} {url}")
        return {"Number": asked[-1]}

    uri = URI.fromBytes(b"http://a.test/page?x=1")
    headers = Headers({b"host": [b"a.test"]})
    request = _newclient.Request._construct(b"GET", b"/page?x=1", headers, None, True, uri)
    for number in (1, 2):
        protocol = compat_http11.ClientProtocol(lambda _: None, Intake(), sign)  # type: ignore[arg-type]
        protocol.makeConnection(transport := StringTransport())
        protocol.request(request)
        lines = [line for line in transport.value().split(b"\r\n") if line.startswith(b"Number")]
        assert lines == [f"Number: {number} GET http://a.test/page?x=1".encode()]


def test_faults_in_an_answer_are_told_from_other_failures():
    fault = compat_http11._answer_fault("too long")
    assert compat_http11.fault_in_answer(ResponseFailed([Failure(fault)])) == "no HTTP: 'too long'"
    assert compat_http11.fault_in_answer(ResponseFailed([Failure(OSError("gone"))])) is None
    assert compat_http11.fault_in_answer(None) is None


class Tunnel:
    """A connection to a proxy that a tunnel is asked of."""

    def __init__(self) -> None:
        self.endpoint = compat_http11._Tunnel(
            reactor=stub(connectTCP=self._connect),
            host=b"a.test",  # type: ignore[arg-type] # Twisted says str, and takes what Scrapy gives it
            port=443,
            proxyConf=("proxy.test", 8080, b"Basic secret"),
            contextFactory=stub(creatorForNetloc=lambda *_: None),
        )
        self.outcome: list[Any] = []
        self.transport = StringTransport()
        setattr(self.transport, "startTLS", lambda *_: None)  # noqa: B010 (it has none)
        self.endpoint.connect(Factory()).addBoth(self.outcome.append)

    def _connect(self, _host, _port, factory, *_args, **_kwargs):
        self.protocol = factory.buildProtocol(None)
        self.protocol.makeConnection(self.transport)

    @property
    def error(self) -> str:
        (failure,) = self.outcome
        assert failure.check(http11.TunnelError)
        return str(failure.getErrorMessage())


class Factory(http11._LenientHTTP11ClientFactory):
    def __init__(self):
        super().__init__(lambda _: None, None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([b"HTTP/1.1 407 secret-1\r\n", b"\r\n"], "{'status': 407}"),
        ([b"hello secret-1\r\n\r\n"], "no HTTP"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X: secret-1\r\n" * 1000] * 10], "{'status': 200}"),
    ],
)
def test_a_tunnel_that_is_refused_tells_the_status_alone_and_hangs_up(answer, told):
    tunnel = Tunnel()
    for part in answer:
        tunnel.protocol.dataReceived(part)
    assert tunnel.error == f"Could not open CONNECT tunnel with proxy proxy.test:8080 [{told}]"
    assert tunnel.transport.disconnecting


def test_a_proxy_that_hangs_up_fails_at_once():
    tunnel = Tunnel()
    tunnel.protocol.connectionLost(Failure(http11.TunnelError("gone")))
    assert "no HTTP" in tunnel.error


def test_a_tunnel_is_opened():
    tunnel = Tunnel()
    assert b"CONNECT a.test:443" in tunnel.transport.value()
    tunnel.protocol.dataReceived(b"HTTP/1.1 200 OK\r\n\r\n")
    assert len(tunnel.outcome) == 1
    assert not isinstance(tunnel.outcome[0], Failure)
