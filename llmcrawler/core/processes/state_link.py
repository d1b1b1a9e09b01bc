"""One worker that keeps states, as the crawl sees it: its socket, what waits for it, and the states that it has."""

from __future__ import annotations

import asyncio
import pickle
import signal
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from llmcrawler.core.processes.bounded_processes import fault_words
from llmcrawler.core.processes.process_worker import DIED, DONE, RAISED
from llmcrawler.core.processes.state_worker import WORN, WorkerAnswer, WorkerCall
from llmcrawler.errors import ContentError

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
        self.process = 0
        self.bound: OrderedDict[str, BoundState] = OrderedDict()
        self.deaths = 0
        self._on_lost = on_lost
        self._memory_bytes = memory_bytes
        self._waiting: deque[StateCall] = deque()
        self._sent: dict[int, StateCall] = {}
        self._last = WORN
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
            self._transport.writelines((_head(len(message)), message))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is of no class of asyncio's

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
        self.deaths = 0
        if answer.number == WORN:
            assert isinstance(answer.state, dict)
            for name, state in answer.state.items():
                self.bound[name].copy = state
            self.close()
            self._transport = None
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

    def lose(self, status: int, number: int) -> None:
        """Take back what a worker that has ended was at; the call of that `number` is its fault."""
        self.deaths += 1
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

    def go_on(self, process: int) -> None:
        """Send what waits to the worker that has taken the place of another."""
        self.process = process
        self._send()

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


def _head(length: int) -> bytes:
    """Return what `multiprocessing.connection.Connection` sends before a message."""
    return length.to_bytes(4) if length <= 0x7FFFFFFF else b"\xff\xff\xff\xff" + length.to_bytes(8)


def _end_of_message(received: bytearray) -> tuple[int, int] | None:
    """Return where the first message begins and ends; None where it has not come whole."""
    if len(received) < 4:
        return None
    start, length = 4, int.from_bytes(received[:4])
    if length == 0xFFFFFFFF:
        start, length = 12, int.from_bytes(received[4:12])
    return (start, start + length) if len(received) >= start + length and len(received) >= start else None
