"""What a hostile host has beside its pages: each robots.txt of ROBOTS, and the sitemaps of SITEMAPS, which the hostile
host's own robots.txt names.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping

from tests.servers.hostile_server import Answer, Visit

Respond = Callable[[Visit], Answer]
_URLSET = b'<?xml version="1.0" encoding="%s"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'


def _plain(make: Callable[[], bytes]) -> Respond:
    return lambda _: Answer(make(), content_type="text/plain")


def _rules(number: int, path: bytes = b"/private/") -> bytes:
    return b"".join(b"Disallow: %s%d\n" % (path, row) for row in range(number))


def _endless() -> Iterator[bytes]:
    while True:
        yield b"10\r\nDisallow: /nope\n\r\n"


ROBOTS: Mapping[str, Respond] = {
    "agents": _plain(lambda: b"".join(b"User-agent: a%d\n" % n for n in range(4000)) + _rules(4000)),
    "agents-each": _plain(lambda: b"".join(b"User-agent: a%d\nDisallow: /a\n" % n for n in range(40_000))),
    "rules": _plain(lambda: b"User-agent: *\n" + _rules(700_000)),
    "wildcards": _plain(lambda: b"User-agent: *\n" + _rules(2000, b"/" + b"*a" * 200)),
    "line": _plain(lambda: b"User-agent: *\nDisallow: /" + b"x" * 5_000_000),
    "endless": lambda _: Answer(
        content_type="text/plain", headers=[("Transfer-Encoding", "chunked")], chunks=_endless()
    ),
    "punycode": lambda _: Answer(b"a" * 400_000 + b"-" + b"b" * 400_000, content_type="text/plain; charset=punycode"),
    "binary": _plain(lambda: b"\0\xff" * 200_000),
    "sitemaps": _plain(lambda: b"".join(b"Sitemap: http://127.0.0.99/%d.xml\n" % n for n in range(50_000))),
    "delay": _plain(lambda: b"User-agent: *\nCrawl-delay: 1e308\nCrawl-delay: -5\nRequest-rate: 1/0\n"),
    "loop": lambda visit: Answer(status="302 Found", headers=[("Location", "/robots.txt")]),
}


def _index(visit: Visit) -> Answer:
    """Each index names fifty more."""
    depth = visit.path.removesuffix(".xml").rpartition("-")[2]
    at = int(depth) if depth.isdigit() else 0
    rows = "".join(f"<sitemap><loc>{visit.origin}/sitemap-{at * 50 + n}.xml</loc></sitemap>" for n in range(1, 51))
    bad = "<sitemap><loc>http://[::1</loc></sitemap>" * 1200
    return Answer(f"<sitemapindex>{rows}{bad}</sitemapindex>".encode(), content_type="application/xml")


def _own_robots(visit: Visit) -> Answer:
    lines = [
        "User-agent: *",
        "Disallow: /private/",
        *(f"Sitemap: {visit.origin}{path}" for path in SITEMAPS if "." in path),
    ]
    return Answer("\n".join(line for line in lines if "robots" not in line).encode(), content_type="text/plain")


SITEMAPS: Mapping[str, Respond] = {
    "/robots.txt": _own_robots,
    "/sitemap.xml": _index,
    "/maps/punycode.xml": lambda _: Answer(
        _URLSET % b"punycode" + b"a" * 400_000 + b"-" + b"b" * 400_000, content_type="application/xml"
    ),
    "/maps/bomb.xml.gz": lambda _: Answer(
        gzip.compress(_URLSET % b"utf-8" + b"<url><loc>http://127.0.0.3/x</loc></url>" * 2_000_000),
        content_type="application/gzip",
    ),
    "/maps/deep.xml": lambda _: Answer(b"<a>" * 300_000, content_type="application/xml"),
    "/maps/private.xml": lambda _: Answer(
        b"<urlset>" + b"<url><loc>http://127.0.0.99/x</loc></url>" * 20_000 + b"</urlset>",
        content_type="application/xml",
    ),
}


def sitemap_of(path: str) -> Respond | None:
    return _index if re.fullmatch(r"/sitemap-\d+\.xml", path) else SITEMAPS.get(path)
