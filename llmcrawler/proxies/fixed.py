"""Proxies that are known at the start: a list, a dict by country, a file, the environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from llmcrawler.errors import ConfigError
from llmcrawler.proxies.proxy import ANYWHERE, Proxy, parse_country, parse_proxy

_ENVIRONMENT = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


class FixedProxies:
    """A provider of what it was given."""

    def __init__(self, proxies: Sequence[Proxy]) -> None:
        self._proxies = tuple(dict.fromkeys(proxies))

    async def load(self) -> Sequence[Proxy]:
        return self._proxies


def read_value(name: str, value: object) -> list[Proxy]:
    """A list, a dict of lists by country, or a text: JSON of either, or proxies with commas or spaces between them."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        value = _json(name, value)
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if isinstance(value, Mapping):
        return [proxy for country, some in value.items() for proxy in _in_country(name, str(country), some)]
    if not isinstance(value, Iterable):
        raise ConfigError(f"{name} is a {type(value).__name__}: it is a list of proxies or a dict of lists by country")
    return [_parsed(f"{name}, entry {place}", str(entry)) for place, entry in enumerate(value, 1)]


def read_file(name: str, path: Path) -> list[Proxy]:
    """One proxy a line, perhaps with its country after it; lines that start with # say nothing. Or JSON of PROXIES."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}={path}: cannot be read: {error}") from error
    if text.lstrip()[:1] in ("{", "["):
        # A list of [IPv6] proxies starts like JSON.
        try:
            return read_value(f"{name}={path}", json.loads(text))
        except json.JSONDecodeError as error:
            if text.lstrip().startswith("{"):
                raise ConfigError(f"{name}={path}: is no JSON: {error}") from error
    proxies = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        country = words[1] if len(words) > 1 and not words[1].startswith("#") else ANYWHERE
        proxies.append(_parsed(f"{name}={path}, line {number}", words[0], country))
    return proxies


def read_environment(environ: Mapping[str, str]) -> list[Proxy]:
    """The variable PROXIES, in the form of the setting; else what curl and others read. Scrapy's own support of
    HTTP_PROXY and NO_PROXY needs none of this; here a proxy of the environment is watched for bans, too.
    """
    if environ.get("PROXIES", "").strip():
        return read_value("PROXIES of the environment", environ["PROXIES"])
    given = [(name, environ.get(name) or environ.get(name.lower())) for name in _ENVIRONMENT]
    return [_parsed(f"{name} of the environment", text) for name, text in given if text]


def _in_country(name: str, country: str, some: object) -> list[Proxy]:
    try:
        code = parse_country(country)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    entries = some.replace(",", " ").split() if isinstance(some, str) else some
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise ConfigError(f"{name}, {country}: is a {type(some).__name__}: it is a list of proxies")
    return [_parsed(f"{name}, {country}, entry {place}", str(entry), code) for place, entry in enumerate(entries, 1)]


def _parsed(where: str, text: str, country: str = ANYWHERE) -> Proxy:
    try:
        return parse_proxy(text, parse_country(country))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _json(name: str, text: str) -> object:
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("["):
            return text.replace(",", " ").split()  # proxies at [IPv6] addresses
        raise ConfigError(f"{name} is no JSON: {error}") from None
    return value
