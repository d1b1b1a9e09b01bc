"""Keeps what the robots.txt of each host says, as long as there is room."""

from __future__ import annotations

from typing import Generic, TypeVar

_Kept = TypeVar("_Kept")

MAX_KEPT_BYTES = 16 * 2**20  # thousands of ordinary files; one of 500 KB full of rules takes half of it


class RobotsCache(Generic[_Kept]):
    """A cache by host and port. The host not asked for longest is forgotten first, and its file then fetched anew."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[str, tuple[_Kept, int]] = {}
        self._bytes = 0

    def get(self, host: str) -> _Kept | None:
        entry = self._kept.pop(host, None)
        if entry is None:
            return None
        self._kept[host] = entry  # at the end: the first key is the one not asked for longest
        return entry[0]

    def keep(self, host: str, robots: _Kept, size_bytes: int) -> None:
        """Keep a file, the newest one however large it is."""
        self._bytes += size_bytes - self._kept.pop(host, (None, 0))[1]
        self._kept[host] = (robots, size_bytes)
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            self._bytes -= self._kept.pop(next(iter(self._kept)))[1]
