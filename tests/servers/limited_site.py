"""A site whose server has limits: it refuses, or slows down, when too much is asked of it at once or a second.

with limited_site(pages=100, latency_seconds=0.2, busy_above=8).in_thread() as site: ... site.url("/"), site.measures
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from aiohttp import web

from tests.servers import mock_pages
from tests.servers.mock_site import MockSite, html


@dataclass
class Limits:
    """`busy_above` requests in flight, or `per_second` of them (`burst` at once): 429 with `retry_after`, if any.

    Above `degrade_above` in flight, latency grows in proportion. `down`: every page answers 503.
    """

    latency_seconds: float = 0.0
    busy_above: int = 0
    degrade_above: int = 0
    per_second: float = 0.0
    burst: float = 1.0
    retry_after: str | None = "1"
    down: bool = False
    _tokens: float = field(default=1.0, init=False)
    _at: float = field(default_factory=time.monotonic, init=False)

    def has_token(self) -> bool:
        now = time.monotonic()
        self._tokens = min(self.burst, self._tokens + self.per_second * (now - self._at))
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class LimitedSite(MockSite):
    """`levels` are the requests in flight at each start, this one counted."""

    def __init__(self, pages: int, limits: Limits, robots: str) -> None:
        super().__init__({"/robots.txt": self._robots, "/": self._home, "/page/*": self._page})
        self.limits = limits
        self.levels: list[int] = []
        self._count = pages
        self._text = robots

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        limits, measures = self.limits, self.measures
        self.levels.append(measures.in_flight)
        if limits.per_second and not limits.has_token():
            return self._refusal(429)
        over = measures.in_flight - limits.degrade_above if limits.degrade_above else 0
        await asyncio.sleep(limits.latency_seconds * (1 + max(0, over) / (limits.degrade_above or 1)))
        if limits.busy_above and measures.in_flight > limits.busy_above:
            return self._refusal(429)
        if limits.down and request.path != "/robots.txt":
            return self._refusal(503)
        return await super()._respond(request)

    def _refusal(self, status: int) -> web.Response:
        headers = {} if self.limits.retry_after is None else {"Retry-After": self.limits.retry_after}
        return web.Response(status=status, headers=headers)

    async def _robots(self, _: web.Request) -> web.Response:
        return web.Response(text=self._text)

    async def _home(self, _: web.Request) -> web.Response:
        return html(mock_pages.links("All pages", [f"/page/{number}" for number in range(self._count)]))

    async def _page(self, request: web.Request) -> web.Response:
        return html(mock_pages.plain(f"Page {request.path.rpartition('/')[2]}", 1))


def limited_site(pages: int = 100, robots: str = "User-agent: *\nDisallow:\n", **limits: object) -> LimitedSite:
    return LimitedSite(pages, Limits(**limits), robots)  # type: ignore[arg-type]  # checked by the dataclass's callers
