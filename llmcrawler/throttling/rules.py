"""What a policy goes by, and what it says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The user's limits for one host. With `is_adaptive` False they are used as they are; a host still rests on demand.

    `max_concurrency` may be under 1: a request in flight that share of the time. Gaps are start to start, each
    `min_gap_seconds` (and more) times 1 +- `jitter`.
    """

    max_concurrency: float = 5.0
    min_gap_seconds: float = 0.2
    start_gap_seconds: float = 0.2
    max_gap_seconds: float = 60.0
    jitter: float = 0.5
    is_adaptive: bool = True
    breaker_failures: int = 5
    breaker_rest_seconds: float = 5.0
    breaker_probes: int = 3
    max_rest_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Gap:
    """The mean of the gaps between starts; each is this times 1 +- `jitter`."""

    seconds: float
    jitter: float

    @property
    def least_seconds(self) -> float:
        return self.seconds * (1 - self.jitter)


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of mind about a host. `reason` groups decisions, `words` give the figures of this one."""

    reason: str
    words: str
    concurrency: float
    rest_seconds: float = 0.0
