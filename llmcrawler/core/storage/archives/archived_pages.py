"""Finds the pages of WARC files, and reads each from where it stands, as the response that it was."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from llmcrawler.core.storage.archives.archive_files import open_archive
from llmcrawler.core.storage.archives.warc_reader import WarcFault, WarcRecord, read_record, read_records
from llmcrawler.core.storage.ledger import StoredBody

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# A body is unpacked up to this, and a record read up to somewhat more; it is the default of DOWNLOAD_MAXSIZE.
MAX_BODY_BYTES: Final = 20 * 2**20
_MAX_BLOCK: Final = MAX_BODY_BYTES + 2**20
_MAX_CODINGS: Final = 5
_MAX_CHUNK_LINE: Final = 1_000
_PAGE_KINDS: Final = ("text/html", "application/xhtml+xml")
_OWN_HEADERS: Final = frozenset(("content-encoding", "transfer-encoding", "content-length"))


class RecordPlace(NamedTuple):
    """The bytes of one record in a file, by its path or url."""

    file: str
    offset: int
    length: int


class ArchivedPage(NamedTuple):
    """A record that may be a page: its url and where it stands; or the `fault` of what should be one. `page` is there
    where the file was read for it; `place` is None for a record that cannot be read by itself.
    """

    url: str
    place: RecordPlace | None
    page: StoredBody | None = None
    fault: str = ""


def pages_of_warc(file: str, start: int = 0, end: int | None = None) -> Iterator[ArchivedPage]:
    """Yield the pages of a WARC file in their order: what was answered and is HTML, whatever its status, but for
    redirects; with offsets, those that begin between these. Raises WarcFault where the file is none.
    """
    with open_archive(file) as opened:
        for record in read_records(opened, _MAX_BLOCK, start, end):
            if record.fault:
                yield ArchivedPage(file, None, fault=f"{file} at byte {record.offset:,}: {record.fault}")
            elif (url := _url_of(record)) is not None:
                place = None if record.length is None else RecordPlace(file, record.offset, record.length)
                try:
                    page = _page_of(url, record)
                except WarcFault as fault:
                    yield ArchivedPage(url, None, fault=f"{file} at byte {record.offset:,}: {fault}")
                    continue
                if may_be_page(page.status, page.header("content-type")):
                    yield ArchivedPage(url, place, page)


def page_at(place: RecordPlace) -> StoredBody:
    """Read a page. Raises WarcFault where there is none, OSError where the file cannot be read."""
    with open_archive(place.file) as opened:
        record = read_record(opened, place.offset, place.length, _MAX_BLOCK)
    url = _url_of(record)
    if url is None:
        raise WarcFault("the record is no answer to a request")
    return _page_of(url, record)


def may_be_page(status: int, content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return not 300 <= status < 400 and (not kind or kind in _PAGE_KINDS)


def _url_of(record: WarcRecord) -> str | None:
    """Return what was asked for, where the record has the answer."""
    url = record.fields.get("warc-target-uri", "").removeprefix("<").removesuffix(">")
    kind, content_type = record.fields.get("warc-type"), record.fields.get("content-type", "").lower()
    is_answer = kind == "resource" or (kind == "response" and content_type.startswith("application/http"))
    return url if is_answer and url.lower().startswith(("http:", "https:")) else None


def _page_of(url: str, record: WarcRecord) -> StoredBody:
    """Return a record's answer with its body unpacked. Raises WarcFault where it is no HTTP, or too large."""
    if record.fields["warc-type"] == "resource":  # such as what a browser has made of a page
        status, headers, body = 200, [("Content-Type", record.fields.get("content-type", ""))], record.block
    else:
        status, headers, body = _parsed(record.block)
    if not record.is_whole:
        raise WarcFault(f"the record is larger than {_MAX_BLOCK // 2**20} MB")
    if may_be_page(status, next((value for name, value in headers if name.lower() == "content-type"), None)):
        body = _unpacked(body, {name.lower(): value for name, value in headers})
    kept = tuple((name, value) for name, value in headers if name.lower() not in _OWN_HEADERS)
    return StoredBody(url, status, kept, body, _date_of(record), 0.0)


def _date_of(record: WarcRecord) -> str:
    """Return when it was fetched, as lines have it; "" where the record does not say."""
    try:
        date = datetime.fromisoformat(record.fields.get("warc-date", ""))
    except ValueError:
        return ""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")


def _parsed(block: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
    head, _, body = block.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    version, _, rest = lines[0].partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/") or not status.isdigit():
        raise WarcFault("it is no HTTP response")
    pairs = (line.decode("latin-1").partition(":") for line in lines[1:])
    return int(status), [(name.strip(), value.strip()) for name, mark, value in pairs if mark and name.strip()], body


def _unpacked(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body as a browser has it, of one that was archived as it went over the wire. Raises WarcFault."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    codings = [one.strip().lower() for one in headers.get("content-encoding", "").split(",") if one.strip()]
    if len(codings) > _MAX_CODINGS:
        raise WarcFault(f"the body is encoded more than {_MAX_CODINGS} times")
    for coding in reversed(codings):
        body = _decoded(body, coding)
    return body


def _decoded(body: bytes, coding: str) -> bytes:
    try:
        decoded = _UNPACKERS[coding](body)
    except KeyError:
        raise WarcFault(f"the body is encoded as {coding[:40]!r}, which nobody here knows") from None
    except ImportError as error:
        raise WarcFault(f"the body is encoded as {coding}: pip install {error.name}") from error
    except Exception as error:  # brotli and zstd have errors of their own
        raise WarcFault(f"the body cannot be unpacked ({coding}): {error}") from error
    if len(decoded) > MAX_BODY_BYTES:
        raise WarcFault(f"the body unpacks to more than {MAX_BODY_BYTES // 2**20} MB")
    return decoded


def _inflated(body: bytes) -> bytes:
    try:
        return zlib.decompressobj(47).decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error:  # what some servers call deflate
        return zlib.decompressobj(-15).decompress(body, MAX_BODY_BYTES + 1)


def _of_zstd(body: bytes) -> bytes:
    return zstd.ZstdDecompressor().decompress(body, MAX_BODY_BYTES + 1)


def _of_brotli(body: bytes) -> bytes:
    import brotli  # noqa: PLC0415 - not all have it

    return bytes(brotli.Decompressor().process(body, output_buffer_limit=MAX_BODY_BYTES + 1))


_UNPACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "identity": lambda body: body,
    **dict.fromkeys(("gzip", "x-gzip", "deflate"), _inflated),
    "zstd": _of_zstd,
    "br": _of_brotli,
}


def _joined(body: bytes) -> bytes:
    """Return a body without its chunks' marks; one that has none, as some archives do, as it is."""
    pieces: list[bytes] = []
    at = 0
    while at < len(body):
        end = body.find(b"\r\n", at, at + _MAX_CHUNK_LINE)
        try:
            size = int(body[at:end].partition(b";")[0], 16) if end > 0 else -1
        except ValueError:
            size = -1
        if size < 0:
            return b"".join(pieces) if pieces else body
        if size == 0:
            break
        pieces.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(pieces)
