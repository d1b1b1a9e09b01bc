"""Runs pure functions in processes of their own, with limits on time and memory.

What a stranger's page costs cannot always be told before: a parser written in C cannot be interrupted, and what it
allocates cannot be taken back. Such work is done in another process, and what it may cost is the kernel's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import resource
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

from llmcrawler.core.processes.forking import fork_python
from llmcrawler.errors import ContentError, ReadingStopped

# The first byte of an answer.
DONE, RAISED, DIED, OUT_OF_MEMORY, TOO_MUCH = b"=", b"!", b"x", b"m", b"+"

_LEAVES, _WORN = 0, 3  # exit statuses of a worker: the crawl has ended; it has grown, a fresh one is to go on
_WORN_BYTES = 128 * 2**20  # that a worker has grown by
_PROTOCOL = 5
_NICENESS = 5  # the crawl goes first where there are fewer processors than processes
# Time by the clock for each second of processor time: others may use the processor too.
_PATIENCE = 5.0
_PATIENCE_SECONDS = 20.0


Buffer = bytes | memoryview
# A longer argument goes beside the pickled ones, which would be copies of it.
_BESIDE_BYTES = 64 * 1024


def packed(seconds: float, function: Callable[..., Any], arguments: Sequence[Any]) -> list[Buffer]:
    """Pack a piece of work into the parts in which it is sent. Long arguments are not copied, but for text, which is
    encoded once as UTF-8.
    """
    beside: list[pickle.PickleBuffer] = []
    apart = [_apart(one) for one in arguments]
    head = pickle.dumps((seconds, function, apart), _PROTOCOL, buffer_callback=beside.append)
    return [bytes([len(beside)]) + head, *(one.raw() for one in beside)]


class _Text:
    """A long text on its way. Python would keep its UTF-8 for as long as the text, and copy it twice."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __reduce__(self) -> tuple[Callable[..., str], tuple[pickle.PickleBuffer, str, str]]:
        return str, (pickle.PickleBuffer(self._text.encode("utf-8", "surrogatepass")), "utf-8", "surrogatepass")


def _apart(argument: Any) -> Any:
    if isinstance(argument, bytes) and len(argument) > _BESIDE_BYTES:
        return pickle.PickleBuffer(argument)
    return _Text(argument) if isinstance(argument, str) and len(argument) > _BESIDE_BYTES else argument


def supervise(descriptor: int, memory_bytes: int, result_bytes: int) -> None:
    """Keep one worker on the socket until the other side has closed it."""
    os.nice(_NICENESS)
    # BrokenPipeError: the crawl has ended meanwhile.
    with Connection(descriptor) as connection, contextlib.suppress(BrokenPipeError, ConnectionError):
        while True:
            worker = os.fork()
            if worker == 0:
                end_now(_work(connection, memory_bytes, result_bytes))
            _, status = os.waitpid(worker, 0)
            if os.WIFSIGNALED(status):
                connection.send_bytes(DIED + signal.Signals(os.WTERMSIG(status)).name.encode())
            elif os.WEXITSTATUS(status) == _LEAVES:
                return
            elif os.WEXITSTATUS(status) != _WORN:
                connection.send_bytes(DIED + b"exit")


def end_now(status: int) -> None:
    sys.stdout.flush()
    os._exit(status)


def _work(connection: Connection, memory_bytes: int, result_bytes: int) -> int:
    """Run one piece of work after the other; return the exit status."""
    limit_memory(memory_bytes)
    fresh_bytes = resident_bytes()
    while True:
        try:
            work = connection.recv_bytes()
            beside = [connection.recv_bytes() for _ in range(work[0])]
        except (EOFError, OSError):
            return _LEAVES
        answer = answer_of(partial(_call, work, beside), result_bytes)
        del work, beside
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            connection.send_bytes(answer)
        del answer
        if is_worn(fresh_bytes):
            return _WORN


def _call(work: bytes, beside: list[bytes]) -> Any:
    seconds, function, arguments = pickle.loads(memoryview(work)[1:], buffers=beside)  # noqa: S301 - from the crawl
    limit_time(seconds)
    return function(*arguments)


