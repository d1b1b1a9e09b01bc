"""Remembers the latest additions of this worker to Redis, to repeat those that a failover has lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

_KEPT_SECONDS: Final = 60.0  # replicas are behind by less than one
_MAX_PARTS: Final = 100_000  # five of a url: some 6 MB

Parts = Sequence[str | int]


class RecentAdditions:
    """Numbers additions. Redis keeps the `number` of the last one beside it, so that both are lost together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0
        self._clock = clock
        self._added: deque[tuple[int, float, Parts]] = deque()  # number, moment, parts
        self._part_count = 0

    def note(self, parts: Parts) -> None:
        """Note what Redis has confirmed."""
        self.number += 1
        self._added.append((self.number, self._clock(), parts))
        self._part_count += len(parts)
        while self._part_count > _MAX_PARTS or self._added[0][1] < self._clock() - _KEPT_SECONDS:
            self._part_count -= len(self._added.popleft()[2])

    def since(self, number: int) -> list[Parts]:
        """Return the additions after that number, as far as they are kept."""
        return [parts for added, _at, parts in self._added if added > number]
