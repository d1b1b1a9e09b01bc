"""Signs requests, each when it is sent."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.politeness.bot_auth.bot_key import BotKey
from llmcrawler.politeness.bot_auth.message_signature import signature_fields

LIFETIME_SECONDS: Final = 60  # the shorter, the less a signature that is overheard is worth; clocks differ by seconds
_LABEL: Final = "sig1"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """Signs as `agent`, the url that publishes the key. Method, host and path are covered: a signature is good for one
    page. `as_string`: Signature-Agent is a string, as in drafts before 2026, and not a dictionary.
    """

    key: BotKey
    agent: str
    as_string: bool = False
    clock: Callable[[], float] = time.time
    nonce: Callable[[], str] = lambda: secrets.token_urlsafe(16)

    def headers(self, method: str, url: str) -> dict[str, str]:
        """Return the headers that a request needs beside its own."""
        agent = f'"{self.agent}"'
        covered = {
            '"@method"': method,
            '"@authority"': authority_of(url),
            '"@path"': urlsplit(url).path or "/",
            '"signature-agent"' if self.as_string else f'"signature-agent";key="{_LABEL}"': agent,
        }
        created = int(self.clock())
        fields = signature_fields(
            self.key,
            _LABEL,
            covered,
            created=created,
            expires=created + LIFETIME_SECONDS,
            alg="ed25519",
            nonce=self.nonce(),
            tag="web-bot-auth",
        )
        return {"Signature-Agent": agent if self.as_string else f"{_LABEL}={agent}", **fields}


def authority_of(url: str) -> str:
    """Return host and port as `@authority` has them (RFC 9421, 2.2.3): lower case, and no port that is the scheme's."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port in (None, _PORTS.get(parts.scheme)) else f"{host}:{parts.port}"
