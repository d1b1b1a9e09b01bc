"""Proxies that the settings name: a list, a dict by country, a file, the environment, a class."""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
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
        # "host:port" or "host:port:username:password", where host may be [IPv6].
        head, bracket, rest = place.rpartition("]")
        name, port, username, password = [*rest.split(":", 3), "", "", ""][:4]
        host = head + bracket + name
    # int() of thousands of digits is an error of its own.
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
    if not _HOST.match(host) or not is_port:
        shown = place if place.count(":") <= 1 else "a value that may hold a password"
        raise ConfigError(f"{shown!r} is not a proxy with host and port: {_FORMS}")
    return Proxy(scheme, host.lower(), int(port), username, password, country)


def parse_country(text: str) -> str:
    """Read an ISO 3166 code or "*". Raises ConfigError."""
    if text.strip() != ANYWHERE and not _COUNTRY.match(text.strip()):
        raise ConfigError(f"{text!r} is not a country: write two letters, such as DE, or * for any")
    return text.strip().upper()


_NAMES = ("auto", "none", "list", "file", "environment")
_MISSING = {
    "list": "PROXIES is empty",
    "file": "PROXIES_FILE names no file with proxies",
    "environment": "neither PROXIES nor ALL_PROXY, HTTPS_PROXY or HTTP_PROXY is set",
}
_ENVIRONMENT = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


class FixedProxies:
    """A provider of proxies that are known at the start."""

    def __init__(self, proxies: Sequence[Proxy]) -> None:
        self._proxies = tuple(dict.fromkeys(proxies))

    async def load(self) -> Sequence[Proxy]:
        return self._proxies


def resolve_proxies(settings: Mapping[Any, Any], environ: Mapping[str, str]) -> ProxyProvider | None:
    """Return the provider that the settings ask for, without asking a server; None: no proxies. Raises ConfigError."""
    setting = str(settings.get("PROXY_PROVIDER") or "auto").strip()
    if "." in setting:
        return _own_provider(setting)
    name = setting.lower()
    if name not in _NAMES:
        raise ConfigError(
            f"PROXY_PROVIDER={setting!r}: it is one of {', '.join(_NAMES)}, or the path of your own class"
        )
    proxies: list[Proxy] = []
    if name in ("auto", "list") and (value := settings.get("PROXIES")):
        proxies += _read_value("PROXIES", value)
    if name in ("auto", "file") and (path := settings.get("PROXIES_FILE")):
        proxies += _read_file(f"PROXIES_FILE={path}", Path(str(path)))
    # Scrapy's own support of HTTP_PROXY and NO_PROXY needs none of this; here such a proxy is watched for bans, too.
    if name == "environment" and environ.get("PROXIES", "").strip():
        proxies += _read_value("PROXIES of the environment", environ["PROXIES"])
    elif name == "environment":
        given = [(variable, environ.get(variable) or environ.get(variable.lower())) for variable in _ENVIRONMENT]
        proxies += [_parsed(f"{variable} of the environment", text) for variable, text in given if text]
    if not proxies and name in _MISSING:
        raise ConfigError(f"PROXY_PROVIDER={name}, and {_MISSING[name]}")
    return FixedProxies(proxies) if proxies else None


def read_countries(settings: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the countries of PROXY_COUNTRY, which may name several."""
    value = settings.get("PROXY_COUNTRY") or ()
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    with _at("PROXY_COUNTRY"):
        return tuple(parse_country(str(text)) for text in texts if str(text).strip() != ANYWHERE)


def _own_provider(path: str) -> ProxyProvider:
    module, _, name = path.rpartition(".")
    try:
        provider: ProxyProvider = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"PROXY_PROVIDER={path}: no class that can be made without arguments: {error}") from error
    if not callable(getattr(provider, "load", None)):
        raise ConfigError(f"PROXY_PROVIDER={path}: it has no method load()")
    return provider


def _read_value(name: str, value: object) -> list[Proxy]:
    """Read a list, a dict of lists by country, or a text: JSON of either, or proxies with commas or spaces between."""
    if isinstance(value, str):
        found = _json(name, value)
        value = _words(value) if found is None else found
    if isinstance(value, Mapping):
        groups = [(f"{name}, {country}", country, given, "") for country, given in value.items()]
    else:
        groups = [(name, ANYWHERE, value, " or a dict of lists by country")]
    proxies = []
    for place, country, given, also in groups:
        entries = _words(given) if isinstance(given, str) else given
        if isinstance(given, Mapping) or not isinstance(entries, Iterable):
            raise ConfigError(f"{place} is a {type(given).__name__}: it is a list of proxies{also}")
        with _at(name):
            code = parse_country(str(country))
        proxies += [_parsed(f"{place}, entry {number}", str(entry), code) for number, entry in enumerate(entries, 1)]
    return proxies


def _read_file(name: str, path: Path) -> list[Proxy]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot be read: {error}") from error
    value = _json(name, text)
    if value is not None:
        return _read_value(name, value)
    proxies = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            where = f"{name}, line {number}"
            has_country = len(words) > 1 and not words[1].startswith("#")
            proxies.append(_parsed(where, words[0], words[1] if has_country else ANYWHERE))
    return proxies


def _json(name: str, text: str) -> object:
    """Return the value of JSON; None for another text. A list of proxies at [IPv6] addresses begins like JSON."""
    start = text.lstrip()[:1]
    try:
        return json.loads(text) if start in ("{", "[") else None
    except json.JSONDecodeError as error:
        if start == "{":
            raise ConfigError(f"{name} is not JSON: {error}") from None
        return None


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


@contextmanager
def _at(where: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _parsed(where: str, text: str, country: str = ANYWHERE) -> Proxy:
    with _at(where):
        return parse_proxy(text, parse_country(country))
