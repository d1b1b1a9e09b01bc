"""Proxies that the settings name: a list, a dict by country, a file, the environment, a service, a class."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.errors import ConfigError, NoProxy

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


_TIMEOUT_SECONDS = 20.0
_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_MAX_PAGES = 100  # of a list that comes in pages
# The longest lists that services give have some thousand proxies, of at most 1 kB each.
_MAX_PROXIES = 20_000
_MAX_BYTES = 8 * 2**20
_MAX_VALUES = 400_000
_MAX_LINE_CHARS = 1_000


class _Service:
    """A service with an API. Its errors show neither the key nor the address asked, which may hold the key."""

    name: str
    url: str
    key_setting: str
    scheme = ""  # of the header Authorization

    def __init__(self, key: str, countries: Sequence[str], base_url: str) -> None:
        self._key = key
        self._countries = countries
        self._base_url = (base_url or self.url).rstrip("/")

    async def ask(
        self, method: str, path: str, query: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> Any:
        """Return the value of an answer in JSON. Raises NoProxy."""
        answer = await self.fetch(method, path, query, body)
        try:
            # In a thread: a long list takes longer than a crawl should wait for.
            return await asyncio.to_thread(loads, answer, _MAX_VALUES)
        except ValueError:
            raise NoProxy(f"{self.name}'s API did not return JSON, or far too much of it") from None

    async def fetch(
        self, method: str, path: str, query: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> bytes:
        """Return the body of an answer. Raises NoProxy."""
        httpx = await load_http_client()
        from llmcrawler.core.content.api_client import (  # imported in a thread by now
            APIClient,
            TooLargeError,
            takes_proxy,
        )

        fault = ""
        headers = {"Authorization": f"{self.scheme} {self._key}"} if self.scheme else {}
        options = {"timeout": _TIMEOUT_SECONDS, "headers": headers, "trust_env": takes_proxy(self._base_url)}
        async with APIClient(max_bytes=_MAX_BYTES, **options) as client:
            for attempt in range(_ATTEMPTS):
                if attempt:
                    await asyncio.sleep(_PAUSE_SECONDS * attempt)
                try:
                    # The client's timeout is for each read: a server that trickles would never reach it.
                    async with asyncio.timeout(_TIMEOUT_SECONDS):
                        answer = await client.request(method, self._base_url + path, params=query, json=body)
                except (httpx.HTTPError, TimeoutError) as error:
                    fault = f"cannot be reached ({type(error).__name__})"
                    continue
                except TooLargeError as error:
                    raise NoProxy(f"{self.name}'s API returned no list of proxies: {error}") from None
                status = answer.status_code
                if status == 200:
                    return answer.content
                if status in (401, 403):
                    raise NoProxy(f"{self.name} refuses the key (status {status}): see {self.key_setting}")
                fault = f"answers with status {status}"
                if status != 429 and status < 500:
                    raise NoProxy(f"{self.name}'s API {fault}")
        raise NoProxy(f"{self.name}'s API {fault}, {_ATTEMPTS} times")

    def entries(self, answer: Any, name: str) -> list[dict[str, Any]]:
        """Return the objects of the list of this name in an answer."""
        found = self._checked(answer.get(name) if isinstance(answer, dict) else None)
        return [entry for entry in found if isinstance(entry, dict)]

    async def lines(self, texts: Any, country: str) -> list[Proxy]:
        """Read a list of proxies as texts, in a thread."""
        found = self._checked(texts)
        return await asyncio.to_thread(lambda: [self.proxy(text, country) for text in found])

    def proxy(self, text: Any, country: str) -> Proxy:
        try:
            return parse_proxy(_text(text), country)
        except ConfigError:
            # An error page in place of a list; its text may repeat the key.
            raise NoProxy(f"{self.name}'s API returned something other than proxies") from None

    def _checked(self, entries: Any) -> list[Any]:
        if not isinstance(entries, list):
            raise NoProxy(f"{self.name}'s API returned no list of proxies")
        if len(entries) > _MAX_PROXIES:
            raise NoProxy(f"{self.name}'s API returned {len(entries):,} proxies; the limit is {_MAX_PROXIES:,}")
        return entries


class Webshare(_Service):
    """Loads the proxies of one's plan at Webshare, a hundred a page (https://apidocs.webshare.io)."""

    name, key_setting, scheme = "Webshare", "PROXY_WEBSHARE_KEY", "Token"
    url = "https://proxy.webshare.io"

    async def load(self) -> Sequence[Proxy]:
        query = {"mode": "direct", "page_size": "100"}
        if self._countries:
            query["country_code__in"] = ",".join(self._countries)
        proxies: list[Proxy] = []
        # The answer has a link to the next page; our key goes to no address that an answer names.
        for page in range(1, _MAX_PAGES + 1):
            answer = await self.ask("GET", "/api/v2/proxy/list/", query | {"page": str(page)})
            entries = self.entries(answer, "results")
            for entry in entries:
                if entry.get("proxy_address") and entry.get("port") and entry.get("valid") is not False:
                    proxy = self.proxy(_address(entry), _country(entry.get("country_code")))
                    username, password = _text(entry.get("username")), _text(entry.get("password"))
                    proxies.append(replace(proxy, username=username, password=password))
            if not answer.get("next") or not entries:
                break
        return proxies


