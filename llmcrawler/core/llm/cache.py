"""Asks each question once: answers of earlier runs are kept in a SQLite file that several processes may share."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from llmcrawler.core.storage.shared_file import connect_shared, delete_database

logger = logging.getLogger(__name__)

T = TypeVar("T")

_BUSY_SECONDS = 5.0
_PRUNE_EVERY = 1000

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
    """Holds JSON values that have been checked, on a thread of its own. It never raises: a damaged file is moved aside
    and a fresh one started, and what can't be read or written is a miss with one warning.
    """

    def __init__(self, path: Path, *, max_entries: int = 200_000, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_entries = max_entries
        self._wall_clock = wall_clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="llm-cache")
        self._connection: sqlite3.Connection | None = None
        self._puts_since_prune = 0
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

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)
            self._puts_since_prune += 1
            if self._puts_since_prune >= _PRUNE_EVERY:
                self._prune(connection)

        await self._run(write)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    # Everything below runs on the cache's own thread.

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        is_new = False
        while not self._is_off:
            try:
                if self._connection is None:
                    self._connection = connect_shared(self._path, _SCHEMA, _BUSY_SECONDS)
                    self._prune(self._connection)
                return work(self._connection)
            except (sqlite3.Error, OSError) as error:
                self._disconnect()
                # Else it is locked for long, or on a full or read-only disk.
                is_damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(
                    error, sqlite3.OperationalError
                )
                if is_new or not is_damaged:
                    self._is_off = True
                    logger.warning("The LLM answer cache %s is off for this run: %s", self._path, error)
                    return None
                is_new = True
                aside = self._path.with_name(f"{self._path.name}.damaged-{self._wall_clock():.0f}")
                logger.warning("The LLM answer cache %s is damaged (%s): moved to %s", self._path, error, aside.name)
                self._path.rename(aside)
                delete_database(self._path)
        return None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Forget the answers not used for longest, down to nine tenths of the limit, so that this is seldom due."""
        self._puts_since_prune = 0
        (count,) = connection.execute("SELECT count(*) FROM answers").fetchone()
        if count > self._max_entries:
            surplus = count - self._max_entries * 9 // 10
            oldest = "SELECT key FROM answers ORDER BY used_at LIMIT ?"
            connection.execute(f"DELETE FROM answers WHERE key IN ({oldest})", (surplus,))  # noqa: S608 - a constant is put in
