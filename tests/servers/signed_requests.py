"""Checks signed HTTP messages as a server does: RFC 9421, and what Web Bot Auth asks beyond it.

It is written against the vectors of both (test_signed_requests.py), and shares nothing with llmcrawler, nor with the
library that tests compare with.

    Verifier({"https://bot.example": directory}).check(message)     Refused says what is wrong
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Structured fields (RFC 9651), as far as they come here.
_PARAMETERS = r'(?:;[a-z*][a-z0-9_.*-]*(?:=(?:"[^"\\]*"|-?\d+|[a-z]+))?)*'
_MEMBER = re.compile(rf'([a-z*][a-z0-9_.*-]*)=(\((?:"[^"\\]*"{_PARAMETERS}| )*\)|:[^:]*:|"[^"\\]*")({_PARAMETERS})')
_COMPONENT = re.compile(rf'"([^"\\]*)"({_PARAMETERS})')
_PARAMETER = re.compile(r';([a-z*][a-z0-9_.*-]*)(?:=(?:"([^"\\]*)"|(-?\d+|[a-z]+)))?')
_SKEW_SECONDS = 5
_LONGEST_SECONDS = 24 * 3600  # "It is RECOMMENDED that expiry be no more than 24 hours"


class Refused(Exception):
    """A message whose signature is not to be believed; the message is a word or two."""


@dataclass(frozen=True)
class Message:
    """`target` is path and query as they were sent. Of an answer, `request` is what it answers."""

    method: str
    authority: str
    target: str
    headers: Mapping[str, str]
    request: Message | None = None

    def field(self, name: str) -> str:
        found = [value.strip() for key, value in self.headers.items() if key.lower() == name]
        if not found:
            raise Refused(f"no {name}")
        return ", ".join(found)

    def component(self, name: str, parameters: Mapping[str, str]) -> str:
        if "req" in parameters:
            assert self.request is not None
            return self.request.component(name, {})
        path, _, query = self.target.partition("?")
        derived = {
            "@method": self.method,
            "@authority": self.authority.lower(),
            "@path": path or "/",
            "@query": f"?{query}",
        }
        if name.startswith("@"):
            return derived[name]
        if "key" in parameters:
            member = members(self.field(name))[parameters["key"]]
            return member.value + member.parameters
        return self.field(name)


@dataclass(frozen=True)
class Member:
    value: str
    parameters: str

    def parameter(self, name: str) -> str:
        return dict_of(self.parameters).get(name, "")

    def number(self, name: str) -> int:
        found = self.parameter(name)
        if not found.isdecimal():
            raise Refused(f"no {name}")
        return int(found)

    @property
    def bytes(self) -> bytes:
        return base64.b64decode(self.value.strip(":"), validate=True)


def members(field: str) -> dict[str, Member]:
    """The members of a dictionary, in its order."""
    found: dict[str, Member] = {}
    place = 0
    while place < len(field):
        match = _MEMBER.match(field, place)
        if match is None or match[1] in found:
            raise Refused("not a dictionary")
        found[match[1]] = Member(match[2], match[3])
        comma = re.compile(r"[ \t]*(?:,[ \t]*(?=.)|$)").match(field, match.end())
        if comma is None:
            raise Refused("not a dictionary")
        place = comma.end()
    return found


def dict_of(parameters: str) -> dict[str, str]:
    return {name: text or number for name, text, number in _PARAMETER.findall(parameters)}


def signature_base(message: Message, inputs: Member) -> str:
    lines = []
    for name, parameters in _COMPONENT.findall(inputs.value):
        lines.append(f'"{name}"{parameters}: {message.component(name, dict_of(parameters))}')
    if len({line.partition(": ")[0] for line in lines}) < len(lines):
        raise Refused("a component twice")
    return "\n".join([*lines, f'"@signature-params": {inputs.value}{inputs.parameters}'])


def check_signature(message: Message, label: str, key: Ed25519PublicKey) -> Member:
    """Check one signature as RFC 9421, 3.2 says, and return its inputs."""
    inputs = members(message.field("signature-input")).get(label)
    signature = members(message.field("signature")).get(label)
    if inputs is None or signature is None:
        raise Refused("no such label")
    try:
        key.verify(signature.bytes, signature_base(message, inputs).encode("ascii"))
    except InvalidSignature:
        raise Refused("wrong signature") from None
    return inputs


def thumbprint(jwk: Mapping[str, str]) -> str:
    members_of_key = json.dumps({name: jwk[name] for name in ("crv", "kty", "x")}, separators=(",", ":"))
    return base64.urlsafe_b64encode(sha256(members_of_key.encode()).digest()).decode().rstrip("=")


def keys_of(directory: bytes | str) -> dict[str, Ed25519PublicKey]:
    """The keys of a directory, by their thumbprints."""
    found = {}
    for jwk in json.loads(directory)["keys"]:
        raw = base64.urlsafe_b64decode(jwk["x"] + "=")
        found[thumbprint(jwk)] = Ed25519PublicKey.from_public_bytes(raw)
        assert jwk.get("kid", thumbprint(jwk)) == thumbprint(jwk)
        assert "d" not in jwk
    return found


class Verifier:
    """A server that knows the directories of some agents, by their addresses, and believes no nonce twice."""

    def __init__(self, directories: Mapping[str, bytes | str], clock: Callable[[], float] = time.time) -> None:
        self._keys = {agent: keys_of(directory) for agent, directory in directories.items()}
        self._clock = clock
        self._nonces: set[str] = set()

    def check(self, message: Message) -> str:
        """Return the agent that has signed a request."""
        inputs = members(message.field("signature-input"))
        label = next((name for name, one in inputs.items() if one.parameter("tag") == "web-bot-auth"), None)
        if label is None:
            raise Refused("no such tag")
        agent = self._agent(message, label, inputs[label])
        self._check_times(inputs[label])
        key = self._keys.get(agent, {}).get(inputs[label].parameter("keyid"))
        if key is None:
            raise Refused("unknown key")
        if inputs[label].parameter("alg") not in ("", "ed25519"):
            raise Refused("wrong algorithm")
        check_signature(message, label, key)
        nonce = inputs[label].parameter("nonce")
        if not nonce or nonce in self._nonces:
            raise Refused("replayed" if nonce else "no nonce")
        self._nonces.add(nonce)
        return agent

    def _agent(self, message: Message, label: str, inputs: Member) -> str:
        """The url that is covered by the signature, in either form of the field."""
        field = message.field("signature-agent")
        covered = {name + parameters for name, parameters in _COMPONENT.findall(inputs.value)}
        if not covered & {"@authority", "@target-uri"}:
            raise Refused("no authority")
        is_string = field.startswith('"')
        if ("signature-agent" if is_string else f'signature-agent;key="{label}"') not in covered:
            raise Refused("agent not covered")
        agent = field if is_string else members(field)[label].value + members(field)[label].parameters
        if not re.fullmatch(r'"https://[^"]+"', agent):
            raise Refused("agent not https")
        return agent.strip('"')

    def _check_times(self, inputs: Member) -> None:
        created, expires, now = inputs.number("created"), inputs.number("expires"), self._clock()
        if created > now + _SKEW_SECONDS:
            raise Refused("not yet valid")
        if expires < now:
            raise Refused("expired")
        if not created < expires <= created + _LONGEST_SECONDS:
            raise Refused("valid for too long")
