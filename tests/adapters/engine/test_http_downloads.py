"""Connections, tunnels, bodies in chunks and faults of HTTP/1.1."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.core.downloader.handlers import http11
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web import _newclient
from twisted.web.client import URI, ResponseFailed
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.http_headers import Headers

from llmcrawler.engine import http_downloads
from llmcrawler.engine.http_downloads import JoinedChunks
from tests.adapters.stubs import stub


class Intake:
    """What the limiter of bodies is told."""

    ended = 0

    def end(self, _protocol):
        self.ended += 1


def test_a_connection_tells_where_an_answer_ends_and_is_known_by_its_response():
    answers: list[Any] = []
    intake = Intake()
    protocol = http_downloads.ClientProtocol(lambda _: None, intake, lambda *_: {})  # type: ignore[arg-type]
    protocol.makeConnection(StringTransport())
    request = _newclient.Request(b"GET", b"/", Headers({b"host": [b"a.test"]}), None, persistent=True)
    protocol.request(request).addCallback(answers.append)
    assert (protocol._is_receiving, intake.ended) == (True, 0)
    assert type(protocol._parser) is http_downloads.HeadParser
    protocol.dataReceived(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    assert getattr(answers[0], http_downloads._PROTOCOL) is protocol
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
        protocol = http_downloads.ClientProtocol(lambda _: None, Intake(), sign)  # type: ignore[arg-type]
        protocol.makeConnection(transport := StringTransport())
        protocol.request(request)
        lines = [line for line in transport.value().split(b"\r\n") if line.startswith(b"Number")]
        assert lines == [f"Number: {number} GET http://a.test/page?x=1".encode()]


def test_faults_in_an_answer_are_told_from_other_failures():
    fault = http_downloads._answer_fault("too long")
    assert http_downloads.fault_in_answer(ResponseFailed([Failure(fault)])) == "not HTTP: 'too long'"
    assert http_downloads.fault_in_answer(ResponseFailed([Failure(OSError("gone"))])) is None
    assert http_downloads.fault_in_answer(None) is None


class Tunnel:
    """A connection to a proxy that a tunnel is asked of."""

    def __init__(self) -> None:
        self.endpoint = http_downloads._Tunnel(
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


class Decoded:
    """What a decoder makes of the reads that it is given."""

    def __init__(self, *reads):
        self.parts: list[Any] = []
        self.rest: Any = None
        self.fault: Any = None
        self.decoder = JoinedChunks(self.parts.append, self._finish)
        try:
            for read in reads:
                self.decoder.dataReceived(read)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test names it
            self.fault = type(error).__name__

    def _finish(self, rest):
        self.rest = rest
        self.parts_at_end = list(self.parts)


def chunks(*parts, size=b"%x\r\n", end=b"0\r\n\r\n"):
    return b"".join(size % len(part) + part + b"\r\n" for part in parts) + end


@pytest.mark.parametrize("size", [b"%x\r\n", b"%x;\r\n", b"00%X;name=value\r\n"])
def test_a_body_in_tiny_chunks_is_handed_on_once_for_each_read(size, monkeypatch):
    turns = []
    turn = _ChunkedTransferDecoder._dataReceived_BODY
    monkeypatch.setattr(_ChunkedTransferDecoder, "_dataReceived_BODY", lambda self: turns.append(self) or turn(self))
    wire = chunks(*[b"a"] * 10_000, size=size)
    decoded = Decoded(wire[:30_000], wire[30_000:])
    assert len(decoded.parts) == 2
    assert b"".join(decoded.parts) == b"a" * 10_000
    assert len(turns) <= 2  # of Twisted's, which takes several for each chunk
    assert decoded.rest == b""


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_chunks_are_the_same_wherever_reads_cut_them(step):
    body = [b"one", b"0\r\n\r\n", b"x" * 300, b"\r\n" * 20, b"last"]
    wire = chunks(*body, end=b"0\r\nTrailer: 1\r\n\r\n")
    decoded = Decoded(*(wire[start : start + step] for start in range(0, len(wire), step)))
    assert b"".join(decoded.parts) == b"".join(body)
    assert decoded.parts_at_end == decoded.parts  # all of the body is there before its end is told
    assert decoded.rest == b""
    decoded.decoder.noMoreData()


@pytest.mark.parametrize(
    "wire",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"2\r\nabcd\r\n",
        b"1;\x01\r\na\r\n",
        b"1" * 2000,
        b"0\r\n" + b"a\r\n" * 10_000,
        b"0\r\n" + b"a" * 100_000,
    ],
)
def test_what_is_no_chunk_is_refused_after_what_came_before(wire):
    decoded = Decoded(chunks(b"fine", end=b"") + wire)
    assert decoded.parts[0][:4] == b"fine"
    assert decoded.fault == "_MalformedChunkedDataError"
