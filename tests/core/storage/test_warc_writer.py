"""What WARC records hold, for the answers that a crawl can get."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest

from llmcrawler.core.storage.archives.warc_writer import Exchange, WarcWriter

PAGE = Exchange(
    url="https://a.test/p?q=1#part",
    method="GET",
    request_headers=(("User-Agent", "bot"),),
    request_body=b"",
    status=200,
    headers=(("Content-Type", "text/html"), ("Content-Encoding", "gzip"), ("Content-Length", "7")),
    date="2026-01-02T03:04:05+02:00",
    body=b"<p>Tea",
)


class Lines(BytesIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: Any) -> int:
        self.writes.append(bytes(data))
        return len(data)


def blocks_of(*exchanges: Exchange) -> list[bytes]:
    out = Lines()
    WarcWriter(out, is_packed=False, new_id=lambda: UUID(int=1)).add(exchanges)
    return out.writes


def test_headers_that_do_not_hold_for_an_unpacked_body_say_how_it_came():
    answer, _request = blocks_of(PAGE)
    head, _, body = answer.partition(b"\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert body == (
        b"Content-Type: text/html\r\nX-Crawler-Content-Encoding: gzip\r\nX-Crawler-Content-Length: 7\r\n"
        b"Content-Length: 6\r\n\r\n<p>Tea\r\n\r\n"
    )
    assert b"WARC-Date: 2026-01-02T01:04:05Z\r\n" in head
    assert b"WARC-Target-URI: https://a.test/p?q=1\r\n" in head


def test_a_request_names_its_host_and_has_its_body():
    _, request = blocks_of(replace(PAGE, method="POST", request_body=b"a=1"))
    assert request.endswith(b"POST /p?q=1 HTTP/1.1\r\nHost: a.test\r\nUser-Agent: bot\r\n\r\na=1\r\n\r\n")


@pytest.mark.parametrize("value", ["a\r\nEvil: 1", "a\n\nHTTP/1.1 200 OK", "a\x0bb\x1cc"])
def test_no_header_begins_another_line(value):
    answer, _ = blocks_of(replace(PAGE, headers=(("X-Odd", value),)))
    assert answer.count(b"\r\n\r\n") == 3
    assert b"\nEvil" not in answer


def test_a_body_may_be_missing_cut_or_still_encoded():
    assert blocks_of(replace(PAGE, body=None)) == []
    assert b"WARC-Truncated: length\r\n" in blocks_of(replace(PAGE, is_cut=True))[0]
    assert b"\r\nContent-Encoding: gzip\r\n" in blocks_of(replace(PAGE, is_encoded=True))[0]


def test_each_record_is_a_gzip_member_of_its_own():
    out = Lines()
    writer = WarcWriter(out)
    writer.add_info((("software", "x"),), "a.warc.gz")
    writer.add([PAGE])
    assert len(out.writes) == 3
    for member in out.writes:
        unpacker = zlib.decompressobj(wbits=31)
        assert unpacker.decompress(member).startswith(b"WARC/1.1\r\n")
        assert unpacker.eof
    assert gzip.decompress(b"".join(out.writes)).count(b"WARC-Warcinfo-ID") == 2


def test_exchanges_survive_being_kept():
    one = replace(PAGE, body=b"\x00\xff", request_body=b"\x80", is_cut=True, ip_address="::1")
    assert Exchange.from_json(one.to_json()) == one
