"""Tells which limit holds a crawl back, by Little's law: requests in flight = starts per second x latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# A limit binds when the crawl reaches this share of what it allows: jitter and the odd slow page take the rest.
_BINDS_FROM = 0.8

GAP: Final = "the gap between requests"
_MACHINE: Final = "the speed of this machine"


@dataclass(frozen=True, slots=True)
class HostThrottle:
    """The throttle of one host: what is allowed now, and what is used: `waiting` requests could start but for the
    throttle.

    `rest_seconds` is what is left of a rest that the host asked for or needs. Latencies are None before an answer.
    """

    host: str
    concurrency: float
    gap_seconds: float
    in_flight: int
    waiting: int = 0
    rest_seconds: float = 0.0
    requests: int = 0
    throughput: float = 0.0
    latency_p50: float | None = None
    latency_p95: float | None = None
    refused_share: float = 0.0

    @property
    def limit(self) -> str:
        """Name what binds this host, by Little's law: L = lambda * W."""
        if self.rest_seconds > 0:
            return "rests"
        used, latency = self.throughput, self.latency_p50 or 0.001
        by_gap = used * self.gap_seconds
        by_concurrency = used * latency / self.concurrency if self.concurrency > 0 else 0.0
        if max(by_gap, by_concurrency) < _BINDS_FROM:
            return "links or this machine"
        return "gap" if by_gap > by_concurrency else "in flight"


@dataclass(frozen=True, slots=True)
class DownloadFlow:
    """The state of the downloads at one moment. `backing_out`: downloads pause, as too many pages are in process."""

    hosts: Sequence[HostThrottle] = ()
    concurrency: int = 0
    backing_out: bool = False

    @property
    def in_flight(self) -> int:
        return sum(host.in_flight for host in self.hosts)

    @property
    def busy(self) -> list[HostThrottle]:
        return [host for host in self.hosts if host.in_flight or host.waiting]

    @property
    def resting(self) -> list[HostThrottle]:
        return [host for host in self.hosts if host.rest_seconds > 0]


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit that holds the crawl back. `name` groups a crawl's samples; `words` give the figures of this one."""

    name: str
    words: str


def binding_limit(
    flow: DownloadFlow, starts_per_second: float, latency_seconds: float | None, queued: int
) -> Limit | None:
    """Return what holds the crawl back; None while there is nothing to judge by."""
    if flow.backing_out:
        return Limit("pages in process", "pages in process: downloads wait until pages are read or classified")
    if flow.resting and not flow.busy:
        longest = max(flow.resting, key=lambda host: host.rest_seconds)
        return Limit("hosts that rest", f"hosts that rest: {longest.host} for {longest.rest_seconds:.0f} s more")
    if not queued and not any(host.waiting for host in flow.hosts):
        return Limit("waiting for links to follow", "waiting for links to follow: none is left to fetch")
    if not flow.busy or latency_seconds is None or starts_per_second <= 0:
        return None
    rate, latency = starts_per_second, max(latency_seconds, 0.001)
    slots = sum(host.concurrency for host in flow.busy)
    allowed = {
        "gap": sum(1 / host.gap_seconds if host.gap_seconds > 0 else math.inf for host in flow.busy),
        "per host": slots / latency,
        "over all": flow.concurrency / latency if flow.concurrency else math.inf,
    }
    tightest = min(allowed, key=lambda name: allowed[name])
    if rate < _BINDS_FROM * allowed[tightest]:
        return Limit(_MACHINE, f"{_MACHINE}: {rate:.1f} requests/s where {allowed[tightest]:.1f} are allowed")
    used = f"{rate:.1f}/s x {latency:.2f} s = {rate * latency:.1f}"
    if tightest == "gap":
        return Limit(GAP, f"{GAP}: {rate:.1f} of {allowed['gap']:.1f} requests/s")
    if tightest == "per host":
        return Limit("requests in flight per host", f"requests in flight per host: {used} of {slots:g}")
    return Limit("requests in flight", f"requests in flight over all hosts: {used} of {flow.concurrency}")
