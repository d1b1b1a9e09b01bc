"""Shows in the log and in stats what the throttle decided."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nlargest
from time import monotonic
from typing import Any

from scrapy.statscollectors import StatsCollector

from llmcrawler.core.politeness.throttling import HostPolicy, ThrottleDecision

logger = logging.getLogger("llmcrawler.extensions.throttle")  # people look for its decisions under that name

_ALWAYS_LOGGED = frozenset({"recovered", "robots"})
_LOG_SECONDS = 10.0  # between two log lines about one host
_HOSTS_IN_STATS = 10


class ThrottleReport:
    """Reports decisions of the throttle; with `logs_all` (AUTOTHROTTLE_DEBUG) each has a log line."""

    def __init__(self, stats: StatsCollector, *, logs_all: bool) -> None:
        self._stats = stats
        self._logs_all = logs_all
        self._in_stats: set[str] = set()
        self._logged_at: dict[str, float] = {}
        self._unlogged: Counter[str] = Counter()

    def decided(self, key: str, decision: ThrottleDecision) -> None:
        self._stats.inc_value(f"llmcrawler/throttle/decisions/{decision.reason}")
        now = monotonic()
        quiet = now - self._logged_at.get(key, -_LOG_SECONDS) < _LOG_SECONDS and decision.reason not in _ALWAYS_LOGGED
        if quiet and not self._logs_all:
            self._unlogged[key] += 1
            return
        self._logged_at[key] = now
        more = f" ({self._unlogged.pop(key)} more since the last line)" if self._unlogged[key] else ""
        pause = f", cools down for {decision.cooldown_seconds:.1f} s" if decision.cooldown_seconds else ""
        logger.info("%s: %s: concurrency %.3g%s%s", key, decision.details, decision.concurrency, pause, more)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop what is kept about hosts that are idle."""
        for key in keys:
            self._logged_at.pop(key, None)
            self._unlogged.pop(key, None)

    def write(self, policies: Mapping[str, HostPolicy], most: int = _HOSTS_IN_STATS) -> None:
        """Write the figures of up to `most` hosts into stats, and always of the same ones: a stat stays for good."""
        missing = most - len(self._in_stats)
        if missing > 0:
            new = policies.keys() - self._in_stats
            self._in_stats.update(nlargest(missing, new, key=lambda key: policies[key].meter.requests))
        for key in self._in_stats & policies.keys():
            for name, value in _figures(policies[key]).items():
                self._stats.set_value(f"llmcrawler/throttle/host/{key}/{name}", value)

    def write_last(self, policies: Mapping[str, HostPolicy]) -> None:
        """Add the busiest of the other hosts at the crawl's end."""
        self.write(policies, 2 * _HOSTS_IN_STATS)


def _figures(policy: HostPolicy) -> dict[str, Any]:
    figures = policy.meter.figures()
    latencies = {"latency_p50": figures.latency_p50, "latency_p95": figures.latency_p95}
    return {
        "requests": figures.requests,
        "concurrency": round(policy.window, 2),
        "gap_seconds": round(policy.gap().seconds, 3),
        "throughput": round(figures.mean_throughput, 2),
        "in_flight_mean": round(figures.mean_in_flight, 2),
        "refused_share": round(figures.refused_share, 4),
        **{name: round(value, 3) for name, value in latencies.items() if value is not None},
    }
