"""Kinds of robots.txt, and of servers that answer for one: each is a host of its own on loopback, with two pages.

with robots_server().in_thread() as server: ... server.origin(HOSTS["503"]), server.visits
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import brotli

from tests.servers.hostile_server import Answer, HostileServer, Visit

OPEN, SHUT = "/open/", "/shut/"
RULES: Final = f"User-agent: *\nDisallow: {SHUT}\n".encode()
NO_RULES: Final = b"<!doctype html><title>Not found</title><p>There is nothing here"
_FINE = Answer(RULES, content_type="text/plain")
_PAGE = Answer(b"<!doctype html><title>A page</title><p>Words of a page")

HOLDS, ALLOWS, FORBIDS, UNREACHABLE = "holds", "allows", "forbids", "unreachable"
Respond = Callable[[Visit], Answer]


@dataclass(frozen=True, slots=True)
class Kind:
    """`meaning`: its rules hold, it allows or forbids all, or it cannot be had, which forbids all for now."""

    respond: Respond
    meaning: str


def _answers(meaning: str, answer: Answer = _FINE, **changes: object) -> Kind:
    fixed = replace(answer, **changes)  # type: ignore[arg-type]  # of the test's own kinds
    return Kind(lambda _: fixed, meaning)


def _packed(coding: str, body: bytes, meaning: str = HOLDS) -> Kind:
    return _answers(meaning, body=body, headers=[("Content-Encoding", coding)])


def _typed(content_type: str, body: bytes = RULES) -> Kind:
    return _answers(HOLDS, body=body, content_type=content_type)


def _text(body: bytes, meaning: str = HOLDS) -> Kind:
    return _answers(meaning, body=body)


def _raw(raw: bytes, meaning: str = UNREACHABLE, *, is_cut: bool = False) -> Kind:
    return _answers(meaning, raw=raw, is_cut=is_cut)


def _leads_to(location: str, meaning: str = HOLDS, status: str = "302 Found") -> Kind:
    """A redirect, to /real.txt with rules for example."""

    def respond(visit: Visit) -> Answer:
        if visit.path == "/real.txt":
            return _FINE
        if visit.path in ("/404.txt", "/503.txt"):
            return replace(_FINE, status=f"{visit.path[1:4]} No")
        return Answer(status=status, headers=[("Location", location.format(origin=visit.origin))])

    return Kind(respond, meaning)


def _hops(count: int, meaning: str = HOLDS) -> Kind:
    def respond(visit: Visit) -> Answer:
        at = int(visit.target.partition("?")[2] or 0)
        return _FINE if at == count else Answer(status="301 Moved", headers=[("Location", f"/robots.txt?{at + 1}")])

    return Kind(respond, meaning)


def _wants_cookie(visit: Visit) -> Answer:
    if "been=here" in visit.headers.get("cookie", ""):
        return _FINE
    return Answer(status="302 Found", headers=[("Location", "/robots.txt"), ("Set-Cookie", "been=here")])


def _drip(body: bytes, pause_seconds: float) -> Kind:
    """Sends on and on, so slowly that it takes for ever."""

    def chunks() -> Iterator[bytes]:
        while True:
            yield b"1\r\n#\r\n"

    headers = [("Transfer-Encoding", "chunked")]
    answer = Answer(body, content_type="text/plain", headers=headers)
    return Kind(lambda _: replace(answer, chunks=chunks(), pause_seconds=pause_seconds), UNREACHABLE)


def _head(*lines: str, body: bytes = RULES) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/plain", *lines, "", ""]).encode() + body


_STATUSES: Final[Mapping[str, tuple[int, ...]]] = {
    HOLDS: (200, 201, 202, 203, 206),
    ALLOWS: (
        *(300, 304, 305, 306),
        *(400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418),
        *(421, 422, 423, 424, 425, 426, 428, 431, 444, 451, 499),
    ),
    UNREACHABLE: (429, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511, 520, 521, 522, 524, 530, 599, 999),
}
_PACKED: Final = gzip.compress(RULES)
# A frame with a block of plain bytes (RFC 8878, 3.1.1), as Python has no zstd before 3.14.
_ZSTD: Final = b"\x28\xb5\x2f\xfd\x20" + bytes([len(RULES)]) + (len(RULES) << 3 | 1).to_bytes(3, "little") + RULES
_MANY: Final = gzip.compress(b"".join(b"Disallow: /%d/\n" % number for number in range(3000)) + RULES)

KINDS: Final[Mapping[str, Kind]] = {
    **{
        str(status): _answers(meaning, status=f"{status} Status")
        for meaning, statuses in _STATUSES.items()
        for status in statuses
    },
    "204": _answers(ALLOWS, body=b"", status="204 No Content"),
    "404-html": _answers(ALLOWS, body=NO_RULES, status="404 Not Found", content_type="text/html"),
    "503-retry-after": _answers(UNREACHABLE, status="503 Busy", headers=[("Retry-After", "86400")]),
    # -- redirects
    **{f"redirect-{status}": _leads_to("/real.txt", status=f"{status} Moved") for status in (301, 302, 303, 307, 308)},
    **{f"redirects-{count}": _hops(count) for count in (2, 5, 6, 10)},
    "redirect-absolute": _leads_to("{origin}/real.txt"),
    "redirect-relative": _leads_to("real.txt"),
    "redirect-no-scheme": _leads_to("{origin}/real.txt#top"),
    "redirect-to-404": _leads_to("/404.txt", ALLOWS),
    "redirect-to-503": _leads_to("/503.txt", UNREACHABLE),
    "redirect-loop": _leads_to("/robots.txt", ALLOWS),
    "redirect-endless": _hops(1000, ALLOWS),
    "redirect-nowhere": _answers(ALLOWS, status="302 Found"),
    "redirect-to-ftp": _leads_to("ftp://files.example/robots.txt", ALLOWS),
    "redirect-to-nonsense": _leads_to("http://[::1", ALLOWS),
    "redirect-to-private": _leads_to("http://10.0.0.1/robots.txt", UNREACHABLE),
    "redirect-to-no-host": _leads_to("http://no-such-host.invalid/robots.txt", UNREACHABLE),
    "redirect-with-cookie": Kind(_wants_cookie, HOLDS),
    "meta-refresh": _text(b'<meta http-equiv="refresh" content="0; url=/real.txt">', ALLOWS),
    # -- connections
    "reset": _raw(b"", is_cut=True),
    "closed": _raw(b""),
    "reset-in-head": _raw(b"HTTP/1.1 200 OK\r\nContent-", is_cut=True),
    "closed-in-head": _raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain"),
    "cut": _raw(_head("Content-Length: 5000")),
    "reset-in-body": _raw(_head("Content-Length: 5000"), is_cut=True),
    "cut-chunks": _raw(_head("Transfer-Encoding: chunked", body=b"%x\r\n%s\r\n" % (len(RULES), RULES))),
    "bad-chunks": _raw(_head("Transfer-Encoding: chunked", body=b"nonsense\r\n" + RULES)),
    "no-length": _raw(_head("Connection: close"), HOLDS),
    "no-http": _raw(b"220 mail.example ESMTP\r\n"),
    "rules-without-head": _raw(RULES),
    "too-many-headers": _raw(_head(*(f"X-{number}: {number}" for number in range(2000)))),
    "head-then-silence": _drip(b"", 6.0),
    "drip": _drip(b"", 0.5),
    # -- compression
    "gzip": _packed("gzip", _PACKED),
    "x-gzip": _packed("x-gzip", _PACKED),
    "deflate": _packed("deflate", zlib.compress(RULES)),
    "br": _packed("br", brotli.compress(RULES)),
    "zstd": _packed("zstd", _ZSTD),
    "gzip-twice": _packed("gzip, gzip", gzip.compress(_PACKED)),
    "gzip-that-is-none": _packed("gzip", RULES, UNREACHABLE),
    "deflate-that-is-none": _packed("deflate", RULES, UNREACHABLE),
    "br-that-is-none": _packed("br", RULES, UNREACHABLE),
    "zstd-that-is-none": _packed("zstd", RULES, UNREACHABLE),
    "gzip-cut": _packed("gzip", _MANY[: len(_MANY) // 2], UNREACHABLE),
    "gzip-cut-at-its-end": _packed("gzip", _PACKED[:-4], UNREACHABLE),
    "unknown-coding": _packed("lzma", b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0" * 20, UNREACHABLE),
    "unknown-coding-of-text": _packed("utf-8", RULES),
    "encoded-six-times": _packed("gzip, gzip, gzip, gzip, gzip, gzip", _PACKED, UNREACHABLE),
    "gzip-bomb": _packed("gzip", gzip.compress(b"\n" * 2**26), FORBIDS),
    # -- sizes
    "empty": _text(b"", ALLOWS),
    "blank": _text(b" \r\n\t\n\r", ALLOWS),
    "comments": _text(b"# User-agent: *\n# Disallow: /\n", ALLOWS),
    "600-kb": _text(RULES + b"#" * 600_000),
    "600-kb-before": _text(b"#\n" * 300_000 + RULES, ALLOWS),
    "line-of-600-kb": _text(RULES + b"Allow: /" + b"x" * 600_000),
    # -- types and charsets
    "html-type": _typed("text/html"),
    "no-type": _typed(""),
    "octets": _typed("application/octet-stream"),
    "picture-type": _typed("image/png"),
    "wrong-charset": _typed("text/plain; charset=utf-7"),
    "no-charset": _typed("text/plain; charset=no-such-charset"),
    "utf-16": _typed("text/plain; charset=utf-16", RULES.decode().encode("utf-16")),
    "byte-order-mark": _typed("text/plain", b"\xef\xbb\xbf" + RULES),
    "carriage-returns": _typed("text/plain", RULES.replace(b"\n", b"\r")),
    "attachment": _answers(HOLDS, headers=[("Content-Disposition", "attachment; filename=robots.txt")]),
    "soft-404": _answers(ALLOWS, body=NO_RULES, content_type="text/html"),
}
HOSTS: Final = {name: f"127.1.{number // 200}.{number % 200 + 1}" for number, name in enumerate(KINDS)}
_NAMES: Final = {host: name for name, host in HOSTS.items()}


def robots_server() -> HostileServer:
    return HostileServer(_respond, HOSTS.values())


def _respond(visit: Visit) -> Answer:
    return _PAGE if visit.path in (OPEN, SHUT) else KINDS[_NAMES[visit.host]].respond(visit)