def answer_of(call: Callable[[], Any], result_bytes: int) -> bytes:
    """Return what a call gives, pickled, or what became of it: one of the bytes above and what goes with it. The call
    may limit its time.
    """
    try:
        answer = DONE + pickle.dumps(call(), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        answer = OUT_OF_MEMORY
    except RecursionError as error:
        answer = TOO_MUCH + str(error).encode()
    except Exception as error:  # noqa: BLE001 - it is raised on the other side
        answer = RAISED + _pickled(error)
    finally:
        limit_time(0)
    return answer if len(answer) <= result_bytes else TOO_MUCH + b"%d bytes" % len(answer)


def _pickled(error: Exception) -> bytes:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301 - see above
    except Exception:  # noqa: BLE001 - whatever an exception of others does when it is packed
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


def limit_memory(memory_bytes: int) -> None:
    """Let this process grow by so much, and leave no dump of its memory."""
    limit = _data_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def is_worn(fresh_bytes: int) -> bool:
    """Tell whether this process has grown so much, from what it had at first, that a fresh one is to go on."""
    return resident_bytes() > fresh_bytes + _WORN_BYTES


def limit_time(seconds: float) -> None:
    """Let the kernel end the process when the time is up (ITIMER_PROF: processor time); 0 takes the limit off."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE * seconds + _PATIENCE_SECONDS if seconds else 0)


def _data_bytes() -> int:
    """Return what RLIMIT_DATA counts: private memory that can be written to, used or not."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
    except (OSError, StopIteration):  # not Linux
        return 256 * 2**20


def resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


P = ParamSpec("P")
T = TypeVar("T")

_MEMORY_BYTES: Final = 512 * 2**20
_RESULT_BYTES: Final = 32 * 2**20
# Each piece of work that goes over a limit halves the time of the later ones of its share, down to this; each that does
# not takes one such fault back.
_LEAST_SECONDS: Final = 0.5
# What is said of a process that was killed from outside, and not for our limits: the next one may do the same work.
_KILLED: Final = ("SIGKILL", "SIGTERM", "gone")
ENDING: Final = "the crawl was stopped before this was read"


class _Process:
    def __init__(self, modules: Sequence[str], memory_bytes: int, result_bytes: int) -> None:
        self.works = True
        self._is_ended = False
        self._supervisor, ours = fork_python(supervise, modules, memory_bytes=memory_bytes, result_bytes=result_bytes)
        self._connection = Connection(ours.detach())

    def ask(self, work: list[Buffer]) -> tuple[bytes, object]:
        """Send the work, emptying the list, and return the first byte of the answer and its result or detail. Blocks,
        so it is called in a thread.
        """
        try:
            while work:
                self._connection.send_bytes(work.pop(0))
            answer = self._connection.recv_bytes()
        except (OSError, EOFError):
            self.works = False
            return DIED, "gone"
        kind, rest = answer[:1], memoryview(answer)[1:]
        if kind in (DONE, RAISED):
            return kind, pickle.loads(rest)  # noqa: S301 - from a process of ours
        return kind, bytes(rest).decode(errors="replace")

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
        down; the next piece of work gets a fresh process then. Where somebody has killed the process, the work is done
        once more. What the function raises is raised here.
        """
        seconds = max(min(_LEAST_SECONDS, seconds), seconds / 2 ** min(self._faults[share], 20))
        kind, result = await self._ask(seconds, function, arguments, share)
        if kind == DIED and result in _KILLED:
            kind, result = await self._ask(seconds, function, arguments, share)
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

    async def _ask(
        self, seconds: float, function: Callable[..., Any], arguments: Sequence[Any], share: str
    ) -> tuple[bytes, object]:
        work = await asyncio.to_thread(packed, seconds, function, arguments)
        process = await self._take(share)
        started = asyncio.get_running_loop().time()
        try:
            return await asyncio.to_thread(process.ask, work)
        except asyncio.CancelledError:
            process.end()  # a thread still waits for its answer
            raise
        finally:
            self._spent[share] += asyncio.get_running_loop().time() - started
            self._running[share] -= 1
            self._give_back(process)

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

    async def _take(self, share: str) -> _Process:
        if self._closed:
            raise ReadingStopped(ENDING)
        if not self._waiting and (free := self._any()) is not None:
            self._running[share] += 1
            return free
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
        self._waiting = [one for one in self._waiting if not one.turn.cancelled()]
        while self._waiting and not self._closed:
            found = self._any()
            if found is None:
                return
            one = min(self._waiting, key=lambda one: (self._running[one.share] > 0, self._spent[one.share]))
            self._waiting.remove(one)
            self._running[one.share] += 1
            one.turn.set_result(found)


def fault_words(kind: bytes, detail: str, seconds: float, memory_bytes: int) -> str:
    """Say why a piece of work gave no result: the first byte of the answer and what goes with it, and its limits."""
    if kind == OUT_OF_MEMORY or (kind == DIED and detail in ("SIGSEGV", "SIGABRT", "SIGBUS")):
        return f"reading it took more than {memory_bytes // 2**20} MB of memory"
    if kind == TOO_MUCH:
        return f"the result is too large: {detail}"
    if detail in ("SIGPROF", "SIGALRM"):
        return f"reading it took over {seconds:g} s"
    return f"the process that read it died ({detail})"
