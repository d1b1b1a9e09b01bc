"""The same site of many pages on many loopback hosts, 127.0.0.1, 127.0.0.2, ...; it notes when what was asked of each.

hosts = ManyHosts(16, ManyPages(60)); with hosts.in_thread(): ...
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

from aiohttp import web

from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import html
from tests.servers.serving import Startable


class ManyHosts(Startable):
    """`starts` has by host the moments (monotonic) and paths of requests."""

    def __init__(self, count: int, pages: ManyPages) -> None:
        self.hosts = [f"127.0.0.{number + 1}" for number in range(count)]
        self.pages = pages
        self.port = 0
        self.starts: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        self._runner: web.AppRunner | None = None

    @property
    def urls(self) -> list[str]:
        return [f"http://{host}:{self.port}/" for host in self.hosts]

    @property
    def all_pages(self) -> set[str]:
        return {url.rstrip("/") + path for url in self.urls for path in self.pages.paths}

    def url(self, path: str = "/") -> str:
        return self.urls[0].rstrip("/") + path

    @property
    def requested(self) -> int:
        return sum(map(len, list(self.starts.values())))

    async def start(self, port: int = 0) -> None:
        self.port = port
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        for host in self.hosts:
            site = web.TCPSite(self._runner, host, self.port)
            await site.start()
            if not self.port:
                self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.starts[request.host.partition(":")[0]].append((time.monotonic(), request.path_qs))
        if request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow:\n")
        if request.path not in self.pages.bodies:
            return web.Response(status=404)
        if self.pages.latency_seconds:
            await asyncio.sleep(self.pages.latency_seconds)
        with self.pages.changed:
            self.pages.requested.append(request.path)
            self.pages.changed.notify_all()
        return html(self.pages.bodies[request.path])
