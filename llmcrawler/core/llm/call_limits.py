"""Limits how fast the model is asked, and leaves a server alone for a while that does not answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from llmcrawler.errors import LLMFailed

WINDOW_SECONDS = 60.0
# Failed calls in a row until a server is left alone, and for how long: each cooldown is twice the one before.
_FAILURES_TO_OPEN = 3
_COOLDOWN_SECONDS, _MAX_COOLDOWN_SECONDS = 10.0, 120.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of the calls; 0 means none. `max_retry_seconds` bounds all waits between the attempts of one call."""

    concurrency: int = 4
    timeout_seconds: float = 60.0
    max_attempts: int = 4
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    max_retry_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Sources of time and chance, which tests replace. `wall` is Unix time."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    random: Callable[[], float] = random.random


REAL_CLOCK: Final = Clock()


class CallRate(Protocol):
    """Limits requests and tokens per minute: a RateLimiter, or one that several machines share."""

    def hold(self, seconds: float) -> None: ...

    async def admit(self, tokens: int) -> Any: ...

    def settle(self, entry: Any, tokens: int) -> None: ...


class RateLimiter:
    """Admits so many requests and tokens in any 60 s, in the order in which they come; `settle` corrects the estimated
    tokens.
    """

    def __init__(self, limits: CallLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._spent: deque[list[float]] = deque()
        self._held_until = 0.0
        self._turn = asyncio.Lock()

    def hold(self, seconds: float) -> None:
        """Admit no call for so many seconds: the server has said that it is asked too fast."""
        self._held_until = max(self._held_until, self._clock.monotonic() + seconds)

    async def admit(self, tokens: int) -> list[float]:
        async with self._turn:
            while (wait_seconds := self._wait_seconds(tokens)) > 0:
                await self._clock.sleep(wait_seconds)
            entry = [self._clock.monotonic(), float(tokens)]
            if self._limits.requests_per_minute or self._limits.tokens_per_minute:
                self._spent.append(entry)
            return entry

    @staticmethod
    def settle(entry: list[float], tokens: int) -> None:
        entry[1] = float(tokens)

    def _wait_seconds(self, tokens: int) -> float:
        now = self._clock.monotonic()
        while self._spent and self._spent[0][0] <= now - WINDOW_SECONDS:
            self._spent.popleft()
        return max(self._held_until, may_start(self._spent, tokens, self._limits)) - now


def may_start(starts: Sequence[Sequence[float]], tokens: int, limits: CallLimits) -> float:
    """Return from when a call of `tokens` may start, for when each call of the last minute did and its tokens."""
    found = 0.0
    if limits.requests_per_minute and len(starts) >= limits.requests_per_minute:
        found = starts[-limits.requests_per_minute][0] + WINDOW_SECONDS
    if limits.tokens_per_minute:
        # A call over the whole limit waits until the minute is empty: it could never go otherwise.
        surplus = sum(spent for _, spent in starts) + tokens - limits.tokens_per_minute
        for at, spent in starts:
            if surplus <= 0:
                break
            surplus -= spent
            found = max(found, at + WINDOW_SECONDS)
    return found


class CallBreaker:
    """Opens after three calls in a row that failed for good: a dead server costs a probe now and then (M. Nygard,
    "Release It!").
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.succeed()

    def succeed(self) -> None:
        self._failures = 0
        self._cooldown_seconds = _COOLDOWN_SECONDS
        self._open_until: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def admit(self) -> None:
        """Raise LLMFailed while the circuit is open. After the cooldown one call passes as a probe."""
        if self._open_until is None:
            return
        left_seconds = self._open_until - self._clock()
        if left_seconds > 0 or self._probing:
            when = f"in {left_seconds:.0f} s" if left_seconds > 0 else "under way"
            raise LLMFailed(f"the LLM server failed {self._failures} calls in a row; the next attempt is {when}")
        self._probing = True

    def fail(self, cooldown_seconds: float | None = None) -> bool:
        """Count a call that failed for good; the server may ask for a cooldown. Return whether this opens it."""
        self._failures += 1
        was_open = self.is_open
        if cooldown_seconds is None and self._failures < _FAILURES_TO_OPEN and not was_open:
            return False
        self._probing = False
        cooldown_seconds = min(_MAX_COOLDOWN_SECONDS, max(self._cooldown_seconds, cooldown_seconds or 0.0))
        self._open_until = self._clock() + cooldown_seconds
        self._cooldown_seconds = min(_MAX_COOLDOWN_SECONDS, self._cooldown_seconds * 2)
        return not was_open

    def release_probe(self) -> None:
        self._probing = False
