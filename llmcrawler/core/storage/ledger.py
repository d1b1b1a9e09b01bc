"""The ledger of a job: of every url its feed line, the runs of its stages, and the body that it was read from."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import urlsplit

from llmcrawler.core.storage.body_packer import PackingError, pack, unpack
from llmcrawler.core.storage.database import Database
from llmcrawler.core.storage.job_file import (
    DUPLICATE,
    REQUEUED_RANK,
    JobConnection,
    State,
    checksum,
    read_value,
    url_key,
    write_value,
)
from llmcrawler.core.storage.rights_marks import write_marks
from llmcrawler.items import StageRun

STAGES: Final = ("fetch", "content", "classify", "record")  # and then the user's own

# Names of values in the job table: what its runs have spent on the model, and the plan (reporting/planning/).
SPENT: Final = "llm_spent"
PLAN: Final = "plan"

_LINES_AT_ONCE = 200

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A response, unpacked; `body` is None where it is not kept. `fetched_at` is ISO 8601. `change` compares it with
    the response before (core/understanding/site_reader.py), in a crawl that refreshes.
    """

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    fetched_at: str
    latency_seconds: float
    change: str | None = None
    digest: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page that is still on its way, as earlier runs have left it."""

    body: StoredBody | None
    line: dict[str, Any] | None
    stages: dict[str, StageRun]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a page. `line` is None for a page that a pipeline dropped; `is_dead`: it could not be fetched."""

    line: Mapping[str, Any] | None
    stages: Mapping[str, StageRun]
    is_dead: bool = False

    @property
    def is_duplicate(self) -> bool:
        return self.line is not None and self.line.get("duplicate_of") is not None


