"""Records how a crawl went over time in a bounded number of buckets: when they are full, neighbours are merged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.reporting.crawl_progress import ProgressReport

MAX_BUCKETS = 240

_BINS_PER_OCTAVE = 4  # of latency: a quantile is right within a tenth
_LEAST_SECONDS = 0.001


@dataclass(slots=True)
class Bucket:
    """A stretch of the crawl. `refused` are answers 429 and 503; sums are over `samples`, which are taken evenly.
    `latencies` counts answers by `bin_of` their latency, `limits` the seconds for which each limit held the crawl back.
    """

    pages: int = 0
    errors: int = 0
    answers: int = 0
    refused: int = 0
    latency_sum: float = 0.0
    samples: int = 0
    in_flight_sum: float = 0.0
    allowed_sum: float = 0.0
    queued: int = 0
    latencies: Counter[int] = field(default_factory=Counter)
    limits: dict[str, float] = field(default_factory=dict)

    def add(self, later: Bucket) -> None:
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.latencies.update(later.latencies)
        for name, seconds in later.limits.items():
            self.hold(name, seconds)
        if later.samples:
            self.queued = later.queued

    def hold(self, limit: str, seconds: float) -> None:
        self.limits[limit] = self.limits.get(limit, 0.0) + seconds

    def latency(self, share: float) -> float | None:
        """Return a quantile of the answers' latencies, in seconds; None without answers."""
        left = share * self.latencies.total()
        for number, count in sorted(self.latencies.items()):
            left -= count
            if left <= 0:
                return _LEAST_SECONDS * 2 ** ((number + 0.5) / _BINS_PER_OCTAVE)
        return None

    @property
    def mean_latency(self) -> float | None:
        timed = self.latencies.total()
        return self.latency_sum / timed if timed else None

    @property
    def in_flight(self) -> float | None:
        return self.in_flight_sum / self.samples if self.samples else None

    @property
    def allowed(self) -> float | None:
        return self.allowed_sum / self.samples if self.samples else None


_SUMS = ("pages", "errors", "answers", "refused", "latency_sum", "samples", "in_flight_sum", "allowed_sum")


def bin_of(seconds: float) -> int:
    return max(0, int(_BINS_PER_OCTAVE * math.log2(max(seconds, _LEAST_SECONDS) / _LEAST_SECONDS)))


class Timeline:
    """A run in buckets. Moments are seconds since its start. A day takes as much room as ten minutes."""

    def __init__(self, width_seconds: float = 1.0, max_buckets: int = MAX_BUCKETS) -> None:
        self.width_seconds = width_seconds
        self.buckets: list[Bucket] = []
        self._max_buckets = max_buckets

    def at(self, moment: float) -> Bucket:
        """Return the bucket of a moment, to be counted in."""
        while (number := int(max(0.0, moment) / self.width_seconds)) >= self._max_buckets:
            self._halve()
        while len(self.buckets) <= number:
            self.buckets.append(Bucket())
        return self.buckets[number]

    def add_answer(self, moment: float, latency_seconds: float | None, *, refused: bool = False) -> None:
        bucket = self.at(moment)
        bucket.answers += 1
        bucket.refused += refused
        if latency_seconds is not None and not refused:
            bucket.latency_sum += latency_seconds
            bucket.latencies[bin_of(latency_seconds)] += 1

    def add_page(self, moment: float, *, has_error: bool) -> None:
        bucket = self.at(moment)
        bucket.pages += 1
        bucket.errors += has_error

    def add_sample(self, moment: float, report: ProgressReport, seconds: float) -> None:
        """Count a sample, `report`, that holds for the `seconds` before this moment."""
        bucket = self.at(moment)
        bucket.samples += 1
        bucket.in_flight_sum += report.flow.in_flight
        bucket.allowed_sum += sum(host.concurrency for host in report.flow.busy)
        bucket.queued = report.figures.queued
        if report.limit is not None:
            bucket.hold(report.limit.name, seconds)

    def total(self) -> Bucket:
        whole = Bucket()
        for bucket in self.buckets:
            whole.add(bucket)
        return whole

    def as_json(self) -> dict[str, Any]:
        rows = [
            [*(round(getattr(one, name), 3) for name in _SUMS), one.queued, _pairs(one.latencies), _pairs(one.limits)]
            for one in self.buckets
        ]
        return {"width_seconds": self.width_seconds, "buckets": rows}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Timeline:
        timeline = cls(float(value.get("width_seconds", 1.0)))
        for *sums, queued, latencies, limits in value.get("buckets", ()):
            timeline.buckets.append(
                Bucket(
                    **dict(zip(_SUMS, sums, strict=True)),
                    queued=queued,
                    latencies=Counter({int(number): count for number, count in latencies}),
                    limits={str(name): float(seconds) for name, seconds in limits},
                )
            )
        return timeline

    def _halve(self) -> None:
        for first, second in zip(self.buckets[::2], self.buckets[1::2], strict=False):
            first.add(second)
        del self.buckets[1::2]
        self.width_seconds *= 2


def timeline_of(timed: Iterable[tuple[float, float | None, bool]]) -> tuple[float, Timeline]:
    """Return the moment of the start and the timeline, from pages alone: (moment of its answer, latency, is an error)
    in any order.
    """
    ordered = sorted(timed, key=lambda one: one[0])
    timeline, start = Timeline(), min((moment - (latency or 0.0) for moment, latency, _ in ordered), default=0.0)
    for moment, latency, is_error in ordered:
        timeline.add_page(moment - start, has_error=is_error)
        timeline.add_answer(moment - start, latency)
    return start, timeline


def _pairs(counter: Mapping[Any, float]) -> list[list[Any]]:
    return [[name, round(value, 3)] for name, value in sorted(counter.items())]
