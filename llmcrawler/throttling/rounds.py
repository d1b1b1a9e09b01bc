"""Latencies in bulk: what some answers came to, and how much they vary."""

from __future__ import annotations

import math
from dataclasses import dataclass

_LEAST = 0.02  # clocks and networks vary by that much in any case
_MEMORY = 50  # answers


@dataclass(frozen=True, slots=True)
class Round:
    """`mean` and `level` are those of the logarithms of the latency and of the number in flight."""

    count: int = 0
    mean: float = 0.0
    level: float = 0.0

    def __add__(self, other: Round) -> Round:
        count = self.count + other.count
        share = other.count / count
        mean = self.mean + share * (other.mean - self.mean)
        return Round(count, mean, self.level + share * (other.level - self.level))

    @property
    def seconds(self) -> float:
        return math.exp(self.mean)

    @property
    def in_flight(self) -> float:
        return math.exp(self.level)


class Spread:
    """The standard deviation of values around a mean that drifts: from the steps between neighbours (J. von Neumann,
    1941), in absolute value so that outliers weigh little."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._steps = 0
        self._mean_step = 0.0

    @property
    def value(self) -> float:
        return max(_LEAST, self._mean_step * math.sqrt(math.pi) / 2)

    def add(self, value: float) -> None:
        if self._last is not None:
            self._steps = min(self._steps + 1, _MEMORY)
            self._mean_step += (abs(value - self._last) - self._mean_step) / self._steps
        self._last = value
