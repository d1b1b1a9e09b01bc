"""Starts processes of ours: anew, or as forks of one that has loaded their modules, which takes some milliseconds.

Most of what a helper of a crawl costs is the loading of its modules, half a second for each. A crawl that calls
`fork_early` before it has threads of its own shares what it has loaded itself; elsewhere the first helper loads it for
all.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from llmcrawler.core.processes.process_forker import become_forker, serve_forks

_BOOT: Final = (
    "import sys, json, importlib; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path'); "
    "module, name = given.pop('runs'); getattr(importlib.import_module(module), name)(**given)"
)
# Threads of a numeric library would only wait for each other, and their stacks count as memory.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def start_python(runs: Callable[..., None], **given: object) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process that calls a function of ours with the `descriptor` of a socket and what is `given`, which is
    JSON; return it and the other end of the socket.
    """
    ours, theirs = socket.socketpair()
    told = {
        **given,
        "runs": (runs.__module__, runs.__name__),
        "path": _path(),
        "descriptor": theirs.fileno(),
    }
    with theirs:
        # A group of its own: Ctrl-C is for the crawl, which still wants its pages then.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", _BOOT, json.dumps(told)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            process_group=0,
        )
    return process, ours


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process of `start_python` and those that it has forked, at once, whatever they do."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it was not waited for yet, so the group is its own
    # The kernel takes 30 ms to take back half a gigabyte.
    threading.Thread(target=process.wait, name="reaper").start()


class _ForkingProcess:
    """This side of a process that forks. `process` is None for one that was forked early, which stays until the end."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.control = control
        self.process = process
        self.forks = 0

    def close(self) -> None:
        """Let it end, with all that it has forked."""
        self.control.close()
        if self.process is not None:
            threading.Thread(target=self.process.wait, name="reaper").start()


class ForkedProcess:
    """A process of `fork_python`."""

    def __init__(self, name: str, forker: _ForkingProcess) -> None:
        self._name = name
        self._forker = forker

    def end(self) -> None:
        """End it and what it has forked, at once, whatever they do. Is called once."""
        with _turn, suppress(OSError):  # all has ended where the forker has
            self._forker.forks -= 1
            self._forker.control.sendall(_line({"end": self._name}))
            if not self._forker.forks and self._forker.process is not None:
                _let_go(self._forker)


ONLY_WAITS: Final = "only-waits"  # the name of a thread that holds nothing that a fork could wait for
_turn = threading.Lock()
_forkers: list[_ForkingProcess] = []  # the one that new processes are forked from, or none
_numbers = count(1)


def fork_python(
    runs: Callable[..., None], modules: Sequence[str] = (), **given: object
) -> tuple[ForkedProcess, socket.socket]:
    """As `start_python`, but return at once; the `modules` are loaded before the process is forked. Where it cannot
    be, the other end of the socket is closed. Raises OSError where no process can be had to fork it from.
    """
    name = f"{os.getpid()}-{next(_numbers)}"
    request = {
        "start": name,
        "runs": (runs.__module__, runs.__name__),
        "modules": list(modules),
        "path": _path(),
        "given": given,
    }
    ours, theirs = socket.socketpair()
    with theirs, _turn:
        try:
            forker = _send(_forkers[0], request, theirs) if _forkers else _send(_started(), request, theirs)
        except (BrokenPipeError, ConnectionError):  # somebody has ended it
            _let_go(_forkers[0])
            forker = _send(_started(), request, theirs)
    forker.forks += 1
    return ForkedProcess(name, forker), ours


def fork_early() -> None:
    """Fork the process that helpers are forked from, if this one has no second thread yet: a fork has only the thread
    that has made it, and may wait for ever for what another one held just then.
    """
    # Threads of libraries in C are not among these: numpy's end and come back around a fork, by themselves.
    others = {one.name for one in threading.enumerate() if one is not threading.main_thread()}
    if sys.platform != "linux" or _forkers or others - {ONLY_WAITS}:
        return
    ours, theirs = socket.socketpair()
    try:
        process = os.fork()
    except OSError:  # it will be started when it is needed
        ours.close()
        theirs.close()
        return
    if process == 0:
        become_forker(theirs)
    theirs.close()
    _forkers.append(_ForkingProcess(ours))


def _started() -> _ForkingProcess:
    process, control = start_python(serve_forks)
    _forkers.append(forker := _ForkingProcess(control, process))
    return forker


def _send(forker: _ForkingProcess, request: Mapping[str, object], theirs: socket.socket) -> _ForkingProcess:
    line = _line(request)
    sent = socket.send_fds(forker.control, [line], [theirs.fileno()])
    forker.control.sendall(line[sent:])
    return forker


def _let_go(forker: _ForkingProcess) -> None:
    forker.close()
    if forker in _forkers:
        _forkers.remove(forker)


def _line(request: Mapping[str, object]) -> bytes:
    return json.dumps(request).encode() + b"\n"


def _path() -> list[str]:
    return [entry or str(Path.cwd()) for entry in sys.path]
