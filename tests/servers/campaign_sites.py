"""Many sites, each at a host of its own (127.1.x.y) and one port: some slow, some that refuse all, some that are gone.

with CampaignSites(manners(40)).in_thread() as sites: ... sites.urls, sites.requested
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Condition
from typing import Final

from aiohttp import web

from tests.servers.mock_site import html
from tests.servers.record_sites import SITES, make_site
from tests.servers.serving import Startable, bound_sockets

FINE, SLOW, BUSY, BROKEN, DEAD = "fine", "slow", "busy", "broken", "dead"
SLOW_SECONDS: Final = 1.0
SMALL_KINDS: Final = ("cards", "recipes", "fashion", "people", "events", "news")  # kinds of sites, of 33 to 56 pages
_ROOT_LINK: Final = re.compile(r'((?:href|src|action)=")/(?!/)')


@dataclass(frozen=True, slots=True)
class HostedSite:
    """A site at a host, and how that behaves: DEAD takes no connections, BUSY answers 429, BROKEN 500."""

    host: str
    manner: str
    pages: dict[str, str]


def manners(count: int, *, dead: float = 0.05, slow: float = 0.05, busy: float = 0.03) -> list[str]:
    """The manners of so many sites, by the shares of those that are not fine, spread evenly over the list."""
    given = [FINE] * count
    wanted = [DEAD] * round(dead * count) + [SLOW] * round(slow * count) + [BUSY] * round(busy * count)
    for number, manner in enumerate(wanted):
        given[number * count // len(wanted)] = manner
    return given


def routes_of(name: str, seed: int, least: int = 0) -> dict[str, str]:
    """The pages of a site by their paths, `least` at least: where it has fewer, others of its kind stand below /1/,
    /2/ and so on, with links from its home page.
    """
    routes = make_site(name, seed).routes()
    part = 0
    while len(routes) < least:
        part += 1
        more = make_site(name, seed + 1_000 * part).routes()
        routes |= {f"/{part}{path}": _ROOT_LINK.sub(rf"\1/{part}/", text) for path, text in more.items()}
        routes["/"] = routes["/"].replace("</body>", f'<a href="/{part}/">More, part {part}</a></body>')
    return routes


class CampaignSites(Startable):
    """`given` are the sites' manners. `requested` has the requests for pages, as (host, path), in their order; it may
    be read in another thread, which is told of each by `changed`. The sites are of these kinds, in turns.
    """

    def __init__(
        self, given: list[str], latency_seconds: float = 0.0, pages: int = 0, kinds: Sequence[str] = SITES
    ) -> None:
        self.latency_seconds = latency_seconds
        self.port = 0
        self.requested: list[tuple[str, str]] = []
        self.changed = Condition()
        self.sites = {
            host: HostedSite(host, manner, routes_of(kinds[number % len(kinds)], number, pages))
            for number, manner in enumerate(given)
            for host in [f"127.1.{number // 250}.{number % 250 + 1}"]
        }
        self._runner: web.AppRunner | None = None

    def url(self, path: str = "/") -> str:
        return f"http://{next(iter(self.sites))}:{self.port}{path}"

    @property
    def urls(self) -> dict[str, str]:
        """The sites' start urls and their manners."""
        return {f"http://{host}:{self.port}/": site.manner for host, site in self.sites.items()}

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_get("/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        sockets = bound_sockets([host for host, site in self.sites.items() if site.manner != DEAD], port)
        self.port = sockets[0].getsockname()[1]
        for one in sockets:
            await web.SockSite(self._runner, one).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        site = self.sites[request.host.partition(":")[0]]
        if request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow:\n")
        with self.changed:
            self.requested.append((site.host, request.path_qs))
            self.changed.notify_all()
        await asyncio.sleep(SLOW_SECONDS if site.manner == SLOW else self.latency_seconds)
        if site.manner in (BUSY, BROKEN):
            return web.Response(status=429 if site.manner == BUSY else 500)
        page = site.pages.get(request.path_qs)
        return web.Response(status=404) if page is None else html(page)
