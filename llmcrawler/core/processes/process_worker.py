"""Runs in the processes that processes.py starts: does the work, and replaces a worker that has died.

What is started is a supervisor. It forks a worker, which takes one piece of work after the other from the socket. A
worker that exceeds a limit is ended by the kernel, whatever code it is in; the supervisor says so in its place and
forks the next one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

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
    beside: list[Buffer] = []

    def take(buffer: pickle.PickleBuffer) -> None:
        beside.append(buffer.raw())

    apart = [_apart(one) for one in arguments]
    head = pickle.dumps((seconds, function, apart), _PROTOCOL, buffer_callback=take)
    return [bytes([len(beside)]) + head, *beside]


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
        answer = _answer(work, beside, result_bytes)
        del work, beside
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            connection.send_bytes(answer)
        del answer
        if is_worn(fresh_bytes):
            return _WORN


def _answer(work: bytes, beside: list[bytes], result_bytes: int) -> bytes:
    def call() -> Any:
        seconds, function, arguments = pickle.loads(memoryview(work)[1:], buffers=beside)  # noqa: S301 - from the crawl
        limit_time(seconds)
        return function(*arguments)

    return answer_of(call, result_bytes)


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
