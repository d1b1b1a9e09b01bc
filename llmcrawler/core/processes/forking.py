"""Starts helper processes as forks of one process, the forker, that has loaded their modules: that takes milliseconds.

Loading modules is most of what a helper costs, half a second each. A crawl that calls `fork_early` before it has
threads shares what it has loaded itself; elsewhere the forker is a new process that starts with the first helper.

The forker reads lines of JSON from a socket. One that starts a process comes with a descriptor, of which the function
that the process runs gets the number: {"start": NAME, "runs": [MODULE, FUNCTION], "modules": [...], "path": [...],
"given": {...}}. One that ends a process, and all in its group, is {"end": NAME}. There are no answers: where a process
could not start, the other end of its descriptor is closed. All end when this process has closed the socket.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import logging
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn

ONLY_WAITS: Final = "only-waits"  # the name of a thread that holds nothing that a fork could wait for
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    f"from {__name__} import _serve_forks; _serve_forks(int(sys.argv[1]))"
)
# Threads of a numeric library would only wait for each other, and their stacks count as memory.
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Ctrl-C, and the signal by which a service manager ends all processes of a service, are for the crawl, which ends its
# helpers when it needs them no more.
_LEFT_TO_THE_CRAWL: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REQUEST_BYTES: Final = 65_536
_DESCRIPTORS: Final = 16


class _Forker:
    """This side of the forker. `process` is None for one that was forked early, which stays until the end."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.process = process
        self.forks = 0
        self._control = control

    @classmethod
    def start(cls) -> _Forker:
        ours, theirs = socket.socketpair()
        with theirs:
            # A process group of its own: Ctrl-C is for the crawl, which still wants its pages then.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", _BOOT, str(theirs.fileno()), json.dumps(_path())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
                process_group=0,
            )
        return cls(ours, process)

    def fork(self, request: Mapping[str, object], theirs: socket.socket) -> None:
        line = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(self._control, [line], [theirs.fileno()])
        self._control.sendall(line[sent:])
        self.forks += 1

    def end(self, name: str) -> None:
        self.forks -= 1
        with suppress(OSError):  # all has ended where the forker has
            self._control.sendall(json.dumps({"end": name}).encode() + b"\n")

    def close(self) -> None:
        """Let it end, with all that it has forked."""
        self._control.close()
        if self.process is not None:  # the kernel takes 30 ms to take back half a gigabyte
            threading.Thread(target=self.process.wait, name="reaper").start()


_turn = threading.Lock()
_forkers: list[_Forker] = []  # the one that new processes are forked from, or none
_numbers = count(1)
_loaded: set[str] = set()  # in the forker


class ForkedProcess:
    """A process of `fork_python`."""

    def __init__(self, name: str, forker: _Forker) -> None:
        self._name = name
        self._forker = forker

    def end(self) -> None:
        """End it and its process group at once, whatever they do. Is called once, also where it has ended by itself."""
        with _turn:
            self._forker.end(self._name)
            if not self._forker.forks and self._forker.process is not None:
                _let_go(self._forker)


def fork_python(
    runs: Callable[..., None], modules: Sequence[str] = (), **given: object
) -> tuple[ForkedProcess, socket.socket]:
    """Start a process that calls a function with the `descriptor` of a socket and what is `given`, which is JSON;
    return it and the other end of the socket, which is closed where the process cannot start. The `modules` are loaded
    before; "package.*" names all modules of a package. Raises OSError where the forker cannot be started.
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
        if _forkers:
            try:
                _forkers[0].fork(request, theirs)
            except OSError:  # it was ended
                _let_go(_forkers[0])
        if not _forkers:
            _forkers.append(_Forker.start())
            _forkers[0].fork(request, theirs)
        return ForkedProcess(name, _forkers[0]), ours


def fork_early() -> None:
    """Fork the forker from this process, if it has no second thread yet: a fork has only the thread that has made it,
    and may wait for ever for what another one held just then.
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
        _become_forker(theirs)
    theirs.close()
    _forkers.append(_Forker(ours))
    atexit.register(ours.close)


def _let_go(forker: _Forker) -> None:
    forker.close()
    if forker in _forkers:
        _forkers.remove(forker)


def _path() -> list[str]:
    return [entry or str(Path.cwd()) for entry in sys.path]


def is_alive(pid: int) -> bool:
    """Tell whether there is a process of this number on the machine, of whatever user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


# -- What runs in the forker ------------------------------------------------------------------------------------------


def _become_forker(control: socket.socket) -> NoReturn:
    """Go on as the forker, just after a fork; of what the crawl has open, its output is kept."""
    status = 1
    try:
        os.setpgid(0, 0)
        # Files of the crawl are closed; their numbers stay taken, for objects that still have them may write.
        nothing = os.open(os.devnull, os.O_RDWR)
        for one in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - names only
            if one not in {1, 2, control.fileno(), nothing}:
                os.dup2(nothing, one)
        logging.root.handlers.clear()  # what forks have to say goes to the crawl's stderr
        gc.freeze()
        _serve_forks(control.detach())
        status = 0
    finally:
        os._exit(status)


def _serve_forks(descriptor: int) -> None:
    """Fork processes until the other end of the socket is closed."""
    for number in _LEFT_TO_THE_CRAWL:
        signal.signal(number, signal.SIG_IGN)
    started: dict[str, int] = {}
    received, descriptors = b"", list[int]()
    with socket.socket(fileno=descriptor) as control, suppress(OSError):
        while True:
            got, more, _, _ = socket.recv_fds(control, _REQUEST_BYTES, _DESCRIPTORS)
            if not got:
                break
            *lines, received = (received + got).split(b"\n")
            descriptors += more
            for request in map(json.loads, lines):
                if "end" in request:
                    _end(started.pop(request["end"], None))
                    continue
                given = descriptors.pop(0)
                sys.path[:] = request["path"]
                _load(request["modules"])
                with suppress(OSError):  # no process is to be had
                    process = os.fork()
                    if process == 0:
                        control.close()
                        for one in descriptors:
                            os.close(one)
                        _run(request, given)
                    started[request["start"]] = process
                    with suppress(OSError):  # it has done so itself, or has ended
                        os.setpgid(process, process)
                os.close(given)
    for process in started.values():
        _end(process)


def _load(modules: Sequence[str]) -> None:
    """Load what the forks share. What cannot be loaded fails in the fork, which says so."""
    if _loaded.issuperset(modules):
        return
    _loaded.update(modules)
    with suppress(Exception):
        for name in modules:
            module = importlib.import_module(name.removesuffix(".*"))
            for one in pkgutil.iter_modules(module.__path__, f"{module.__name__}.") if name.endswith(".*") else ():
                importlib.import_module(one.name)
    gc.collect()
    gc.freeze()  # else each fork's first collection copies all of it


def _run(request: dict[str, Any], descriptor: int) -> NoReturn:
    """Run the function, and end this process; SystemExit ends it as the interpreter does, with what is due then."""
    status = 1
    try:
        os.setpgid(0, 0)
        module, name = request["runs"]
        getattr(importlib.import_module(module), name)(descriptor=descriptor, **request["given"])
        status = 0
    except SystemExit:
        raise
    except Exception:  # noqa: BLE001 - nothing else is done in this process
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def _end(process: int | None) -> None:
    """End a process and its group at once, whatever they do. It is waited for only here, so the id is its own."""
    if process is not None:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
