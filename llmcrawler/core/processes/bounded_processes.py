"""Runs pure functions in processes of their own, with limits on time and memory.

What a stranger's page costs cannot always be told before: a parser written in C cannot be interrupted, and what it
allocates cannot be taken back. Such work is done in another process, and what it may cost is the kernel's business.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final, ParamSpec, TypeVar, cast

from llmcrawler.core.processes.own_processes import fork_python
from llmcrawler.core.processes.process_worker import (
    DIED,
    DONE,
    OUT_OF_MEMORY,
    RAISED,
    TOO_MUCH,
    Buffer,
    packed,
    supervise,
)
from llmcrawler.errors import ContentError, ReadingStopped

P = ParamSpec("P")
T = TypeVar("T")

_MEMORY_BYTES: Final = 512 * 2**20
_RESULT_BYTES: Final = 32 * 2**20
# Each piece of work that goes over a limit halves the time of the later ones of its share, down to this; each that does
# not takes one such fault back.
_LEAST_SECONDS: Final = 0.5
ENDING: Final = "the crawl was stopped before this was read"


class _Process:
    """A process of ours and the socket to it."""

    def __init__(self, modules: Sequence[str], memory_bytes: int, result_bytes: int) -> None:
        self.works = True
        self._is_ended = False
        self._supervisor, ours = fork_python(supervise, modules, memory_bytes=memory_bytes, result_bytes=result_bytes)
        self._connection = Connection(ours.detach())

    def ask(self, work: list[Buffer]) -> bytes:
        """Send the work, emptying the list, and return the answer. Blocks, so it is called in a thread."""
        try:
            while work:
                self._connection.send_bytes(work.pop(0))
            return self._connection.recv_bytes()
        except (OSError, EOFError):
            self.works = False
            return DIED + b"gone"

    def end(self) -> None:
        """End the process at once, whatever it does; a thread that waits for its answer gets DIED."""
        self.works = False
        if self._is_ended:
            return
        self._is_ended = True
        self._supervisor.end()
        self._connection.close()


@dataclass(slots=True, eq=False)
class _Waiting:
    share: str
    turn: asyncio.Future[_Process | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class BoundedProcesses:
    """Keeps up to `count` processes, started when there is work for them; `modules` are loaded before the first work.

    `memory_bytes`: how much a process may grow; `result_bytes`: the largest answer, pickled.
    """

    def __init__(
        self,
        modules: Sequence[str] = (),
        *,
        count: int = 2,
        memory_bytes: int = _MEMORY_BYTES,
        result_bytes: int = _RESULT_BYTES,
    ) -> None:
        self._modules = modules
        self._count = count
        self._limits = (memory_bytes, result_bytes)
        self._all: list[_Process] = []
        self._free: list[_Process] = []
        self._waiting: list[_Waiting] = []
        self._running: Counter[str] = Counter()
        self._spent: defaultdict[str, float] = defaultdict(float)  # seconds by share
        self._faults: Counter[str] = Counter()
        self._closed = False

    async def run(self, function: Callable[P, T], *arguments: P.args, seconds: float, share: str = "") -> T:  # type: ignore[valid-type]
        """Call the function in a process and return its result. It stands at the top of a module and depends on nothing
        but its arguments; these and the result can be pickled.

        `seconds`: of processor time. `share`: on whose behalf, such as a site's name. Of the shares that wait, the one
        whose work has taken the least time so far comes first; one that has exceeded limits before gets less time.

        Raises ContentError where the work takes too long, too much memory, has too large a result or takes the process
        down; the next piece of work gets a fresh process then. What the function raises is raised here.
        """
        seconds = max(min(_LEAST_SECONDS, seconds), seconds / 2 ** min(self._faults[share], 20))
        work = await asyncio.to_thread(packed, seconds, function, arguments)
        async with self._process(share) as process:
            started = asyncio.get_running_loop().time()
            try:
                kind, result = await asyncio.to_thread(_ask, process, work)
            finally:
                self._spent[share] += asyncio.get_running_loop().time() - started
        if self._closed and kind == DIED:
            raise ReadingStopped(ENDING)
        if kind == DONE:
            self._faults[share] = max(0, self._faults[share] - 1)
            return cast(T, result)
        if isinstance(result, ContentError):
            self._faults[share] += 1
        if kind == RAISED:
            raise cast(Exception, result)
        self._faults[share] += 1
        raise ContentError(fault_words(kind, cast(str, result), seconds, self._limits[0]))

    def close(self) -> None:
        """End all processes at once, whatever they do. What runs, waits or comes later gets ReadingStopped."""
        self._closed = True
        for process in self._all:
            process.end()
        self._all.clear()
        self._free.clear()
        for one in self._waiting:
            if not one.turn.done():
                one.turn.set_result(None)
        self._waiting.clear()

    @asynccontextmanager
    async def _process(self, share: str) -> AsyncIterator[_Process]:
        process = await self._take(share)
        try:
            yield process
        except asyncio.CancelledError:
            process.end()  # a thread still waits for its answer
            raise
        finally:
            self._running[share] -= 1
            self._give_back(process)

    async def _take(self, share: str) -> _Process:
        if self._closed:
            raise ReadingStopped(ENDING)
        process = None if self._waiting else self._any()
        if process is None:
            one = _Waiting(share)
            self._waiting.append(one)
            try:
                process = await one.turn
            except asyncio.CancelledError:
                if one.turn.done() and not one.turn.cancelled() and (given := one.turn.result()) is not None:
                    self._running[share] -= 1
                    self._give_back(given)
                elif one in self._waiting:
                    self._waiting.remove(one)
                raise
            if process is None:
                raise ReadingStopped(ENDING)
        else:
            self._running[share] += 1
        return process

    def _any(self) -> _Process | None:
        if self._free:
            return self._free.pop()
        if len(self._all) >= self._count:
            return None
        process = _Process(self._modules, *self._limits)
        self._all.append(process)
        return process

    def _give_back(self, process: _Process) -> None:
        if process in self._all:
            if process.works:
                self._free.append(process)
            else:
                self._all.remove(process)
                process.end()
        while self._waiting and not self._closed:
            found = self._any()
            if found is None:
                return
            one = min(self._waiting, key=lambda one: (self._running[one.share] > 0, self._spent[one.share]))
            self._waiting.remove(one)
            self._running[one.share] += 1
            one.turn.set_result(found)


def _ask(process: _Process, work: list[Buffer]) -> tuple[bytes, object]:
    """Ask in a thread, and unpickle there too, where that does not hold the event loop."""
    answer = process.ask(work)
    kind, rest = answer[:1], memoryview(answer)[1:]
    if kind in (DONE, RAISED):
        return kind, pickle.loads(rest)  # noqa: S301 - from a process of ours
    return kind, bytes(rest).decode(errors="replace")


def fault_words(kind: bytes, detail: str, seconds: float, memory_bytes: int) -> str:
    """Say why a piece of work gave no result: the first byte of the answer and what goes with it, and its limits."""
    if kind == OUT_OF_MEMORY or (kind == DIED and detail in ("SIGSEGV", "SIGABRT", "SIGBUS")):
        return f"reading it took more than {memory_bytes // 2**20} MB of memory"
    if kind == TOO_MUCH:
        return f"what was read of it is too large: {detail}"
    if detail in ("SIGPROF", "SIGALRM"):
        return f"reading it took over {seconds:g} s"
    return f"the process that read it died ({detail})"


def is_alive(pid: int) -> bool:
    """Tell whether there is a process of this number on the machine, of whatever user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
