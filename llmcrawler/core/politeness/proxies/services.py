"""Proxies of services, by their HTTP APIs."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.core.politeness.proxies.proxy import ANYWHERE, Proxy, parse_country, parse_proxy
from llmcrawler.errors import ConfigError, NoProxy

_TIMEOUT_SECONDS = 20.0
_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_MAX_PAGES = 100  # of a list that comes in pages
# The longest lists that services give have some thousand proxies, of at most 1 kB each.
_MAX_PROXIES = 20_000
_MAX_BYTES = 8 * 2**20
_MAX_VALUES = 400_000
_MAX_LINE_CHARS = 1_000


class Webshare:
    """Loads the proxies of one's plan at Webshare, a hundred a page (https://apidocs.webshare.io)."""

    def __init__(self, key: str, countries: Sequence[str], *, base_url: str = "") -> None:
        base_url = base_url or "https://proxy.webshare.io"
        self._api = _Api("Webshare", "PROXY_WEBSHARE_KEY", base_url, {"Authorization": f"Token {key}"})
        self._countries = countries

    async def load(self) -> Sequence[Proxy]:
        query = {"mode": "direct", "page_size": "100"}
        if self._countries:
            query["country_code__in"] = ",".join(self._countries)
        proxies: list[Proxy] = []
        # The answer has a link to the next page; our key goes to no address that an answer names.
        for page in range(1, _MAX_PAGES + 1):
            answer = await self._api.ask("GET", "/api/v2/proxy/list/", query | {"page": str(page)})
            entries = self._api.entries(answer, "results")
            for entry in entries:
                if entry.get("proxy_address") and entry.get("port") and entry.get("valid") is not False:
                    proxy = self._api.proxy(_address(entry, "proxy_address"), _country(entry.get("country_code")))
                    username, password = _text(entry.get("username")), _text(entry.get("password"))
                    proxies.append(replace(proxy, username=username, password=password))
            if not answer.get("next") or not entries:
                break
        return proxies


class Proxyscrape:
    """Loads proxies of Proxyscrape: with a key the shared datacenter proxies of an account (which know us by our
    address), without one the free list (https://docs.proxyscrape.com).
    """

    def __init__(self, key: str, countries: Sequence[str], *, base_url: str = "") -> None:
        self._api = _Api("Proxyscrape", "PROXY_PROXYSCRAPE_KEY", base_url or "https://api.proxyscrape.com", {})
        self._key = key
        self._countries = countries

    async def load(self) -> Sequence[Proxy]:
        if not self._key:
            return await self._free()
        proxies: list[Proxy] = []
        for country in self._countries or ("all",):
            query = {"auth": self._key, "type": "getproxies", "protocol": "http", "format": "normal", "status": "all"}
            path = "/v2/account/datacenter_shared/proxy-list"
            body = await self._api.fetch("GET", path, query | {"country[]": country.lower()})
            lines = body.decode("utf-8", "replace").split()
            proxies += await self._api.lines(lines, ANYWHERE if country == "all" else country)
        return proxies

    async def _free(self) -> Sequence[Proxy]:
        query = {"request": "display_proxies", "protocol": "http", "proxy_format": "protocolipport", "format": "json"}
        if self._countries:
            query["country"] = ",".join(self._countries).lower()
        entries = self._api.entries(await self._api.ask("GET", "/v4/free-proxy-list/get", query), "proxies")

        def listed(entry: dict[str, Any]) -> Proxy:
            where = entry.get("ip_data")
            country = _country(where.get("countryCode") if isinstance(where, dict) else None)
            return self._api.proxy(entry.get("proxy") or _address(entry, "ip"), country)

        return await asyncio.to_thread(lambda: [listed(entry) for entry in entries])


