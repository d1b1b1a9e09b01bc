"""Runs the browser's only way out: a proxy on loopback that goes where the crawl may go, and nowhere else.

Redirects, name resolution, frames and sockets of a page all pass here, so what holds here holds for all of them. Names
are looked up here, and the address that was judged is the one connected to. TLS passes through untouched.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.core.urls import AddressGuard, place_of

logger = logging.getLogger(__name__)

_MAX_HEAD_BYTES = 65536
_CHUNK_BYTES = 65536
_MAX_FAILURES = 1000
_HOP_HEADERS = re.compile(rb"(?im)^(?:proxy-[a-z-]+|connection|keep-alive):[^\r\n]*\r\n")
_STATUS = re.compile(rb"HTTP/1\.. (\d{3})")
_LENGTH = re.compile(rb"(?im)^content-length: *(\d+)")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Look = Callable[[str], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Upstream:
    """The proxy that a request has to take, and its Proxy-Authorization."""

    address: str
    authorization: bytes | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """The way out of a page: its proxy, if any, and the private host and port that it comes from and may go to."""

    upstream: Upstream | None = None
    place: str = ""


class CannotReach(Exception):
    """Reason why a host could not be reached: `kind` is dns, refused, timeout, private_address, connection or proxy."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Gateway:
    """Proxy with a port for each way out that a page may have. Without `guard` everything is allowed.

    `look` returns the addresses of a name, none for one that is unknown. With `checks_proxied` names are looked up and
    judged here also where a proxy looks them up.
    """

    def __init__(
        self, guard: AddressGuard | None, *, timeout_seconds: float, look: Look, checks_proxied: bool = True
    ) -> None:
        self._guard = guard
        self._timeout_seconds = timeout_seconds
        self._look = look
        self._checks_proxied = checks_proxied
        self._servers: dict[Route, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, CannotReach] = {}

    async def port(self, way: Route) -> int:
        if way not in self._servers:

            def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.ensure_future(self._serve(reader, writer, way))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

            server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES)
            self._servers.setdefault(way, server)
        port: int = self._servers[way].sockets[0].getsockname()[1]
        return port

    def failure(self, url: str) -> CannotReach | None:
        """Return why the latest connection to the host and port of a url failed, None when it did not."""
        return self._failures.get(place_of(url))

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Route) -> None:
        try:
            await self._answer(reader, writer, way)
        except CannotReach as error:
            logger.debug("The browser was refused: %s", error)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            logger.debug("A connection of the browser broke: %r", error)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Route) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        is_tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = (parts.hostname or "").lower(), parts.port or (443 if is_tunnel else 80)
        place = place_of(f"//{target}" if is_tunnel else target)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                far = await self._connect(host, port, way, is_tunnel=is_tunnel)
        except (CannotReach, TimeoutError) as error:
            late = f"no connection to {host} in {self._timeout_seconds:g} s"
            failure = error if isinstance(error, CannotReach) else CannotReach("timeout", late)
            if len(self._failures) > _MAX_FAILURES:
                self._failures.clear()
            self._failures[place] = failure
            raise failure from None
        self._failures.pop(place, None)
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _until_one_ends(_pump(reader, far[1]), _pump(far[0], writer))
            else:
                await _pass_on(head, target, (reader, writer), far, way.upstream)
        finally:
            far[1].close()
            with suppress(OSError):
                await far[1].wait_closed()

    async def _connect(self, host: str, port: int, way: Route, *, is_tunnel: bool) -> Streams:
        name = f"[{host}]" if ":" in host else host
        place = place_of(f"//{name}:{port}")
        refusal = self._guard.reason_to_refuse_place(place, way.place) if self._guard is not None else None
        if refusal is not None:
            raise CannotReach("private_address", refusal)
        if way.upstream is not None:
            if self._checks_proxied:
                await self._judged(host)
            return await self._connect_through(way.upstream, name, port, is_tunnel=is_tunnel)
        addresses = await self._judged(host)
        if not addresses:
            raise CannotReach("dns", f"{host}: no address is known")
        error: OSError | None = None
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port, limit=_MAX_HEAD_BYTES)
            except OSError as failure:
                error = failure
        kind = "refused" if isinstance(error, ConnectionRefusedError) else "connection"
        raise CannotReach(kind, f"{host}:{port}: {error}")

    async def _judged(self, host: str) -> Sequence[str]:
        """Return the addresses of a host, which must all be allowed, as it is chance which of them is taken."""
        addresses = await self._look(host)
        for address in addresses:
            refusal = self._guard.reason_to_refuse_address(address, host) if self._guard is not None else None
            if refusal is not None:
                raise CannotReach("private_address", refusal)
        return addresses

    async def _connect_through(self, way: Upstream, name: str, port: int, *, is_tunnel: bool) -> Streams:
        proxy = urlsplit(way.address if "//" in way.address else f"//{way.address}")
        try:
            reader, writer = await asyncio.open_connection(
                proxy.hostname or "", proxy.port or 80, limit=_MAX_HEAD_BYTES
            )
        except OSError as error:
            raise CannotReach("refused", f"the proxy: {error}") from None
        if not is_tunnel:
            return reader, writer
        ask = f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n".encode()
        writer.write(ask + _authorization(way) + b"\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
        found = _STATUS.match(answer)
        if found is None or found[1] != b"200":
            writer.close()
            raise CannotReach("proxy", str({"status": int(found[1])} if found else "no HTTP"))
        return reader, writer


def _authorization(way: Upstream) -> bytes:
    return b"Proxy-Authorization: " + way.authorization + b"\r\n" if way.authorization else b""


async def _pass_on(head: bytes, target: str, near: Streams, far: Streams, way: Upstream | None) -> None:
    """Pass on one request and its answer, and end both connections, so that the next request is judged by itself."""
    line, rest = head.split(b"\r\n", 1)
    if way is None:
        parts = urlsplit(target)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        method, _, version = line.decode("latin-1").split(" ", 2)
        line = f"{method} {path} {version}".encode("latin-1")
    extra = b"Connection: close\r\n" + (_authorization(way) if way is not None else b"")
    far[1].write(line + b"\r\n" + extra + _HOP_HEADERS.sub(b"", rest))
    length = _LENGTH.search(rest)
    left = int(length[1]) if length else 0
    while left > 0:
        chunk = await near[0].read(min(left, _CHUNK_BYTES))
        if not chunk:
            return
        far[1].write(chunk)
        await far[1].drain()
        left -= len(chunk)
    await _pass_back(near, far)


async def _pass_back(near: Streams, far: Streams) -> None:
    while True:
        head = await far[0].readuntil(b"\r\n\r\n")
        found = _STATUS.match(head)
        if found is None:
            raise ValueError("no HTTP")
        line, rest = head.split(b"\r\n", 1)
        is_final = not found[1].startswith(b"1")
        near[1].write(line + b"\r\n" + (b"Connection: close\r\n" if is_final else b"") + _HOP_HEADERS.sub(b"", rest))
        if is_final:
            break
    await _until_one_ends(near[0].read(1), _pump(far[0], near[1]))


async def _until_one_ends(*works: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
