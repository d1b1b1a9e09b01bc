"""Asks each question once: answers of earlier runs are kept in a SQLite file that several processes may share."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from llmcrawler.core.storage.shared_file import SharedFile
from llmcrawler.errors import StorageFailed

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, used_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used_at);
"""


def cache_key(model: str, prompt_version: str, form: Any, content: Any) -> str:
    """Return the SHA-256 in hex of all that decides an answer. `form`: the labels or the schema asked for."""
    parts = json.dumps([model, prompt_version, form, content], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


class AnswerStore(Protocol):
    """Keeps answers: an AnswerCache, or what other machines share."""

    async def get(self, key: str) -> Any | None: ...

    async def put(self, key: str, value: Any) -> None: ...

    async def close(self) -> None: ...


class AnswerCache:
    """Holds JSON values that have been checked. It never raises: what can't be read or written is a miss, with one
    warning, and so is all that follows in this run.
    """

    def __init__(self, path: Path, *, max_entries: int = 200_000, wall_clock: Callable[[], float] = time.time) -> None:
        self._file = SharedFile(path, _SCHEMA, setting="LLM_CACHE")
        self._max_entries = max_entries
        self._wall_clock = wall_clock
        self._is_off = False

    async def get(self, key: str) -> Any | None:
        """Return the value, or None. A value of None can't be told from a miss: do not put one."""

        def read(connection: sqlite3.Connection) -> Any | None:
            found = connection.execute("SELECT value FROM answers WHERE key = ?", (key,)).fetchone()
            if found is not None:
                connection.execute("UPDATE answers SET used_at = ? WHERE key = ?", (self._wall_clock(), key))
            return found and json.loads(found[0])

        return await self._run(read)

    async def put(self, key: str, value: Any) -> None:
        row = (key, json.dumps(value, ensure_ascii=False), self._wall_clock())
        await self._run(lambda connection: connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row))

    async def close(self) -> None:
        await self._run(self._prune)
        await asyncio.to_thread(self._file.close)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        if self._is_off:
            return None
        try:
            return await self._file.run(work)
        except StorageFailed as error:
            if not self._is_off:
                logger.warning("%s. The model's answers are not kept in this run; delete a file that is damaged", error)
            self._is_off = True
            return None

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Forget the answers not used for longest, down to nine tenths of the limit, so that this is seldom due."""
        (count,) = connection.execute("SELECT count(*) FROM answers").fetchone()
        if count > self._max_entries:
            surplus = count - self._max_entries * 9 // 10
            oldest = "SELECT key FROM answers ORDER BY used_at LIMIT ?"
            connection.execute(f"DELETE FROM answers WHERE key IN ({oldest})", (surplus,))  # noqa: S608 - a constant is put in
