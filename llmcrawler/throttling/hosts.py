"""The policies of a crawl's hosts: of those in use, and of so many that were used last."""

from __future__ import annotations

from collections.abc import Callable, Container

from llmcrawler.throttling.policy import HostPolicy
from llmcrawler.throttling.rules import Rules

MOST_IDLE = 1000  # 3 KB each; a host that comes back starts as carefully as a new one


class HostPolicies:
    """By host and port, those used last at the end.

    Of a host that is forgotten, the gap that its robots.txt asks for is kept: it is read once in a crawl.
    """

    def __init__(self, clock: Callable[[], float], most_idle: int = MOST_IDLE) -> None:
        self.kept: dict[str, HostPolicy] = {}
        self._clock = clock
        self._most_idle = most_idle
        self._floors: dict[str, float] = {}

    def get(self, key: str | None) -> HostPolicy | None:
        return None if key is None else self.kept.get(key)

    def take(self, key: str, rules: Rules) -> HostPolicy:
        """The host's policy from here on: the one that it has, or a new one under these rules."""
        policy = self.kept.pop(key, None)
        if policy is None:
            policy = HostPolicy(rules, self._clock)
            floor = self._floors.pop(key, 0.0)
            if floor > 0:
                policy.set_floor(floor)
        self.kept[key] = policy
        return policy

    def forget_idle(self, in_use: Container[str]) -> list[str]:
        """Drop the hosts beyond `most_idle` that were not used for longest. Those that rest are waited for."""
        if len(self.kept) <= self._most_idle:
            return []
        idle = [key for key, policy in self.kept.items() if key not in in_use and policy.rest_seconds <= 0]
        forgotten = idle[: max(0, len(idle) - self._most_idle)]
        for key in forgotten:
            policy = self.kept.pop(key)
            if policy.floor_gap_seconds > 0:
                self._floors[key] = policy.floor_gap_seconds
        return forgotten
