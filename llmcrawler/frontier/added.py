"""What this worker has queued lately: a Redis that failed over may have lost the last of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_KEPT_SECONDS: Final = 60.0  # replicas are behind by less than one
_MOST_PARTS: Final = 100_000  # five of a url: some 6 MB

Parts = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class _Added:
    number: int
    at: float
    parts: Parts


class AddedLately:
    """`number` is that of the last addition; Redis keeps it beside what was added, so that both are lost together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0
        self._clock = clock
        self._added: deque[_Added] = deque()
        self._parts = 0

    def note(self, parts: Parts) -> None:
        """It is in Redis."""
        self.number += 1
        self._added.append(_Added(self.number, self._clock(), parts))
        self._parts += len(parts)
        while self._parts > _MOST_PARTS or self._added[0].at < self._clock() - _KEPT_SECONDS:
            self._parts -= len(self._added.popleft().parts)

    def since(self, number: int) -> list[Parts]:
        """The additions after that one, as far as they are kept."""
        return [one.parts for one in self._added if one.number > number]
