"""Runs in the processes that state_processes.py starts: each keeps states by name, and calls functions of them.

What is started forks a worker for each socket that it is given. A worker that exceeds a limit is ended by the kernel,
whatever it does.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from llmcrawler.core.processes.process_worker import (
    answer_of,
    end_now,
    is_worn,
    limit_memory,
    limit_time,
    resident_bytes,
)

# The number of the message in which a worker says that a fresh one is to go on.
WORN: Final = 0
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
    """What a call gave, as `answer_of` has it, and the state where it is time for it to be kept elsewhere too. The
    states of a worker that is WORN come by their names.
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

    def copy_if_due(self) -> bytes | None:
        self.calls += 1
        self.is_copied = False
        if self.calls < self.next_copy:
            return None
        return self.copy()

    def copy(self) -> bytes:
        packed = pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)
        self.is_copied = True
        self.next_copy = self.calls + max(min(self.calls, _MOST_CALLS), len(packed) // _BYTES_A_CALL, 1)
        return packed


def fork_workers(descriptor: int, memory_bytes: int, result_bytes: int) -> None:
    """Fork a worker for each socket that comes, and tell on demand how one has ended: its exit status as the system
    has it, and the number of the call that it was at (0: none). Ends when the crawl has closed the socket.
    """
    at_call: dict[int, mmap.mmap] = {}  # by the worker's process id
    # OSError: the crawl has ended meanwhile.
    with socket.socket(fileno=descriptor) as control, contextlib.suppress(OSError):
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, 64, 1)
            if not request:
                return
            if not descriptors:
                process = int(request)
                _, status = os.waitpid(process, 0)
                with at_call.pop(process) as number:
                    control.sendall(b"%d %d" % (status, int.from_bytes(number[:_NUMBER_BYTES])))
                continue
            number = mmap.mmap(-1, _NUMBER_BYTES)  # shared with the worker, and still here when that is gone
            process = os.fork()
            if process == 0:
                control.close()
                end_now(_work(Connection(descriptors[0]), number, memory_bytes, result_bytes))
            os.close(descriptors[0])
            at_call[process] = number
            control.sendall(b"%d" % process)


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
                _send(connection, [WorkerAnswer(WORN, b"", states)])
                _hear_out(connection)
                break
    return 0


def _hear_out(connection: Connection) -> None:
    """Read until the crawl has closed the connection: were it closed here, a call that is just being sent would fail,
    and with it the connection, before the last answers are read there.
    """
    while os.read(connection.fileno(), _READ_BYTES):
        pass


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
    return WorkerAnswer(call.number, result, one.copy_if_due())
