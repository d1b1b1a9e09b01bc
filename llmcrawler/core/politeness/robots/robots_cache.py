"""Keeps what each host's robots.txt says, as long as RFC 9309 allows and as there is room; tells what an answer
to the question for it means (2.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Generic, TypeVar

MAX_REDIRECTS: Final = 10  # in a row; five are the least (2.3.1.2)
# Not for the robots.txt alone: the host has no time now. To all else with 4xx there is no such file.
_TOO_MANY_REQUESTS: Final = 429


class RobotsAnswer(Enum):
    FILE = auto()
    ABSENT = auto()  # everything is allowed, whatever the body says
    UNREACHABLE = auto()  # nothing is allowed


def robots_answer(status: int) -> RobotsAnswer:
    """Judge a status. A redirect that is judged leads nowhere, or on and on: there is no file (2.3.1.2). What is no
    status of HTTP counts as 5xx (RFC 9110, 15).
    """
    if 200 <= status < 300:
        return RobotsAnswer.FILE
    is_absent = 300 <= status < 500 and status != _TOO_MANY_REQUESTS
    return RobotsAnswer.ABSENT if is_absent else RobotsAnswer.UNREACHABLE


MAX_AGE_SECONDS: Final = 24 * 3600.0  # RFC 9309, 2.4: no copy should be used for longer than a day
# 2.4, 2.3.1.4: but while the file is unreachable; 30 days are the RFC's own example of a long time.
MAX_STALE_SECONDS: Final = 30 * MAX_AGE_SECONDS
STALE_SECONDS: Final = 3600.0  # such a copy serves for so long before the file is asked for again
MAX_KEPT_BYTES: Final = 16 * 2**20  # thousands of ordinary files; one of 500 KB full of rules takes half of it

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[_Kept]):
    robots: _Kept
    size_bytes: int
    came_at: float
    fresh_until: float


class RobotsCache(Generic[_Kept]):
    """A cache by origin: scheme, host and port. The one not asked for longest is forgotten first, and its file then
    fetched anew. `clock` gives seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float], max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._entries: dict[str, _Entry[_Kept]] = {}
        self._bytes = 0

    def get(self, origin: str) -> _Kept | None:
        """Return what may be used now; None where the file has to be asked for."""
        entry = self._entries.pop(origin, None)
        if entry is None:
            return None
        self._entries[origin] = entry  # at the end: the first key is the one not asked for longest
        return entry.robots if self._clock() < entry.fresh_until else None

    def last(self, origin: str) -> _Kept | None:
        """Return what was kept last, however old it is."""
        entry = self._entries.get(origin)
        return None if entry is None else entry.robots

    def keep(self, origin: str, robots: _Kept, size_bytes: int, until: float | None = None) -> None:
        """Keep what came, the newest however large it is: for a day, or `until` then."""
        now = self._clock()
        self._forget(origin)
        self._entries[origin] = _Entry(robots, size_bytes, now, now + MAX_AGE_SECONDS if until is None else until)
        self._bytes += size_bytes
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            self._forget(next(iter(self._entries)))

    def renew(self, origin: str) -> bool:
        """Use an old copy for a while, as no newer one can be had. Return False where it has become too old for that,
        or there is none.
        """
        entry, now = self._entries.get(origin), self._clock()
        if entry is None or now - entry.came_at >= MAX_STALE_SECONDS:
            return False
        self._entries[origin] = replace(entry, fresh_until=now + STALE_SECONDS)
        return True

    def _forget(self, origin: str) -> None:
        entry = self._entries.pop(origin, None)
        self._bytes -= 0 if entry is None else entry.size_bytes