class Ledger:
    """Reads and writes the pages of a crawl. `keep_bodies`: also after what was learned of them is saved."""

    def __init__(self, database: Database, *, keep_bodies: bool = True) -> None:
        self._database = database
        self._keep_bodies = keep_bodies

    def keep_body(self, url: str, body: StoredBody, fetch: StageRun | None = None) -> None:
        """Store a response and its fetch, without waiting: safe from the next work on that is awaited."""

        def keep(connection: JobConnection) -> None:
            if (url_id := id_of(connection, url)) is None:
                return
            content = body.body or b""
            row = (
                url_id,
                body.url if body.url != url else None,
                body.status,
                json.dumps(body.headers),
                body_hash(content),
                body.fetched_at,
            )
            unchecked = (
                body.latency_seconds,
                body.change,
                read_value(connection, "generation", 0),
                # Compressed on the database's thread, which lets others run meanwhile.
                connection.packer.pack(url_id, urlsplit(body.url).netloc, content),
            )
            query = "INSERT OR REPLACE INTO bodies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            connection.execute(query, (*row, checksum(*row), *unchecked))
            if fetch is not None:
                _write_stages(connection, url_id, {"fetch": fetch})

        self._database.post(keep)

    def keep_progress(self, url: str, line: Mapping[str, Any], stages: Mapping[str, StageRun]) -> None:
        """Store the line and stages so far of a page that is still on its way, without waiting."""
        text, runs = json.dumps(line, ensure_ascii=False), dict(stages)
        query = (
            "INSERT INTO pages (url, line, crc) VALUES (?, ?, ?)"
            " ON CONFLICT (url) DO UPDATE SET line = excluded.line, crc = excluded.crc"
        )

        def keep(connection: JobConnection) -> None:
            if (url_id := id_of(connection, url)) is not None:  # else a page that the user's own code has made
                packed = pack(text)
                connection.execute(query, (url_id, packed, checksum(url_id, packed)))
                _write_stages(connection, url_id, runs)

        self._database.post(keep)

    async def keep_stage(self, url: str, name: str, run: StageRun) -> None:
        """Store one run of a stage so that it outlasts the end of this process."""

        def keep(connection: JobConnection) -> None:
            if (url_id := id_of(connection, url)) is not None:
                _write_stages(connection, url_id, {name: run})

        await self._database.run(keep)

    async def note_unchanged(self, url: str) -> None:
        """Mark the stored body of an earlier generation as the body of this one too."""
        query = "UPDATE bodies SET generation = ?, change = 'unchanged' WHERE url = ?"
        await self._database.run(lambda to: to.execute(query, (read_value(to, "generation", 0), id_of(to, url))))

    async def forget_body(self, url: str) -> None:
        """Delete the stored response of a page."""
        query = "DELETE FROM bodies WHERE url = ?"
        await self._database.run(lambda connection: connection.execute(query, (id_of(connection, url),)))

    async def bodies(self, limit: int) -> list[tuple[str, StoredBody]]:
        """Return up to `limit` bodies of pages from all over the job, each with its url."""
        return await self._database.run(lambda connection: read_bodies(connection, limit))

    async def page(self, url: str) -> StoredPage:
        return await self._database.run(lambda connection: read_page(connection, url))

    async def last_seq(self) -> int:
        return await self._database.run(lambda connection: int(connection.execute(_LAST_SEQ).fetchone()[0]))

    async def tried_count(self) -> int:
        """Count the pages that ended after a fetch; a map has lines without one."""
        query = "SELECT count(*) FROM pages WHERE seq IS NOT NULL AND (status IS NOT NULL OR error_kind IS NOT NULL)"
        return await self._database.run(lambda connection: int(connection.execute(query).fetchone()[0]))

    async def note_learned(self, seq: int) -> None:
        """Note that what was learned of the pages up to `seq` is saved."""
        drop = "UPDATE bodies SET body = NULL WHERE url IN (SELECT url FROM pages WHERE seq <= ?)"

        def note(connection: JobConnection) -> None:
            write_value(connection, "learned_seq", seq)
            if not self._keep_bodies:
                connection.execute(drop, (seq,))

        await self._database.run(note)

    async def lines(self, after: int, until: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the next lines of the feed, each with its seq, which is in (after, until]."""
        return await self._database.run(lambda connection: read_lines(connection, after, until, _LINES_AT_ONCE))

    async def keep(self, spent: Mapping[str, float]) -> None:
        """Store what the crawl has spent on the model over all its runs; it outlasts the end of this process."""
        await self._database.run(lambda connection: write_value(connection, SPENT, dict(spent)))

    def note(self, spent: Mapping[str, float]) -> None:
        """Store what the crawl has spent on the model, without waiting."""
        self._database.post(lambda connection: write_value(connection, SPENT, dict(spent)))


def write_outcome(connection: JobConnection, url_id: int, outcome: Outcome) -> None:
    """Write the end of a page; the caller sets the state of its url in the same transaction."""
    line = outcome.line or {}
    error, status = line.get("error") or {}, line.get("status")
    packed = None if outcome.line is None else pack(json.dumps(outcome.line, ensure_ascii=False))
    row = (
        url_id,
        packed,
        checksum(url_id, packed),
        status if isinstance(status, int) else None,
        DUPLICATE if outcome.is_duplicate else line.get("page_type"),
        *(error.get(name) for name in ("stage", "kind", "message")),
        time.time(),
    )
    connection.execute(f"INSERT OR REPLACE INTO pages VALUES (?, ?, ?, 1 + ({_LAST_SEQ}), ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - a constant
    write_marks(connection, url_id, line)
    _write_stages(connection, url_id, outcome.stages)


def read_lines(connection: JobConnection, after: int, until: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
    rows = connection.execute(
        "SELECT seq, url, line, crc FROM pages WHERE seq > ? AND seq <= ? AND line IS NOT NULL ORDER BY seq LIMIT ?",
        (after, until, limit),
    )
    return [(seq, line_of_row(connection, *row)) for seq, *row in rows]


def line_of_row(connection: JobConnection, url_id: int, packed: bytes, crc: int) -> dict[str, Any]:
    """Return a line of `pages` (url, line, crc). Raises ConfigError where its checksum is wrong."""
    if checksum(url_id, packed) != crc:
        raise connection.damage(f"the checksum of line {url_id} is wrong")
    line: dict[str, Any] = json.loads(unpack(packed))
    return line


def read_page(connection: JobConnection, url: str) -> StoredPage:
    url_id = id_of(connection, url)
    query = "SELECT url, line, crc FROM pages WHERE url = ? AND line IS NOT NULL"
    line = connection.execute(query, (url_id,)).fetchone()
    body = connection.execute(f"SELECT {BODY_COLUMNS} FROM bodies WHERE url = ?", (url_id,)).fetchone()  # noqa: S608 - names of columns
    query = "SELECT stage, status, error, attempts, started, seconds FROM stages WHERE url = ?"
    return StoredPage(
        body=None if body is None else body_of_row(connection, url, body),
        line=line_of_row(connection, *line) if line else None,
        stages={stage: StageRun(*run) for stage, *run in connection.execute(query, (url_id,))},
    )


def read_bodies(connection: JobConnection, limit: int) -> list[tuple[str, StoredBody]]:
    (count,) = connection.execute("SELECT count(*) FROM bodies WHERE body IS NOT NULL").fetchone()
    # Multiplied by a prime, the ids of neighbours come apart.
    rows = connection.execute(
        f"SELECT u.url, {BODY_COLUMNS} FROM bodies b JOIN urls u ON u.id = b.url"  # noqa: S608 - names of columns
        " WHERE b.body IS NOT NULL AND (b.url * 7919) % ? < ? LIMIT ?",
        (max(1, count), 2 * limit, limit),
    )
    found = [(url, body_of_row(connection, url, body)) for url, *body in rows.fetchall()]
    return [(url, body) for url, body in found if body is not None]


def id_of(connection: JobConnection, url: str) -> int | None:
    return connection.keys.find(url_key(url))


def return_to_queue(connection: JobConnection, url_ids: Sequence[int], forget_stages: Iterable[str] = ()) -> None:
    """Queue ended pages once more, before all others. Their lines and bodies stay; `forget_stages` run again."""
    rows = [(number,) for number in url_ids]
    back = f"UPDATE urls SET attempts = 0, rank = {REQUEUED_RANK}, state = {State.QUEUED:d} WHERE id = ?"  # noqa: S608 - numbers of ours
    connection.executemany(back, rows)
    connection.executemany("UPDATE pages SET seq = NULL WHERE url = ?", rows)
    connection.executemany("DELETE FROM marks WHERE url = ?", rows)
    for stage in forget_stages:
        connection.executemany("DELETE FROM stages WHERE url = ? AND stage = ?", [(n, stage) for n in url_ids])


_LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM pages"
BODY_COLUMNS: Final = "final_url, status, headers, body, fetched_at, latency, change, body_hash"


def body_hash(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


def body_of_row(connection: JobConnection, url: str, row: Sequence[Any]) -> StoredBody | None:
    """Return the response; None where it is damaged or its dictionary is lost, so that the page is fetched again."""
    final_url, status, headers, packed, fetched_at, latency, change, digest = row
    pairs = tuple((name, value) for name, value in json.loads(headers))
    try:
        body = None if packed is None else connection.packer.unpack(packed)
    except PackingError:
        body = None
    if packed is not None and (body is None or body_hash(body) != digest):
        logger.warning("The stored page of %s is damaged, and is not used", url)
        return None
    return StoredBody(final_url or url, status, pairs, body, fetched_at, latency, change, digest)


def _write_stages(connection: JobConnection, url_id: int, stages: Mapping[str, StageRun]) -> None:
    if stages:  # all in one statement: each of them gives way to the event loop
        rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(stages))
        values: list[Any] = []
        for name, run in stages.items():
            values += (url_id, name, run.status, run.error, run.attempts, run.started, run.seconds)
        connection.execute(f"INSERT OR REPLACE INTO stages VALUES {rows}", values)  # noqa: S608 - question marks
