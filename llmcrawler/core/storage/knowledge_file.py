"""Keeps what sites of one platform have taught for all crawls of a machine that name the same file."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from llmcrawler.core.storage.shared_file import SharedFile

_APPLICATION: Final = 0x6C6C6D6B
_MAX_BYTES: Final = 4 * 2**20  # of one part, unpacked
_MAX_PARTS: Final = 5_000  # of the file; of more, those not used for longest go
_MAX_SITES: Final = 100_000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS parts (
    platform TEXT NOT NULL, task TEXT NOT NULL, part TEXT NOT NULL, value BLOB NOT NULL, used_at REAL NOT NULL,
    PRIMARY KEY (platform, task, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sites (
    id INTEGER PRIMARY KEY, platform TEXT NOT NULL, task TEXT NOT NULL, site TEXT NOT NULL, number INTEGER NOT NULL,
    UNIQUE (platform, task, site)
);
"""

Part = list[dict[str, Any]]


class KnowledgeFile:
    """Parts are lists of plain JSON objects, by platform, task and name. All methods raise StorageFailed."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._file = SharedFile(path, _SCHEMA, setting="KNOWLEDGE_FILE", application=_APPLICATION)
        self._wall_clock = wall_clock

    def check(self) -> None:
        """Raise ConfigError where a crawl could not use the file."""
        self._file.check()

    def close(self) -> None:
        self._file.close()

    async def number_of(self, platform: str, task: str, site: str) -> int:
        """Return which of the platform's sites it is, from 1; a site keeps its number."""

        def number(connection: sqlite3.Connection) -> int:
            key = (platform, task, site)
            row = connection.execute(
                "SELECT number FROM sites WHERE platform = ? AND task = ? AND site = ?", key
            ).fetchone()
            if row is not None:
                return int(row[0])
            last = connection.execute("SELECT max(number) FROM sites WHERE platform = ? AND task = ?", key[:2])
            given = (last.fetchone()[0] or 0) + 1
            connection.execute("INSERT INTO sites (platform, task, site, number) VALUES (?, ?, ?, ?)", (*key, given))
            connection.execute("DELETE FROM sites WHERE id <= (SELECT max(id) FROM sites) - ?", (_MAX_SITES,))
            return int(given)

        return await self._file.run(number)

    async def read(self, platform: str, task: str, part: str) -> Part:
        """Return a part; an empty one where nobody has taught it, or what is there is damaged."""
        return await self._file.run(lambda connection: self._read(connection, (platform, task, part)))

    async def change(self, platform: str, task: str, part: str, change: Callable[[Part], Part]) -> None:
        """Replace a part by what `change` makes of it, while no other process writes."""

        def replace(connection: sqlite3.Connection) -> None:
            key = (platform, task, part)
            before = self._read(connection, key)
            after = change(before)
            text = json.dumps(after, separators=(",", ":")).encode("ascii")
            if after == before or len(text) > _MAX_BYTES:
                return
            row = (*key, zlib.compress(text), self._wall_clock())
            connection.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?)", row)
            self._prune(connection)

        await self._file.run(replace)

    def _read(self, connection: sqlite3.Connection, key: tuple[str, str, str]) -> Part:
        where = "WHERE platform = ? AND task = ? AND part = ?"
        row = connection.execute(f"SELECT value FROM parts {where}", key).fetchone()  # noqa: S608 - a constant is put in
        if row is None:
            return []
        connection.execute(f"UPDATE parts SET used_at = ? {where}", (self._wall_clock(), *key))  # noqa: S608
        return _unpacked(row[0])

    @staticmethod
    def _prune(connection: sqlite3.Connection) -> None:
        (count,) = connection.execute("SELECT count(*) FROM parts").fetchone()
        if count > _MAX_PARTS:
            oldest = "SELECT used_at FROM parts ORDER BY used_at LIMIT 1 OFFSET ?"
            connection.execute(f"DELETE FROM parts WHERE used_at < ({oldest})", (count - _MAX_PARTS * 9 // 10,))  # noqa: S608


def _unpacked(packed: object) -> Part:
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed if isinstance(packed, bytes) else b"", _MAX_BYTES + 1)
        value = json.loads(text) if unpacker.eof else None
    except (zlib.error, ValueError, RecursionError):
        return []
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
