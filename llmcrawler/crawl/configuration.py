"""Builds values and parts of a crawl from its settings and arguments. A ConfigError names the one that is wrong."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from llmcrawler.core.politeness.bot_auth import RequestSigner, resolve_signer
from llmcrawler.core.politeness.proxies import BanRules, PoolRules, ProxyPool
from llmcrawler.core.politeness.proxy_sources import read_countries, resolve_proxies
from llmcrawler.core.politeness.rights import MODES, RESPECT, USES, RightsPolicy, SiteRights
from llmcrawler.core.politeness.rights import OFF as NO_RIGHTS
from llmcrawler.core.politeness.robots import PageRobots, product_token
from llmcrawler.core.processes.cores import usable_cores
from llmcrawler.core.reporting.planning.site_sample import SAMPLE_PAGES
from llmcrawler.core.storage import STAGES, TemplatesFile
from llmcrawler.core.storage.job_spec import JobSpec, SessionRules
from llmcrawler.core.understanding.classification import DEFAULT_PAGE_TYPES, PageTypes, load_page_types
from llmcrawler.core.understanding.extraction import RecordTypes
from llmcrawler.core.understanding.site_reader import WorkerRules
from llmcrawler.crawl.arguments import KEEP, ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.setting_checks import hint
from llmcrawler.errors import ConfigError, require
from llmcrawler.items import Page, StageRun

_PROGRESS_MODES: Final = ("auto", "live", "log", "off")
OFF: Final = ("", "false", "0", "none", "off")  # how a setting says that something is not wanted
_EXPORTERS: Final = {
    "console": "opentelemetry.sdk.trace.export.ConsoleSpanExporter",
    "otlp": "opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter",
}


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


def record_types_of(settings: BaseSettings, options: ExploreOptions) -> RecordTypes:
    """Return the page types that have records: those of the user's schema, else RECORD_PAGE_TYPES."""
    if options.wanted is not None and options.wanted.page_types:
        return RecordTypes(False, options.wanted.page_types)
    return RecordTypes.of(str(settings.get("RECORD_PAGE_TYPES") or ""))


