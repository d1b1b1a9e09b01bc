"""Bounds what a host is given in flight by where it refused or got slower, and finds the way up again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

_REFUSAL_HOLD_SECONDS = 20.0  # a step up too many costs a refusal, and the host's cooldown
_LATENCY_HOLD_SECONDS = 4.0  # here it costs some milliseconds
_MAX_HOLD_SECONDS = 600.0
_UNDER_RATE = 0.9
_A_FEW = 6  # in flight
# Signs of a host that counts requests a second, not those in flight:
_MORE = 1.5  # times the answers a second: far more
_FEW, _MANY = 3, 20  # in flight
_LONG_SECONDS = 3.0  # a host's answers a second over less than that prove little
# Signs of a host that refuses at random:
_ENOUGH = 3  # refusals on each side
_ALIKE = 4.0  # times: three refusals tell a share no better
_MUCH_MORE = 4.5
_LATELY = 40  # answers


class Ceiling:
    """Most requests that a host is given in flight. `level` falls to what a host showed that it can take, and rises
    soon up to where the host refused; from there on, seldom.
    """

    def __init__(self, most: float, clock: Callable[[], float]) -> None:
        self.level = self._limit = self._most = most
        self.is_rate = False  # the host counts by the clock, not what it has in flight
        self._shares = _RefusalShares()
        self._clock = clock
        self._good_level = self._most_served = 0  # in flight at the end, and ever, of a healthy answer since a refusal
        self._refused_level = 0  # in flight at the last refusal
        self._served = 0  # healthy answers since then
        self._began_at = clock()
        self._refused_at = self._awake_at = -1e9
        self._rate = _RateSuspicion()
        self._under_limit = _Steps(_LATENCY_HOLD_SECONDS)
        self._over_limit = _Steps(_REFUSAL_HOLD_SECONDS)

    def begin_at(self, level: float) -> None:
        """Go on from a level that another process has found."""
        self.level = self._limit = min(level, self._most)

    @property
    def is_noise(self) -> bool:
        """Tell whether refusals come whatever is in flight."""
        return self._shares.noise > 0

    def served(self, at_start: int, at_end: int, window: float) -> None:
        self._shares.served(window)
        self._good_level = max(self._good_level, at_end)
        self._most_served = max(self._most_served, at_start, at_end)
        self._served += 1

    def refused(self, in_flight: int, window: float, latency_seconds: float, least: float, awake_at: float) -> None:
        """Take the limit half way from what went well to what was refused."""
        was_noise = self.is_noise
        self._shares.refused(window)
        if self.is_noise:
            if not was_noise:
                self.level = self._limit = min(self._shares.most, self._most)
                self.is_rate = False
                self._rate = _RateSuspicion()
            self._served = 0
            return
        now = self._clock()
        since = min(now - self._refused_at, now - self._began_at)
        is_soon = now - self._refused_at < self._over_limit.hold_seconds
        self._rate.refused(in_flight, self._most_served, self._served, since, is_soon=is_soon)
        level = limit = self._between(in_flight, window)
        if self._rate.refusals >= 2:
            # Between two refusals a token bucket serves its rate, over the time with the cooldown if it was not full
            # after that, else over the time without it. Little's law makes a level of the rate.
            rate = self._served / math.sqrt(since * max(now - self._awake_at, latency_seconds))
            level = min(level, _UNDER_RATE * rate * latency_seconds)
            self.is_rate = self._rate.is_proven
            level, limit = (level, level) if self.is_rate else (max(level, in_flight / 2), limit)
        self._limit = max(min(limit, self._limit), least)
        self.level = max(min(level, self.level), least)
        self._good_level = self._most_served = self._served = 0
        self._refused_level = in_flight
        self._refused_at, self._awake_at = now, awake_at
        self._over_limit.wrong(awake_at)

    def flight_refused(self, window: float) -> None:
        """Note another refusal of what was in flight at the last one. Where refusals are noise, so is each of them."""
        if self.is_noise:
            self._shares.refused(window)

    def _between(self, in_flight: int, window: float) -> float:
        if in_flight < 2:
            return 0.8 * window
        most = in_flight - 1.0
        least = min(self._good_level or most, most)
        # Of a few in flight one is much, so that the doubt is worth a refusal.
        return most if most - least <= 1 and most <= _A_FEW else (most + least) / 2

    def slowed(self, level: float) -> None:
        """Lower the level to what the host can work on, as latency showed."""
        self.level = min(self.level, level)
        self._under_limit.wrong(self._clock())

    def is_due(self) -> bool:
        """Tell whether there is a step up to take, and the time has come."""
        steps = self._under_limit if self.level < self._limit else self._over_limit
        return self.level < self._most and self._clock() >= steps.next_at

    def step_up(self) -> None:
        now = self._clock()
        if self.level < self._limit:
            self.level = min(self.level + self._under_limit.take(now), self._limit)
            return
        step = self._over_limit.take(now) * (min(1.0, self.level / 4) if self.is_rate else 1.0)
        self.level = self._limit = min(self.level + step, self._most)
        if self.level >= self._refused_level and not self.is_rate:
            # It takes what it refused: the limit has moved, unless it says so before long.
            self._over_limit.next_at = now + _LATENCY_HOLD_SECONDS

    def wait(self) -> None:
        """Put the next step up off, as the host is not quite well."""
        now = self._clock()
        self._under_limit.wait(now)
        self._over_limit.wait(now)


class _Steps:
    """Steps up, each twice as large as the last; one that was wrong doubles the hold, after several right ones anew."""

    def __init__(self, first_hold_seconds: float) -> None:
        self._first_hold_seconds = self.hold_seconds = first_hold_seconds
        self.next_at = 0.0
        self._step = 1.0

    def take(self, now: float) -> float:
        step, self._step = self._step, 2 * self._step
        self.wait(now)
        return step

    def wrong(self, now: float) -> None:
        if self._step > 4:
            self.hold_seconds = self._first_hold_seconds
        elif self._step > 1:
            self.hold_seconds = min(2 * self.hold_seconds, _MAX_HOLD_SECONDS)
        self._step = 1.0
        self.wait(now)

    def wait(self, now: float) -> None:
        self.next_at = max(self.next_at, now + self.hold_seconds)


class _RateSuspicion:
    """Counts refusals with as few in flight as went well a moment ago, and soon again: such a host counts requests a
    second. A limit in flight may look like that for two refusals, so it takes three, except where hardly anything is in
    flight, or so much that some do not matter.
    """

    def __init__(self) -> None:
        self.refusals = 0
        self._enough = 2
        self._proven = 0.0  # answers a second

    @property
    def is_proven(self) -> bool:
        return self.refusals >= self._enough

    def refused(self, in_flight: int, most_served: int, answers: int, seconds: float, *, is_soon: bool) -> None:
        """Note a refusal. Since the last one: `answers` in `seconds`, with up to `most_served` in flight."""
        if not is_soon:
            self.refusals, self._enough = 0, 2
        if _FEW < in_flight < _MANY:
            self._enough = 3
        if in_flight > 2 and self._proven * seconds > _MORE * answers + 2:
            self.refusals, self._enough, self._proven = 0, 3, 0.0
        elif seconds >= _LONG_SECONDS:
            self._proven = answers / seconds
        if is_soon and most_served >= in_flight:
            self.refusals += 1


class _RefusalShares:
    """Tells whether refusals answer to our load. Of a host that fails at random, as many are refused one by one as
    together: to give way to that has no end and helps nobody.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.most = 0.0  # the largest window that was refused
        self.noise = 0.0  # the share that is refused whatever the window is; 0: none is known
        self._lately = 0.0
        self._counts: dict[int, list[int]] = {}  # served and refused, by the binary logarithm of the window

    def served(self, window: float) -> None:
        if self.most:  # what was served before the first refusal says how long the crawl was
            self._at(window)[0] += 1
            self._lately -= self._lately / _LATELY

    def refused(self, window: float) -> None:
        if self.most:
            self._at(window)[1] += 1
            self._lately += (1 - self._lately) / _LATELY
        self.most = max(self.most, window)
        if not self.noise:
            self.noise = self._lately = self._found_noise()
        elif self._lately > _MUCH_MORE * self.noise:
            self._forget()

    def _found_noise(self) -> float:
        """Return the share where half the window, or less, has changed nothing."""
        levels = sorted(self._counts)
        for split in levels[1:]:
            below, few = self._share(level for level in levels if level < split)
            above, many = self._share(level for level in levels if level >= split)
            if min(few, many) >= _ENOUGH and above / _ALIKE <= below <= above * _ALIKE:
                return self._share(levels)[0]
        return 0.0

    def _at(self, window: float) -> list[int]:
        return self._counts.setdefault(math.floor(math.log2(window)), [0, 0])

    def _share(self, levels: Iterable[int]) -> tuple[float, int]:
        served, refused = map(sum, zip(*(self._counts[level] for level in levels), strict=True))
        return refused / max(served + refused, 1), refused
