"""The start and the end of the servers: in the running event loop, in a thread, or as a program.

async with MockSite() as site: ...
with MockSite().in_thread() as site: ...           for a test that blocks, such as one that waits for a subprocess
python -m tests.servers.many_pages --count 30
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self

_PATIENCE_SECONDS = 30


class Server(Protocol):
    async def start(self, port: int = 0) -> None: ...

    def url(self, path: str = "/") -> str: ...


class Startable(ABC):
    """A server on loopback."""

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


def _stop(server: Startable, loop: asyncio.AbstractEventLoop) -> None:
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(_PATIENCE_SECONDS)


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
            asyncio.run_coroutine_threadsafe(server.start(), loop).result(_PATIENCE_SECONDS)
            ends.callback(_stop, server, loop)
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


def serve(description: str | None, make: Callable[[argparse.Namespace], Server], **defaults: float) -> None:
    """Serve until it is ended. `defaults`: what the command line can say beside --port. Whoever started it waits for
    the line "READY <url>".
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(make(options), options.port))


async def _serve(server: Server, port: int) -> None:
    await server.start(port)
    print(f"READY {server.url()}", flush=True)  # noqa: T201 - the line that the starter waits for
    await asyncio.Event().wait()
