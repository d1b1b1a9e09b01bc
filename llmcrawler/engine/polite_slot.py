"""The queue of one host in the downloader, and what all of them together may have in flight."""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any

from scrapy import Request
from scrapy.core.downloader import Slot

from llmcrawler.engine.request_context import update_context


class StartGate:
    """Lets no more than `most` requests of all slots be in flight (0: any number). `waiting` counts the requests that
    wait in slots: for the gap after the last one, for a place at their host, or here.
    """

    def __init__(self, most: int, start: Callable[[Slot], None]) -> None:
        self._most = most
        self._start = start
        self._in_turn: OrderedDict[Slot, None] = OrderedDict()  # slots that could start a request if it were not full
        self.in_flight = 0
        self.waiting = 0

    @property
    def is_full(self) -> bool:
        return 0 < self._most <= self.in_flight

    def admits(self, slot: Slot) -> bool:
        """Return whether a slot may start a request. One that may not is told when it may."""
        if not self.is_full:
            return True
        if slot.queue:
            self._in_turn[slot] = None
        return False

    def leave(self) -> None:
        """Note that a request is no longer in flight, and let those start that wait for its place."""
        self.in_flight -= 1
        while self._in_turn and not self.is_full:
            slot, _ = self._in_turn.popitem(last=False)
            self._start(slot)


class PoliteSlot(Slot):
    """Draws the gap to the next request once, when a request starts.

    Scrapy draws a new one whenever it looks, so that the mean is longer than what was asked for. Here the gaps so far
    are never far from it: after gaps that were shorter the next one is longer, and the other way round.
    """

    def __init__(
        self, concurrency: int, delay: float, jitter: float, gate: StartGate, on_start: Callable[[PoliteSlot], object]
    ) -> None:
        super().__init__(concurrency, delay, jitter)
        self.queue = _CountingQueue(self, gate)
        self.rests_until = 0.0
        self.went_out = -math.inf  # when its last request did: after its start, where other workers are heard first
        self.turn = asyncio.Lock()  # of those that have started and have not gone out
        self._gate = gate
        self._on_start = on_start
        self._gap = delay
        self._excess = 0.0  # seconds that this gap is longer than its mean
        self._surplus = 0.0  # that those before it were

    def download_delay(self) -> float:
        return max(self._gap, self.rests_until - self.lastseen)

    def free_transfer_slots(self) -> int:
        free = super().free_transfer_slots()
        return free if free <= 0 or self._gate.admits(self) else 0

    @property
    def gap(self) -> float:
        """Seconds from the request that started last to the next one."""
        return self._gap

    @property
    def least_gap(self) -> float:
        """Seconds that are between two requests at least."""
        return max(0.0, self.delay * (1 - self.jitter))

    def start(self, request: Request) -> None:
        self.transferring.add(request)
        self._gate.in_flight += 1
        update_context(request, started=monotonic(), in_flight=len(self.transferring))
        self._on_start(self)
        self._surplus += self._excess
        self.draw_gap()

    def give_back(self, entries: Collection[tuple[Request, Any]], error: Callable[[], Exception]) -> None:
        """Fail requests that wait here."""
        for entry in entries:
            self.queue.remove(entry)
        for _request, waiting in entries:
            waiting.errback(error())

    def draw_gap(self) -> None:
        """Draw the gap after the request that started last, in the place of one that was drawn before."""
        least = 0.0 if self._surplus < 0 else -self.jitter
        most = 0.0 if self._surplus > 0 else self.jitter
        self._gap = max(0.0, self.delay * (1 + random.uniform(least, most)))  # noqa: S311 (no secret)
        self._excess = self._gap - self.delay


class _CountingQueue(deque[tuple[Request, Any]]):
    """Counts a request as transferring when it leaves the queue.

    Scrapy 2.14 to 2.19 counts it in the task that downloads it. The tasks run after the loop that starts them, so with
    no delay that loop drained the whole queue: 59 requests in flight where 5 were allowed.
    """

    def __init__(self, slot: PoliteSlot, gate: StartGate) -> None:
        super().__init__()
        self._slot = slot
        self._gate = gate

    def append(self, entry: tuple[Request, Any]) -> None:
        super().append(entry)
        self._gate.waiting += 1

    def popleft(self) -> tuple[Request, Any]:
        entry = super().popleft()
        self._gate.waiting -= 1
        self._slot.start(entry[0])
        return entry

    def remove(self, entry: tuple[Request, Any]) -> None:
        super().remove(entry)
        self._gate.waiting -= 1

    def clear(self) -> None:
        self._gate.waiting -= len(self)
        super().clear()
