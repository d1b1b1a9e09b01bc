"""Reads proxies in the forms in which people write them down; the protocol of a source of proxies."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, unquote

from llmcrawler.errors import ConfigError

ANYWHERE = "*"  # the country of a proxy that is good for any
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_HOST = re.compile(r"^(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])$", re.IGNORECASE)
_COUNTRY = re.compile(r"^[a-z]{2}$", re.IGNORECASE)
_FORMS = "write it as http://user:password@host:port, host:port or host:port:user:password"


@dataclass(frozen=True, slots=True)
class Proxy:
    """Address of a proxy. `country`: two capital letters (ISO 3166), or "*". str() and repr() show no credentials."""

    scheme: str
    host: str
    port: int
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    country: str = ANYWHERE

    @property
    def address(self) -> str:
        """Return the url without credentials."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def authorization(self) -> bytes | None:
        """Return the value of Proxy-Authorization (RFC 7617; UTF-8, as most servers read it)."""
        if not self.username:
            return None
        return b"Basic " + base64.b64encode(f"{self.username}:{self.password}".encode())

    def hide(self, text: str) -> str:
        """Take our credentials, in any form, out of the text of an error."""
        forms = {self.password, quote(self.password, safe="")}
        if len(self.username) > 3:  # a shorter one is a part of many words
            forms |= {self.username, quote(self.username, safe="")}
        if self.authorization is not None:
            forms.add(self.authorization.removeprefix(b"Basic ").decode())
        for secret in sorted(filter(None, forms), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def __str__(self) -> str:
        return self.address


class ProxyProvider(Protocol):
    async def load(self) -> Sequence[Proxy]:
        """Return all proxies. Asked once, when the first request wants one. Raises NoProxy when there are none."""


def parse_proxy(text: str, country: str = ANYWHERE) -> Proxy:
    """Read a proxy in one of the usual forms. Raises ConfigError, which never shows what may be a credential."""
    text = text.strip()
    found = _SCHEME.match(text)
    scheme = found.group(1).lower() if found else "http"
    if scheme != "http":
        raise ConfigError(f"a proxy of scheme {scheme!r} is not supported, only http: {_FORMS}")
    credentials, _, place = text[found.end() if found else 0 :].rstrip("/").rpartition("@")
    if credentials:
        username, _, password = (unquote(part) for part in credentials.partition(":"))
        host, _, port = place.rpartition(":")
    else:
        host, port, username, password = _parts(place)
    # int() of thousands of digits is an error of its own.
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
    if not _HOST.match(host) or not is_port:
        shown = place if place.count(":") <= 1 else "a value that may hold a password"
        raise ConfigError(f"{shown!r} is no proxy with host and port: {_FORMS}")
    return Proxy(scheme, host.lower(), int(port), username, password, country)


def parse_country(text: str) -> str:
    """Read an ISO 3166 code or "*". Raises ConfigError."""
    if text.strip() != ANYWHERE and not _COUNTRY.match(text.strip()):
        raise ConfigError(f"{text!r} is no country: write two letters, such as DE, or * for any")
    return text.strip().upper()


def _parts(place: str) -> tuple[str, str, str, str]:
    """Split "host:port" or "host:port:username:password", where host may be [IPv6]."""
    head, bracket, rest = place.rpartition("]")
    parts = rest.split(":", 3)
    host = head + bracket + parts[0]
    return host, *([*parts[1:], "", "", ""][:3])  # type: ignore[return-value]  # mypy does not count the slice