class Proxyscrape(_Service):
    """Loads an account's datacenter proxies (https://docs.proxyscrape.com)."""

    name, key_setting = "Proxyscrape", "PROXY_PROXYSCRAPE_KEY"
    url = "https://api.proxyscrape.com"

    async def load(self) -> Sequence[Proxy]:
        proxies: list[Proxy] = []
        for country in self._countries or ("all",):
            query = {"auth": self._key, "type": "getproxies", "protocol": "http", "format": "normal", "status": "all"}
            path = "/v2/account/datacenter_shared/proxy-list"
            body = await self.fetch("GET", path, query | {"country[]": country.lower()})
            lines = body.decode("utf-8", "replace").split()
            proxies += await self.lines(lines, ANYWHERE if country == "all" else country)
        return proxies


class IPRoyal(_Service):
    """Makes up logins for the gateway to residential proxies of IPRoyal (https://docs.iproyal.com)."""

    name, key_setting, scheme = "IPRoyal", "PROXY_IPROYAL_KEY", "Bearer"
    url = "https://resi-api.iproyal.com"

    def __init__(self, key: str, countries: Sequence[str], base_url: str, login: str, count: int) -> None:
        super().__init__(key, countries, base_url)
        username, colon, password = login.partition(":")
        if not colon or not username or not password:
            raise ConfigError("PROXY_IPROYAL_LOGIN is not username:password, the login of your residential proxies")
        self._body = {
            "username": username,
            "password": password,
            "proxy_count": count,
            "format": "{hostname}:{port}:{username}:{password}",
            "hostname": "geo.iproyal.com",
            "port": "http|https",
            "rotation": "sticky",
            "lifetime": "30m",
        }

    async def load(self) -> Sequence[Proxy]:
        proxies: list[Proxy] = []
        for country in self._countries or (ANYWHERE,):
            location = {} if country == ANYWHERE else {"location": f"_country-{country.lower()}"}
            answer = await self.ask("POST", "/v1/access/generate-proxy-list", body=self._body | location)
            proxies += await self.lines(answer, country)
        return proxies


async def load_http_client() -> Any:
    """Import httpx2 in a thread, where it is needed: it takes 0.2 s, which a crawl without it need not pay."""
    client = await asyncio.to_thread(importlib.import_module, "llmcrawler.core.content.api_client")
    client.quieten()
    return sys.modules["httpx2"]


def _text(value: object) -> str:
    """Return a text without halves of surrogate pairs, which can stand in no header; "" for any other value."""
    return value[:_MAX_LINE_CHARS].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _address(entry: dict[str, Any]) -> str:
    port = entry.get("port")
    return f"{_text(entry.get('proxy_address'))}:{port if isinstance(port, int) else _text(port)}"


def _country(code: object) -> str:
    try:
        return parse_country(code if isinstance(code, str) and code else ANYWHERE)
    except ConfigError:
        return ANYWHERE


_NAMES = ("auto", "none", "environment", "proxyscrape", "webshare", "iproyal")
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
    if name in ("proxyscrape", "webshare", "iproyal"):
        return _service(name, settings, environ)
    proxies: list[Proxy] = []
    if name == "auto" and (value := settings.get("PROXIES")):
        proxies += _read_value("PROXIES", value)
    if name == "auto" and (path := settings.get("PROXIES_FILE")):
        proxies += _read_file(f"PROXIES_FILE={path}", Path(str(path)))
    # Scrapy's own support of HTTP_PROXY and NO_PROXY needs none of this; here such a proxy is watched for bans, too.
    if name == "environment" and environ.get("PROXIES", "").strip():
        proxies += _read_value("PROXIES of the environment", environ["PROXIES"])
    elif name == "environment":
        given = [(variable, environ.get(variable) or environ.get(variable.lower())) for variable in _ENVIRONMENT]
        proxies += [_parsed(f"{variable} of the environment", text) for variable, text in given if text]
        if not proxies:
            missing = "neither PROXIES nor ALL_PROXY, HTTPS_PROXY or HTTP_PROXY is set"
            raise ConfigError(f"PROXY_PROVIDER=environment, and {missing}")
    return FixedProxies(proxies) if proxies else None


def read_countries(settings: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the countries of PROXY_COUNTRY, which may name several."""
    value = settings.get("PROXY_COUNTRY") or ()
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    with _at("PROXY_COUNTRY"):
        return tuple(parse_country(str(text)) for text in texts if str(text).strip() != ANYWHERE)


def _service(name: str, settings: Mapping[Any, Any], environ: Mapping[str, str]) -> ProxyProvider:
    def secret(name: str) -> str:
        return str(settings.get(name) or environ.get(name) or "").strip()

    key_name = f"PROXY_{name.upper()}_KEY"
    given = secret(key_name), read_countries(settings), str(settings.get("PROXY_API_URL") or "")
    if not given[0]:
        raise ConfigError(f"PROXY_PROVIDER={name} needs a key: set {key_name}, as a setting or in the environment")
    if name == "proxyscrape":
        return Proxyscrape(*given)
    if name == "webshare":
        return Webshare(*given)
    wanted = settings.get("PROXY_COUNT") or 20
    try:
        count = int(wanted)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ConfigError(f"PROXY_COUNT={wanted!r} is not a number of proxies: at least 1")
    return IPRoyal(*given, secret("PROXY_IPROYAL_LOGIN"), count)


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
