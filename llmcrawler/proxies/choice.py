"""From settings to the provider that they ask for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from llmcrawler.errors import ConfigError
from llmcrawler.proxies.fixed import FixedProxies, read_environment, read_file, read_value
from llmcrawler.proxies.provider import ProxyProvider
from llmcrawler.proxies.proxy import ANYWHERE, Proxy, parse_country
from llmcrawler.proxies.services import IPRoyal, Proxyscrape, Webshare

_NAMES = ("auto", "none", "list", "file", "environment", "proxyscrape", "webshare", "iproyal")


class Settings(Protocol):
    def get(self, name: Any, default: Any = None) -> Any: ...


def resolve_proxies(settings: Settings, environ: Mapping[str, str]) -> ProxyProvider | None:
    """None: no proxies. Raises ConfigError, also for a proxy that cannot be read; it asks no server."""
    name = str(settings.get("PROXY_PROVIDER") or "auto").strip()
    if "." in name:
        return _own(name)
    match name.lower():
        case "none":
            return None
        case "auto":
            proxies = _listed(settings) + _filed(settings)
            return FixedProxies(proxies) if proxies else None
        case "list":
            return _fixed(_listed(settings), "PROXY_PROVIDER=list, and PROXIES is empty")
        case "file":
            return _fixed(_filed(settings), "PROXY_PROVIDER=file, and PROXIES_FILE names no file with proxies")
        case "environment":
            missing = "PROXY_PROVIDER=environment, and neither PROXIES nor ALL_PROXY, HTTPS_PROXY or HTTP_PROXY is set"
            return _fixed(read_environment(environ), missing)
        case "proxyscrape" | "webshare" | "iproyal" as service:
            return _service(service, settings, environ)
    raise ConfigError(f"PROXY_PROVIDER={name!r}: it is one of {', '.join(_NAMES)}, or the path of a class of yours")


def read_countries(settings: Settings) -> tuple[str, ...]:
    """PROXY_COUNTRY, which may name several."""
    value = settings.get("PROXY_COUNTRY") or ()
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    try:
        return tuple(parse_country(str(text)) for text in texts if str(text).strip() != ANYWHERE)
    except ConfigError as error:
        raise ConfigError(f"PROXY_COUNTRY: {error}") from None


def _listed(settings: Settings) -> list[Proxy]:
    value = settings.get("PROXIES")
    return read_value("PROXIES", value) if value else []


def _filed(settings: Settings) -> list[Proxy]:
    path = settings.get("PROXIES_FILE")
    return read_file("PROXIES_FILE", Path(str(path))) if path else []


def _fixed(proxies: list[Proxy], missing: str) -> FixedProxies:
    if not proxies:
        raise ConfigError(missing)
    return FixedProxies(proxies)


def _service(service: str, settings: Settings, environ: Mapping[str, str]) -> ProxyProvider:
    countries = read_countries(settings)
    base_url = str(settings.get("PROXY_API_URL") or "")

    def secret(name: str) -> str:
        return str(settings.get(name) or environ.get(name) or "").strip()

    key_name = f"PROXY_{service.upper()}_KEY"
    key = secret(key_name)
    if service == "proxyscrape":
        return Proxyscrape(key, countries, base_url=base_url)
    if not key:
        raise ConfigError(f"PROXY_PROVIDER={service} needs a key: set {key_name}, as a setting or in the environment")
    if service == "webshare":
        return Webshare(key, countries, base_url=base_url)
    return IPRoyal(key, secret("PROXY_IPROYAL_LOGIN"), countries, _count(settings), base_url=base_url)


def _count(settings: Settings) -> int:
    value = settings.get("PROXY_COUNT") or 20
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ConfigError(f"PROXY_COUNT={value!r} is not a number of proxies: at least 1")
    return count


def _own(path: str) -> ProxyProvider:
    module, _, name = path.rpartition(".")
    try:
        provider: ProxyProvider = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"PROXY_PROVIDER={path}: no class that can be made without arguments: {error}") from error
    if not callable(getattr(provider, "load", None)):
        raise ConfigError(f"PROXY_PROVIDER={path}: it has no method load()")
    return provider
