"""Breaks the circuit to a server that fails again and again: it is left alone, and looked at from time to time."""

from __future__ import annotations

# The cooldown doubles: at 64 times the first one it is long enough for a server that is down, and soon over when it is
# back.
_MAX_DOUBLINGS = 6


class HostBreaker:
    """Opens after `failures_to_open` in a row; from then on each failure is a probe (M. Nygard, Release It!)."""

    def __init__(self, failures_to_open: int, cooldown_seconds: float) -> None:
        self._failures_to_open = failures_to_open
        self._first_cooldown_seconds = cooldown_seconds
        self.failures = 0
        self.reason = ""
        self.has_ever_answered = False

    @property
    def is_open(self) -> bool:
        return self.failures >= self._failures_to_open

    @property
    def failed_probes(self) -> int:
        return max(0, self.failures - self._failures_to_open)

    @property
    def cooldown_seconds(self) -> float:
        """Return how long the server is left alone after the last failure; 0 while the breaker is closed."""
        return self._first_cooldown_seconds * 2.0 ** min(self.failed_probes, _MAX_DOUBLINGS) if self.is_open else 0.0

    def failed(self, reason: str) -> None:
        self.failures += 1
        self.reason = reason

    def answered(self) -> bool:
        """Note a real answer. Tell whether it closes the breaker."""
        closes = self.is_open
        self.failures = 0
        self.has_ever_answered = True
        return closes
