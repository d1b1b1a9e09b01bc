"""Runs inputs in a process of its own, which may hang or die without taking the run along."""

from __future__ import annotations

import multiprocessing
import resource
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from tests.fuzzing.targets import TARGETS

# Where a target took so long it is ended, however slow the machine is.
HANG_SECONDS = 60.0
_MAX_BYTES = 2 * 2**30  # of address space: what needs more than that for 64 kB is a fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """`cpu_seconds` of the thread that ran the target; `fault` is a traceback, "hang", "died", or "" where all is well.
    `holds_loop`: a crawl would do this work on its event loop.
    """

    cpu_seconds: float
    fault: str
    holds_loop: bool = False


class Runner:
    """As a context manager. A process that hangs or dies is replaced for the next input."""

    def __init__(self, hang_seconds: float = HANG_SECONDS) -> None:
        self._hang_seconds = hang_seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def run(self, target: str, body: bytes) -> Outcome:
        connection = self._connected()
        connection.send((target, body))
        if not connection.poll(self._hang_seconds):
            self.end()
            return Outcome(self._hang_seconds, "hang")
        try:
            outcome: Outcome = connection.recv()
        except EOFError:
            self.end()
            return Outcome(0.0, "died")
        return outcome

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            here, there = multiprocessing.get_context("spawn").Pipe()
            self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
            self._process.start()
            there.close()
            self._connection = here
        return self._connection


def _serve(connection: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
    while True:
        try:
            target, body = connection.recv()
        except EOFError:
            return
        started = time.thread_time()
        holds_loop, fault = False, ""
        try:
            holds_loop = TARGETS[target].run(body)
        except Exception:  # noqa: BLE001 - whatever it raises is what is looked for
            fault = traceback.format_exc(limit=-6)
        connection.send(Outcome(time.thread_time() - started, fault, holds_loop))
