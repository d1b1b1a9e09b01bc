"""Checks the names of settings and of arguments, and that values are of their settings' types."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from scrapy.settings import BaseSettings, default_settings
from scrapy.utils.misc import load_object

from llmcrawler import settings as own_settings
from llmcrawler.errors import ConfigError

# Settings that are read and have no default.
_WITHOUT_DEFAULT: Final = frozenset(
    """CONCURRENT_REQUESTS_PER_IP FEED_URI FEED_FORMAT FILES_EXPIRES FILES_STORE FILES_URLS_FIELD FILES_RESULT_FIELD
    IMAGES_EXPIRES IMAGES_MIN_HEIGHT IMAGES_MIN_WIDTH IMAGES_STORE IMAGES_THUMBS IMAGES_URLS_FIELD IMAGES_RESULT_FIELD
    MEDIA_ALLOW_REDIRECTS LLM_REASONING_EFFORT OPENAI_API_KEY OPENAI_BASE_URL
    PLAYWRIGHT_ABORT_REQUEST PLAYWRIGHT_BROWSER_PROVIDER PLAYWRIGHT_BROWSER_TYPE PLAYWRIGHT_CDP_KWARGS
    PLAYWRIGHT_CDP_URL PLAYWRIGHT_CONNECT_KWARGS PLAYWRIGHT_CONNECT_URL PLAYWRIGHT_CONTEXTS
    PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT PLAYWRIGHT_DOWNLOAD_TIMEOUT PLAYWRIGHT_LAUNCH_OPTIONS
    PLAYWRIGHT_MAX_CONTEXTS PLAYWRIGHT_MAX_PAGES_PER_CONTEXT PLAYWRIGHT_PROCESS_REQUEST_HEADERS
    PLAYWRIGHT_RESTART_DISCONNECTED_BROWSER""".split()
)
_NOT_OF_ITS_DEFAULT: Final = frozenset({"LLM_CACHE"})  # True, or a path
_FRACTIONS: Final = frozenset({"DNS_TIMEOUT", "DOWNLOAD_DELAY", "DOWNLOAD_TIMEOUT"})  # their defaults have none
_LEVELS: Final = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
_COMPONENTS: Final = (
    *("ADDONS", "EXTENSIONS", "ITEM_PIPELINES", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "DOWNLOAD_HANDLERS"),
    *("FEED_STORAGES", "FEED_EXPORTERS", "SCHEDULER", "DOWNLOADER", "DUPEFILTER_CLASS", "STATS_CLASS", "LOG_FORMATTER"),
    *("ROBOTSTXT_PARSER", "REQUEST_FINGERPRINTER_CLASS", "TWISTED_DNS_RESOLVER", "ITEM_PROCESSOR"),
)
# How alike two names are, from 0 to 1 (difflib). LLM_... are hardly names of anybody else's settings.
_ALIKE, _ALIKE_HERE = 0.85, 0.75


@cache
def _defaults() -> Mapping[str, Any]:
    values = {**vars(default_settings), **vars(own_settings)}
    return MappingProxyType({name: value for name, value in values.items() if name.isupper()})


def default_of(name: str) -> Any:
    return _defaults().get(name)


def known_settings() -> frozenset[str]:
    return _WITHOUT_DEFAULT | _defaults().keys()


def near_name(name: str, known: Iterable[str], alike: float = 0.75) -> str | None:
    """Return the name that was probably meant, whatever its case; None where there is no such."""
    by_case = {one.lower().replace("-", "_"): one for one in known}
    near = get_close_matches(name.lower().replace("-", "_"), by_case, n=1, cutoff=alike)
    return by_case[near[0]] if near else None


def hint(name: str, known: Iterable[str], alike: float = 0.75) -> str:
    """Return the question for the name that was probably meant, to stand in an error; "" where there is no such."""
    near = near_name(name, known, alike)
    return f"did you mean {near}? " if near else ""


def check_names(names: Iterable[str], arguments: Iterable[str] = (), where: str = "-s ") -> None:
    """Raise ConfigError for a name that is no setting but looks like one, or like one of the spider's `arguments`.
    Others are settings of the user's own.
    """
    known = known_settings()
    for name in sorted(names):
        if name in known or name.startswith("_"):
            continue
        near = near_name(name, known, _ALIKE_HERE if name.upper().startswith("LLM_") else _ALIKE)
        if near is not None:
            raise ConfigError(f"{where}{name}: no such setting: did you mean {near}?")
        argument = near_name(name, arguments, _ALIKE)
        if argument is not None:
            raise ConfigError(f"{where}{name}: it is not a setting but an argument of the spider: -a {argument}=...")


def check_objects(given: Iterable[str]) -> None:
    """Raise ConfigError for a NAME=VALUE of the command line whose setting is an object, and whose value is no JSON."""
    for one in given:
        name, mark, value = one.partition("=")
        if not mark:
            raise ConfigError(f"-s {one}: write -s NAME=VALUE")
        if isinstance(_defaults().get(name), dict):
            try:
                is_object = isinstance(json.loads(value), dict)
            except ValueError:
                is_object = False
            if not is_object:
                raise ConfigError(f"{name}={value!r}: it is a JSON object, as {{}}")


def check_values(settings: BaseSettings) -> None:
    """Raise ConfigError for a value that Scrapy could not read as what it is: a number, or true or false. Without the
    reactor of asyncio nothing works.
    """
    if not str(settings["TWISTED_REACTOR"]).endswith(".AsyncioSelectorReactor"):
        raise ConfigError(
            f"TWISTED_REACTOR={settings['TWISTED_REACTOR']!r}: it must be Scrapy's default, the asyncio reactor"
        )
    for name, default in _defaults().items():
        if not isinstance(default, (bool, int, float)) or name in _NOT_OF_ITS_DEFAULT:
            continue
        kind = "a whole number" if isinstance(default, int) and name not in _FRACTIONS else "a number"
        read: Any = settings.getint if kind == "a whole number" else settings.getfloat
        if isinstance(default, bool):
            read, kind = settings.getbool, "True or False"
        try:
            if settings.get(name) is not None:
                read(name)
        except (TypeError, ValueError):
            raise ConfigError(f"{name}={settings[name]!r} is not {kind}; the default is {default}") from None


def check_log(settings: BaseSettings) -> None:
    level = settings.get("LOG_LEVEL")
    if not str(level).isdecimal() and str(level) not in logging.getLevelNamesMapping():
        raise ConfigError(f"LOG_LEVEL={level!r}: it is one of {', '.join(_LEVELS)}")
    file = settings.get("LOG_FILE")
    if file and settings.getbool("LOG_ENABLED"):
        try:
            with Path(file).open("a", encoding="utf-8"):
                pass
        except OSError as error:
            raise ConfigError(f"LOG_FILE={file}: it cannot be written: {error.strerror}") from error


def check_paths(settings: BaseSettings, names: Iterable[str] = _COMPONENTS) -> None:
    """Raise ConfigError for a setting that names a class that is not there. It imports them all."""
    for name in names:
        value = settings.get(name)
        paths = [value]
        if isinstance(value, Mapping):  # a path stands before an order, or behind a name
            paths = [key if isinstance(one, int) else one for key, one in value.items() if one is not None]
            # Of ours also those that are off: a mistyped path would switch nothing off.
            paths += [key for key, one in value.items() if one is None and str(key).startswith("llmcrawler.")]
        for path in paths:
            try:
                load_object(path)
            except (ImportError, NameError, TypeError, ValueError) as error:
                raise ConfigError(f"{name}: {path!r} cannot be loaded: {error}") from error
