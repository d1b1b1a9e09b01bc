"""Keeps states by name (what is known of a site, say) in worker processes, and calls functions of them there.

A state is where the work on it is done, so that only arguments and results travel. Each name is bound to one worker,
which does its calls in the order in which they were made.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from llmcrawler.core.processes.bounded_processes import ENDING
from llmcrawler.core.processes.own_processes import fork_python
from llmcrawler.core.processes.state_link import BoundState, StateCall, StateOwner, StateWorker
from llmcrawler.core.processes.state_worker import fork_workers
from llmcrawler.errors import ContentError, ReadingStopped

logger = logging.getLogger(__name__)

_MEMORY_BYTES: Final = 512 * 2**20
_RESULT_BYTES: Final = 32 * 2**20
_BUSY: Final = 4  # calls before a worker that make another one worth its start
_MAX_STATES: Final = 256  # of a worker; of more, the one not used for longest comes back
_MAX_DEATHS: Final = 3  # in a row, of workers that have answered nothing


class WorkersGone(Exception):
    """No worker could be started any more: their owners have their states again, and the call is to be made here."""


class _Forker:
    """The process that forks workers. Its methods block, so they are called in threads."""

    def __init__(self, modules: Sequence[str], memory_bytes: int) -> None:
        self._turn = threading.Lock()
        self._process, self._control = fork_python(
            fork_workers, modules, memory_bytes=memory_bytes, result_bytes=_RESULT_BYTES
        )

    def fork(self) -> tuple[int, socket.socket]:
        """Return the id of a new worker and the socket to it. Raises OSError, or ValueError, where there is none."""
        ours, theirs = socket.socketpair()
        with theirs, self._turn:
            socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
            return int(self._control.recv(64)), ours

    def end_of(self, process: int) -> tuple[int, int]:
        """Wait for a worker's end. Return its exit status as the system has it, and the number of its call, or 0."""
        with self._turn:
            self._control.sendall(b"%d" % process)
            status, number = self._control.recv(64).split()
        return int(status), int(number)

    def end(self) -> None:
        self._process.end()
        self._control.close()


class StateProcesses:
    """Keeps up to `count` workers, of which the later ones start when the others have much to do.

    `modules` are loaded before the first worker is forked. `memory_bytes`: how much a worker may grow.
    """

    def __init__(self, modules: Sequence[str] = (), *, count: int, memory_bytes: int = _MEMORY_BYTES) -> None:
        self.restarts = 0
        self._count = count
        self._memory_bytes = memory_bytes
        self._modules = modules
        self._forker: _Forker | None = None
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
        """Start workers; the first takes half a second. Where none can be had, `is_broken` is set."""
        self._growing = True
        try:
            if self._forker is None:
                self._forker = _Forker(self._modules, self._memory_bytes)
            for _ in range(min(count, self._count) - len(self._workers)):
                worker = StateWorker(self._lost, self._memory_bytes)
                await self._fork_for(worker)
                self._workers.append(worker)
        except (OSError, ValueError):
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
            worker.close()
        self._homes.clear()
        if self._forker is not None:
            self._forker.end()
            self._forker = None

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
        if self._forker is None:
            raise OSError(ENDING)
        process, ours = await asyncio.to_thread(self._forker.fork)
        await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
        worker.go_on(process)

    def _lost(self, worker: StateWorker) -> None:
        if not self._closed:
            self._later(self._replace(worker))

    async def _replace(self, worker: StateWorker) -> None:
        """Start a worker in the place of one that has ended. It goes on with what was not done, and with the states as
        they were when they were last copied.
        """
        try:
            if self._forker is None:
                return
            worker.lose(*await asyncio.to_thread(self._forker.end_of, worker.process))
            self.restarts += 1
            if worker.deaths < _MAX_DEATHS and not self._closed:
                await self._fork_for(worker)
                return
        except (OSError, ValueError):  # the process that forks them is gone too
            pass
        if not self._closed:
            self._break()

    def _break(self) -> None:
        self.is_broken = True
        logger.warning("Pages are read in the crawl's own process: no worker process could be kept up")
        workers, self._workers = self._workers, []
        self._homes.clear()
        for worker in workers:
            worker.give_up(WorkersGone())
            worker.close()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