def own_token(settings: BaseSettings) -> str:
    """Return the product token by which robots.txt and pages know this crawler."""
    return product_token(str(settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"] or ""))


def page_robots_of(settings: BaseSettings) -> PageRobots:
    """Return the reader of what pages say to this crawler."""
    return PageRobots(own_token(settings), settings.getbool("ROBOTS_META_OBEY"))


def rights_policy(settings: BaseSettings) -> RightsPolicy:
    """Return what is done with the rights that sites declare."""
    mode, purpose = (str(settings.get(name) or "").strip().lower() for name in ("RIGHTS_POLICY", "CRAWL_PURPOSE"))
    mode = NO_RIGHTS if mode in OFF else mode
    for name, value, known in (("RIGHTS_POLICY", mode, MODES), ("CRAWL_PURPOSE", purpose, ("", *USES))):
        if value not in known:
            known_names = ", ".join(filter(None, known))
            raise ConfigError(f"{name}={settings[name]!r}: {hint(value, known)}it is one of {known_names}")
    if mode == RESPECT and not purpose:
        raise ConfigError(f"RIGHTS_POLICY={RESPECT}: for which use? Say so with CRAWL_PURPOSE: {', '.join(USES)}")
    return RightsPolicy(mode, purpose or None)


def rights_of_sites(settings: BaseSettings, options: ExploreOptions) -> SiteRights:
    """Return the table of what hosts say of rights. Where it is only recorded, hosts are asked for files by crawls that
    follow links: three more requests for each single page would be too many. Of what
    comes from an archive no host is asked. A map's lines have no rights.
    """
    policy = RightsPolicy(NO_RIGHTS) if isinstance(options, MapOptions) else rights_policy(settings)
    is_archive = isinstance(options, ExtractOptions) and options.is_archive
    is_large = not options.is_list and options.depth != 0 and options.max_pages > 1
    return SiteRights(
        policy,
        own_token(settings),
        reads_files=not is_archive and (policy.mode == RESPECT or (is_large and not settings.getint(SAMPLE_PAGES))),
        reads_robots=not settings.getbool("ROBOTSTXT_OBEY"),
    )


def signer_of(settings: BaseSettings) -> RequestSigner | None:
    """Return who signs the crawl's requests; None where nobody does."""
    name = "BOT_AUTH_KEY"
    return resolve_signer(
        str(settings.get(name) or "").strip(),
        os.environ.get(name, "").strip(),
        str(settings.get("BOT_AUTH_AGENT") or "").strip(),
        as_string=settings.getbool("BOT_AUTH_AGENT_AS_STRING"),
    )


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """The endpoint and the file that metrics go to. `port` 0: no endpoint; `textfile` None: no file; the name of a file
    has `%(worker)s` where workers share the crawl.
    """

    port: int
    host: str
    textfile: Path | None

    def of(self, worker: str) -> Self:
        """Return the place of a worker's metrics."""
        file = self.textfile
        return self if file is None else replace(self, textfile=file.with_name(file.name.replace("%(worker)s", worker)))


def check_monitoring(settings: BaseSettings) -> None:
    """Raise ConfigError for a wrong setting, a library that is missing, or a port that is in use."""
    place = metrics_place(settings)
    if place is not None:
        require("prometheus_client", "prometheus", "METRICS_PORT or METRICS_TEXTFILE")
        if place.port:
            _check_free(place)
        if place.textfile is not None and settings.get("REDIS_URL") and "%(worker)s" not in place.textfile.name:
            raise ConfigError(
                f"METRICS_TEXTFILE={place.textfile}: with REDIS_URL each worker writes a file of its own: name it with "
                "%(worker)s, as in shop-%(worker)s.prom"
            )
        if place.textfile is not None and not place.textfile.parent.is_dir():
            raise ConfigError(f"METRICS_TEXTFILE={place.textfile}: there is no folder {place.textfile.parent}")
    span_exporter(settings)


def metrics_place(settings: BaseSettings) -> MetricsPlace | None:
    """Return where metrics go; None where nobody wants them."""
    given, file = settings.get("METRICS_PORT") or 0, str(settings.get("METRICS_TEXTFILE") or "")
    try:
        port = int(given)
    except (TypeError, ValueError):
        port = -1
    if not 0 <= port <= 65535:
        raise ConfigError(f"METRICS_PORT={given!r} is no port")
    if not port and not file:
        return None
    return MetricsPlace(port, str(settings.get("METRICS_HOST") or ""), Path(file).expanduser() if file else None)


def span_exporter(settings: BaseSettings) -> Callable[[], Any] | None:
    """Return what makes an OpenTelemetry SpanExporter; None where there are to be no traces."""
    wanted = str(settings.get("TRACES") or "")
    if wanted.lower() in OFF:
        return None
    require("opentelemetry.sdk.trace", "opentelemetry", "TRACES")
    if wanted == "otlp":
        require("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry", "TRACES=otlp")
    try:
        made: Callable[[], Any] = load_object(_EXPORTERS.get(wanted, wanted))
    except (ImportError, NameError, ValueError) as error:
        names = ", ".join(sorted(_EXPORTERS))
        raise ConfigError(f"TRACES={wanted!r}: it is {names}, or the path of a SpanExporter: {error}") from error
    return made


def crawl_name(settings: BaseSettings, options: ExploreOptions) -> str:
    """Return the label of the crawl's figures, the same every night and at every worker: CRAWL_ID where there is
    REDIS_URL, the name of the JOBDIR, else the first host.
    """
    if settings.get("REDIS_URL"):
        return str(settings.get("CRAWL_ID"))
    job = settings.get("JOBDIR")
    if job:
        return Path(job).absolute().name
    return urlsplit(options.urls[0]).netloc if options.urls else ""


def runs_since(stages: Mapping[str, StageRun], started: float) -> dict[str, StageRun]:
    """Return the stages that ran since `started`: a page of a resumed crawl has those of earlier runs too."""
    return {name: run for name, run in stages.items() if run.status != "skipped" and run.started >= started}


def _check_free(place: MetricsPlace) -> None:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((place.host, place.port))
    except OSError as error:
        raise ConfigError(
            f"METRICS_PORT={place.port} cannot be had on METRICS_HOST={place.host}: {error.strerror or error}; name "
            "another, or use METRICS_TEXTFILE, which several crawls at a time can do"
        ) from error
