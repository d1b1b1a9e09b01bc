"""Keeps states by name (what is known of a site, say) in worker processes, and calls functions of them there.

A state is where the work on it is done, so that only arguments and results travel. Each name is bound to one worker,
which does its calls in the order in which they were made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import pickle
import signal
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, Protocol, cast

from llmcrawler.core.processes.bounded_processes import (
    DIED,
    DONE,
    ENDING,
    RAISED,
    answer_of,
    end_now,
    fault_words,
    is_worn,
    limit_memory,
    limit_time,
    resident_bytes,
)
from llmcrawler.core.processes.forking import ForkedProcess, fork_python
from llmcrawler.errors import ContentError, ReadingStopped

# Numbers of the last message of a worker: a fresh one is to go on, or it has died.
WORN, ENDED = 0, -1
# Results are sent when the first of them is so old, or nothing else is left to do: a message for each would cost the
# crawl a turn of its loop each.
_HELD_SECONDS: Final = 0.005
# A state goes back to the crawl after so many calls, at first more often, and less often if it is large.
_FIRST_CALLS, _MOST_CALLS = 8, 32
_BYTES_A_CALL: Final = 2_000
_NUMBER_BYTES: Final = 8
_READ_BYTES: Final = 65_536


class WorkerCall(NamedTuple):
    """A call on its way. `state` is the pickled state of that name, None where the worker has it. Without a `function`
    the worker is to give the state back.
    """

    number: int
    name: str
    state: bytes | None
    seconds: float
    function: Callable[..., Any] | None
    arguments: tuple[Any, ...]


class WorkerAnswer(NamedTuple):
    """Result of a call, as `answer_of` returns it, and the state if it is time to store a copy elsewhere. The states of
    a worker that is WORN come by their names.
    """

    number: int
    result: bytes
    state: bytes | dict[str, bytes] | None = None


@dataclass(slots=True)
class _Kept:
    state: Any
    calls: int = 0
    next_copy: int = _FIRST_CALLS
    is_copied: bool = True

    def copy(self) -> bytes:
        packed = pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)
        self.is_copied = True
        self.next_copy = self.calls + max(min(self.calls, _MOST_CALLS), len(packed) // _BYTES_A_CALL, 1)
        return packed


def keep_worker(descriptor: int, memory_bytes: int, result_bytes: int) -> None:
    """Fork a worker for the socket, and say in a last message how it has ended: its exit status as the system has it,
    and the number of the call that it was at (0: none).
    """
    number = mmap.mmap(-1, _NUMBER_BYTES)  # shared with the worker, and still here when that is gone
    # OSError: the crawl has closed the socket.
    with Connection(descriptor) as connection, contextlib.suppress(OSError):
        process = os.fork()
        if process == 0:
            end_now(_work(connection, number, memory_bytes, result_bytes))
        _, status = os.waitpid(process, 0)
        _send_last(connection, WorkerAnswer(ENDED, b"%d %d" % (status, int.from_bytes(number[:_NUMBER_BYTES]))))


def _work(connection: Connection, number: mmap.mmap, memory_bytes: int, result_bytes: int) -> int:
    """Answer calls until the crawl has gone; return the exit status."""
    limit_memory(memory_bytes)
    fresh_bytes = resident_bytes()
    kept: dict[str, _Kept] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            _answer_all(pickle.loads(connection.recv_bytes()), connection, kept, number, result_bytes)  # noqa: S301 - from the crawl
            if is_worn(fresh_bytes):
                states = {name: one.copy() for name, one in kept.items() if not one.is_copied}
                _send_last(connection, WorkerAnswer(WORN, b"", states))
                break
    return 0


def _answer_all(
    calls: Sequence[WorkerCall], connection: Connection, kept: dict[str, _Kept], number: mmap.mmap, result_bytes: int
) -> None:
    answers: list[WorkerAnswer] = []
    began = time.monotonic()
    for call in calls:
        number[:] = call.number.to_bytes(_NUMBER_BYTES)
        answers.append(_answer(call, kept, result_bytes))
        number[:] = bytes(_NUMBER_BYTES)
        if time.monotonic() - began >= _HELD_SECONDS:
            _send(connection, answers)
            answers = []
            began = time.monotonic()
    if answers:
        _send(connection, answers)


def _send(connection: Connection, answers: Sequence[WorkerAnswer]) -> None:
    connection.send_bytes(pickle.dumps(answers, pickle.HIGHEST_PROTOCOL))


def _send_last(connection: Connection, answer: WorkerAnswer) -> None:
    """Send an answer and wait until the crawl has closed the connection. Were it closed here, a call that is just being
    sent would fail, and the last answers would not be read.
    """
    _send(connection, [answer])
    while os.read(connection.fileno(), _READ_BYTES):
        pass


def _answer(call: WorkerCall, kept: dict[str, _Kept], result_bytes: int) -> WorkerAnswer:
    if call.state is not None:
        kept[call.name] = _Kept(pickle.loads(call.state))  # noqa: S301 - from the crawl
    if call.function is None:
        return WorkerAnswer(call.number, b"", kept.pop(call.name).copy())
    function, one = call.function, kept[call.name]

    def run() -> Any:
        limit_time(call.seconds)
        return function(one.state, *call.arguments)

    result = answer_of(run, result_bytes)
    one.calls += 1
    one.is_copied = False
    return WorkerAnswer(call.number, result, one.copy() if one.calls >= one.next_copy else None)


# A worker has so many calls before it that it never waits for the crawl's loop; later ones are sent together.
_AHEAD, _BATCH = 4, 8


class StateOwner(Protocol):
    """Keeps a state for as long as no worker does."""

    @property
    def name(self) -> str: ...

    def pack(self) -> bytes:
        """Return the state, pickled."""
        ...

    def keep(self, state: bytes) -> None:
        """Take a state back."""
        ...


@dataclass(slots=True, eq=False)
class BoundState:
    """A name that a worker has calls of. `copy`: its state as it was at some call; `is_there`: the worker has a later
    one. `left` is set while the state comes back.
    """

    owner: StateOwner
    copy: bytes
    calls: int = 0  # that are under way
    is_there: bool = False
    left: asyncio.Future[None] | None = None


@dataclass(slots=True, eq=False)
class StateCall:
    bound: BoundState
    seconds: float
    function: Callable[..., Any] | None
    arguments: tuple[Any, ...]
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class StateWorker(asyncio.Protocol):
    """A worker as it is seen from here: its socket, what waits for it, and the names that are bound to it."""

    def __init__(self, on_lost: Callable[[StateWorker], None], memory_bytes: int) -> None:
        self.process: ForkedProcess | None = None
        self.bound: OrderedDict[str, BoundState] = OrderedDict()
        self.deaths = 0
        self._on_lost = on_lost
        self._memory_bytes = memory_bytes
        self._waiting: deque[StateCall] = deque()
        self._sent: dict[int, StateCall] = {}
        self._last = 0
        self._end = (0, 0)  # as `keep_worker` tells it
        self._received = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._is_due = False

    @property
    def load(self) -> int:
        """Calls that are before this worker."""
        return len(self._waiting) + len(self._sent)

    def put(self, call: StateCall) -> None:
        call.bound.calls += 1
        self._waiting.append(call)
        if not self._is_due:  # calls of one turn of the loop go out together
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        if self._transport is None or len(self._sent) >= _AHEAD:
            return
        calls: list[WorkerCall] = []
        while self._waiting and len(calls) < _BATCH:
            call = self._waiting.popleft()
            bound = call.bound
            if call.result.done():  # nobody waits for it any more
                bound.calls -= 1
                continue
            self._last += 1
            self._sent[self._last] = call
            state = None if bound.is_there else bound.copy
            bound.is_there = True
            calls.append(WorkerCall(self._last, bound.owner.name, state, call.seconds, call.function, call.arguments))
        if calls:
            message = pickle.dumps(calls, pickle.HIGHEST_PROTOCOL)
            # As `multiprocessing.connection.Connection` sends it.
            length = len(message)
            head = length.to_bytes(4) if length <= 0x7FFFFFFF else b"\xff\xff\xff\xff" + length.to_bytes(8)
            self._transport.writelines((head, message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is of no class of asyncio's
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := _end_of_message(self._received)) is not None:
            start, stop = end
            answers = pickle.loads(memoryview(self._received)[start:stop])  # noqa: S301 - from a process of ours
            del self._received[:stop]
            for answer in answers:
                self._take(answer)
        self._send()

    def _take(self, answer: WorkerAnswer) -> None:
        if answer.number == ENDED:
            status, number = answer.result.split()
            self._end = int(status), int(number)
            self.close()
            return
        self.deaths = 0
        if answer.number == WORN:
            assert isinstance(answer.state, dict)
            for name, state in answer.state.items():
                self.bound[name].copy = state
            self.close()
            return
        call = self._sent.pop(answer.number)
        call.bound.calls -= 1
        if isinstance(answer.state, bytes):
            call.bound.copy = answer.state
        if call.function is None:
            call.bound.is_there = False
        if call.result.done():
            return
        kind, rest = answer.result[:1], memoryview(answer.result)[1:]
        if call.function is None:
            call.result.set_result(None)
        elif kind == DONE:
            call.result.set_result(pickle.loads(rest))  # noqa: S301 - see above
        elif kind == RAISED:
            call.result.set_exception(pickle.loads(rest))  # noqa: S301 - see above
        else:
            words = fault_words(kind, bytes(rest).decode(errors="replace"), call.seconds, self._memory_bytes)
            call.result.set_exception(ContentError(words))

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._received.clear()
        self._on_lost(self)

    def lose(self) -> None:
        """Take back what a worker that has ended was at; the call at which it died is its fault."""
        self.deaths += 1
        (status, number), self._end = self._end, (0, 0)
        guilty = self._sent.pop(number, None)
        if guilty is not None:
            guilty.bound.calls -= 1
            if not guilty.result.done():
                detail = signal.Signals(status & 127).name if status & 127 else "exit"
                guilty.result.set_exception(ContentError(fault_words(DIED, detail, guilty.seconds, self._memory_bytes)))
        self._waiting.extendleft(self._sent[key] for key in sorted(self._sent, reverse=True))
        self._sent.clear()
        for bound in self.bound.values():
            bound.is_there = False

    def give_up(self, error: Exception) -> None:
        """Give the states back, and `error` to all calls."""
        for bound in self.bound.values():
            bound.owner.keep(bound.copy)
        self.bound.clear()
        for call in [*self._sent.values(), *self._waiting]:
            if not call.result.done():
                call.result.set_exception(error)
        self._sent.clear()
        self._waiting.clear()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def end(self) -> None:
        """End the process at once, whatever it does."""
        self.close()
        if self.process is not None:
            self.process.end()
            self.process = None


def _end_of_message(received: bytearray) -> tuple[int, int] | None:
    """Return where the first message begins and ends; None where it has not come whole."""
    if len(received) < 4:
        return None
    start, length = 4, int.from_bytes(received[:4])
    if length == 0xFFFFFFFF:
        start, length = 12, int.from_bytes(received[4:12])
    return (start, start + length) if len(received) >= start + length else None


logger = logging.getLogger(__name__)

_MEMORY_BYTES: Final = 512 * 2**20
_RESULT_BYTES: Final = 32 * 2**20
_BUSY: Final = 4  # calls before a worker that make another one worth its start
_MAX_STATES: Final = 256  # of a worker; of more, the one not used for longest comes back
_MAX_DEATHS: Final = 3  # in a row, of workers that have answered nothing


class WorkersGone(Exception):
    """No worker could be started any more: their owners have their states again, and the call is to be made here."""


class StateProcesses:
    """Keeps up to `count` workers, of which the later ones start when the others have much to do.

    `modules` are loaded before the first worker is forked. `memory_bytes`: how much a worker may grow.
    """

    def __init__(self, modules: Sequence[str] = (), *, count: int, memory_bytes: int = _MEMORY_BYTES) -> None:
        self.restarts = 0
        self._count = count
        self._memory_bytes = memory_bytes
        self._modules = modules
        self._workers: list[StateWorker] = []
        self._homes: dict[str, StateWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._growing = False
        self._closed = False
        self.is_broken = False

    @property
    def started(self) -> int:
        """The workers that have been started and are there."""
        return len(self._workers)

    async def start(self, count: int = 1) -> None:
        """Start workers. Where none can be had, `is_broken` is set."""
        self._growing = True
        try:
            for _ in range(min(count, self._count) - len(self._workers)):
                worker = StateWorker(self._lost, self._memory_bytes)
                await self._fork_for(worker)
                self._workers.append(worker)
        except OSError:
            if not self._workers and not self._closed:
                self._break()
        finally:
            self._growing = False

    def has(self, name: str) -> bool:
        """Tell whether a worker has the state of this name."""
        return name in self._homes

    async def call(self, owner: StateOwner, function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
        """Call the function with the owner's state and the arguments, in a worker, and return its result. It stands at
        the top of a module; the arguments and the result can be pickled. `seconds`: of processor time.

        Raises ContentError where it takes too long, too much memory or takes the worker down: its states are then those
        of some calls before; and WorkersGone where the call is to be made here. What the function raises is raised.
        """
        while (bound := self._bound(owner)).left is not None:
            await asyncio.shield(bound.left)
        bound.owner = owner
        call = StateCall(bound, seconds, function, arguments)
        self._homes[owner.name].put(call)
        return await call.result

    def close(self) -> None:
        """End all workers at once, whatever they do. What they are at or comes later gets ReadingStopped."""
        self._closed = True
        for worker in self._workers:
            worker.give_up(ReadingStopped(ENDING))
            worker.end()
        self._homes.clear()

    def _bound(self, owner: StateOwner) -> BoundState:
        if self._closed:
            raise ReadingStopped(ENDING)
        worker = self._homes.get(owner.name)
        if worker is None:
            if not self._workers:
                raise WorkersGone
            worker = min(self._workers, key=lambda one: (one.load, len(one.bound)))
            if worker.load >= _BUSY and len(self._workers) < self._count and not self._growing:
                self._later(self.start(len(self._workers) + 1))
            self._homes[owner.name] = worker
            worker.bound[owner.name] = BoundState(owner, owner.pack())
            self._make_room(worker)
        worker.bound.move_to_end(owner.name)
        return worker.bound[owner.name]

    def _make_room(self, worker: StateWorker) -> None:
        if len(worker.bound) <= _MAX_STATES:
            return
        oldest = next((one for one in worker.bound.values() if not one.calls and one.left is None), None)
        if oldest is not None:
            oldest.left = asyncio.get_running_loop().create_future()
            self._later(self._take_back(worker, oldest))

    async def _take_back(self, worker: StateWorker, bound: BoundState) -> None:
        name = bound.owner.name
        try:
            if bound.is_there:
                call = StateCall(bound, 0, None, ())
                worker.put(call)
                await call.result
            if worker.bound.pop(name, None) is not None:
                del self._homes[name]
                bound.owner.keep(bound.copy)
        except (WorkersGone, ContentError):
            pass  # it has come back otherwise
        finally:
            assert bound.left is not None
            bound.left.set_result(None)

    async def _fork_for(self, worker: StateWorker) -> None:
        worker.process, ours = fork_python(
            keep_worker, self._modules, memory_bytes=self._memory_bytes, result_bytes=_RESULT_BYTES
        )
        await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
        if self._closed:
            worker.end()

    def _lost(self, worker: StateWorker) -> None:
        if not self._closed:
            self._later(self._replace(worker))

    async def _replace(self, worker: StateWorker) -> None:
        """Start a worker in the place of one that has ended. It goes on with what was not done, and with the states as
        they were when they were last copied.
        """
        if self._closed:
            return
        worker.end()
        worker.lose()
        self.restarts += 1
        if worker.deaths < _MAX_DEATHS:
            with contextlib.suppress(OSError):  # no process is to be had
                await self._fork_for(worker)
                return
        self._break()

    def _break(self) -> None:
        self.is_broken = True
        logger.warning("Pages are read in the crawl's own process: no worker process could be kept up")
        workers, self._workers = self._workers, []
        self._homes.clear()
        for worker in workers:
            worker.give_up(WorkersGone())
            worker.end()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
