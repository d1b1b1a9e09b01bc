"""The gap between two starts at one host."""

from __future__ import annotations

from dataclasses import dataclass

# A floor asked for by robots.txt: gaps are this much longer, as clocks and networks jitter too.
_FLOOR_MARGIN, _FLOOR_JITTER = 1.02, 0.1


@dataclass(frozen=True, slots=True)
class StartGap:
    """The mean of the gaps between starts; each is this times 1 +- `jitter`."""

    seconds: float
    jitter: float

    @property
    def least_seconds(self) -> float:
        return self.seconds * (1 - self.jitter)

    def over(self, floor_seconds: float) -> StartGap:
        """Return this gap, or one of which no start comes sooner than the floor."""
        least = floor_seconds * _FLOOR_MARGIN
        if self.least_seconds >= least:
            return self
        most = max(self.seconds * (1 + self.jitter), least * (1 + min(self.jitter, _FLOOR_JITTER)))
        return StartGap((least + most) / 2, (most - least) / (most + least))
