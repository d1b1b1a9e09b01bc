"""Measures how long each turn of an event loop holds it, and names the code that held it for longer than a limit.

A turn is one callback: a step of a task, a timer, a socket that became ready. No other part of the crawl goes on in it.
Wall time would count what a busy machine gives to other processes, and CPU time would miss a blocking look-up of a name
or a thread that keeps Python's lock. So the measure is

    hold = the turn's wall time, less what the thread waited for a processor in it

which Linux counts for each thread in /proc/thread-self/schedstat. A hold is at least the thread's CPU time in the turn,
and equal to it where the kernel does not count. So it is the same on a quiet and on a loaded machine, but for the
processor's own speed. Turns whose wall time is within the limit are not measured further.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic, thread_time
from types import FrameType
from typing import Any, Final

_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_NOTABLE_SECONDS: Final = _BOUNDS_MS[0] / 1000  # shorter turns are counted, no more
_IDLE: Final = (  # where threads wait
    "threading",
    "queue",
    "concurrent.futures.thread",
    "selectors",
    "multiprocessing.connection",
    __name__,
)
_HANG_SECONDS: Final = 5.0
_PASSWORD: Final = re.compile(r"//[^/@\s]*@")
_URL_CHARS: Final = 200
_SCHEDULING: Final = {  # how the loop is given its callbacks, and which argument is the callback
    "call_soon": 0,
    "call_soon_threadsafe": 0,
    "call_later": 1,
    "call_at": 1,
    "add_reader": 1,
    "add_writer": 1,
}

_url_of_task: ContextVar[str | None] = ContextVar("url_of_task", default=None)
_url_of_turn: list[str | None] = [None]  # what other threads read: the variables of a frame that runs are not theirs


def note_url(url: str) -> None:
    """Note what the task that calls this works on from now on, for the lines about holds."""
    url = _PASSWORD.sub("//", url[: 2 * _URL_CHARS])[:_URL_CHARS]
    _url_of_task.set(url)
    _url_of_turn[0] = url


@dataclass(frozen=True, slots=True)
class LoopHold:
    """A turn that took longer than the limit, with what was seen in it."""

    seconds: float
    cpu_seconds: float
    wall_seconds: float
    seen: StackSample


@dataclass(frozen=True, slots=True)
class StackSample:
    """A look at the stacks: `place` is the innermost function of the package that ran, `url` what its task worked
    on. `beside` is a function of the package that another thread was in; it may have kept Python's lock.
    """

    place: str
    url: str | None = None
    beside: str | None = None


class LoopWatchdog:
    """Watches one event loop, and names functions of `package`.

    `on_hold` is called in the loop, after the turn; `on_hang` in another thread, once in a turn that has lasted for 5 s
    and ten limits, with its seconds so far.

    Install it in the loop's thread, while the loop runs.
    """

    def __init__(
        self,
        limit_seconds: float,
        package: str,
        on_hold: Callable[[LoopHold], None],
        on_hang: Callable[[float, StackSample], None],
    ) -> None:
        self._limit_seconds = limit_seconds
        self._package = package
        self._on_hold = on_hold
        self._on_hang = on_hang
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._began = 0.0  # of the turn that runs; 0: none does
        self._seen: tuple[float, Counter[StackSample]] = (0.0, Counter())  # in the turn that began then
        self._queue = _QueueTime()
        self._stopped = threading.Event()
        self._sampler: threading.Thread | None = None
        self.looks = 0  # at the stack of a turn that lasted
        self.turns = 0
        self.durations: Counter[int] = Counter()  # of turns of a millisecond and more, by the next lower bound in ms
        self.max_seconds = 0.0
        self.max_cpu_seconds = 0.0  # the same on a machine whose processors others have, and blind to what only waits

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread_id = loop, threading.get_ident()
        self._queue.open()
        for name, place in _SCHEDULING.items():
            # On the instance: Python's tasks and Twisted's reactor look the method up with each call.
            setattr(loop, name, self._scheduling(getattr(loop, name), place))
        self._sampler = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        self._sampler.start()

    def remove(self) -> None:
        """Stop watching. Callbacks that are scheduled already are still measured."""
        if self._loop is None or self._sampler is None:
            return
        for name in _SCHEDULING:
            delattr(self._loop, name)
        self._stopped.set()
        self._sampler.join()
        self._loop = None
        self._queue.close()

    def share_within(self, share: float) -> int:
        """Return the bound in ms that this share of the turns of a millisecond and more is within; 0 without any."""
        wanted, met = share * self.durations.total(), 0
        for place, bound in enumerate(_BOUNDS_MS):
            met += self.durations[bound]
            if met >= wanted:
                return _BOUNDS_MS[min(place + 1, len(_BOUNDS_MS) - 1)] if met else 0
        return _BOUNDS_MS[-1]

    # -- turns --------------------------------------------------------------------------------------------------------

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
        _url_of_turn[0] = _url_of_task.get()
        began = self._began = monotonic()
        try:
            callback(*args)
        finally:
            seconds = monotonic() - began
            self._began = 0.0
            self.turns += 1
            if seconds >= _NOTABLE_SECONDS:
                self._note(callback, began, seconds, thread_time() - cpu)

    def _note(self, callback: Callable[..., Any], began: float, wall: float, cpu: float) -> None:
        held = wall
        if wall > self._limit_seconds:
            waited = self._queue.since(began)
            held = cpu if waited is None else max(cpu, wall - waited)
        milliseconds = held * 1000
        if milliseconds >= _BOUNDS_MS[0]:
            self.durations[max(bound for bound in _BOUNDS_MS if bound <= milliseconds)] += 1
        self.max_seconds, self.max_cpu_seconds = max(self.max_seconds, held), max(self.max_cpu_seconds, cpu)
        if held > self._limit_seconds:
            turn, seen = self._seen
            sight = (
                seen.most_common(1)[0][0]
                if turn == began and seen
                else StackSample(_name_of(callback), _url_of_turn[0])
            )
            self._on_hold(LoopHold(held, cpu, wall, sight))

    # -- the thread that looks on -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look at the loop's stack while a turn lasts. During a call that keeps Python's lock this thread waits for the
        lock, and gets it first: the stack is then the one of that call.
        """
        hang_seconds, hanging = max(_HANG_SECONDS, 10 * self._limit_seconds), 0.0
        while not self._stopped.wait(self._limit_seconds / 4):
            began = self._began
            self._queue.note(began)
            if not began or monotonic() - began < self._limit_seconds / 2:
                continue
            frames = sys._current_frames()
            if self._thread_id not in frames or self._began != began:
                continue
            if self._seen[0] != began:
                self._seen = (began, Counter())
            sight = _sight(frames, self._thread_id, self._package)
            self._seen[1][sight] += 1
            self.looks += 1
            lasted = monotonic() - began
            if lasted > hang_seconds and hanging != began:
                hanging = began
                self._on_hang(lasted, sight)


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


