"""What is read of WARC files: of all makers, and of files that are damaged or lie."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmcrawler.core.storage.archives import warc_reader
from llmcrawler.core.storage.archives.archived_pages import (
    ArchivedPage,
    RecordPlace,
    page_at,
    pages_of_index,
    pages_of_warc,
)
from llmcrawler.core.storage.archives.warc_reader import WarcFault, part_starts
from llmcrawler.core.storage.archives.warc_writer import Exchange, WarcWriter
from llmcrawler.crawl.task_lists import archive_files
from llmcrawler.errors import ConfigError

HTML = (("Content-Type", "text/html; charset=utf-8"),)


def exchange(number: int, **changes: Any) -> Exchange:
    body = f"<title>Page {number}</title><p>Tea".encode()
    page = Exchange(f"https://a.test/{number}", "GET", (), b"", 200, HTML, "2026-01-02T03:04:05+00:00", body)
    return replace(page, **changes)


def archive_of(*exchanges: Exchange, is_packed: bool = True) -> bytes:
    out = io.BytesIO()
    writer = WarcWriter(out, is_packed=is_packed)
    writer.add_info((("software", "test"),))
    writer.add(exchanges)
    return out.getvalue()


def pages_in(tmp_path: Path, data: bytes) -> list[ArchivedPage]:
    (tmp_path / "site.warc.gz").write_bytes(data)
    return list(pages_of_warc(str(tmp_path / "site.warc.gz")))


@pytest.mark.parametrize("is_packed", [True, False])
def test_each_page_can_be_read_in_passing_and_from_where_it_stands(tmp_path, is_packed):
    pages = pages_in(tmp_path, archive_of(*map(exchange, range(5)), is_packed=is_packed))
    assert [one.url for one in pages] == [f"https://a.test/{number}" for number in range(5)]
    assert [page_at(one.place) for one in pages] == [one.page for one in pages]
    assert pages[3].page.body == b"<title>Page 3</title><p>Tea"
    assert pages[3].page.fetched_at == "2026-01-02T03:04:05+00:00"
    assert pages[3].page.headers == HTML


def test_redirects_what_is_no_html_and_requests_are_no_pages(tmp_path):
    pages = pages_in(
        tmp_path,
        archive_of(
            exchange(1, status=301),
            exchange(2, headers=(("Content-Type", "image/png"),)),
            exchange(3, status=404),
            exchange(4, headers=()),
            exchange(5, is_rendered=True),
            exchange(6, status=304, body=b"", unchanged_since="2026-01-01T00:00:00+00:00"),
        ),
    )
    assert [(one.url[-1], one.page.status) for one in pages] == [("3", 404), ("4", 200), ("5", 200)]


def foreign(headers: list[tuple[str, str]], body: bytes) -> bytes:
    """As older tools write it."""
    named = "".join(f"{name}: {value}\r\n" for name, value in [("Content-Type", "text/html"), *headers])
    block = f"HTTP/1.1 200 OK\r\n{named}\r\n".encode() + body
    written = record(str(len(block)), block).replace(b"WARC/1.1", b"WARC/1.0")
    return gzip.compress(written.replace(b"https://a.test/", b"<https://a.test/>")) * 2


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([], b"<p>Tea"),
        ([("Content-Encoding", "gzip")], gzip.compress(b"<p>Tea", mtime=0)),
        ([("Content-Encoding", "deflate")], zlib.compress(b"<p>Tea")),
        ([("Content-Encoding", "deflate")], zlib.compress(b"<p>Tea", wbits=-15)),
        ([("Transfer-Encoding", "chunked")], b"3;x=1\r\n<p>\r\n3\r\nTea\r\n0\r\n\r\n"),
        ([("Transfer-Encoding", "chunked")], b"<p>Tea"),  # its marks were taken out, and the header was not
    ],
)
def test_bodies_of_other_makers_are_unpacked(tmp_path, headers, body):
    pages = pages_in(tmp_path, foreign(headers, body))
    assert [(one.url, one.page.body) for one in pages] == [("https://a.test/", b"<p>Tea")] * 2
    assert page_at(pages[1].place) == pages[1].page


def test_pages_of_one_gzip_member_are_read_in_passing_only(tmp_path):
    pages = pages_in(tmp_path, gzip.compress(archive_of(exchange(1), exchange(2), is_packed=False)))
    assert [(one.url[-1], one.place) for one in pages] == [("1", None), ("2", None)]


NESTED = archive_of(exchange(7), exchange(8), is_packed=False)  # as text of a page
PIECES = st.sampled_from([b"tea ", b"\r\n\r\n", b"WARC/1.1\r\n", NESTED, NESTED[:50], b"\x1f\x8b\x08", b"x" * 999])
BODIES = st.lists(st.lists(PIECES), min_size=1, max_size=8)


@given(BODIES, st.integers(1, 4_000), st.sampled_from(["plain", "packed", "together"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_page_is_in_one_part_wherever_a_file_is_cut(tmp_path, bodies, part_bytes, form):
    pages = [exchange(number, body=b"".join(body)) for number, body in enumerate(bodies)]
    data = archive_of(*pages, is_packed=form == "packed")
    whole = pages_in(tmp_path, gzip.compress(data) if form == "together" else data)
    assert [one.page.body for one in whole] == [one.body for one in pages]
    file = tmp_path / "site.warc.gz"
    with file.open("rb") as opened:
        starts = part_starts(opened, part_bytes)
    parts = [list(pages_of_warc(str(file), *cut)) for cut in zip_longest(starts, starts[1:])]
    assert [one for part in parts for one in part] == whole
    assert form == "together" or len(parts) > 1 or len(data) < 2 * part_bytes + 5_000


def damaged(at: int, data: bytes) -> bytes:
    return data[:at] + bytes(byte ^ 0x5A for byte in data[at : at + 20]) + data[at + 20 :]


@pytest.mark.parametrize("is_packed", [True, False])
def test_behind_a_damaged_record_the_others_are_read(tmp_path, is_packed):
    data = archive_of(*map(exchange, range(5)), is_packed=is_packed)
    whole = pages_in(tmp_path, data)
    for place in (one.place for one in whole):
        for within in (1, 12, place.length // 2):
            found = pages_in(tmp_path, damaged(place.offset + within, data))
            fine = [one for one in found if not one.fault and one in whole]
            assert len(fine) >= 4
            assert all("site.warc.gz at byte " in one.fault for one in found if one.fault)


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_file_may_end_anywhere(tmp_path, is_packed):
    data = archive_of(*map(exchange, range(3)), is_packed=is_packed)
    whole = pages_in(tmp_path, data)
    for end in range(len(archive_of(is_packed=is_packed)), len(data), 37):
        found = [one for one in pages_in(tmp_path, data[:end]) if not one.fault]
        there = [one for one in whole if one.place.offset + one.place.length <= end]
        assert found[: len(there)] == there


def record(length: str, block: bytes = b"HTTP/1.1 200 OK\r\n\r\n<p>Tea", more: str = "") -> bytes:
    head = f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.test/{more}\r\n"
    return f"{head}Content-Type: application/http\r\nContent-Length: {length}\r\n\r\n".encode() + block + b"\r\n\r\n"


@pytest.mark.parametrize("length", ["1", "20", "30", "60", "9" * 12, "9" * 400, "-1", "x", "", "\u0665"])
@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_a_record_that_lies_of_its_length_costs_no_other_record(tmp_path, length, pack):
    good = pack(record("25"))
    found = pages_in(tmp_path, good + pack(record(length)) + good + pack(record("25", more="last")))
    assert [one.url for one in found if not one.fault] == ["https://a.test/", "https://a.test/", "https://a.test/last"]
    assert sum(bool(one.fault) for one in found) == 1


def test_a_bomb_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(warc_reader, "_MAX_UNPACKED", 2**22)
    bomb = gzip.compress(record(str(2**23), bytes(2**23)))
    found = pages_in(tmp_path, gzip.compress(record("25")) + bomb + gzip.compress(record("25", more="last")))
    assert [one.fault[-26:] for one in found if one.fault] == ["it unpacks to more than 4 MB"[-26:]]
    assert [one.url for one in found if not one.fault] == ["https://a.test/", "https://a.test/last"]


def test_a_body_that_is_a_bomb_is_a_fault_of_its_page_alone(tmp_path):
    body = gzip.compress(bytes(2**25))
    block = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + body
    found = pages_in(tmp_path, gzip.compress(record(str(len(block)), block)) + gzip.compress(record("25")))
    assert [one.fault.partition(": ")[2] for one in found] == ["the body unpacks to more than 20 MB", ""]


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"\x1f\x8b\x08", gzip.compress(b"tea" * 1000, mtime=0), bytes(10_000), b"WARC/1.1\r\n" * 5]
)
def test_a_file_that_is_no_warc_is_named_so(tmp_path, data):
    with pytest.raises(WarcFault, match="it is not a WARC file"):
        pages_in(tmp_path, data)


@pytest.mark.parametrize("place", [(1, 50), (0, 10), (10**9, 10), (0, 10**9)])
def test_a_place_without_a_page_is_a_fault(tmp_path, place):
    pages_in(tmp_path, archive_of(exchange(1)))
    with pytest.raises(WarcFault):
        page_at(RecordPlace(str(tmp_path / "site.warc.gz"), *place))


def test_an_index_names_the_same_places(tmp_path):
    pages = pages_in(tmp_path, archive_of(*map(exchange, range(3))))
    common = {"mime": "text/html", "status": "200", "filename": "site.warc.gz"}
    places = [{"url": one.url, "offset": str(one.place.offset), "length": str(one.place.length)} for one in pages]
    rows = [f"test,a)/{n} 20260102030405 {json.dumps({**common, **place})}" for n, place in enumerate(places)]
    other = rows[0].replace("text/html", "image/png")
    wrong = ["x y {", "x", rows[0].replace("site.warc.gz", "../../etc/passwd"), 'x y {"url": "https://a.test/"}']
    offset = f'"{pages[0].place.offset}"'
    assert offset in rows[0]
    wrong += [rows[0].replace(offset, odd) for odd in ("1e999", "NaN", "9" * 400, str(2**63), '"-1"', "null")]
    wrong += [rows[0].replace("site.warc.gz", odd) for odd in ("a\\u0000b", "\\ud800.warc")]
    wrong += [rows[0].replace("https://a.test/", f"https://a.test/{odd}") for odd in ("\\u0000", "\\udfff")]
    (tmp_path / "index.cdxj").write_text("\n".join([*rows, other, *wrong]))
    found = list(pages_of_index(str(tmp_path / "index.cdxj")))
    assert [one.place for one in found[:3]] == [one.place for one in pages]
    lines = [f"{number}:" for number in range(5, 5 + len(wrong))]
    assert [one.fault.partition(" line ")[2].split()[0] for one in found[3:]] == lines
    lines = [f"a - {one.url} text/html 200 X - - {one.place.length} {one.place.offset} site.warc.gz" for one in pages]
    (tmp_path / "index.cdx.gz").write_bytes(gzip.compress("\n".join([" CDX N b a m s k r M S V g", *lines]).encode()))
    assert [one.place for one in pages_of_index(str(tmp_path / "index.cdx.gz"))] == [one.place for one in pages]


def test_archives_elsewhere_are_read_through_pyarrow(tmp_path):
    pages = pages_in(tmp_path, archive_of(*map(exchange, range(3))))
    url = f"file://{tmp_path}/site.warc.gz"
    assert archive_files(f"{tmp_path}/*.warc.gz,{url}") == [f"{tmp_path}/site.warc.gz", url]
    found = list(pages_of_warc(url))
    assert [one.page for one in found] == [one.page for one in pages]
    assert page_at(found[2].place) == pages[2].page


@pytest.mark.parametrize("name", ["none.warc", "*.nothing", "s4://bucket/x.warc"])
def test_files_that_are_not_there_are_wrong_usage(tmp_path, name):
    with pytest.raises(ConfigError, match=r"no such files|it cannot be read"):
        archive_files(name if "://" in name else str(tmp_path / name))
