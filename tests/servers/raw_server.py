"""A server that answers every request with the same bytes, whatever they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager


class RawServer:
    """`requests` are the heads of what was asked, `sent_bytes` what was written before the other side hung up."""

    def __init__(self, parts: Callable[[], Iterable[bytes]]) -> None:
        self.requests: list[str] = []
        self.sent_bytes = 0
        self.port = 0
        self._parts = parts
        self._talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks[asyncio.ensure_future(self._serve(reader, writer))] = writer

    async def end(self) -> None:
        for writer in self._talks.values():
            writer.transport.abort()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            for part in self._parts():
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)  # drain waits only when much is unsent, and the client's loop is this one
                self.sent_bytes += len(part)
            # Closed with a question unread, the connection would be reset and the answer lost.
            writer.write_eof()
            while await reader.read(1 << 16):
                pass
        writer.close()


def answer(body: bytes, *headers: str, status: str = "200 OK", content_type: str = "application/json") -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return ["\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"), body]


@asynccontextmanager
async def raw_server(parts: Callable[[], Iterable[bytes]]) -> AsyncIterator[RawServer]:
    server = RawServer(parts)
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.end()
