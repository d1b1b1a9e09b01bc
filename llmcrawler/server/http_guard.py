"""What every request to the server has to pass, whatever it asks for: its Host, its origin, its token, its body.

A page in the user's browser can send requests to this server. It cannot choose the Host that the browser sends (DNS
rebinding gives its own name), nor the Origin, and it does not know the token.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from hmac import compare_digest
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from llmcrawler.errors import JobRefused
from llmcrawler.server.jobs import read_as

T = TypeVar("T")

MAX_BODY_BYTES: Final = 2**20
MAX_FORM_BYTES: Final = 2**16  # of the pages' forms, which anybody may send
BODY_SECONDS: Final = 15.0  # for all of a body
HEAD_SECONDS: Final = 15.0  # for the head of a request, and for the pause before it
_LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "[::1]"))
_HOST: Final = re.compile(r"(\[[0-9a-f:]{2,45}\]|[a-z0-9._-]{1,253})(?::[0-9]{1,5})?", re.IGNORECASE)
# Pages for people, who log in (job_pages.py). Everything else wants the token.
_PAGES: Final = re.compile(r"/(?:$|login$|jobs$|jobs/|assets/)")


def error_response(status: int, code: str, told: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error as all of the server's interfaces tell it; Firecrawl's clients read this too."""
    return JSONResponse({"success": False, "error": told, "code": code}, status, headers)


async def read_body(kind: type[T], request: Request) -> T:
    """Return the JSON that a request brings as a value of a type. Raises JobRefused for anything else."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise JobRefused("Content-Type: send the body as application/json")
    try:
        value = json.loads(await request.body(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise JobRefused(f"the body is no JSON: {error}") from error
    return read_as(kind, value)


def query_number(request: Request, name: str, default: int, most: int) -> int:
    """Return a whole number of a request's query. Raises JobRefused for anything else, and for more than `most`."""
    text = request.query_params.get(name) or str(default)
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) > most:
        raise JobRefused(f"{name}={text[:40]!r} is no whole number up to {most}")
    return int(text)


class HttpGuard:
    """Lets requests through to `app` that name one of the hosts, come from no other origin, and know the token."""

    def __init__(self, app: ASGIApp, token: str, names: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token.encode()
        self._names = _LOOPBACK.union(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        body, is_page = b"", _PAGES.match(scope["path"]) is not None
        most = MAX_FORM_BYTES if is_page else MAX_BODY_BYTES
        refusal = self._reason_to_refuse(Request(scope), most, is_page=is_page)
        if refusal is None:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    body, refusal = await _read_body(receive, most)
            except TimeoutError:
                refusal = error_response(408, "TIMEOUT", f"the body did not come in {BODY_SECONDS:g} s")
        if refusal is not None:
            refusal.headers["Connection"] = "close"
            await refusal(scope, receive, send)
            return
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def give() -> Message:
            return next(messages, None) or await receive()

        await self._app(scope, give, send)

    def _reason_to_refuse(self, request: Request, most: int, *, is_page: bool) -> Response | None:
        hosts, origins = request.headers.getlist("Host"), request.headers.getlist("Origin")
        host = hosts[0] if len(hosts) == 1 else ""
        named = _HOST.fullmatch(host)
        if named is None or named[1].lower() not in self._names:
            told = f"Host: {host[:80]!r} is no name of this server; --public-name gives it another one"
            return error_response(421, "WRONG_HOST", told)
        if any(origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}") for origin in origins):
            return error_response(403, "WRONG_ORIGIN", "a page of another site may not ask this server")
        if len(size := request.headers.get("Content-Length", "0")) > 9 or int(size) > most:
            return _too_large(most)
        if not is_page and not self._knows_token(request):
            told = "send the server's token: Authorization: Bearer TOKEN"
            return error_response(401, "UNAUTHORIZED", told, {"WWW-Authenticate": "Bearer"})
        return None

    def _knows_token(self, request: Request) -> bool:
        given = request.headers.getlist("Authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and compare_digest(token.encode("latin-1", "replace"), self._token)


class ImpatientProtocol(H11Protocol):
    """Closes connections on which no request comes. uvicorn waits for the head of a request for ever."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look_again(self)

    def _look_again(self, answered: Any) -> None:
        """`answered` is the last request that was answered when this was called before."""
        is_idle = self.cycle is None or self.cycle.response_complete
        if self.transport.is_closing() or (is_idle and self.cycle is answered):
            self.transport.close()
        else:
            self.loop.call_later(HEAD_SECONDS, self._look_again, self.cycle if is_idle else self)


async def _read_body(receive: Receive, most: int) -> tuple[bytes, Response | None]:
    parts, size, is_more = [], 0, True
    while is_more:
        message = await receive()
        parts.append(message.get("body", b""))  # a client that has gone sends none
        size += len(parts[-1])
        is_more = message.get("more_body", False)
        if size > most:
            return b"", _too_large(most)
    return b"".join(parts), None


def _too_large(most: int) -> Response:
    return error_response(413, "TOO_LARGE", f"the body is too large: at most {most:,} bytes")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
