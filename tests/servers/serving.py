"""The start and the end of the servers, in the running event loop or in a thread.

async with MockSite() as site: ...
with MockSite().in_thread() as site: ...           for a test that blocks, such as one that waits for a subprocess
    with site.away(): ...                          nobody listens there for that time
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Self

_PATIENCE_SECONDS = 30


class Startable(ABC):
    """A server on loopback. Started again it has the port that it had."""

    _loop: asyncio.AbstractEventLoop

    @abstractmethod
    async def start(self, port: int = 0) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[Self]:
        with all_in_thread(self):
            yield self

    def start_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a loop that runs in another thread."""
        self._loop = loop
        asyncio.run_coroutine_threadsafe(self.start(), loop).result(_PATIENCE_SECONDS)

    def stop_there(self) -> None:
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(_PATIENCE_SECONDS)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self.stop_there()
        yield
        self.start_in(self._loop)


@contextlib.contextmanager
def all_in_thread(*servers: Startable) -> Iterator[None]:
    """Serve from one thread, with a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=type(servers[0]).__name__, daemon=True)
    thread.start()
    with contextlib.ExitStack() as ends:
        ends.callback(loop.close)
        ends.callback(thread.join)
        ends.callback(loop.call_soon_threadsafe, loop.stop)
        for server in servers:
            server.start_in(loop)
            ends.callback(server.stop_there)
        yield


class SocketServer(Startable):
    """Writes its answers byte by byte, so that they need not be HTTP: `talk` has one connection, which is closed
    behind it. What the client breaks off is no error.
    """

    hosts: Iterable[str] = ("127.0.0.1",)
    tls: ssl.SSLContext | None = None

    def __init__(self) -> None:
        self.port = 0
        self._listening: list[asyncio.Server] = []
        self._talks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    async def start(self, port: int = 0) -> None:
        sockets = bound_sockets(self.hosts, port)
        self.port = sockets[0].getsockname()[1]
        self._listening = [
            await asyncio.start_server(self._accept, sock=one, limit=2**20, ssl=self.tls) for one in sockets
        ]

    async def stop(self) -> None:
        for server in self._listening:
            server.close()
        for task in self._talks:
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self.talk(reader, writer)
        finally:
            self._talks.discard(task)
            writer.close()


def bound_sockets(hosts: Iterable[str], port: int) -> list[socket.socket]:
    """A socket for each host, all on one port; 0: a free one."""
    sockets = []
    for host in hosts:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        port = one.getsockname()[1]
        sockets.append(one)
    return sockets
