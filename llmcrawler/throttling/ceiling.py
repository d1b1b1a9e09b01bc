"""The most that a host is given in flight: where it refused, or got slower; and the way up again."""

from __future__ import annotations

import math
from collections.abc import Callable

_FIRST_HOLD_SECONDS, _MAX_HOLD_SECONDS = 20.0, 600.0  # a step up too many costs a refusal
_LATENCY_HOLD_SECONDS = 4.0  # here it costs some milliseconds
_UNDER_RATE = 0.9


class Ceiling:
    """`level` falls to what a host showed that it can take. It rises by a step after a hold, the next step is twice as
    large; a step that was wrong makes the hold twice as long.
    """

    def __init__(self, most: float, clock: Callable[[], float]) -> None:
        self.level = self._most = most
        self.is_rate = False  # the host counts by the clock, not what it has in flight
        self._clock = clock
        self._good_level = 0.0  # the most in flight at a healthy answer since the last refusal
        self._served = 0  # healthy answers since then
        self._refused_at = self._awake_at = -1e9
        self._is_refused_level = False  # the level is where the host refused
        self._refusals_of_rate = 0
        self._hold_seconds = _FIRST_HOLD_SECONDS
        self._next_step_at = 0.0
        self._step = 1.0

    def served(self, in_flight: int) -> None:
        self._good_level = max(self._good_level, in_flight)
        self._served += 1

    def refused(self, in_flight: int, window: float, latency_seconds: float, least: float, awake_at: float) -> None:
        """The level comes half of the way from what went well to what was refused."""
        now = self._clock()
        since = now - self._refused_at
        # As few as went well a moment ago: it is not what is in flight that the host minds.
        if since >= self._hold_seconds:
            self._refusals_of_rate = 0
        elif self._good_level >= in_flight:
            self._refusals_of_rate += 1
        level = 0.8 * window
        if in_flight >= 2:
            refused = in_flight - 1.0
            level = (refused + min(self._good_level or refused, refused)) / 2
        if self._refusals_of_rate >= 2:
            # Between two refusals a token bucket serves its rate, over the time with the rest if it was not full after
            # that, else over the time without it. Little's law makes a level of the rate.
            rate = self._served / math.sqrt(since * max(now - self._awake_at, latency_seconds))
            level = min(level, _UNDER_RATE * rate * latency_seconds)
            self.is_rate = True
        self.level = max(min(level, self.level), least)
        self._good_level, self._served = 0.0, 0
        if not self._is_refused_level:
            self._hold_seconds = _FIRST_HOLD_SECONDS
        self._is_refused_level = True
        self._refused_at, self._awake_at = now, awake_at
        self._wrong_step(awake_at)

    def slowed(self, level: float) -> None:
        """Latency shows that this is what the host can work on."""
        self.level = min(self.level, level)
        if self._refused_at <= self._clock() - self._hold_seconds:
            self._hold_seconds = _LATENCY_HOLD_SECONDS
            self._is_refused_level = self.is_rate = False
        self._wrong_step(self._clock())

    def is_due(self) -> bool:
        """Whether the hold is over and there is a step to take."""
        return self.level < self._most and self._clock() >= self._next_step_at

    def step_up(self) -> None:
        step = self._step * min(1.0, self.level / 4) if self.is_rate else self._step
        self.level = min(self.level + step, self._most)
        self._step *= 2
        self.hold()

    def hold(self) -> None:
        self._next_step_at = self._clock() + self._hold_seconds

    def _wrong_step(self, awake_at: float) -> None:
        if self._step > 1:
            self._hold_seconds = min(2 * self._hold_seconds, _MAX_HOLD_SECONDS)
        self._step = 1.0
        self._next_step_at = awake_at + self._hold_seconds
