"""Keeps how a crawl went over time in a bounded number of buckets, merged in pairs when full, and tells its pace and
what held it back by Little's law.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.reporting.progress import ProgressReport
from llmcrawler.core.reporting.text import percent
from llmcrawler.core.storage.job_file import Run

_MAX_BUCKETS = 240
_BINS_PER_OCTAVE = 4  # of latency: a quantile is right within a tenth
_LEAST_SECONDS = 0.001
_SUMS = ("pages", "errors", "answers", "refused", "latency_sum", "samples", "in_flight_sum", "allowed_sum")


@dataclass(slots=True)
class Bucket:
    """A stretch of the crawl. `refused` are answers 429 and 503, `samples` evenly spaced, `latencies` counts of answers
    by bin, `limits` the seconds for which each limit held the crawl back.
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


class Timeline:
    """A run in buckets. Moments are seconds since its start. A day takes as much room as ten minutes."""

    def __init__(self, width_seconds: float = 1.0, max_buckets: int = _MAX_BUCKETS) -> None:
        self.width_seconds = width_seconds
        self.buckets: list[Bucket] = []
        self._max_buckets = max_buckets

    def at(self, moment: float) -> Bucket:
        """Return the bucket of a moment, to be counted in."""
        while (number := int(max(0.0, moment) / self.width_seconds)) >= self._max_buckets:
            self.merge_pairs()
        while len(self.buckets) <= number:
            self.buckets.append(Bucket())
        return self.buckets[number]

    def merge_pairs(self) -> None:
        for first, second in zip(self.buckets[::2], self.buckets[1::2], strict=False):
            first.add(second)
        del self.buckets[1::2]
        self.width_seconds *= 2

    def coarse(self, most: int = 24) -> Timeline:
        """Return a copy in at most so many buckets, for a table."""
        timeline = Timeline.of_json(self.as_json())
        while len(timeline.buckets) > most:
            timeline.merge_pairs()
        return timeline

    def add_answer(self, moment: float, latency_seconds: float | None, *, refused: bool = False) -> None:
        bucket = self.at(moment)
        bucket.answers += 1
        bucket.refused += refused
        if latency_seconds is not None and not refused:
            bucket.latency_sum += latency_seconds
            octaves = math.log2(max(latency_seconds, _LEAST_SECONDS) / _LEAST_SECONDS)
            bucket.latencies[int(_BINS_PER_OCTAVE * octaves)] += 1

    def add_page(self, moment: float, *, has_error: bool) -> None:
        bucket = self.at(moment)
        bucket.pages += 1
        bucket.errors += has_error

    def add_sample(self, report: ProgressReport, seconds: float) -> None:
        bucket = self.at(report.elapsed_seconds)
        bucket.samples += 1
        bucket.in_flight_sum += report.flow.in_flight
        bucket.allowed_sum += sum(host.concurrency for host in report.flow.busy)
        bucket.queued = report.figures.queued
        if report.limit:
            bucket.hold(report.limit.partition(":")[0], seconds)

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
            bucket = Bucket(**dict(zip(_SUMS, sums, strict=True)), queued=queued)
            bucket.latencies.update({int(number): count for number, count in latencies})
            bucket.limits |= {str(name): float(seconds) for name, seconds in limits}
            timeline.buckets.append(bucket)
        return timeline


def _pairs(counter: Mapping[Any, float]) -> list[list[Any]]:
    return [[name, round(value, 3)] for name, value in sorted(counter.items())]


def timeline_of(timed: Iterable[tuple[float, float | None, bool]]) -> tuple[float, Timeline]:
    """Return the start and the timeline of pages alone: (moment of the answer, latency, is an error) in any order."""
    ordered = sorted(timed, key=lambda one: one[0])
    timeline, start = Timeline(), min((moment - (latency or 0.0) for moment, latency, _ in ordered), default=0.0)
    for moment, latency, is_error in ordered:
        timeline.add_page(moment - start, has_error=is_error)
        timeline.add_answer(moment - start, latency)
    return start, timeline


def last_busy(runs: Sequence[Run]) -> Run | None:
    """Return the newest run that asked the site for anything, else the newest."""
    for run in reversed(runs):
        if Timeline.of_json(run.timeline).total().answers:
            return run
    return runs[-1] if runs else None


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one run. `limits` are (name, seconds, share of the time), longest first; `words` is Little's law in
    figures.
    """

    seconds: float
    total: Bucket
    limits: tuple[tuple[str, float, float], ...]
    words: str

    @property
    def bound(self) -> str:
        if not self.limits:
            return ""
        name, _seconds, share = self.limits[0]
        return f"{percent(share)} of the time it was limited by {name}"

    @property
    def urls_per_second(self) -> float:
        return self.total.pages / self.seconds if self.seconds else 0.0


def pace_of(timeline: Timeline, seconds: float) -> Pace:
    total = timeline.total()
    held, ordered = sum(total.limits.values()), sorted(total.limits.items(), key=lambda pair: -pair[1])
    limits = tuple((name, spent, spent / held) for name, spent in ordered if spent)
    words = ""
    if (latency := total.mean_latency) is not None and seconds:
        rate = total.latencies.total() / seconds
        words = f"{rate:.2f} answers/s × {latency:.2f} s on average = {rate * latency:.1f} requests in flight"
        if total.allowed:
            words += f"; {total.allowed:.1f} were allowed"
    return Pace(seconds, total, limits, words)


def chart_data(timeline: Timeline, start: float, seconds: float, *, is_whole: bool) -> dict[str, Any]:
    """Return columns over `at`, seconds since the start of the run. `is_whole` False: there are pages only."""
    width, buckets = timeline.width_seconds, timeline.buckets
    lengths = [max(min(width, seconds - number * width), 0.25 * width) for number in range(len(buckets))]
    columns: dict[str, list[Any]] = {
        "at": [round(number * width, 2) for number in range(len(buckets))],
        "pages": [round(one.pages / length, 2) for one, length in zip(buckets, lengths, strict=True)],
        "errors": [one.errors for one in buckets],
        "p50": [_rounded(one.latency(0.5)) for one in buckets],
        "p95": [_rounded(one.latency(0.95)) for one in buckets],
    }
    if is_whole:
        columns |= {
            "in_flight": [_rounded(one.in_flight) for one in buckets],
            "allowed": [_rounded(one.allowed) for one in buckets],
            "refused": [one.refused for one in buckets],
            "queued": [one.queued if one.samples else None for one in buckets],
        }
    return {"start": start, "width": width, "columns": columns}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
