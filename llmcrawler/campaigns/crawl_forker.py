"""Runs in the process that a place keeps: it has loaded what crawls need, and forks one for each that is asked for.

A request is one byte with two descriptors: the crawl's standard input, from which it reads what it is to do and at
whose end it stops, and its log. Answers are lines: "+PID" for each request, in their order, and "PID STATUS" for each
crawl that has ended, with the exit status as Python has it.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_STDOUT, _STDERR = 1, 2
_DEFAULT_SIGNALS: Final = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)


def fork_crawls(descriptor: int, packages: Sequence[str], modules: Sequence[str], entry: str) -> None:
    """Fork crawls until the place has closed the socket. `entry` is the module whose `main` a fork calls, after the
    packages' modules and the `modules` are loaded.
    """
    for package in map(importlib.import_module, packages):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else each fork's first collection copies all of it
    crawl = _serve(socket.socket(fileno=descriptor))
    if crawl is not None:
        importlib.import_module(entry).main()


def _serve(control: socket.socket) -> int | None:
    """Answer requests. Returns in each fork, with 0; and at the end, with None."""
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    waited: list[socket.socket | int] = [control, wakes]
    while True:
        ready, _, _ = select.select(waited, [], [])
        if wakes in ready:
            os.read(wakes, 4096)
            _tell_ends(control)
        if control in ready:
            request, descriptors, _, _ = socket.recv_fds(control, 1, 2)
            if not request:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for number in _DEFAULT_SIGNALS:
                    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
                for one in (wakes, woken):
                    os.close(one)
                control.close()
                _become(*descriptors)
                return 0
            for one in descriptors:
                os.close(one)
            control.sendall(b"+%d\n" % pid)


def _tell_ends(control: socket.socket) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            control.sendall(b"%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))


def _become(given: int, log: int) -> None:
    """Put the descriptors where a command has its own."""
    os.dup2(given, 0)
    os.dup2(log, _STDOUT)
    os.dup2(log, _STDERR)
    for one in (given, log):
        os.close(one)
