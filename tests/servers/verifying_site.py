"""A site that checks who asks: requests for its own hosts have to be signed, and others may not be.

    with VerifyingSite(verifier, routes).in_thread() as site: ... site.asked

Hosts that begin with "third." are somebody else's, on the same port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from tests.servers.mock_site import Handler, MockSite
from tests.servers.signed_requests import Message, Refused, Verifier

_FIELDS = ("Signature", "Signature-Input", "Signature-Agent")


@dataclass(frozen=True)
class Asked:
    """`verdict` is the agent's address, "unsigned", or what is wrong with the signature."""

    host: str
    path: str
    method: str
    verdict: str


class VerifyingSite(MockSite):
    """Answers 401 to what is not signed as it should be."""

    def __init__(self, verifier: Verifier, routes: Mapping[str, str | Handler] | None = None) -> None:
        super().__init__(routes)
        self._verifier = verifier
        self.asked: list[Asked] = []

    def of_host(self, beginning: str) -> list[Asked]:
        return [one for one in self.asked if one.host.startswith(beginning)]

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        verdict = self._verdict(request)
        self.asked.append(Asked(request.host, request.path_qs, request.method, verdict))
        if not verdict.startswith("https://") and not request.host.startswith("third."):
            return web.Response(status=401, text=verdict)
        return await super()._respond(request)

    def _verdict(self, request: web.Request) -> str:
        if not any(name in request.headers for name in _FIELDS):
            return "unsigned"
        target = request.raw_path.removeprefix(str(request.url.origin()))
        try:
            return self._verifier.check(Message(request.method, request.host, target, request.headers))
        except Refused as error:
            return str(error)
