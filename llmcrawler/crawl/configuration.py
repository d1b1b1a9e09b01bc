"""Builds values and parts of a crawl from its settings and arguments. A ConfigError names the one that is wrong."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from llmcrawler.core.frontier import FocusedCrawl, LinkScorer, MemoryFrontier
from llmcrawler.core.politeness.proxies import BanRules, PoolRules, ProxyPool
from llmcrawler.core.politeness.proxy_sources import read_countries, resolve_proxies
from llmcrawler.core.processes.cores import usable_cores
from llmcrawler.core.storage import STAGES, TemplatesFile
from llmcrawler.core.understanding.classification import DEFAULT_PAGE_TYPES, PageTypes, load_page_types
from llmcrawler.core.understanding.extraction import RecordTypes
from llmcrawler.core.understanding.site_reader import WorkerRules
from llmcrawler.crawl.argument_types import KEEP
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.job_spec import JobRules, JobSpec, SessionRules
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page

_PROGRESS_MODES = ("auto", "live", "log", "off")
OFF = ("", "false", "0", "none", "off")  # how a setting says that something is not wanted


def number(settings: BaseSettings, name: str, minimum: float, maximum: float = math.inf) -> float:
    """Return a setting as a finite number from `minimum` to `maximum`."""
    try:
        value = float(settings[name])
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={settings[name]!r} is not a number") from None
    if not minimum <= value <= maximum or math.isinf(value):
        bounds = f"at least {minimum:g}" if math.isinf(maximum) else f"from {minimum:g} to {maximum:g}"
        raise ConfigError(f"{name}={settings[name]!r} is out of range: {bounds}")
    return value


def load_named(name: str, path: str) -> Any:
    """Import what a setting names by its path."""
    try:
        return load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"{name}={path!r} is no path of a function: {error}") from error


def distributed_rules(settings: BaseSettings) -> SessionRules:
    return SessionRules(
        str(settings["REDIS_URL"]),
        str(settings.get("CRAWL_ID") or ""),
        lease_seconds=settings.getfloat("REDIS_LEASE_SECONDS"),
        max_leases=settings.getint("MAX_LEASES"),
    )


def progress_mode(settings: BaseSettings) -> str:
    mode = str(settings.get("PROGRESS", "auto")).lower()
    if mode not in _PROGRESS_MODES:
        raise ConfigError(f"PROGRESS={settings['PROGRESS']!r}: it is one of {', '.join(_PROGRESS_MODES)}")
    return mode


def errors_share(settings: BaseSettings) -> float:
    """Return the share of pages with errors, in 0..1, above which the crawl's exit status says so."""
    return number(settings, "CRAWL_MAX_ERRORS_SHARE", 0, 1)


def load_stages(settings: BaseSettings) -> dict[str, Callable[[Page], Awaitable[Any]]]:
    """Return the user's own stages by name, in their order."""
    stages: dict[str, Callable[[Page], Awaitable[Any]]] = {}
    for path in settings.getlist("PAGE_STAGES"):
        function = load_named("PAGE_STAGES", path)
        if not asyncio.iscoroutinefunction(function):
            raise ConfigError(f"PAGE_STAGES: {path!r} is no async function (async def f(page): ...)")
        name = function.__name__
        if name in stages or name in STAGES:
            raise ConfigError(f"PAGE_STAGES: there is a stage named {name!r} already: give it another name")
        stages[name] = function
    return stages


def load_validator(settings: BaseSettings) -> Callable[[Any], Any] | None:
    """Return the function that VALIDATE_RESPONSE names."""
    path = settings.get("VALIDATE_RESPONSE")
    if not path:
        return None
    validator: Callable[[Any], Any] = load_named("VALIDATE_RESPONSE", path)
    if not callable(validator):
        raise ConfigError(f"VALIDATE_RESPONSE={path!r} is a {type(validator).__name__}, and no function")
    return validator


def foreign_options(settings: BaseSettings) -> ExploreOptions:
    """Return what a crawl is to find where its spider has none of our arguments (UNDERSTANDING_OPTIONS)."""
    given = settings.getdict("UNDERSTANDING_OPTIONS")
    unknown = sorted(given.keys() - {"page_types", "schema", "fields"})
    if unknown:
        raise ConfigError(f"UNDERSTANDING_OPTIONS: no option {unknown[0]!r}; there are: page_types, schema, fields")
    return ExploreOptions.reading({**given, "duplicates": KEEP})


def page_types_of(options: ExploreOptions) -> PageTypes:
    return DEFAULT_PAGE_TYPES if options.page_types is None else load_page_types(options.page_types)


