"""Finds the pages of WARC files, and reads each from where it stands, as the response that it was."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any, BinaryIO, Final, NamedTuple, cast

from llmcrawler.core.storage.archives.warc_reader import WarcFault, WarcRecord, read_record, read_records
from llmcrawler.core.storage.ledger import StoredBody


def open_archive(file: str) -> BinaryIO:
    """Open a file by its path or a url that pyarrow knows (s3://, gs://, hdfs://). Raises OSError."""
    if "://" not in file:
        return Path(file).open("rb")
    scheme, _, rest = file.partition("://")
    bucket, _, path = rest.partition("/")
    try:
        system, root = _file_system(f"{scheme}://{bucket}/")
        return cast(BinaryIO, system.open_input_file(f"{root.rstrip('/')}/{path}"))
    except (ValueError, NotImplementedError) as error:  # pyarrow's own for a url that it does not know
        raise OSError(str(error)) from error


@lru_cache(maxsize=16)
def _file_system(url: str) -> tuple[Any, str]:
    from pyarrow import fs  # only those who read archives elsewhere have it

    return cast(tuple[Any, str], fs.FileSystem.from_uri(url))


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# A body is unpacked up to this, and a record read up to somewhat more; it is the default of DOWNLOAD_MAXSIZE.
MAX_BODY_BYTES: Final = 20 * 2**20
_MAX_BLOCK: Final = MAX_BODY_BYTES + 2**20
_MAX_CODINGS: Final = 5
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
    if (url := _url_of(record)) is None:
        raise WarcFault("the record is not a response to a request")
    return _page_of(url, record)


def may_be_page(status: int, content_type: str | None) -> bool:
    kind = (content_type or "").partition(";")[0].strip().lower()
    return not 300 <= status < 400 and (not kind or kind in ("text/html", "application/xhtml+xml"))


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
        head, _, body = record.block.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/") or not rest[:3].isdigit():
            raise WarcFault("it is not an HTTP response")
        pairs = (line.decode("latin-1").partition(":") for line in lines)
        status, headers = (
            int(rest[:3]),
            [(name.strip(), value.strip()) for name, mark, value in pairs if mark and name.strip()],
        )
    if not record.is_whole:
        raise WarcFault(f"the record is larger than {_MAX_BLOCK // 2**20} MB")
    if may_be_page(status, next((value for name, value in headers if name.lower() == "content-type"), None)):
        body = _unpacked(body, {name.lower(): value for name, value in headers})
    kept = tuple((name, value) for name, value in headers if name.lower() not in _OWN_HEADERS)
    try:
        date = datetime.fromisoformat(record.fields.get("warc-date", ""))
        fetched_at = (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")
    except ValueError:
        fetched_at = ""
    return StoredBody(url, status, kept, body, fetched_at, 0.0)


def _unpacked(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body as a browser has it, of one that was archived as it went over the wire. Raises WarcFault."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _joined(body)
    codings = [one.strip().lower() for one in headers.get("content-encoding", "").split(",") if one.strip()]
    if len(codings) > _MAX_CODINGS:
        raise WarcFault(f"the body is encoded more than {_MAX_CODINGS} times")
    for coding in reversed(codings):
        try:
            body = _decoded(body, coding)
        except WarcFault:
            raise
        except ImportError as error:
            raise WarcFault(f"the body is encoded as {coding}: pip install {error.name}") from error
        except Exception as error:  # brotli and zstd have errors of their own
            raise WarcFault(f"the body cannot be unpacked ({coding}): {error}") from error
        if len(body) > MAX_BODY_BYTES:
            raise WarcFault(f"the body unpacks to more than {MAX_BODY_BYTES // 2**20} MB")
    return body


def _decoded(body: bytes, coding: str) -> bytes:
    """Unpack a body up to one byte more than it may have."""
    most = MAX_BODY_BYTES + 1
    match coding:
        case "identity":
            return body
        case "gzip" | "x-gzip" | "deflate":
            try:
                return zlib.decompressobj(47).decompress(body, most)
            except zlib.error:  # what some servers call deflate
                return zlib.decompressobj(-15).decompress(body, most)
        case "zstd":
            return zstd.ZstdDecompressor().decompress(body, most)
        case "br":
            import brotli  # not all have it

            return bytes(brotli.Decompressor().process(body, output_buffer_limit=most))
    raise WarcFault(f"the body is encoded as {coding[:40]!r}, which is not known here")


def _joined(body: bytes) -> bytes:
    """Return a body without its chunks' marks; one that has none, as some archives do, as it is."""
    pieces: list[bytes] = []
    at = 0
    while at < len(body):
        end = body.find(b"\r\n", at, at + 1_000)
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


INDEXES: Final = (".cdx", ".cdxj", ".cdx.gz", ".cdxj.gz")
_MAX_LINE: Final = 2**20
_MAX_OFFSET: Final = 2**62  # files have 64-bit offsets
_SHOWN_DIGITS: Final = 20
# The letters of a CDX file's columns, in its first line: iipc.github.io/warc-specifications/specifications/cdx-format
_COLUMNS: Final = {"a": "url", "m": "mime", "s": "status", "S": "length", "V": "offset", "g": "filename"}


def pages_of_index(file: str, root: str = "") -> Iterator[ArchivedPage]:
    """Yield the pages that an index names, without reading them. Its files are those below `root`, a folder or a url;
    without one they are beside the index. Raises WarcFault where the index cannot be read.
    """
    root, columns = root or dirname(file), list[str]()
    for number, words in _lines(file):
        if words.startswith("CDX "):
            columns = [_COLUMNS.get(letter, letter) for letter in words.split()[1:]]
        elif words and (columns or not words.startswith("!")):
            try:
                entry = dict(zip(columns, words.split(), strict=False)) if columns else _cdxj_entry(words)
                if (url := _url_of_page(entry)) is not None:
                    yield ArchivedPage(url, _place_of(entry, root))
            except ValueError as fault:
                yield ArchivedPage(file, None, fault=f"{file} line {number:,}: {fault}")


def _lines(file: str) -> Iterator[tuple[int, str]]:
    with open_archive(file) as opened:
        raw: Any = opened
        text = gzip.GzipFile(fileobj=raw) if file.endswith(".gz") else io.BufferedReader(raw)
        try:
            for number, line in enumerate(iter(lambda: text.readline(_MAX_LINE), b""), 1):
                yield number, line.decode("utf-8", "replace").strip()
        except (OSError, EOFError, zlib.error) as error:
            raise WarcFault(f"it cannot be read any further: {error}") from error


def _url_of_page(entry: Mapping[str, Any]) -> str | None:
    """Return the url of a page; None for a capture of anything else. Raises ValueError where it is no url."""
    if "url" not in entry:
        raise ValueError("it names no url")
    if not _is_text(entry["url"]):
        raise ValueError("its url has characters that no url has")
    url, status, mime = str(entry["url"]), str(entry.get("status", "-")), str(entry.get("mime", "-"))
    code = int(status) if status.isdecimal() and len(status) == 3 else 200
    is_page = mime != "warc/revisit" and may_be_page(code, None if mime in ("-", "unk") else mime)
    return url if is_page and url.startswith(("http:", "https:")) else None


def _is_text(value: object) -> bool:
    """Return whether a value can be written as UTF-8, without control characters: JSON may escape anything."""
    return str(value).isprintable()


def _cdxj_entry(words: str) -> dict[str, Any]:
    text = words if words.startswith("{") else words.split(None, 2)[-1]
    if not text.startswith("{"):
        raise ValueError(
            "it is neither CDXJ (a key, a date and a JSON object) nor CDX (a first line names its columns)"
        )
    try:
        entry: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    return entry


def _place_of(entry: Mapping[str, Any], root: str) -> RecordPlace:
    """Return where the record of an entry stands. Raises ValueError where it does not say."""
    try:
        offset, length, name = int(entry["offset"]), int(entry["length"]), str(entry["filename"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:  # of infinity, say
        raise ValueError("it lacks the offset, length and filename of its record") from error
    is_inside = "://" not in name and not normpath(name).startswith(("/", "..")) and _is_text(name)
    if not (is_inside and 0 <= offset < _MAX_OFFSET and 0 < length < _MAX_OFFSET):
        raise ValueError(
            f"its record cannot be at {name[:200]!r}, {str(offset)[:_SHOWN_DIGITS]}, {str(length)[:_SHOWN_DIGITS]}"
        )
    return RecordPlace(join(root, normpath(name)), offset, length)