def _sight(frames: dict[int, FrameType], thread_id: int, package: str) -> StackSample:
    place = _place_of(frames.pop(thread_id), package)
    busy = (frame for frame in frames.values() if frame.f_globals.get("__name__") not in _IDLE)
    beside = next((name for frame in busy if (name := _own_place(frame, package)) is not None), None)
    return StackSample(place, _url_of_turn[0], beside)


def _place_of(frame: FrameType, package: str) -> str:
    innermost, place = _name_of_frame(frame), _own_place(frame, package)
    return innermost if place is None or place == innermost else f"{place} in {innermost}"


def _own_place(frame: FrameType, package: str) -> str | None:
    own = (one for one in _outwards(frame) if one.f_globals.get("__name__", "").partition(".")[0] == package)
    return next(map(_name_of_frame, own), None)


def _outwards(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames from the innermost one to where the turn began."""
    one: FrameType | None = frame
    while one is not None and one.f_globals.get("__name__") != __name__:
        yield one
        one = one.f_back


def _name_of_frame(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"


def _name_of(callback: Callable[..., Any]) -> str:
    """Return the function that a turn began with, when its stack was never looked at."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        callback = owner.get_coro()  # type: ignore[assignment]
    return str(getattr(callback, "__qualname__", type(callback).__name__))
