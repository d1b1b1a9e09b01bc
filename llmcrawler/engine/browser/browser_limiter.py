"""Limits the requests of the browser that are in flight to one host, over all pages."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable


class BrowserHostLimiter:
    """Makes the browser's requests wait. `limit_of` returns how many a host may have now; one may always go."""

    def __init__(self, limit_of: Callable[[str], int]) -> None:
        self._limit_of = limit_of
        self._in_flight: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, host: str) -> None:
        while self._in_flight[host] >= max(1, self._limit_of(host)):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(host, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._call_next(host)  # the turn may have been given to this one
                raise
        self._in_flight[host] += 1

    def leave(self, host: str) -> None:
        self._in_flight[host] -= 1
        if not self._in_flight[host]:
            del self._in_flight[host]
        self._call_next(host)

    def _call_next(self, host: str) -> None:
        waiting = self._waiting.get(host, deque())
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        if not waiting:
            self._waiting.pop(host, None)
