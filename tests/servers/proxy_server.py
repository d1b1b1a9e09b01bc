"""HTTP proxies for tests, over real sockets on loopback: good ones, and all that goes wrong with them.

    with ProxyServer().in_thread() as proxy: ... proxy.url, proxy.targets
    with ProxyServer(FORBIDDEN).in_thread() as proxy: ...

It forwards requests in absolute form (RFC 9112, 3.2.2) and opens tunnels (CONNECT). `tls` has it speak TLS to its
clients, `credentials` ("name:password") has it ask for them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from urllib.parse import urlsplit

from tests.servers.serving import SocketServer

CAPTCHA = "<html><head><title>Are you a robot?</title></head><body><h1>Solve this captcha</h1></body></html>"


def answer(status: str, body: str = "", content_type: str = "text/html") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body.encode())}\r\n"
    return (head + "Connection: close\r\n\r\n" + body).encode()


FORBIDDEN = answer("403 Forbidden", "<h1>Forbidden</h1>")
CAPTCHA_PAGE = answer("200 OK", CAPTCHA)


class ProxyServer(SocketServer):
    """`instead` is sent in place of every answer, of CONNECT too; b"" hangs up without a word.

    `forward_to` is the host that all requests go to, whatever theirs is. `only_after` lets so many requests through
    first. `targets` are the request targets that came.
    """

    def __init__(
        self,
        instead: bytes | None = None,
        *,
        only_after: int = 0,
        credentials: str = "",
        tls: ssl.SSLContext | None = None,
        forward_to: str = "",
    ) -> None:
        super().__init__()
        self._instead = instead
        self._forward_to = forward_to
        self._only_after = only_after
        self._expected = f"Basic {base64.b64encode(credentials.encode()).decode()}" if credentials else ""
        self.tls = tls
        self.targets: list[str] = []
        self.heads: list[str] = []

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *headers = head.rstrip("\r\n").split("\r\n")
        method, target, _version = line.split(" ")
        self.targets.append(target)
        self.heads.append(head)
        if self._expected and f"proxy-authorization: {self._expected}" not in [_lower_name(one) for one in headers]:
            writer.write(answer("407 Proxy Authentication Required"))
        elif self._instead is not None and len(self.targets) > self._only_after:
            writer.write(self._instead)
        elif method == "CONNECT":
            host, _, port = target.rpartition(":")
            await self._tunnel(reader, writer, host, int(port), b"")
            return
        else:
            url = urlsplit(target)
            path = url.path + (f"?{url.query}" if url.query else "")
            kept = [one for one in headers if not one.lower().startswith(("proxy-", "connection:"))]
            request = "\r\n".join([f"{method} {path or '/'} HTTP/1.1", *kept, "Connection: close", "", ""])
            await self._tunnel(reader, writer, url.hostname or "", url.port or 80, request.encode("latin-1"))
            return
        await writer.drain()

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, first: bytes
    ) -> None:
        try:
            there, back = await asyncio.open_connection(self._forward_to or host, port)
        except OSError:
            writer.write(answer("502 Bad Gateway"))
            return
        if first:
            back.write(first)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        copies = [asyncio.ensure_future(_copy(reader, back)), asyncio.ensure_future(_copy(there, writer))]
        try:
            # A client that waits for the answer to `first` says nothing more.
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            back.close()


def dead_proxy() -> str:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def _lower_name(header: str) -> str:
    name, _, value = header.partition(":")
    return f"{name.lower()}:{value}"


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
