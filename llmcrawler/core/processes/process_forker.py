"""Runs in a process that has loaded what the helpers of a crawl need, and forks one for each that is asked for.

A request is a line of JSON. One that starts a process comes with a descriptor, of which the function that the process
runs gets the number: {"start": NAME, "runs": [MODULE, FUNCTION], "modules": [...], "path": [...], "given": {...}}. One
that ends a process, with all that it has forked, is {"end": NAME}. There are no answers: that one did not start is
noticed at the descriptor's other end, as it is closed then. All end when the crawl has closed the socket.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

_OUTPUTS: Final = (1, 2)
_REQUEST_BYTES: Final = 65_536
_DESCRIPTORS: Final = 16
# Ctrl-C, and the end that a service manager tells all processes of a service, are for the crawl, which ends its helpers
# when it has no more use for them.
_LEFT_TO_THE_CRAWL: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve_forks(descriptor: int) -> None:
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
                with suppress(OSError):  # no process is to be had
                    started[request["start"]] = _fork(request, given, [control.fileno(), *descriptors])
                os.close(given)
    for process in started.values():
        _end(process)


def become_forker(control: socket.socket) -> NoReturn:
    """Go on as the process that forks, just after a fork; of what the crawl has open, its output is kept."""
    status = 1
    try:
        os.setpgid(0, 0)
        _let_go_of_files(control.fileno())
        logging.root.handlers.clear()  # what forks have to say goes to the crawl's stderr
        gc.freeze()
        serve_forks(control.detach())
        status = 0
    finally:
        os._exit(status)


def _let_go_of_files(but: int) -> None:
    """Close the crawl's files. Their numbers stay taken: objects that still have them may write, to nowhere."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - names only
        if one not in {*_OUTPUTS, but, nothing}:
            os.dup2(nothing, one)


def _fork(request: dict[str, Any], descriptor: int, not_its_own: Sequence[int]) -> int:
    sys.path[:] = request["path"]
    _load(request["modules"])
    process = os.fork()
    if process == 0:
        for one in not_its_own:
            os.close(one)
        _become(request, descriptor)
    with suppress(OSError):  # it has done so itself, or has ended
        os.setpgid(process, process)
    return process


def _load(modules: Sequence[str]) -> None:
    """Load what the forks share. What cannot be loaded fails in the fork, which says so."""
    if not all(name in sys.modules for name in modules):
        with suppress(Exception):
            for name in modules:
                importlib.import_module(name)
        gc.freeze()


def _become(request: dict[str, Any], descriptor: int) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)
        module, name = request["runs"]
        getattr(importlib.import_module(module), name)(descriptor=descriptor, **request["given"])
        status = 0
    except Exception:  # noqa: BLE001 - nothing else is done in this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _end(process: int | None) -> None:
    """End a process and its forks at once, whatever they do. It is waited for only here, so the id is its own."""
    if process is not None:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