class IPRoyal:
    """Makes up logins for the one gateway to residential proxies of IPRoyal; each keeps its exit for `lifetime`
    (https://docs.iproyal.com).
    """

    def __init__(self, key: str, login: str, countries: Sequence[str], count: int, *, base_url: str = "") -> None:
        username, colon, password = login.partition(":")
        if not colon or not username or not password:
            raise ConfigError("PROXY_IPROYAL_LOGIN is not username:password, those of your residential proxies")
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
        base_url = base_url or "https://resi-api.iproyal.com"
        self._api = _Api("IPRoyal", "PROXY_IPROYAL_KEY", base_url, {"Authorization": f"Bearer {key}"})
        self._countries = countries

    async def load(self) -> Sequence[Proxy]:
        proxies: list[Proxy] = []
        for country in self._countries or (ANYWHERE,):
            location = {} if country == ANYWHERE else {"location": f"_country-{country.lower()}"}
            answer = await self._api.ask("POST", "/v1/access/generate-proxy-list", body=self._body | location)
            proxies += await self._api.lines(answer, country)
        return proxies


class _Api:
    """Client of a service's API. Its errors show neither the key nor the address asked, which may hold the key."""

    def __init__(self, name: str, key_setting: str, base_url: str, headers: dict[str, str]) -> None:
        self._name = name
        self._key_setting = key_setting
        self._base_url = base_url.rstrip("/")
        self._headers = headers

    async def ask(
        self, method: str, path: str, query: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> Any:
        """Return the value of an answer in JSON. Raises NoProxy."""
        answer = await self.fetch(method, path, query, body)
        try:
            # In a thread: a long list takes longer than a crawl should wait for.
            return await asyncio.to_thread(loads, answer, _MAX_VALUES)
        except ValueError:
            raise NoProxy(f"{self._name}'s API does not answer with JSON, or with far too much") from None

    async def fetch(
        self, method: str, path: str, query: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> bytes:
        """Return the body of an answer. Raises NoProxy."""
        httpx = await load_http_client()
        from llmcrawler.core.content.api_client import (  # noqa: PLC0415 - imported in a thread by now
            APIClient,
            TooLargeError,
            takes_proxy,
        )

        fault = ""
        options = {"timeout": _TIMEOUT_SECONDS, "headers": self._headers, "trust_env": takes_proxy(self._base_url)}
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
                    raise NoProxy(f"{self._name}'s API gives no list of proxies: {error}") from None
                status = answer.status_code
                if status == 200:
                    return answer.content
                if status in (401, 403):
                    raise NoProxy(f"{self._name} refuses the key (status {status}): see {self._key_setting}")
                fault = f"answers with status {status}"
                if status != 429 and status < 500:
                    raise NoProxy(f"{self._name}'s API {fault}")
        raise NoProxy(f"{self._name}'s API {fault}, {_ATTEMPTS} times")

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
            raise NoProxy(f"{self._name}'s API gives something else than proxies") from None

    def _checked(self, entries: Any) -> list[Any]:
        if not isinstance(entries, list):
            raise NoProxy(f"{self._name}'s API gives no list of proxies")
        if len(entries) > _MAX_PROXIES:
            raise NoProxy(f"{self._name}'s API gives {len(entries):,} proxies at once: {_MAX_PROXIES:,} are the most")
        return entries


async def load_http_client() -> Any:
    """Import httpx2 in a thread, where it is needed: it takes 0.2 s, which a crawl without it need not pay."""
    client = await asyncio.to_thread(importlib.import_module, "llmcrawler.core.content.api_client")
    client.quieten()
    return sys.modules["httpx2"]


def _text(value: object) -> str:
    """Return a text without halves of surrogate pairs, which can stand in no header; "" for any other value."""
    return value[:_MAX_LINE_CHARS].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _address(entry: dict[str, Any], host: str) -> str:
    port = entry.get("port")
    return f"{_text(entry.get(host))}:{port if isinstance(port, int) else _text(port)}"


def _country(code: object) -> str:
    try:
        return parse_country(code if isinstance(code, str) and code else ANYWHERE)
    except ConfigError:
        return ANYWHERE
