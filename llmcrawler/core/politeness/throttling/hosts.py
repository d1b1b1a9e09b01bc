"""Keeps the policies of a crawl's hosts: of those in use, and of so many that were used last."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from llmcrawler.core.politeness.throttling.policy import HostPolicy, ThrottleRules

MOST_IDLE = 1000  # 3 KB each; a host that comes back starts as carefully as a new one


class HostPolicies:
    """Policies by host and port, those used last at the end.

    Of a host that is forgotten, the gap that its robots.txt asks for is kept: it is read once a day.
    """

    def __init__(self, clock: Callable[[], float], most_idle: int = MOST_IDLE) -> None:
        self.by_host: dict[str, HostPolicy] = {}
        self._clock = clock
        self._most_idle = most_idle
        self._earlier: dict[str, tuple[float, Mapping[str, float]]] = {}  # when it was known, and what

    def get(self, host: str | None) -> HostPolicy | None:
        return None if host is None else self.by_host.get(host)

    def take(self, host: str, rules: ThrottleRules) -> HostPolicy:
        """Return the host's policy, or a new one under these rules."""
        policy = self.by_host.pop(host, None)
        if policy is None:
            policy = HostPolicy(rules, self._clock)
            if host in self._earlier:
                at, manners = self._earlier.pop(host)
                policy.take_over(manners, self._clock() - at)
        self.by_host[host] = policy
        return policy

    def restore(self, host: str, manners: Mapping[str, float], age_seconds: float) -> None:
        """Let the host be treated as another process knew it so long ago."""
        self.by_host.pop(host, None)
        self._earlier[host] = self._clock() - age_seconds, manners

    def forget_idle(self, in_use: Container[str]) -> list[str]:
        """Drop the hosts beyond `most_idle` that were not used for longest, but none that is in a cooldown."""
        if len(self.by_host) <= self._most_idle:
            return []
        idle = [host for host, policy in self.by_host.items() if host not in in_use and policy.cooldown_seconds <= 0]
        forgotten = idle[: max(0, len(idle) - self._most_idle)]
        for host in forgotten:
            policy = self.by_host.pop(host)
            if policy.floor_gap_seconds > 0:
                self._earlier[host] = self._clock(), {"floor": policy.floor_gap_seconds}
        return forgotten
