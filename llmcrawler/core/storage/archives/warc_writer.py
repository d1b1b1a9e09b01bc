"""Writes WARC/1.1 (iipc.github.io/warc-specifications), each record a gzip member of its own.

Written here and not by a library: of those there are, one takes five times the time for the same records (warcio), and
one puts all of them into one gzip member, which nobody can read from the middle (FastWARC 2.0).
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from http.client import responses
from typing import IO, Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from llmcrawler.core.storage.body_packer import pack, unpack
from llmcrawler.core.storage.database import Database
from llmcrawler.core.storage.job_file import JobConnection, checksum
from llmcrawler.core.storage.ledger import id_of, read_page

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. `body` is None while it stands elsewhere: in the response, in the job's ledger.

    `date` is ISO 8601 in UTC. `is_rendered`: the body is what a browser has made of the page. `is_cut`: it is only the
    beginning. `is_encoded`: it is still as Content-Encoding says. `unchanged_since`: the answer is that the page is as
    it was at that date.
    """

    url: str
    method: str
    request_headers: Pairs
    request_body: bytes
    status: int
    headers: Pairs
    date: str
    body: bytes | None = None
    protocol: str = "HTTP/1.1"
    ip_address: str | None = None
    is_rendered: bool = False
    is_cut: bool = False
    is_encoded: bool = False
    unchanged_since: str | None = None

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status < 400 and self.status != 304

    def to_json(self) -> dict[str, Any]:
        bodies = {"request_body": _text(self.request_body), "body": None if self.body is None else _text(self.body)}
        return {**asdict(self), **bodies}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        pairs = {name: tuple((one, other) for one, other in value[name]) for name in ("request_headers", "headers")}
        body = None if value["body"] is None else base64.b85decode(value["body"])
        return cls(**{**value, **pairs, "request_body": base64.b85decode(value["request_body"]), "body": body})


class ExchangeStore:
    """The exchanges of one job's pages, in its file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, url: str, exchanges: Sequence[Exchange]) -> None:
        """Store the exchanges of a page, without waiting. None of it: the page's content is not to be taken."""
        packed = pack(json.dumps([one.to_json() for one in exchanges]))

        def write(connection: JobConnection) -> None:
            number = id_of(connection, url)
            if number is not None:
                row = (number, packed, checksum(number, packed))
                connection.execute("INSERT OR REPLACE INTO exchanges VALUES (?, ?, ?)", row)

        self._database.post(write)

    async def of_url(self, url: str) -> tuple[Exchange, ...] | None:
        """Return the exchanges of a page, with the body of its last answer; None where nothing of it is kept."""
        return await self._database.run(lambda connection: _read(connection, url))

    async def of_line(self, seq: int) -> tuple[Exchange, ...] | None:
        """Return those of the page whose line has this place in the feed."""
        query = "SELECT u.url FROM pages p JOIN urls u ON u.id = p.url WHERE p.seq = ?"

        def read(connection: JobConnection) -> tuple[Exchange, ...] | None:
            row = connection.execute(query, (seq,)).fetchone()
            return None if row is None else _read(connection, row[0])

        return await self._database.run(read)


def _read(connection: JobConnection, url: str) -> tuple[Exchange, ...] | None:
    row = connection.execute("SELECT packed FROM exchanges WHERE url = ?", (id_of(connection, url),)).fetchone()
    kept = None if row is None else tuple(Exchange.from_json(one) for one in json.loads(unpack(row[0])))
    if kept == () or (kept is not None and kept[-1].body is not None):
        return kept
    stored = read_page(connection, url).body
    if kept is None:
        if stored is None:
            return None
        # What is known of a page whose request was not kept.
        return (Exchange(stored.url, "", (), b"", stored.status, stored.headers, stored.fetched_at, stored.body),)
    return (*kept[:-1], replace(kept[-1], body=None if stored is None else stored.body))


def _text(data: bytes) -> str:
    return base64.b85encode(data).decode("ascii")


CONFORMS_TO: Final = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
NOT_MODIFIED: Final = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
# How a body came, where it is written unpacked; Common Crawl's name for that.
AS_IT_CAME: Final = "X-Crawler-"
_FIELDS: Final = "application/warc-fields"
_RESPONSE: Final = "application/http; msgtype=response"


class WarcWriter:
    """Writes records to a binary file, one at a time in memory. `is_packed`: as gzip."""

    def __init__(self, out: IO[bytes], *, is_packed: bool = True, new_id: Callable[[], UUID] = uuid4) -> None:
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
        target = ("WARC-Target-URI", one.url.partition("#")[0])
        about = [target]
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
                ("WARC-Refers-To-Target-URI", target[1]),
                ("WARC-Refers-To-Date", _warc_date(one.unchanged_since)),
            ]
            answer = self._add("revisit", about, _response_block(one, b""), date=one.date, kind=_RESPONSE)
        else:
            answer = self._add(
                "response", about, _response_block(one, body), payload=body, date=one.date, kind=_RESPONSE
            )
        with_answer = [target, ("WARC-Concurrent-To", answer)]
        if one.is_rendered:  # what the browser has asked for, and how, is not known
            said = _as_fields((("rendered-by", "a browser"), ("http-status", str(one.status))))
            self._add("metadata", with_answer, said, date=one.date, kind=_FIELDS)
        elif one.method:
            parts, payload = urlsplit(one.url), one.request_body
            headers = one.request_headers
            if not any(name.lower() == "host" for name, _ in headers):
                headers = (("Host", parts.netloc), *headers)
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            line = f"{one.method} {path} {one.protocol}\r\n".encode("utf-8", "replace")
            block = line + _as_fields(headers, "latin-1") + b"\r\n" + payload
            kind = "application/http; msgtype=request"
            self._add("request", with_answer, block, payload=payload, date=one.date, kind=kind)

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
        head = [("WARC-Type", record_type), ("WARC-Record-ID", record_id), ("WARC-Date", _warc_date(date)), *about]
        if self._info_id:
            head.append(("WARC-Warcinfo-ID", self._info_id))
        head.append(("WARC-Block-Digest", _digest(block)))
        if payload is not None:
            head.append(("WARC-Payload-Digest", _digest(payload)))
        head += [("Content-Type", kind), ("Content-Length", str(len(block)))]
        record = b"".join((b"WARC/1.1\r\n", _as_fields(head), b"\r\n", block, b"\r\n\r\n"))
        if self._is_packed:
            packer = zlib.compressobj(6, zlib.DEFLATED, 31)
            record = packer.compress(record) + packer.flush()
        self._out.write(record)
        return record_id


def _warc_date(iso: str | None) -> str:
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
    line = f"{one.protocol} {one.status} {responses.get(one.status, '')}\r\n"
    return line.encode("latin-1") + _as_fields(headers, "latin-1") + b"\r\n" + body


def _as_fields(pairs: Iterable[tuple[str, str]], encoding: str = "utf-8") -> bytes:
    """Return headers as lines; what would begin another line is a space."""
    return "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in pairs).encode(encoding, "replace")


def _digest(data: bytes) -> str:
    """Return the SHA-1 of data as all tools for WARC know it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode("ascii")
