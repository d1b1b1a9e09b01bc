"""A site of one page that says what it was asked for: method, body, headers and cookies.

    echo = Echo(); with MockSite(echo.routes()).in_thread() as site: ... site.url("/echo"), echo.asked

/echo answers at once, /flaky with 500 the first time that a body comes, /moved redirects to /echo with 307, /cookie
sets one, /down fails until `echo.is_up`.
"""

from __future__ import annotations

import json
from collections import Counter
from html import escape, unescape
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from tests.servers.mock_site import Handler, html


class Echo:
    """`asked` has what came, in its order; it may be read in another thread."""

    def __init__(self) -> None:
        self.is_up = False
        self.asked: list[dict[str, Any]] = []
        self._tries: Counter[str] = Counter()

    def routes(self) -> dict[str, str | Handler]:
        echoing = dict.fromkeys(("/echo", "/flaky", "/moved", "/cookie", "/down"), self._answer)
        return {**echoing, "/robots.txt": self._robots}

    def bodies(self) -> Counter[str]:
        return Counter(one["body"] for one in self.asked)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.text()
        seen = {
            "path": request.path,
            "method": request.method,
            "body": body,
            "form": dict(parse_qsl(body)),
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "cookies": dict(request.cookies),
        }
        self.asked.append(seen)
        self._tries[request.path + body] += 1
        is_first = self._tries[request.path + body] == 1
        if (request.path == "/flaky" and is_first) or (request.path == "/down" and not self.is_up):
            return html("<p>Not now", status=500)
        if request.path == "/moved":
            return web.Response(status=307, headers={"Location": "/echo"})
        answer = html(f"<title>Echo</title><main><p>What was asked:</p><pre>{escape(json.dumps(seen))}</pre></main>")
        if request.path == "/cookie":
            answer.set_cookie("session", "of-somebody-else")
        return answer

    async def _robots(self, _: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nDisallow:\n")


def heard(page: dict[str, Any]) -> dict[str, Any]:
    """What the server was asked for, by a page of the feed."""
    text = unescape(page["text"])
    return dict(json.loads(text[text.index("{") : text.rindex("}") + 1]))