def check_page_types(given: str, names: Sequence[str], options: ExploreOptions) -> None:
    """Refuse a page type that no page will ever have."""
    known = page_types_of(options).names
    unknown = next((name for name in names if name not in known), None)
    if unknown:
        raise ConfigError(f"{given}={','.join(names)}: no page type {unknown!r}; there are: {', '.join(known)}")


def focused_crawl_of(options: ExploreOptions, record_types: RecordTypes) -> FocusedCrawl | None:
    if not options.goal:
        return None
    scorer = LinkScorer(options.goal)
    return FocusedCrawl(scorer, max_records=options.max_records, clock=time.monotonic, record_types=record_types)


def worker_rules(settings: BaseSettings) -> WorkerRules:
    """Return how many processes read pages beside the crawl's. Raises ConfigError for no such number."""
    value = settings["CONTENT_WORKERS"]
    if value == "auto":
        return WorkerRules(usable_cores() - 1 if hasattr(os, "fork") else 0)
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if count < 0:
        raise ConfigError(f"CONTENT_WORKERS={value!r}: it is auto, or how many processes read pages beside the crawl's")
    return WorkerRules(count, at_once=True)


def local_file(settings: BaseSettings, name: str) -> Path | None:
    """Return the file on this machine that a setting names, if any."""
    where = str(settings.get(name) or "")
    if "://" in where:
        raise ConfigError(f"{name}={where}: it is a file on this machine, not a url")
    return Path(where).expanduser() if where else None


def templates_file(settings: BaseSettings) -> TemplatesFile | None:
    """Return where a crawl keeps what it learns, if anywhere."""
    where, job = local_file(settings, "TEMPLATES_FILE"), str(settings.get("JOBDIR") or "")
    if where is not None:
        return TemplatesFile(where)
    return TemplatesFile(Path(job) / "templates.json", "JOBDIR") if job else None


def proxies_of(settings: BaseSettings) -> ProxyPool | None:
    provider = resolve_proxies(settings, os.environ)
    if provider is None:
        return None
    number(settings, "PROXY_TRIAL_SECONDS", 0)
    rules = PoolRules(
        max_faults=int(number(settings, "PROXY_MAX_FAULTS", 1)),
        cooldown_seconds=number(settings, "PROXY_REST_SECONDS", 0),
        max_switches=int(number(settings, "PROXY_MAX_SWITCHES", 1)),
        sticky=settings.getbool("PROXY_STICKY"),
        countries=read_countries(settings),
    )
    return ProxyPool(provider, rules, clock=time.monotonic)


def bans_of(settings: BaseSettings) -> BanRules:
    """Return what of a response says that its proxy is banned."""
    statuses = settings.getlist("PROXY_BAN_STATUSES")
    try:
        codes = frozenset(int(status) for status in statuses)
    except (TypeError, ValueError):
        codes = frozenset({0})
    if not all(100 <= code <= 599 for code in codes):
        raise ConfigError(f"PROXY_BAN_STATUSES={statuses!r} are no HTTP statuses: write numbers such as 403,407")
    return BanRules(codes, tuple(str(mark) for mark in settings.getlist("PROXY_BAN_MARKS") if str(mark).strip()))


def job_spec_of(settings: BaseSettings, spider: str, options: ExploreOptions) -> JobSpec:
    known = (*STAGES, *load_stages(settings))
    unknown = set(options.force) - {*known, "all"}
    if unknown:
        raise ConfigError(
            f"force={','.join(options.force)}: no stage {min(unknown)!r}; there are: {', '.join(known)}, all"
        )
    return JobSpec(
        spider,
        options.identity(),
        known[1:] if "all" in options.force else tuple(name for name in known if name in options.force),
        options.refresh,
        any_arguments=settings.getbool("JOBDIR_FORCE"),
        retries=options.is_list,
        keys=options.keys,
        feeds=tuple(map(str, settings.getdict("FEEDS"))),
    )


def job_rules(settings: BaseSettings) -> JobRules:
    return JobRules(
        sync_seconds=settings.getfloat("JOBDIR_SYNC_SECONDS"),
        keep_bodies=settings.getbool("STORE_BODIES"),
        lease_seconds=settings.getfloat("LEASE_SECONDS"),
        max_leases=settings.getint("MAX_LEASES"),
    )


def memory_frontier(settings: BaseSettings) -> MemoryFrontier:
    return MemoryFrontier(lease_seconds=settings.getfloat("LEASE_SECONDS"), max_leases=settings.getint("MAX_LEASES"))


def record_types_of(settings: BaseSettings, options: ExploreOptions) -> RecordTypes:
    """Return the page types that have records: those of the user's schema, else RECORD_PAGE_TYPES."""
    if options.wanted is not None and options.wanted.page_types:
        return RecordTypes(False, options.wanted.page_types)
    return RecordTypes.of(str(settings.get("RECORD_PAGE_TYPES") or ""))
