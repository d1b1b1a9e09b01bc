"""Proxies that the settings name: a list, a dict by country, a file, the environment, a service, a class."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmcrawler.core.politeness.proxies.proxy import ANYWHERE, Proxy, ProxyProvider, parse_country, parse_proxy
from llmcrawler.core.politeness.proxies.services import IPRoyal, Proxyscrape, Webshare
from llmcrawler.errors import ConfigError

_NAMES = ("auto", "none", "list", "file", "environment", "proxyscrape", "webshare", "iproyal")
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
    """Return the provider that the settings ask for; None: no proxies. Asks no server.

    Raises ConfigError, also for a proxy that cannot be read.
    """
    setting = str(settings.get("PROXY_PROVIDER") or "auto").strip()
    if "." in setting:
        return _own_provider(setting)
    name = setting.lower()
    if name not in _NAMES:
        raise ConfigError(
            f"PROXY_PROVIDER={setting!r}: it is one of {', '.join(_NAMES)}, or the path of a class of yours"
        )
    if name in ("proxyscrape", "webshare", "iproyal"):
        return _service(name, settings, environ)
    proxies: list[Proxy] = []
    if name in ("auto", "list") and (value := settings.get("PROXIES")):
        proxies += _read_value("PROXIES", value)
    if name in ("auto", "file") and (path := settings.get("PROXIES_FILE")):
        proxies += _read_file(f"PROXIES_FILE={path}", Path(str(path)))
    if name == "environment":
        proxies += _read_environment(environ)
    if not proxies and name in _MISSING:
        raise ConfigError(f"PROXY_PROVIDER={name}, and {_MISSING[name]}")
    return FixedProxies(proxies) if proxies else None


def read_countries(settings: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the countries of PROXY_COUNTRY, which may name several."""
    value = settings.get("PROXY_COUNTRY") or ()
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    with _at("PROXY_COUNTRY"):
        return tuple(parse_country(str(text)) for text in texts if str(text).strip() != ANYWHERE)


def _service(service: str, settings: Mapping[Any, Any], environ: Mapping[str, str]) -> ProxyProvider:
    def secret(name: str) -> str:
        return str(settings.get(name) or environ.get(name) or "").strip()

    countries = read_countries(settings)
    base_url = str(settings.get("PROXY_API_URL") or "")
    key_name = f"PROXY_{service.upper()}_KEY"
    key = secret(key_name)
    if service == "proxyscrape":
        return Proxyscrape(key, countries, base_url=base_url)
    if not key:
        raise ConfigError(f"PROXY_PROVIDER={service} needs a key: set {key_name}, as a setting or in the environment")
    if service == "webshare":
        return Webshare(key, countries, base_url=base_url)
    return IPRoyal(key, secret("PROXY_IPROYAL_LOGIN"), countries, _count(settings), base_url=base_url)


def _count(settings: Mapping[Any, Any]) -> int:
    value = settings.get("PROXY_COUNT") or 20
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ConfigError(f"PROXY_COUNT={value!r} is not a number of proxies: at least 1")
    return count


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
    if not isinstance(value, Mapping):
        wrong = f"{name} is a {type(value).__name__}: it is a list of proxies or a dict of lists by country"
        return _read_list(name, value, wrong)
    proxies = []
    for country, given in value.items():
        place = f"{name}, {country}"
        entries = _words(given) if isinstance(given, str) else None if isinstance(given, Mapping) else given
        wrong = f"{place}: is a {type(given).__name__}: it is a list of proxies"
        with _at(name):
            code = parse_country(str(country))
        proxies += _read_list(place, entries, wrong, code)
    return proxies


def _read_list(name: str, entries: object, wrong: str, country: str = ANYWHERE) -> list[Proxy]:
    if not isinstance(entries, Iterable):
        raise ConfigError(wrong)
    return [_parsed(f"{name}, entry {number}", str(entry), country) for number, entry in enumerate(entries, 1)]


def _read_file(name: str, path: Path) -> list[Proxy]:
    """Read one proxy a line, perhaps with its country after it, and # before comments; or JSON as PROXIES takes it."""
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


def _read_environment(environ: Mapping[str, str]) -> list[Proxy]:
    """Read the variable PROXIES, in the form of the setting; else what curl and others read. Scrapy's own support of
    HTTP_PROXY and NO_PROXY needs none of this; here a proxy of the environment is watched for bans, too.
    """
    if environ.get("PROXIES", "").strip():
        return _read_value("PROXIES of the environment", environ["PROXIES"])
    given = [(name, environ.get(name) or environ.get(name.lower())) for name in _ENVIRONMENT]
    return [_parsed(f"{name} of the environment", text) for name, text in given if text]


def _json(name: str, text: str) -> object:
    """Return the value of JSON; None for another text. A list of proxies at [IPv6] addresses begins like JSON."""
    start = text.lstrip()[:1]
    try:
        return json.loads(text) if start in ("{", "[") else None
    except json.JSONDecodeError as error:
        if start == "{":
            raise ConfigError(f"{name} is no JSON: {error}") from None
        return None


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Name the place of what is wrong."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _parsed(where: str, text: str, country: str = ANYWHERE) -> Proxy:
    with _at(where):
        return parse_proxy(text, parse_country(country))
