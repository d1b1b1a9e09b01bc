"""A site whose answers are HTTP only in part: a table of bytes by path, sent over real sockets on loopback.

with HostileSite().in_thread() as site: ... site.url(), site.hits

"/" links to all of them, each answer closes its connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from tests.servers.serving import SocketServer

SECRET = "pw-0f-n0b0dy"  # the password of urls with credentials: it must show up nowhere
PAGE = b"<html><title>Page</title><body><p>Some words of a page.</p></body></html>"
_LONG = "x" * 1_000_000


def answer(*headers: str | bytes, status: str = "200 OK", body: bytes = PAGE, length: bool = True) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/html; charset=utf-8", *headers, "Connection: close"]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return b"\r\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\r\n\r\n" + body


def moved(location: str | bytes) -> bytes:
    target = location if isinstance(location, bytes) else location.encode()
    return answer(b"Location: " + target, status="302 Found")


def page(head: str) -> bytes:
    return answer(body=f"<html><head>{head}<title>Page</title></head><body>Some words of a page.</body>".encode())


# Where a page may be sent to. PORT is the site's own.
TARGETS: dict[str, str | bytes] = {
    "login": f"http://u:{SECRET}@127.0.0.1:PORT/login-target",
    "login-elsewhere": f"http://u:{SECRET}@example.invalid/",
    "login-only": f"http://{SECRET}@127.0.0.1:PORT/login-only-target",
    "login-odd": f"http://u:{SECRET}@@127.0.0.1:PORT/login-odd-target",
    "login-slashes": f"http:\\\\u:{SECRET}@127.0.0.1:PORT/login-slashes-target",
    "login-path": f"//u:{SECRET}@127.0.0.1:PORT/login-path-target",
    "login-port": f"http://u:{SECRET}@127.0.0.1:99999/",
    "login-ftp": f"ftp://u:{SECRET}@127.0.0.1/",
    "port-99999": "http://127.0.0.1:99999/",
    "port-0": "http://127.0.0.1:0/",
    "port-minus": "http://127.0.0.1:-1/",
    "port-letter": "http://127.0.0.1:8o/",
    "port-long": f"http://127.0.0.1:{'9' * 5000}/",
    "bracket": "http://[::1",
    "bracket-v": "http://[v1.x]/",
    "bracket-inside": "http://a[b]c/",
    "space": "http://exa mple.invalid/",
    "control": b"http://exa\x01mple.invalid/\x7f",
    "tab": b"http://127.0.0.1:PORT/tab\t-target",
    "label-long": f"http://{'a' * 64}.invalid/",
    "label-empty": "http://a..b/",
    "host-long": f"http://{'a.' * 300}invalid/",
    "host-dots": "http://.../",
    "host-none": "http:///path",
    "scheme-only": "http:",
    "punycode": "http://xn--a-ecp.ru/",
    "punycode-bad": "http://xn--99999999999/",
    "idna-bad": "http://\u00ad.invalid/",
    "idna-joiner": "http://a\u200db.invalid/",
    "surrogate": b"http://\xed\xa0\x80.invalid/",
    "utf-8": "http://127.0.0.1:PORT/ütf-8-target",
    "latin-1": b"http://127.0.0.1:PORT/l\xe4tin-target",
    "bytes": bytes(range(128, 256)),
    "javascript": "javascript:alert(1)",
    "data": "data:text/html,<p>x",
    "file": "file:///etc/passwd",
    "view-source": "view-source:http://127.0.0.1:PORT/",
    "gopher": "gopher://127.0.0.1/",
    "empty": "",
    "long-path": f"/{'x' * 15000}",
    "percent": "http://%31%32%37.0.0.1:PORT/percent-target",
    "query": "?" + "a=b&" * 3000,
    "dots": "/../" * 3000,
}
ODD: dict[str, bytes | list[bytes]] = {
    "location-long": moved(f"/{_LONG * 5}"),
    "location-twice": answer("Location: /a", "Location: http://[::1", status="302 Found"),
    "location-folded": answer("Location: /a\r\n folded", status="302 Found"),
    "location-cr": answer(b"Location: /a\rSet-Cookie: x=y", status="302 Found"),
    "refresh": answer("Refresh: 0; url=http://[::1"),
    "retry-after": answer("Retry-After: 9e999", status="404 Not Found"),
    "retry-after-date": answer("Retry-After: Fri, 99 Foo 99999 99:99:99 GMT", status="404 Not Found"),
    "length-minus": answer("Content-Length: -1", length=False),
    "length-two": answer("Content-Length: 5", f"Content-Length: {len(PAGE)}", length=False),
    "length-word": answer("Content-Length: many", length=False),
    "length-huge": answer(f"Content-Length: {'9' * 4000}", length=False),
    "length-digits": answer(f"Content-Length: {'9' * 5000}", length=False),
    "header-long": answer(f"X-Long: {_LONG}"),
    "headers-many": answer(*[f"X-{number}: y" for number in range(100_000)]),
    "headers-endless": [b"HTTP/1.1 200 OK\r\n", *[b"X-Header: some value\r\n" * 5000] * 400],
    "headers-folded": [b"HTTP/1.1 200 OK\r\nX-Header: y\r\n", *[b" some value\r\n" * 5000] * 400],
    "early-hints": [b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 5000] * 100,
    "status-0": answer(status="0 Zero"),
    "status-999": answer(status="999 Strange"),
    "status-99999": answer(status="99999 Strange"),
    "status-minus": answer(status="-5 Strange"),
    "status-word": answer(status="fine fine"),
    "status-100": answer(status="100 Continue") + answer(),
    "status-101": answer(status="101 Switching Protocols"),
    "status-long": answer(status=f"200 {_LONG}"),
    "version": answer().replace(b"HTTP/1.1", b"HTTP/9.9", 1),
    "version-bad": answer().replace(b"HTTP/1.1", b"HTTP/x.y", 1),
    "no-http": b"SSH-2.0-OpenSSH_9.9\r\n",
    "binary": bytes(range(256)) * 100,
    "nothing": b"",
    "only-breaks": b"\r\n" * 100_000,
    "no-colon": answer("this is no header"),
    "header-bytes": answer(b"X-\xff: \xfe\x00\x01"),
    "header-empty": answer(": y"),
    "chunks-garbage": answer("Transfer-Encoding: chunked", body=b"zz\r\nno chunk\r\n", length=False),
    "chunks-minus": answer("Transfer-Encoding: chunked", body=b"-5\r\nno chunk\r\n", length=False),
    "chunks-huge": answer("Transfer-Encoding: chunked", body=b"f" * 900 + b"\r\nno chunk\r\n", length=False),
    "chunks-extension": answer("Transfer-Encoding: chunked", body=b"5;" + b"x" * 100_000, length=False),
    "chunks-both": answer("Transfer-Encoding: chunked", body=b"4\r\nabcd\r\n0\r\n\r\n"),
    "transfer-unknown": answer("Transfer-Encoding: gzip, sdch"),
    "encodings": answer("Content-Encoding: " + "br, " * 50 + "gzip"),
    "encodings-gzip": answer("Content-Encoding: " + ", ".join(["gzip"] * 3000)),
    "encoding-unknown": answer("Content-Encoding: sdch"),
    "encoding-zstd": answer("Content-Encoding: zstd"),
    "encoding-br": answer("Content-Encoding: br"),
    "encoding-deflate": answer("Content-Encoding: deflate"),
    "encoding-bytes": answer(b"Content-Encoding: \xff\xfe"),
    "cookie-long": answer(f"Set-Cookie: a={_LONG}"),
    "cookies-many": answer(*[f"Set-Cookie: many{number}=x" for number in range(10_000)]),
    "cookies-some": answer(*[f"Set-Cookie: some{number}=x; Path=/" for number in range(900)]),
    "cookie-odd": answer(
        b"Set-Cookie: \xff=\xfe; Expires=Foo, 99 Bar 99999; Max-Age=9e999; Version=x; Port=\xff; Domain=.",
        "Set-Cookie: =; =; Domain=a..b; Path=\x00",
        "Set-Cookie: a=b; Max-Age=" + "9" * 5000,
        "Set-Cookie: a=b; Expires=" + "9" * 5000,
        "Set-Cookie2: a=b; Version=999; Max-Age=x",
    ),
    "etag-long": answer(f"ETag: {_LONG}"),
    "validators": answer("Last-Modified: Foo, 99 Bar 99999", "ETag: \x00", "Date: never", "Age: -1", "Expires: x"),
    "type-long": answer(f"Content-Type: {_LONG}"),
    "type-odd": answer(b"Content-Type: \xff/\xfe; charset=\xff; charset=\x00"),
    "type-empty": answer("Content-Type:"),
    "disposition": answer(b'Content-Disposition: attachment; filename="\xff\x00/../../x'),
    "links": answer(*[f"Link: <http://[::1>; rel=next, </{number}>; rel={_LONG[:1000]}" for number in range(100)]),
    "policy": answer("Referrer-Policy: " + "x" * 10_000, b"Content-Security-Policy: \xff"),
    "base": page('<base href="http://[::1/">') + b'<a href="x">x</a>',
    "base-login": page(f'<base href="http://u:{SECRET}@127.0.0.1:99999/">') + b'<a href="x">x</a>',
}


def responses(port: int) -> dict[str, bytes | list[bytes]]:
    """All answers by path."""
    table: dict[str, bytes | list[bytes]] = {f"/odd/{name}": given for name, given in ODD.items()}
    for name, given in TARGETS.items():
        target = given if isinstance(given, bytes) else given.encode()
        target = target.replace(b"PORT", str(port).encode())
        table[f"/moved/{name}"] = moved(target)
        refresh = b"<meta http-equiv=refresh content=\"0; url='" + target + b"'\">"
        link = b'<link rel=canonical href="' + target + b'"><a href="' + target + b'">x</a>'
        table[f"/refreshed/{name}"] = answer(body=refresh + PAGE)
        table[f"/linked/{name}"] = answer(body=link + PAGE)
    return table


class HostileSite(SocketServer):
    """`pages` are more of its pages, by path; `paths` are those of the table. `hits` may be read in any thread."""

    def __init__(self, pages: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.hits: Counter[str] = Counter()
        self._pages = {path: answer(body=html.encode()) for path, html in (pages or {}).items()}
        self.paths: tuple[str, ...] = ()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def start(self, port: int = 0) -> None:
        await super().start(port)
        self._table = responses(self.port)
        self.paths = tuple(self._table)
        self._table |= self._pages
        links = "".join(f'<p><a href="{path}">{path}</a>' for path in self._table)
        self._table["/"] = answer(body=f"<title>All</title>{links}".encode())
        self._table["/robots.txt"] = answer(status="404 Not Found")

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode("latin-1")
        self.hits[path] += 1
        given = self._table.get(path, answer())
        for part in given if isinstance(given, list) else [given]:
            writer.write(part)
            await writer.drain()
