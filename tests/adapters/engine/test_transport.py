from typing import Any

import pytest
from twisted.web.http import _ChunkedTransferDecoder

from llmcrawler.engine.http_downloads import JoinedChunks


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
