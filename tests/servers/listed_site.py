"""A site that publishes lists of its urls: as large as wanted, and with all that can be wrong with them.

`listed_routes(count, files)` has robots.txt, an index of gzipped sitemaps, and pages that link to their neighbours;
`odd_lists()` has a robots.txt that names every kind of broken list.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from aiohttp import web

from tests.servers.mock_site import Handler, html

_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_SIZE = 51 * 2**20


def urlset(origin: str, paths: Iterator[str] | list[str], lastmod: str = "2026-11-01") -> bytes:
    entries = "".join(f"<url><loc>{origin}{path}</loc><lastmod>{lastmod}</lastmod></url>" for path in paths)
    return f'<?xml version="1.0" encoding="UTF-8"?><urlset {_NAMESPACE}>{entries}</urlset>'.encode()


def index(origin: str, paths: list[str]) -> bytes:
    entries = "".join(f"<sitemap><loc>{origin}{path}</loc></sitemap>" for path in paths)
    return f'<?xml version="1.0" encoding="UTF-8"?><sitemapindex {_NAMESPACE}>{entries}</sitemapindex>'.encode()


def listed_routes(count: int, files: int = 3) -> dict[str, str | Handler]:
    """Pages /page/0 to /page/{count - 1}: each stands in one of the sitemaps."""
    sizes = range(0, count, -(-count // files))

    async def robots(request: web.Request) -> web.Response:
        return web.Response(text=f"User-agent: *\nSitemap: {request.url.origin()}/index.xml\n")

    async def sitemap_index(request: web.Request) -> web.Response:
        return _xml(index(str(request.url.origin()), [f"/part/{first}.xml.gz" for first in sizes]))

    async def part(request: web.Request) -> web.Response:
        first = int(request.path.rpartition("/")[2].partition(".")[0])
        paths = [f"/page/{number}" for number in range(first, min(first + sizes.step, count))]
        body = gzip.compress(urlset(str(request.url.origin()), paths), 1)
        return web.Response(body=body, content_type="application/gzip")

    async def page(request: web.Request) -> web.Response:
        number = int(request.path.rpartition("/")[2])
        links = "".join(f'<a href="/page/{(number + step) % count}">x</a>' for step in (1, 7, 50))
        return html(f"<title>Page {number}</title><main><h1>Page {number}</h1>{links}</main>")

    async def home(_: web.Request) -> web.Response:
        return html('<title>Home</title><a href="/page/0">first</a><a href="/page/1">second</a>')

    async def none(_: web.Request) -> web.Response:
        raise web.HTTPNotFound

    return {
        "/": home,
        "/robots.txt": robots,
        "/sitemap.xml": none,
        "/index.xml": sitemap_index,
        "/part/*": part,
        "/page/*": page,
    }


def odd_lists() -> dict[str, str | Handler]:
    """Each list that can be read at all has a page of its name: /malformed.xml has /malformed/."""
    bodies = {
        "malformed.xml": (lambda origin: urlset(origin, ["/malformed/"])[:-20] + b"<oops & <", "application/xml"),
        "latin.xml": (_latin, "application/xml"),
        "no-encoding.xml": (
            lambda origin: urlset(origin, ["/no-encoding/"]).replace(b"UTF-8", b"no-such"),
            "application/xml",
        ),
        "typed.xml": (lambda origin: urlset(origin, ["/typed/"]), "text/html"),
        "cut.xml.gz": (lambda origin: gzip.compress(urlset(origin, _many("/cut/")))[:-2000], "application/gzip"),
        "lines.txt": (lambda origin: f"{origin}/lines/\nno url\n".encode(), "text/plain"),
        "page.xml": (lambda _: b"<!DOCTYPE html><html><body>Not found</body></html>", "text/html"),
        "image.xml": (lambda _: b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "image/png"),
        "empty.xml": (lambda _: b"", "application/xml"),
        "itself.xml": (lambda origin: index(origin, ["/itself.xml", "/deeper/1.xml"]), "application/xml"),
        "bomb.xml.gz": (lambda _: _bomb(), "application/gzip"),
        "rss.xml": (_rss, "application/rss+xml"),
        "elsewhere.xml": (lambda _: urlset("http://elsewhere.example", ["/x"]), "application/xml"),
    }

    async def robots(request: web.Request) -> web.Response:
        names = [*bodies, "packed-bomb.xml", "huge.xml", "missing.xml", "reset.xml"]
        return web.Response(text="".join(f"Sitemap: {request.url.origin()}/{name}\n" for name in names))

    async def answer(request: web.Request) -> web.Response:
        make, content_type = bodies[request.path.lstrip("/")]
        return web.Response(body=make(str(request.url.origin())), content_type=content_type)

    async def deeper(request: web.Request) -> web.Response:
        level = int(request.path.rpartition("/")[2].partition(".")[0])
        return _xml(index(str(request.url.origin()), [f"/deeper/{level + 1}.xml"]))

    async def packed_bomb(_: web.Request) -> web.Response:
        return web.Response(body=_bomb(), headers={"Content-Encoding": "gzip"}, content_type="application/xml")

    async def huge(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/xml"})
        await response.prepare(request)
        await response.write(urlset(str(request.url.origin()), ["/huge/"])[:-9])
        for _ in range(_SIZE // 2**20):
            await response.write(b" " * 2**20)
        return response

    async def reset(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return {
        "/sitemap.xml": '<!DOCTYPE html><html lang="en"><title>Not found</title></html>',
        "/": '<title>Odd lists</title><a href="/linked/">linked</a>',
        "/linked/": "<title>Linked</title>",
        "/robots.txt": robots,
        **{f"/{name}": answer for name in bodies},
        "/deeper/*": deeper,
        "/packed-bomb.xml": packed_bomb,
        "/huge.xml": huge,
        "/reset.xml": reset,
    }


def _xml(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/xml")


def _many(path: str) -> list[str]:
    # Hashes, as counted numbers would be packed to next to nothing.
    return [path, *(f"{path}{zlib.crc32(str(number).encode())}" for number in range(1000))]


def _latin(origin: str) -> bytes:
    return urlset(origin, ["/latin/", "/caf\xe9/"]).decode().replace("UTF-8", "ISO-8859-1").encode("latin-1")


def _rss(origin: str) -> bytes:
    item = f"<item><title>News</title><link>{origin}/rss/</link><pubDate>Mon, 06 May 2024 10:00:00 GMT</pubDate></item>"
    return f'<rss version="2.0"><channel><title>t</title>{item}</channel></rss>'.encode()


def _bomb() -> bytes:
    pack = zlib.compressobj(wbits=31)
    return b"".join([*(pack.compress(b" " * 2**20) for _ in range(200)), pack.flush()])
