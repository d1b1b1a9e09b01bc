"""Keeps the budget and the pace of the model over all crawls of a machine that name the same file."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from llmcrawler.core.llm.budget import BudgetLimits
from llmcrawler.core.llm.call_limits import REAL_CLOCK, WINDOW_SECONDS, CallLimits, Clock, may_start
from llmcrawler.core.processes.forking import is_alive
from llmcrawler.core.storage.shared_file import SharedFile
from llmcrawler.errors import LLMFailed, StorageFailed

logger = logging.getLogger(__name__)

# Money that calls of other crawls hold may come back: so long it is waited for, and a crawl that says nothing for so
# long has died with its calls, whose whole price stays spent.
_MOST_WAIT_SECONDS: Final = 120.0
_SILENT_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 0.25

_APPLICATION: Final = 0x6C6C6D62
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spent (id INTEGER PRIMARY KEY CHECK (id = 1), tokens INTEGER NOT NULL, cost_usd REAL);
INSERT OR IGNORE INTO spent VALUES (1, 0, 0);
CREATE TABLE IF NOT EXISTS crawls (name TEXT PRIMARY KEY, pid INTEGER, calls INTEGER NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS starts (call TEXT PRIMARY KEY, at REAL NOT NULL, tokens INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS starts_by_time ON starts (at);
CREATE TABLE IF NOT EXISTS pause (id INTEGER PRIMARY KEY CHECK (id = 1), until REAL NOT NULL);
INSERT OR IGNORE INTO pause VALUES (1, 0);
"""


def open_budget_file(path: Path) -> SharedFile:
    """Return the file of LLM_BUDGET_FILE, which is made with its first use."""
    return SharedFile(path, _SCHEMA, setting="LLM_BUDGET_FILE", application=_APPLICATION)


class FileLimits:
    """The CommonBudget and the CallRate of many processes. What is taken is spent until it is given back: a crawl that
    is killed leaves the whole price of its calls.
    """

    def __init__(self, file: SharedFile, calls: CallLimits, budget: BudgetLimits, clock: Clock = REAL_CLOCK) -> None:
        self._file = file
        self._calls = calls
        self._budget = budget
        self._clock = clock
        self._name = secrets.token_hex(8)
        self._posted: set[asyncio.Future[Any]] = set()

    async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]:
        """Take from the budget; return whether that was left, and what all crawls have taken. Waits while calls of
        other crawls may give something back. Raises LLMFailed where the file cannot be used.
        """
        deadline = self._clock.monotonic() + _MOST_WAIT_SECONDS
        while True:
            taking = asyncio.ensure_future(self._file.run(lambda connection: self._take(connection, tokens, cost_usd)))
            try:
                is_taken, all_tokens, all_cost, may_wait = await asyncio.shield(taking)
            except asyncio.CancelledError:
                with suppress(StorageFailed):
                    if (await taking)[0]:  # the file is written in any case, and others would wait for no call
                        await self.give_back(tokens, cost_usd)
                raise
            except StorageFailed as error:
                raise LLMFailed(f"{error}, and nothing is asked without it") from error
            if is_taken or not may_wait or self._clock.monotonic() > deadline:
                return is_taken, all_tokens, all_cost
            await self._clock.sleep(_PAUSE_SECONDS)

    async def give_back(self, tokens: int, cost_usd: float) -> None:
        """Return what a call held and did not cost. Where the file cannot be used it stays spent."""

        def give_back(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE spent SET tokens = tokens - ?, cost_usd = cost_usd - ?", (tokens, cost_usd))
            self._count(connection, -1)

        try:
            await self._file.run(give_back)
        except StorageFailed as error:
            logger.warning("What a call did not cost stays spent: %s", error)

    def _take(self, connection: sqlite3.Connection, tokens: int, cost_usd: float) -> tuple[bool, int, float, bool]:
        all_tokens, all_cost = connection.execute("SELECT tokens, cost_usd FROM spent").fetchone()
        more, dearer = all_tokens + tokens, all_cost + cost_usd
        if not self._budget.allow(more, dearer):  # others that live may have calls under way
            connection.execute("DELETE FROM crawls WHERE at < ?", (self._clock.wall() - _SILENT_SECONDS,))
            others = connection.execute("SELECT pid FROM crawls WHERE calls > 0 AND name <> ?", (self._name,))
            return False, all_tokens, all_cost, any(is_alive(pid) for (pid,) in others)
        connection.execute("UPDATE spent SET tokens = ?, cost_usd = ?", (more, dearer))
        self._count(connection, 1)
        return True, more, dearer, False

    def _count(self, connection: sqlite3.Connection, change: int) -> None:
        connection.execute("INSERT OR IGNORE INTO crawls VALUES (?, ?, 0, 0)", (self._name, os.getpid()))
        row = (change, self._clock.wall(), self._name)
        connection.execute("UPDATE crawls SET calls = calls + ?, at = ? WHERE name = ?", row)

    def hold(self, seconds: float) -> None:
        """Start no call for so many seconds, as the server refused one as too fast."""
        until = self._clock.wall() + seconds
        self._post(lambda connection: connection.execute("UPDATE pause SET until = max(until, ?)", (until,)))

    async def admit(self, tokens: int) -> str:
        """Wait until a request may start; return its name for `settle`. Raises LLMFailed where the file fails."""
        call = secrets.token_hex(8)
        while True:
            try:
                wait_seconds = await self._file.run(lambda connection: self._admit(connection, call, tokens))
            except StorageFailed as error:
                raise LLMFailed(f"{error}, and nothing is asked without it") from error
            if wait_seconds <= 0:
                return call
            await self._clock.sleep(wait_seconds)

    def settle(self, entry: Any, tokens: int) -> None:
        self._post(
            lambda connection: connection.execute("UPDATE starts SET tokens = ? WHERE call = ?", (tokens, entry))
        )

    def _admit(self, connection: sqlite3.Connection, call: str, tokens: int) -> float:
        """Return the seconds to wait; 0 where the call is noted."""
        now = self._clock.wall()
        # A clock that was set back leaves starts in the future, which would bar the way for as long.
        connection.execute("DELETE FROM starts WHERE at <= ? OR at > ?", (now - WINDOW_SECONDS, now + WINDOW_SECONDS))
        (until,) = connection.execute("SELECT until FROM pause").fetchone()
        starts = connection.execute("SELECT at, tokens FROM starts ORDER BY at").fetchall()
        wait_seconds = max(until, may_start(starts, tokens, self._calls)) - now
        if wait_seconds > 0:
            return float(wait_seconds)
        if self._calls.requests_per_minute or self._calls.tokens_per_minute:
            connection.execute("INSERT INTO starts VALUES (?, ?, ?)", (call, now, tokens))
        return 0.0

    def _post(self, work: Callable[[sqlite3.Connection], object]) -> None:
        posted = asyncio.ensure_future(self._file.run(work))
        self._posted.add(posted)
        posted.add_done_callback(self._note)

    def _note(self, posted: asyncio.Future[Any]) -> None:
        self._posted.discard(posted)
        if not posted.cancelled() and (error := posted.exception()) is not None:
            logger.warning("The model's rate limits are not shared for the moment: %s", error)
