"""What was asked and answered for a page: redirects, then the page. A job keeps it for the feeds of later runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from llmcrawler.core.storage.body_packer import pack, unpack
from llmcrawler.core.storage.database import Database
from llmcrawler.core.storage.keys import JobConnection
from llmcrawler.core.storage.ledger import StoredBody, id_of, read_page

Pairs = tuple[tuple[str, str], ...]

# Beside the file's own tables, in jobs whose feeds ask for it; a release that does not know it leaves it alone.
_TABLE: Final = "CREATE TABLE IF NOT EXISTS exchanges (url INTEGER PRIMARY KEY, packed BLOB NOT NULL)"


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


def exchange_of_stored(body: StoredBody) -> Exchange:
    """Return what is known of a page whose request was not kept."""
    return Exchange(body.url, "", (), b"", body.status, body.headers, body.fetched_at, body.body)


class ExchangeStore:
    """The exchanges of one job's pages, in its file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.post(lambda connection: connection.execute(_TABLE))

    def keep(self, url: str, exchanges: Sequence[Exchange]) -> None:
        """Store what was asked and answered for a page, in place of what there was, without waiting. None of it: the
        page's content is not to be taken.
        """
        packed = pack(json.dumps([one.to_json() for one in exchanges]))

        def write(connection: JobConnection) -> None:
            number = id_of(connection, url)
            if number is not None:
                connection.execute("INSERT OR REPLACE INTO exchanges VALUES (?, ?)", (number, packed))

        self._database.post(write)

    async def of_url(self, url: str) -> tuple[Exchange, ...] | None:
        """Return the exchanges of a page, with the body of its last answer; None where nothing of it is kept."""
        return await self._database.run(lambda connection: _read(connection, url))

    async def of_line(self, seq: int) -> tuple[Exchange, ...] | None:
        """Return those of the page whose line has this place in the feed."""

        def read(connection: JobConnection) -> tuple[Exchange, ...] | None:
            query = "SELECT u.url FROM pages p JOIN urls u ON u.id = p.url WHERE p.seq = ?"
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
        return None if stored is None else (exchange_of_stored(stored),)
    return (*kept[:-1], replace(kept[-1], body=None if stored is None else stored.body))


def _text(data: bytes) -> str:
    return base64.b85encode(data).decode("ascii")
