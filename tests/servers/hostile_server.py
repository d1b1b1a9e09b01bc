"""An HTTP server that may say anything: each answer is written byte by byte, so that it can be none of HTTP's.

with HostileServer(answer, ("127.0.0.2", "127.0.0.3")).in_thread() as server: ... server.origin("127.0.0.3")
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.servers.serving import SocketServer


@dataclass(frozen=True, slots=True)
class Visit:
    """One request. `origin` is that of the address that it came to."""

    target: str
    origin: str
    headers: Mapping[str, str]
    number: int  # of this target's visits, from 1

    @property
    def host(self) -> str:
        return self.origin.split("//", 1)[1].split(":")[0]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers` go beside Content-Type, and Content-Length is the body's unless they name one.

    `chunks` come behind the body for as long as the client takes them, `pause_seconds` apart, and `raw` replaces head
    and body.
    """

    body: bytes = b""
    status: str = "200 OK"
    content_type: str = "text/html; charset=utf-8"
    headers: Iterable[tuple[str, str]] = ()
    raw: bytes | None = None
    chunks: Iterable[bytes] | None = None
    pause_seconds: float = 0.0
    is_cut: bool = field(default=False)  # the connection is reset behind what was sent

    def head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status}"]
        if self.content_type:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        names = {name.lower() for name, _ in self.headers}
        if self.chunks is None and not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(self.body)}")
        lines.append("Connection: close")
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n"


class HostileServer(SocketServer):
    """`answer` is called in a thread, as an answer may take long to make. `visits` may be read in any thread."""

    def __init__(
        self, answer: Callable[[Visit], Answer], hosts: Iterable[str], *, latency_seconds: float = 0.0
    ) -> None:
        super().__init__()
        self._answer = answer
        self.hosts = tuple(hosts)
        self._latency_seconds = latency_seconds
        self.visits: Counter[str] = Counter()  # by url

    def origin(self, host: str) -> str:
        return f"http://{host}:{self.port}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = await self._visit(reader, writer)
        if visit is not None:
            await asyncio.sleep(self._latency_seconds)
            await _send(writer, await asyncio.to_thread(self._answer, visit))

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Visit | None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3:
            return None
        origin = self.origin(writer.get_extra_info("sockname")[0])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.visits[origin + parts[1]] += 1
        return Visit(parts[1], origin, headers, self.visits[origin + parts[1]])


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    writer.write(answer.head() + answer.body if answer.raw is None else answer.raw)
    await writer.drain()
    for chunk in answer.chunks or ():
        writer.write(chunk)
        await writer.drain()
        await asyncio.sleep(answer.pause_seconds)
    if answer.is_cut:
        writer.transport.abort()
