"""An extension that says which code held the event loop of a crawl for longer than LOOP_WATCH_MS.

A turn is one callback of the loop: a step of a task, a timer, a socket that became ready. Wall time would count what a
busy machine gives to other processes, and CPU time would miss a blocking look-up of a name. So the measure is

    hold = the turn's wall time, less what the thread waited for a processor in it

which Linux counts for each thread in /proc/thread-self/schedstat; where the kernel does not count, it is the CPU time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic, thread_time
from types import FrameType
from typing import Any, Final, Self

from scrapy import signals
from scrapy.crawler import Crawler

from llmcrawler.settings import EXTENSIONS

LOOP_WATCH: Final = {"EXTENSIONS": json.dumps({**EXTENSIONS, "tests.e2e.loop_watch.LoopWatch": 620})}  # settings

_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_SCHEDULING: Final = {  # how the loop is given its callbacks, and which argument is the callback
    "call_soon": 0,
    "call_soon_threadsafe": 0,
    "call_later": 1,
    "call_at": 1,
    "add_reader": 1,
    "add_writer": 1,
}

logger = logging.getLogger(__name__)


class LoopWatch:
    """Watches from when the spider is opened, so that imports before do not count."""

    def __init__(self, crawler: Crawler, limit_seconds: float) -> None:
        assert crawler.stats is not None
        self._stats = crawler.stats
        self._watchdog = LoopWatchdog(limit_seconds, "llmcrawler", self._held)
        self._greatest: dict[str, float] = {}  # hold of each place, seconds

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        watch = cls(crawler, crawler.settings.getfloat("LOOP_WATCH_MS", 50) / 1000)
        for name in ("spider_opened", "spider_closed", "engine_stopped"):
            crawler.signals.connect(getattr(watch, name), getattr(signals, name))
        return watch

    def spider_opened(self) -> None:
        self._stats.set_value("llmcrawler/loop/holds", 0)
        self._watchdog.install(asyncio.get_running_loop())

    def spider_closed(self) -> None:
        """Write the stats. The feeds are still to be written; a hold in them has its log line."""
        for name, value in self._watchdog.figures().items():
            self._stats.set_value(f"llmcrawler/loop/{name}", value)

    def engine_stopped(self) -> None:
        self._watchdog.remove()

    def _held(self, place: str, seconds: float, cpu_seconds: float, wall_seconds: float) -> None:
        self._stats.inc_value("llmcrawler/loop/holds")
        if seconds > 2 * self._greatest.get(place, 0.0):  # so a place has a dozen lines in a crawl at most
            self._greatest[place] = seconds
            values = (place, *(value * 1000 for value in (seconds, cpu_seconds, wall_seconds)))
            logger.warning("%s held the event loop for %.0f ms (CPU %.0f, wall %.0f)", *values)


class LoopWatchdog:
    """Calls `on_hold` in the loop, after each turn of more than the limit: with the innermost function of `package`
    that was seen to run in it, and with the seconds of the hold, of CPU time and of wall time.

    Install it in the loop's thread, while the loop runs.
    """

    def __init__(self, limit_seconds: float, package: str, on_hold: Callable[[str, float, float, float], None]) -> None:
        self._limit_seconds = limit_seconds
        self._package = package
        self._on_hold = on_hold
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._began = 0.0  # of the turn that runs; 0: none does
        self._seen: tuple[float, Counter[str]] = (0.0, Counter())  # places in the turn that began then
        self._queue = _QueueTime()
        self._stopped = threading.Event()
        self._sampler = threading.Thread(target=self._watch, name="loop-watch", daemon=True)
        self.looks = 0  # at the stack of a turn that lasted
        self.turns = 0
        self.durations: Counter[int] = Counter()  # of turns of a millisecond and more, by the next lower bound in ms
        self.max_seconds = 0.0
        self.max_cpu_seconds = 0.0

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread_id = loop, threading.get_ident()
        self._queue.open()
        for name, place in _SCHEDULING.items():
            # On the instance: Python's tasks and Twisted's reactor look the method up with each call.
            setattr(loop, name, self._scheduling(getattr(loop, name), place))
        self._sampler.start()

    def remove(self) -> None:
        """Stop watching. Callbacks that are scheduled already are still measured."""
        if self._loop is None:
            return
        for name in _SCHEDULING:
            delattr(self._loop, name)
        self._stopped.set()
        self._sampler.join()
        self._loop = None
        self._queue.close()

    def figures(self) -> dict[str, float]:
        """Return counts of turns, the longest hold, and what 99 of 100 turns of a millisecond and more are within."""
        in_order = sorted(self.durations.elements())
        within = in_order[int(0.99 * len(in_order))] if in_order else 0
        return {
            "turns": self.turns,
            "max_hold_seconds": round(self.max_seconds, 4),
            "max_hold_cpu_seconds": round(self.max_cpu_seconds, 4),
            "p99_hold_ms": next((bound for bound in _BOUNDS_MS if bound > within), within) if within else 0,
        }

    def _scheduling(self, schedule: Callable[..., Any], place: int) -> Callable[..., Any]:
        run = self._run

        def scheduled(*args: Any, **keywords: Any) -> Any:
            if args[place] is run:  # asyncio's own loop has call_later go by call_at
                return schedule(*args, **keywords)
            return schedule(*args[:place], run, *args[place:], **keywords)

        self._run = run  # type: ignore[method-assign] # one object, so that `is` finds it
        return scheduled

    def _run(self, callback: Callable[..., Any], *args: Any) -> None:
        cpu = thread_time()
        began = self._began = monotonic()
        try:
            callback(*args)
        finally:
            seconds = monotonic() - began
            self._began = 0.0
            self.turns += 1
            if seconds * 1000 >= _BOUNDS_MS[0]:
                self._note(callback, began, seconds, thread_time() - cpu)

    def _note(self, callback: Callable[..., Any], began: float, wall: float, cpu: float) -> None:
        held = wall
        if wall > self._limit_seconds:
            waited = self._queue.since(began)
            held = cpu if waited is None else max(cpu, wall - waited)
        if held * 1000 >= _BOUNDS_MS[0]:
            self.durations[max(bound for bound in _BOUNDS_MS if bound <= held * 1000)] += 1
        self.max_seconds, self.max_cpu_seconds = max(self.max_seconds, held), max(self.max_cpu_seconds, cpu)
        if held > self._limit_seconds:
            turn, places = self._seen
            place = places.most_common(1)[0][0] if turn == began and places else _name_of(callback)
            self._on_hold(place, held, cpu, wall)

    def _watch(self) -> None:
        """Look at the loop's stack while a turn lasts. During a call that keeps Python's lock this thread waits for the
        lock, and gets it first: the stack is then the one of that call.
        """
        while not self._stopped.wait(self._limit_seconds / 4):
            began = self._began
            self._queue.note(began)
            if not began or monotonic() - began < self._limit_seconds / 2:
                continue
            frame = sys._current_frames().get(self._thread_id)
            if frame is None or self._began != began:
                continue
            if self._seen[0] != began:
                self._seen = (began, Counter())
            self._seen[1][self._place_of(frame)] += 1
            self.looks += 1

    def _place_of(self, frame: FrameType) -> str:
        innermost, one = _name_of_frame(frame), frame
        while one.f_back is not None and one.f_globals.get("__name__") != __name__:
            if one.f_globals.get("__name__", "").partition(".")[0] == self._package:
                own = _name_of_frame(one)
                return own if own == innermost else f"{own} in {innermost}"
            one = one.f_back
        return innermost


class _QueueTime:
    """Counts how long the thread that opened it has waited for a processor, as the kernel counts it.

    Another thread reads the count: reading gives Python's lock away, and the measured thread would wait for it each
    time. So the waiting of a turn includes some milliseconds before it.
    """

    def __init__(self) -> None:
        self._file = -1
        self._last = self._before = (0.0, 0.0)  # moment and count; `before` is from before the turn that runs

    def open(self) -> None:
        with contextlib.suppress(OSError):
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
            self._last = self._before = (monotonic(), self._count())

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def note(self, turn_began: float) -> None:
        """Read the count. `turn_began` is 0 when no turn runs."""
        if self._file >= 0:
            if not turn_began or self._last[0] <= turn_began:
                self._before = self._last
            self._last = (monotonic(), self._count())

    def since(self, turn_began: float) -> float | None:
        """Return the seconds waited since then; None where the kernel does not count."""
        if self._file < 0:
            return None
        before = self._last if self._last[0] <= turn_began else self._before
        return self._count() - before[1]

    def _count(self) -> float:
        return int(os.pread(self._file, 64, 0).split()[1]) / 1e9  # CPU time, waiting time, turns


def _name_of_frame(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"


def _name_of(callback: Callable[..., Any]) -> str:
    """Return the function that a turn began with, when its stack was never looked at."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        callback = owner.get_coro()  # type: ignore[assignment]
    return str(getattr(callback, "__qualname__", type(callback).__name__))
