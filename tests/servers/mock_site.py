"""A web site for tests, over real HTTP on loopback: a small shop, and under /odd/ all that goes wrong on the web.

    async with MockSite() as site: ... site.url("/"), site.measures.hits   in the running event loop
    with MockSite().in_thread() as site: ...                          for a test that blocks

Start pages, for crawls that are about one thing: / (the shop alone, all good), /robots-test/ (40 disallowed links),
/odd/ (links to every fault), /trap/calendar/, /trap/facets/, /trap/session/, /large/ (200 pages of 200 KB).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gzip
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping

from aiohttp import web

from tests.servers import mock_pages as pages
from tests.servers.serving import Startable

DISALLOWED_COUNT = 40
UNLINKED = ("/unlinked/one/", "/unlinked/two/")
TRIES: web.AppKey[collections.Counter[str]] = web.AppKey("tries", collections.Counter)  # by path and query
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Measures:
    """What the server saw."""

    def __init__(self) -> None:
        self.hits: collections.Counter[str] = collections.Counter()
        self.statuses: collections.Counter[str] = collections.Counter()
        self.starts: list[float] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self.user_agents: set[str] = set()

    def begin(self, request: web.Request) -> None:
        self.hits[request.path_qs] += 1
        self.user_agents.add(request.headers.get("User-Agent", ""))
        self.starts.append(time.monotonic())
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def end(self, status: str) -> None:
        self.in_flight -= 1
        self.statuses[status] += 1


class MockSite(Startable):
    """`routes` adds pages or replaces them: path with query -> HTML, or an aiohttp handler."""

    def __init__(
        self,
        routes: Mapping[str, str | Handler] | None = None,
        *,
        latency_seconds: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.latency_seconds = latency_seconds
        self._tls = tls
        self.measures = Measures()
        self.origin = ""
        self.port = 0
        self._pages: dict[str, str | Handler] = {**dict(pages.shop_pages()), **_odd_routes(), **(routes or {})}
        self._runner: web.AppRunner | None = None

    def url(self, path: str = "/") -> str:
        return self.origin + path

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app[TRIES] = collections.Counter()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port or self.port, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        self.origin = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.measures.begin(request)
        status = "aborted"
        try:
            if self.latency_seconds:
                await asyncio.sleep(self.latency_seconds)
            response = await self._respond(request)
            if request.transport is not None and not request.transport.is_closing():
                status = str(response.status)
            return response
        finally:
            self.measures.end(status)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        page = self._pages.get(request.path_qs)
        if page is None:
            page = next((self._pages[key] for key in _prefixes(request.path) if key in self._pages), None)
        if page is None:
            return html(pages.plain("Not found", 404), status=404)
        if isinstance(page, str):
            return html(page)
        request.app[TRIES][request.path_qs] += 1
        return await page(request)


def html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")


def _prefixes(path: str) -> Iterator[str]:
    """The keys that end in "*" and take `path`, longest first."""
    parts = path.split("/")
    for count in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:count]) + "/*"


# -- what crawlers find beside the pages ------------------------------------------------------------------------------


async def _robots(request: web.Request) -> web.Response:
    lines = ["User-agent: *", "Disallow: /private/", f"Sitemap: {request.url.origin()}/sitemap.xml"]
    return web.Response(text="\n".join(lines))


async def _sitemap(request: web.Request) -> web.Response:
    addresses = [*UNLINKED, "/about/", *(pages.product_path(number) for number in range(1, 4))]
    entries = "".join(f"<url><loc>{request.url.origin()}{path}</loc></url>" for path in addresses)
    body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    return web.Response(text=body, content_type="application/xml")


# -- faults -----------------------------------------------------------------------------------------------------------


async def _redirect_loop(request: web.Request) -> web.Response:
    raise web.HTTPFound("/odd/loop-b" if request.path.endswith("a") else "/odd/loop-a")


async def _redirect(_: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently("/about/?moved=1")


async def _redirect_to_other_host(request: web.Request) -> web.Response:
    # The same server under its other name: another host for a crawler, and private for a crawl of a public one.
    raise web.HTTPFound(f"http://localhost:{request.url.port}/about/")


async def _fail_once(request: web.Request) -> web.Response:
    return html(pages.plain("Recovered", 5), status=500 if request.app[TRIES][request.path_qs] == 1 else 200)


async def _fail_always(_: web.Request) -> web.Response:
    return html("<h1>Internal error</h1>", status=500)


async def _unavailable(_: web.Request) -> web.Response:
    return web.Response(status=503, headers={"Retry-After": "1"})


async def _busy_once(request: web.Request) -> web.Response:
    if request.app[TRIES][request.path_qs] > 1:
        return html(pages.plain("No longer busy", 6))
    return web.Response(status=429, headers={"Retry-After": "1"})


async def _pdf(_: web.Request) -> web.Response:
    return web.Response(body=b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + b"\x00\x01" * 500, content_type="application/pdf")


async def _lying_image(_: web.Request) -> web.Response:
    return web.Response(body=b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, content_type="text/html")


async def _too_large(request: web.Request) -> web.StreamResponse:
    """64 MB without a Content-Length, so only counting stops it."""
    response = web.StreamResponse(headers={"Content-Type": "text/html"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):  # the crawler hangs up, as it should
        for _ in range(64):
            await response.write(b"<p>too much of it</p>" * 50_000)
    return response


async def _gzip(_: web.Request) -> web.Response:
    body = gzip.compress(pages.plain("Zipped", 7).encode())
    return web.Response(body=body, content_type="text/html", headers={"Content-Encoding": "gzip"})


async def _gzip_bomb(_: web.Request) -> web.Response:
    body = gzip.compress(b"\x00" * (64 * 1024 * 1024))
    return web.Response(body=body, content_type="text/html", headers={"Content-Encoding": "gzip"})


async def _slow(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return html(pages.plain("Slow", 8))


async def _reset(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _truncated(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/html", "Content-Length": "100000"})
    await response.prepare(request)
    await response.write(b"<html><title>Cut</title><p>This page ends before its")
    if request.transport is not None:
        request.transport.abort()
    return response


async def _windows_1251(_: web.Request) -> web.Response:
    text = '<html lang="ru"><head><meta charset="windows-1251"><title>Лампа</title></head><h1>Лампа из дуба</h1></html>'
    return web.Response(body=text.encode("windows-1251"), content_type="text/html")


async def _shift_jis(_: web.Request) -> web.Response:
    """The header says UTF-8, the page says Shift_JIS, and the page is right."""
    text = '<html lang="ja"><head><meta charset="shift_jis"><title>時計</title></head><h1>木の時計</h1></html>'
    return web.Response(body=text.encode("shift_jis"), content_type="text/html", charset="utf-8")


async def _huge(_: web.Request) -> web.Response:
    return html(pages.large(0, 3_000_000))


async def _large(request: web.Request) -> web.Response:
    number = request.path.strip("/").rpartition("/")[2]
    return html(pages.large(int(number), 200_000) if number.isdigit() else pages.plain("No such page", 404))


# -- traps ------------------------------------------------------------------------------------------------------------


async def _calendar(request: web.Request) -> web.Response:
    """Every month of all times, each with links to its neighbours and its days."""
    parts = [part for part in request.path.split("/")[3:] if part.isdigit()]
    year, month = (int(part) for part in parts[:2]) if len(parts) >= 2 else (2024, 6)
    after, before = divmod(year * 12 + month, 12), divmod(year * 12 + month - 2, 12)
    addresses = [f"/trap/calendar/{y}/{m + 1}/" for y, m in (before, after)]
    return html(pages.links("Calendar", addresses + [f"/trap/calendar/{year}/{month}/{day}/" for day in range(1, 29)]))


async def _facets(request: web.Request) -> web.Response:
    """Every filter may be combined with every other: 4^6 addresses of one list, times the orders."""
    chosen = dict(request.query)
    addresses = []
    for key in ("colour", "size", "brand", "price", "sort", "view"):
        for value in ("one", "two", "three"):
            query = "&".join(f"{name}={choice}" for name, choice in {**chosen, key: value}.items())
            addresses.append(f"/trap/facets/?{query}")
    return html(pages.links("All lamps", addresses))


async def _session(request: web.Request) -> web.Response:
    """Links carry a session of their own on every page, in a form no list of names knows."""
    visit = request.query.get("visit", "")
    count = int(visit[:8], 16) if visit else 0
    addresses = [
        f"/trap/session/?item={item}&visit={(count + item) & 0xFFFFFFFF:08x}{item:016x}c0ffee77" for item in range(1, 6)
    ]
    return html(pages.links("Session", addresses))


def _odd_routes() -> dict[str, str | Handler]:
    faults: dict[str, str | Handler] = {
        "/odd/moved": _redirect,
        "/odd/loop-a": _redirect_loop,
        "/odd/loop-b": _redirect_loop,
        "/odd/other-host": _redirect_to_other_host,
        "/odd/500-once": _fail_once,
        "/odd/500": _fail_always,
        "/odd/503": _unavailable,
        "/odd/429-once": _busy_once,
        "/odd/paper": _pdf,
        "/odd/lying-image": _lying_image,
        "/odd/too-large": _too_large,
        "/odd/gzip": _gzip,
        "/odd/gzip-bomb": _gzip_bomb,
        "/odd/slow": _slow,
        "/odd/reset": _reset,
        "/odd/truncated": _truncated,
        "/odd/windows-1251": _windows_1251,
        "/odd/shift-jis": _shift_jis,
        "/odd/empty": "",
        "/odd/huge": _huge,
        "/odd/soft-404": pages.layout("Page not found", "<h1>Sorry, we could not find that page</h1>"),
        "/odd/meta-refresh": '<html><head><meta http-equiv="refresh" content="0; url=/terms/?refreshed=1"></head>',
    }
    disallowed = [f"/private/{number}" for number in range(DISALLOWED_COUNT)]
    return {
        **faults,
        "/odd/": pages.links("Odd pages", [*faults, "/odd/missing"]),
        "/robots.txt": _robots,
        "/sitemap.xml": _sitemap,
        "/robots-test/": pages.links("Robots", [*disallowed, "/about/"]),
        "/private/*": _fail_always,
        "/trap/calendar/*": _calendar,
        "/trap/facets/*": _facets,
        "/trap/session/*": _session,
        "/large/": pages.links("Large pages", [f"/large/{number}" for number in range(200)]),
        "/large/*": _large,
        "/about/?moved=1": pages.plain("About us", 1),
        "/terms/?refreshed=1": pages.plain("Terms", 2),
        **{path: pages.plain(f"Unlinked {number}", 20 + number) for number, path in enumerate(UNLINKED)},
    }
