"""Writes WARC/1.1 (iipc.github.io/warc-specifications), each record a gzip member of its own.

Written here and not by a library: of those there are, one takes five times the time for the same records (warcio), and
one puts all of them into one gzip member, which nobody can read from the middle (FastWARC 2.0).
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from llmcrawler.core.storage.archives.exchanges import Exchange, Pairs

CONFORMS_TO: Final = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
NOT_MODIFIED: Final = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
# How a body came, where it is written unpacked; Common Crawl's name for that.
AS_IT_CAME: Final = "X-Crawler-"
_FIELDS: Final = "application/warc-fields"
_LEVEL: Final = 6


class Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


class WarcWriter:
    """Writes records to a binary file, one at a time in memory. `is_packed`: as gzip."""

    def __init__(self, out: Sink, *, is_packed: bool = True, new_id: Callable[[], UUID] = uuid4) -> None:
        self._out = out
        self._is_packed = is_packed
        self._new_id = new_id
        self._info_id: str | None = None

    def add_info(self, fields: Pairs, filename: str | None = None) -> None:
        """Write the record that says who made the records behind it, and how."""
        named = (("WARC-Filename", filename),) if filename else ()
        self._info_id = self._add("warcinfo", named, _as_fields((*fields, ("conformsTo", CONFORMS_TO))), kind=_FIELDS)

    def add(self, exchanges: Sequence[Exchange]) -> None:
        """Write the records of one page."""
        for one in exchanges:
            if one.body is not None:
                self._add_exchange(one, one.body)

    def _add_exchange(self, one: Exchange, body: bytes) -> None:
        about = [("WARC-Target-URI", one.url.partition("#")[0])]
        if one.ip_address:
            about.append(("WARC-IP-Address", one.ip_address))
        if one.is_cut:
            about.append(("WARC-Truncated", "length"))
        if one.is_rendered:
            kind = next((value for name, value in one.headers if name.lower() == "content-type"), "text/html")
            answer = self._add("resource", about, body, payload=body, date=one.date, kind=kind)
        elif one.unchanged_since:
            about += [
                ("WARC-Profile", NOT_MODIFIED),
                ("WARC-Refers-To-Target-URI", about[0][1]),
                ("WARC-Refers-To-Date", warc_date(one.unchanged_since)),
            ]
            answer = self._add("revisit", about, _response_block(one, b""), date=one.date, kind=_http("response"))
        else:
            block = _response_block(one, body)
            answer = self._add("response", about, block, payload=body, date=one.date, kind=_http("response"))
        with_answer = [about[0], ("WARC-Concurrent-To", answer)]
        if one.is_rendered:  # what the browser has asked for, and how, is not known
            told = _as_fields((("rendered-by", "a browser"), ("http-status", str(one.status))))
            self._add("metadata", with_answer, told, date=one.date, kind=_FIELDS)
        elif one.method:
            block, payload = _request_block(one), one.request_body
            self._add("request", with_answer, block, payload=payload, date=one.date, kind=_http("request"))

    def _add(  # noqa: PLR0913 - what makes up a record
        self,
        record_type: str,
        about: Iterable[tuple[str, str]],
        block: bytes,
        *,
        kind: str,
        payload: bytes | None = None,
        date: str | None = None,
    ) -> str:
        record_id = f"<urn:uuid:{self._new_id()}>"
        head: list[tuple[str, str]] = [
            ("WARC-Type", record_type),
            ("WARC-Record-ID", record_id),
            ("WARC-Date", warc_date(date)),
            *about,
            *([("WARC-Warcinfo-ID", self._info_id)] if self._info_id else []),
            ("WARC-Block-Digest", _digest(block)),
            *([] if payload is None else [("WARC-Payload-Digest", _digest(payload))]),
            ("Content-Type", kind),
            ("Content-Length", str(len(block))),
        ]
        record = b"".join((b"WARC/1.1\r\n", _as_fields(head), b"\r\n", block, b"\r\n\r\n"))
        if self._is_packed:
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
            record = packer.compress(record) + packer.flush()
        self._out.write(record)
        return record_id


def warc_date(iso: str | None) -> str:
    """Return a date as WARC has it, of one with a zone; without one that of now."""
    date = datetime.now(UTC) if iso is None else datetime.fromisoformat(iso).astimezone(UTC)
    return date.strftime("%Y-%m-%dT%H:%M:%SZ")


def _response_block(one: Exchange, body: bytes) -> bytes:
    """Return an answer with its body. Headers that do not hold for the body as it is written get the name AS_IT_CAME.
    The answer to a conditional request has no body, and its headers are about the earlier one.
    """
    if one.unchanged_since:
        headers = list(one.headers)
    else:
        length = str(len(body))
        not_so = {"transfer-encoding"} if one.is_encoded else {"transfer-encoding", "content-encoding"}
        headers = [
            (f"{AS_IT_CAME}{name}" if name.lower() in not_so | {"content-length"} else name, value)
            for name, value in one.headers
            if name.lower() != "content-length" or value != length
        ]
        headers.append(("Content-Length", length))
    line = f"{one.protocol} {one.status} {_phrase(one.status)}\r\n"
    return line.encode("latin-1") + _as_fields(headers, "latin-1") + b"\r\n" + body


def _request_block(one: Exchange) -> bytes:
    parts = urlsplit(one.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = () if any(name.lower() == "host" for name, _ in one.request_headers) else (("Host", parts.netloc),)
    line = f"{one.method} {target} {one.protocol}\r\n".encode("utf-8", "replace")
    return line + _as_fields((*host, *one.request_headers), "latin-1") + b"\r\n" + one.request_body


def _as_fields(pairs: Iterable[tuple[str, str]], encoding: str = "utf-8") -> bytes:
    """Return headers as lines; what would begin another line is a space."""
    return "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in pairs).encode(encoding, "replace")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _http(kind: str) -> str:
    return f"application/http; msgtype={kind}"


def _digest(data: bytes) -> str:
    """Return the SHA-1 of data as all tools for WARC know it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode("ascii")
