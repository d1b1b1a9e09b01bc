"""A site that checks who asks: requests for its own hosts have to be signed, and others may not be.

    with VerifyingSite(agent, directory, routes).in_thread() as site: ... site.asked

Hosts that begin with "third." are somebody else's, on the same port.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, InvalidSignature, MappingKeyResolver, VerifyResult, algorithms

from tests.servers.mock_site import Handler, MockSite

_FIELDS = ("Signature", "Signature-Input", "Signature-Agent")


def keys_of(directory: bytes | str) -> dict[str, Ed25519PublicKey]:
    """The keys of a directory, by their thumbprints."""
    return {
        key["kid"]: Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
        for key in json.loads(directory)["keys"]
    }


def verifier_of(directory: bytes | str) -> HTTPMessageVerifier:
    keys = MappingKeyResolver(public_keys=keys_of(directory), private_keys={})
    return HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=keys)


def verify_request(
    verifier: HTTPMessageVerifier, method: str, url: str, headers: Mapping[str, str], agent: str
) -> VerifyResult:
    """Raises InvalidSignature, also where the signature does not cover what Web Bot Auth asks for."""
    agent_component = "signature-agent"
    if headers.get("Signature-Agent") != f'"{agent}"':  # else a string, as in drafts before 2026
        agent_component = '"signature-agent";key="sig1"'
        if headers.get("Signature-Agent") != f'sig1="{agent}"':
            raise InvalidSignature("another agent")
    (found,) = verifier.verify(
        SimpleNamespace(method=method, url=url, headers=headers),
        expect_tag="web-bot-auth",
        require_components=("@method", "@authority", "@path", agent_component),
    )
    return found


@dataclass(frozen=True)
class Asked:
    """`verdict` is the agent's address, "unsigned", or what is wrong with the signature."""

    host: str
    path: str
    method: str
    verdict: str


class VerifyingSite(MockSite):
    """Answers 401 to what is not signed as it should be, and to what was signed once and is sent twice."""

    def __init__(self, agent: str, directory: bytes, routes: Mapping[str, str | Handler] | None = None) -> None:
        super().__init__(routes)
        self._agent = agent
        self._verifier = verifier_of(directory)
        self._nonces: set[str] = set()
        self.asked: list[Asked] = []

    def of_host(self, beginning: str) -> list[Asked]:
        return [one for one in self.asked if one.host.startswith(beginning)]

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        verdict = self._verdict(request)
        self.asked.append(Asked(request.host, request.path_qs, request.method, verdict))
        if verdict != self._agent and not request.host.startswith("third."):
            return web.Response(status=401, text=verdict)
        return await super()._respond(request)

    def _verdict(self, request: web.Request) -> str:
        if not any(name in request.headers for name in _FIELDS):
            return "unsigned"
        origin = str(request.url.origin())
        url = origin + request.raw_path.removeprefix(origin)
        try:
            found = verify_request(self._verifier, request.method, url, dict(request.headers), self._agent)
        except InvalidSignature as error:
            return str(error)
        if found.nonce is None or found.nonce in self._nonces:
            return "replayed"
        self._nonces.add(found.nonce)
        return self._agent
