"""Proxies of services, by their HTTP APIs."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.errors import ConfigError, NoProxy
from llmcrawler.proxies.proxy import ANYWHERE, Proxy, parse_country, parse_proxy

_TIMEOUT_SECONDS = 20.0
_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_MAX_PAGES = 100  # of a list that comes in pages


class Webshare:
    """https://apidocs.webshare.io: proxies of one's plan, a hundred a page."""

    URL = "https://proxy.webshare.io"

    def __init__(self, key: str, countries: Sequence[str], *, base_url: str = "") -> None:
        self._api = _Api("Webshare", "PROXY_WEBSHARE_KEY", base_url or self.URL, {"Authorization": f"Token {key}"})
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
            proxies += [
                Proxy(
                    "http",
                    str(entry["proxy_address"]),
                    int(entry["port"]),
                    str(entry.get("username") or ""),
                    str(entry.get("password") or ""),
                    _country(entry.get("country_code")),
                )
                for entry in entries
                if entry.get("proxy_address") and entry.get("port") and entry.get("valid") is not False
            ]
            if not answer.get("next") or not entries:
                break
        return proxies


class Proxyscrape:
    """https://docs.proxyscrape.com: with a key the shared datacenter proxies of an account (which know us by our
    address), without one the free list.
    """

    URL = "https://api.proxyscrape.com"

    def __init__(self, key: str, countries: Sequence[str], *, base_url: str = "") -> None:
        self._api = _Api("Proxyscrape", "PROXY_PROXYSCRAPE_KEY", base_url or self.URL, {})
        self._key = key
        self._countries = countries

    async def load(self) -> Sequence[Proxy]:
        if not self._key:
            return await self._free()
        proxies: list[Proxy] = []
        for country in self._countries or ("all",):
            query = {"auth": self._key, "type": "getproxies", "protocol": "http", "format": "normal", "status": "all"}
            path = "/v2/account/datacenter_shared/proxy-list"
            text = await self._api.ask_text("GET", path, query | {"country[]": country.lower()})
            proxies += self._api.lines(text.split(), ANYWHERE if country == "all" else country)
        return proxies

    async def _free(self) -> Sequence[Proxy]:
        query = {"request": "display_proxies", "protocol": "http", "proxy_format": "protocolipport", "format": "json"}
        if self._countries:
            query["country"] = ",".join(self._countries).lower()
        entries = self._api.entries(await self._api.ask("GET", "/v4/free-proxy-list/get", query), "proxies")
        proxies: list[Proxy] = []
        for entry in entries:
            where = entry.get("ip_data")
            country = _country(where.get("countryCode") if isinstance(where, dict) else None)
            proxies += self._api.lines([str(entry.get("proxy") or f"{entry.get('ip')}:{entry.get('port')}")], country)
        return proxies


class IPRoyal:
    """https://docs.iproyal.com: residential proxies. One gateway; each login that it makes up keeps its exit for
    `lifetime`.
    """

    URL = "https://resi-api.iproyal.com"

    def __init__(self, key: str, login: str, countries: Sequence[str], count: int, *, base_url: str = "") -> None:
        username, colon, password = login.partition(":")
        if not colon or not username or not password:
            raise ConfigError("PROXY_IPROYAL_LOGIN is not username:password, those of your residential proxies")
        self._body = {"username": username, "password": password, "proxy_count": count}
        self._api = _Api("IPRoyal", "PROXY_IPROYAL_KEY", base_url or self.URL, {"Authorization": f"Bearer {key}"})
        self._countries = countries

    async def load(self) -> Sequence[Proxy]:
        proxies: list[Proxy] = []
        for country in self._countries or (ANYWHERE,):
            body: dict[str, Any] = {
                **self._body,
                "format": "{hostname}:{port}:{username}:{password}",
                "hostname": "geo.iproyal.com",
                "port": "http|https",
                "rotation": "sticky",
                "lifetime": "30m",
            }
            if country != ANYWHERE:
                body["location"] = f"_country-{country.lower()}"
            answer = await self._api.ask("POST", "/v1/access/generate-proxy-list", body=body)
            if not isinstance(answer, list):
                raise NoProxy("IPRoyal's API gives no list of proxies")
            proxies += self._api.lines([str(line) for line in answer], country)
        return proxies


class _Api:
    """One service's API. Its errors say neither the key nor the address asked, which may hold the key."""

    def __init__(self, name: str, key_setting: str, base_url: str, headers: dict[str, str]) -> None:
        self._name = name
        self._key_setting = key_setting
        self._base_url = base_url.rstrip("/")
        self._headers = headers

    async def ask(
        self, method: str, path: str, query: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> Any:
        text = await self.ask_text(method, path, query, body)
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise NoProxy(f"{self._name}'s API does not answer with JSON") from None

    async def ask_text(
        self, method: str, path: str, query: dict[str, str] | None = None, body: dict[str, Any] | None = None
    ) -> str:
        httpx = await load_http_client()
        fault = ""
        async with httpx.AsyncClient(
            timeout=_TIMEOUT_SECONDS, headers=self._headers, **direct(self._base_url)
        ) as client:
            for attempt in range(_ATTEMPTS):
                if attempt:
                    await asyncio.sleep(_PAUSE_SECONDS * attempt)
                try:
                    answer = await client.request(method, self._base_url + path, params=query, json=body)
                except httpx.HTTPError as error:
                    fault = f"cannot be reached ({type(error).__name__})"
                    continue
                if answer.status_code in (401, 403):
                    raise NoProxy(
                        f"{self._name} refuses the key (status {answer.status_code}): see {self._key_setting}"
                    )
                if answer.status_code == 429 or answer.status_code >= 500:
                    fault = f"answers with status {answer.status_code}"
                    continue
                if answer.status_code != 200:
                    raise NoProxy(f"{self._name}'s API answers with status {answer.status_code}")
                return str(answer.text)
        raise NoProxy(f"{self._name}'s API {fault}, {_ATTEMPTS} times")

    def entries(self, answer: Any, name: str) -> list[dict[str, Any]]:
        found = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise NoProxy(f"{self._name}'s API gives no list of proxies")
        return [entry for entry in found if isinstance(entry, dict)]

    def lines(self, texts: Iterable[str], country: str) -> list[Proxy]:
        try:
            return [parse_proxy(text, country) for text in texts]
        except ConfigError:
            # An error page in place of a list; its text may repeat the key.
            raise NoProxy(f"{self._name}'s API gives something else than proxies") from None


async def load_http_client() -> Any:
    """httpx2, imported in a thread and where it is needed: it takes 0.2 s, which a crawl without it need not pay."""
    package = await asyncio.to_thread(importlib.import_module, "httpx2")
    for name in ("httpx2", "httpcore2"):
        logger = logging.getLogger(name)
        # At INFO it writes the address of each request, and some addresses hold a key.
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
    return package


def direct(url: str) -> dict[str, bool]:
    """The proxy of the environment can't reach a server on this machine."""
    host = urlsplit(url).hostname or ""
    return {"trust_env": False} if host in {"localhost", "::1"} or host.startswith("127.") else {}


def _country(code: object) -> str:
    try:
        return parse_country(str(code or ANYWHERE))
    except ConfigError:
        return ANYWHERE
