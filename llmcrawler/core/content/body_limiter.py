"""Bounds the memory that large bodies take: when too many bytes are here, bodies that are still coming wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

LARGE_BYTES: Final = 2**20
_LOOK_SECONDS: Final = 0.05


class ReceivedBody(Protocol):
    """Body that is being received."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class BodyLimiter:
    """Lets large bodies wait while more than `limit_bytes` are here.

    `arrived_bytes` returns the bytes of the bodies that have come and whose pages are not through. While these and the
    bytes received so far exceed the limit, one large body goes on: the oldest, unless those that have come exceed the
    limit alone. Bodies of less than a megabyte never wait.
    """

    def __init__(self, limit_bytes: int, arrived_bytes: Callable[[], int]) -> None:
        self._limit_bytes = limit_bytes
        self._arrived_bytes = arrived_bytes
        self._received: dict[ReceivedBody, int] = {}  # in the order in which they became large
        self._paused: set[ReceivedBody] = set()
        self._unpacking = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._next_look: asyncio.TimerHandle | None = None

    def note(self, flow: ReceivedBody, received_bytes: int) -> None:
        """Note how many bytes of a large body have come so far."""
        self._received[flow] = received_bytes
        if flow not in self._paused and not self._may_go_on(flow):
            self._paused.add(flow)
            flow.pause()
            self._look_later()

    def end(self, flow: ReceivedBody) -> None:
        """Note that a body has come, or will not come."""
        if self._received.pop(flow, None) is not None:
            self._paused.discard(flow)
            self._wake()

    @asynccontextmanager
    async def unpacking(self, most_bytes: int) -> AsyncIterator[None]:
        """Wait for room to unpack a body into at most so many bytes, and hold it meanwhile."""
        while not self._has_room(most_bytes):
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            self._look_later()
            await turn
        self._unpacking += most_bytes
        try:
            yield
        finally:
            self._unpacking -= most_bytes
            self._wake()

    @property
    def _all_bytes(self) -> int:
        return sum(self._received.values()) + self._unpacking + self._arrived_bytes()

    def _has_room(self, most_bytes: int) -> bool:
        alone = not self._unpacking and self._arrived_bytes() <= self._limit_bytes
        return alone or self._all_bytes + most_bytes <= self._limit_bytes

    def _may_go_on(self, flow: ReceivedBody) -> bool:
        is_first = flow is next(iter(self._received)) and self._arrived_bytes() <= self._limit_bytes
        return is_first or self._all_bytes <= self._limit_bytes

    def _wake(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        for flow in [one for one in self._received if one in self._paused and self._may_go_on(one)]:
            self._paused.discard(flow)
            flow.resume()
        if self._turns:  # one at a time; it takes its room before the next one looks
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
        self._look_later()

    def _look_later(self) -> None:
        """Look again after a while: no event tells when a page is through."""
        if self._next_look is None and (self._paused or self._turns):
            self._next_look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._wake)
