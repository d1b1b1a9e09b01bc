"""Measures what a host's requests came to: counts, rates and latencies for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_LATENCIES = 200
_RATE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HostFigures:
    """Figures of a host. `throughput` is answers a second over the last half minute, `mean_throughput` over the host's
    whole time.

    Latencies, in seconds, are those of the last 200 healthy answers, None before the first. `mean_in_flight` is
    Little's law: throughput times mean latency.
    """

    requests: int
    refused_share: float
    throughput: float
    mean_throughput: float
    latency_p50: float | None
    latency_p95: float | None
    mean_in_flight: float


class HostMeter:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)
        self._answered_at: deque[float] = deque(maxlen=10_000)
        self.requests = self._answers = self._refused = 0
        self.first_start: float | None = None
        self._last_answer = 0.0

    def started(self) -> None:
        self.requests += 1
        if self.first_start is None:
            self.first_start = self._clock()

    def answered(self, latency_seconds: float | None, *, refused: bool = False) -> None:
        self._answers += 1
        self._refused += refused
        self._last_answer = self._clock()
        self._answered_at.append(self._last_answer)
        if latency_seconds is not None and not refused:
            self._latencies.append(latency_seconds)

    def figures(self) -> HostFigures:
        now = self._clock()
        while self._answered_at and self._answered_at[0] < now - _RATE_SECONDS:
            self._answered_at.popleft()
        since = now if self.first_start is None else self.first_start
        throughput = len(self._answered_at) / max(min(_RATE_SECONDS, now - since), 1e-9)
        ordered = sorted(self._latencies)
        return HostFigures(
            requests=self.requests,
            refused_share=self._refused / max(self._answers, 1),
            throughput=throughput,
            mean_throughput=self._answers / max(self._last_answer - since, 1e-9),
            latency_p50=_quantile(ordered, 0.5),
            latency_p95=_quantile(ordered, 0.95),
            mean_in_flight=throughput * sum(ordered) / max(len(ordered), 1),
        )


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
