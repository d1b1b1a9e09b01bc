"""A server of an index of web archives, as that of pywb and Common Crawl or that of Wayback, with faults on demand."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.servers.mock_site import MockSite

NAMES = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
Row = dict[str, Any]


def capture(url: str, **changes: Any) -> Row:
    return {"urlkey": "k", "timestamp": "20260102030405", "url": url, "mime": "text/html", "status": "200", **changes}


class CdxServer(MockSite):
    """Answers below /pywb/, /wayback/ and /plain/ (which knows no pages) from `rows`, `page_size` of them a page.

    `queries` are those that it got. `told_pages` is what it says of their number; `answer` replaces the answer for a
    page. `refusals` are statuses that it gives first, and `last_refusals` those for its last page.
    """

    def __init__(self, rows: list[Row], page_size: int = 10) -> None:
        servers = {"/pywb/*": self._pywb, "/wayback/*": self._wayback, "/plain/*": self._plain}
        super().__init__({**servers, "/robots.txt": self._robots})
        self.rows, self.page_size = rows, page_size
        self.queries: list[dict[str, str]] = []
        self.told_pages: Any = None
        self.answer: bytes | None = None
        self.refusals: list[int] = []
        self.last_refusals: list[int] = []
        self.robots = ""

    async def _robots(self, _: web.Request) -> web.Response:
        return web.Response(text=self.robots)

    async def _pywb(self, request: web.Request) -> web.Response:
        if self.answer is None and not self._page(request):
            return web.json_response({"message": f"No Captures found for: {request.query['url']}"}, status=404)
        lines = b"".join(json.dumps(row).encode() + b"\n" for row in self._page(request))
        return self._answered(request, {"pages": self._page_count, "pageSize": 5, "blocks": 9}, lines)

    async def _wayback(self, request: web.Request) -> web.Response:
        named = {"original": "url", "mimetype": "mime", "statuscode": "status"}
        rows = [list(NAMES), *([row.get(named.get(one, one), "-") for one in NAMES] for row in self._page(request))]
        text = "[" + ",\n".join(map(json.dumps, rows)) + "]\n"
        return self._answered(request, self._page_count, text.encode())

    async def _plain(self, request: web.Request) -> web.Response:
        lines = "".join(f"com,shop)/ 20260102030405 {json.dumps(row)}\n" for row in self.rows)
        return self._answered(request, None, lines.encode())

    @property
    def _page_count(self) -> int:
        return -(-len(self.rows) // self.page_size)

    def _page(self, request: web.Request) -> list[Row]:
        start = int(request.query.get("page", 0)) * self.page_size
        return self.rows[start : start + self.page_size]

    def _answered(self, request: web.Request, count: object, lines: bytes) -> web.Response:
        self.queries.append(dict(request.query))
        is_last = request.query.get("page") == str(self._page_count - 1)
        if refusals := self.refusals or (self.last_refusals if is_last else []):
            return web.Response(status=refusals.pop(0), text="Please reduce your request rate.")
        if "showNumPages" in request.query and count is not None:
            return web.json_response(count if self.told_pages is None else self.told_pages)
        return web.Response(body=lines if self.answer is None else self.answer)
