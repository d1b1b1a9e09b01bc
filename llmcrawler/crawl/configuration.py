"""The settings of a crawl, typed: one class for each group of them, which also builds what they describe.

Defaults and meanings stand in llmcrawler/settings.py. A ConfigError names the wrong setting.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from llmcrawler.core.politeness.bot_auth import resolve_signer
from llmcrawler.core.politeness.proxy_sources import read_countries, resolve_proxies
from llmcrawler.core.politeness.rights import MODES, RESPECT, USES, RightsPolicy, SiteRights
from llmcrawler.core.politeness.rights import OFF as NO_RIGHTS
from llmcrawler.core.politeness.robots import product_token
from llmcrawler.core.processes.cores import usable_cores
from llmcrawler.core.storage import STAGES, TemplatesFile
from llmcrawler.core.storage.job_spec import JobSpec, SessionRules
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageTypes, load_page_types
from llmcrawler.core.understanding.extraction.record_schema import RecordTypes, tries_guesses
from llmcrawler.core.understanding.extraction.records import RecordRules
from llmcrawler.core.understanding.extraction.training_run import TrainingRules
from llmcrawler.core.understanding.site_reader import WorkerRules
from llmcrawler.crawl.arguments import KEEP, ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.setting_checks import default_of, hint
from llmcrawler.errors import ConfigError, require
from llmcrawler.items import Page

if TYPE_CHECKING:
    from llmcrawler.core.llm.batching import BatchRules
    from llmcrawler.core.llm.budget import BudgetLimits
    from llmcrawler.core.llm.call_limits import CallLimits
    from llmcrawler.core.llm.usage import Price
    from llmcrawler.core.politeness.bot_auth import RequestSigner
    from llmcrawler.core.politeness.proxies import BanRules, ProxyPool

SAMPLE_PAGES: Final = "PLAN_SAMPLE_PAGES"  # set by `scrapy plan`
_BATCH_TOKENS: Final = 12_000  # of the pages in one call
OFF: Final = ("", "false", "0", "none", "off")  # how a setting says that something is not wanted
_COMPLAINTS: Final = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), " is not a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), " is not a number"),
    "finite_number": " is out of range: it must be finite",
    "greater_than": " is out of range: more than {gt:g}",
    "greater_than_equal": " is out of range: at least {ge:g}",
    "less_than_equal": " is out of range: at most {le:g}",
    "value_error": "{error}",
}
_FIELD_COMPLAINTS: Final = {
    "content_workers": ": it is auto, or a number of processes that read pages",
    "proxy_ban_statuses": " are not HTTP statuses: write numbers such as 403,407",
    **dict.fromkeys(("feeds", "understanding_fields", "understanding_options"), ": it is a JSON object, as {{}}"),
}
_EXPORTERS: Final = {
    "console": "opentelemetry.sdk.trace.export.ConsoleSpanExporter",
    "otlp": "opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter",
}


def one_of(*known: str) -> BeforeValidator:
    """Accept one of these words, in any case."""

    def check(given: Any) -> str:
        word = "" if given is None else str(given).strip().lower()
        if word not in known:
            raise ValueError(f": {hint(word, known)}it is one of {', '.join(filter(None, known))}")
        return word

    return BeforeValidator(check)


def _flag(given: Any) -> bool:
    if given in ("True", "true", "False", "false"):
        return given in ("True", "true")
    try:
        return bool(int(given))
    except (TypeError, ValueError):
        raise ValueError(" is not True or False") from None


def _local_file(given: Any) -> Path | None:
    if "://" in str(given):
        raise ValueError(": it is a file on this machine, not a url")
    return Path(given).expanduser() if given else None


Text = Annotated[str, BeforeValidator(lambda given: "" if given is None else str(given).strip())]
Flag = Annotated[bool, BeforeValidator(_flag)]
Natural = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dollars = Seconds
_Split = BeforeValidator(lambda given: given.split(",") if isinstance(given, str) and given else given or [])
Names = Annotated[list[Any], _Split]
Table = Annotated[
    dict[Any, Any],
    BeforeValidator(lambda given: json.loads(given) if given and isinstance(given, str) else given or {}),
]
Folder = Annotated[Path | None, BeforeValidator(lambda given: Path(given) if given else None)]
LocalFile = Annotated[Path | None, BeforeValidator(_local_file)]


class SettingsGroup(BaseModel):
    """A group of settings. Each field holds the setting whose name is that of the field in upper case."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    @classmethod
    def of(cls, settings: BaseSettings) -> Self:
        """Read the group. Raises ConfigError for the first wrong value."""
        given = {name: settings.get(name.upper(), default_of(name.upper())) for name in cls.model_fields}
        try:
            return cls.model_validate(given)
        except ValidationError as invalid:
            error = invalid.errors()[0]
            name = str(error["loc"][0])
            complaint = _FIELD_COMPLAINTS.get(name) or _COMPLAINTS.get(error["type"], f": {error['msg']}")
            complaint = complaint.format(**error.get("ctx", {}))
            if complaint.startswith(" is not "):
                complaint += f"; the default is {default_of(name.upper())}"
            raise ConfigError(f"{name.upper()}={given[name]!r}{complaint}") from None


class PolitenessSettings(SettingsGroup):
    user_agent: Text
    robotstxt_user_agent: Text
    robotstxt_obey: Flag
    robots_meta_obey: Flag
    concurrent_requests: Count
    concurrent_requests_per_domain: Count
    download_delay: Seconds
    download_delay_jitter: float
    autothrottle_enabled: Flag
    autothrottle_debug: Flag
    autothrottle_start_delay: float
    autothrottle_max_delay: float
    autothrottle_target_concurrency: float
    throttle_put_backs: Natural
    throttle_breaker_failures: Count
    throttle_breaker_rest_seconds: Seconds
    throttle_breaker_probes: Natural

    @property
    def robots_agent(self) -> str:
        return self.robotstxt_user_agent or self.user_agent

    @property
    def robots_token(self) -> str:
        """The product token by which robots.txt and pages know this crawler."""
        return product_token(self.robots_agent)


class RightsSettings(SettingsGroup):
    rights_policy: Annotated[
        str, one_of(*MODES), BeforeValidator(lambda given: NO_RIGHTS if str(given or "").lower() in OFF else given)
    ]
    crawl_purpose: Annotated[str, one_of("", *USES)]

    @model_validator(mode="after")
    def _has_purpose(self) -> Self:
        if self.rights_policy == RESPECT and not self.crawl_purpose:
            raise ConfigError(f"RIGHTS_POLICY={RESPECT}: for which use? Set CRAWL_PURPOSE to one of {', '.join(USES)}")
        return self


class BotAuthSettings(SettingsGroup):
    bot_auth_key: Text
    bot_auth_agent: Text
    bot_auth_agent_as_string: Flag

    def signer(self) -> RequestSigner | None:
        """Return who signs the crawl's requests; None where nobody does."""
        key = os.environ.get("BOT_AUTH_KEY", "").strip()
        return resolve_signer(self.bot_auth_key, key, self.bot_auth_agent, as_string=self.bot_auth_agent_as_string)


class LimitSettings(SettingsGroup):
    only_hosts: Names
    concurrent_items: Count
    download_timeout: Annotated[float, Field(ge=0.1, allow_inf_nan=False)]
    download_maxsize: Natural
    download_verify_certificates: Flag
    retry_times: Natural
    redirect_max_times: Natural
    stop_seconds: Seconds
    scraper_slot_max_active_size: int
    crawl_max_errors_share: Annotated[float, Field(ge=0, le=1)]


class ProxySettings(SettingsGroup):
    """PROXIES, PROXY_PROVIDER and the settings of the services are read by `resolve_proxies`."""

    proxy_sticky: Flag
    proxy_ban_statuses: Annotated[frozenset[Annotated[int, Field(ge=100, le=599)]], _Split]
    proxy_rest_seconds: Seconds
    proxy_check_names: Flag
    validate_response: Text

    @property
    def bans(self) -> BanRules:
        from llmcrawler.core.politeness.proxies import BanRules

        return BanRules(self.proxy_ban_statuses)

    def validator(self) -> Callable[[Any], Any] | None:
        if not self.validate_response:
            return None
        function = _load("VALIDATE_RESPONSE", self.validate_response)
        if not callable(function):
            kind = type(function).__name__
            raise ConfigError(f"VALIDATE_RESPONSE={self.validate_response!r} is a {kind}, not a function")
        return cast("Callable[[Any], Any]", function)


class RenderSettings(SettingsGroup):
    playwright_executable: Text
    render_wait_seconds: Seconds
    render_scrolls: Natural
    render_clicks: Natural


class MonitoringSettings(SettingsGroup):
    progress: Annotated[str, one_of("auto", "live", "log", "off")]
    progress_log_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    metrics_port: Annotated[int, Field(ge=0, le=65535)]
    metrics_host: Text
    metrics_textfile: LocalFile
    traces: Text

    def check(self, *, is_shared: bool) -> None:
        """Raise ConfigError for a library that is missing, a port that is in use, or a file that cannot be written.
        `is_shared`: there are several workers.
        """
        file = self.metrics_textfile
        if self.metrics_port or file:
            require("prometheus_client", "prometheus", "METRICS_PORT or METRICS_TEXTFILE")
        if self.metrics_port:
            self._check_port()
        if file is not None and is_shared and "%(worker)s" not in file.name:
            raise ConfigError(
                f"METRICS_TEXTFILE={file}: with REDIS_URL each worker writes its own file: name it with "
                "%(worker)s, as in shop-%(worker)s.prom"
            )
        if file is not None and not file.parent.is_dir():
            raise ConfigError(f"METRICS_TEXTFILE={file}: there is no folder {file.parent}")
        self.span_exporter()

    def _check_port(self) -> None:
        family = socket.AF_INET6 if ":" in self.metrics_host else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.metrics_host, self.metrics_port))
        except OSError as error:
            raise ConfigError(
                f"METRICS_PORT={self.metrics_port} is not available on METRICS_HOST={self.metrics_host}: "
                f"{error.strerror or error}; name another, or use METRICS_TEXTFILE, which several crawls at a time can "
                "do"
            ) from error

    def textfile_of(self, worker: str) -> Path | None:
        file = self.metrics_textfile
        return file and file.with_name(file.name.replace("%(worker)s", worker))

    def span_exporter(self) -> Callable[[], Any] | None:
        """Return what makes an OpenTelemetry SpanExporter; None where there are to be no traces."""
        wanted = self.traces
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


class FeedSettings(SettingsGroup):
    feeds: Table
    feed_uri: Text
    feed_tempdir: Any
    csv_neutralise_formulas: Flag
    content_in_feed: Flag

    @property
    def uris(self) -> tuple[str, ...]:
        return tuple(map(str, self.feeds)) or ((self.feed_uri,) if self.feed_uri else ())


class ContentSettings(SettingsGroup):
    content_workers: Literal["auto"] | Natural

    def worker_rules(self) -> WorkerRules:
        if self.content_workers == "auto":
            return WorkerRules(usable_cores() - 1 if hasattr(os, "fork") else 0)
        return WorkerRules(self.content_workers, at_once=True)


class RecordSettings(SettingsGroup):
    record_page_types: Text
    record_min_pages: Count
    record_samples: Count
    record_max_samples: Count
    record_singletons: Flag

    def rules(self, options: ExploreOptions) -> RecordRules:
        types = self.types(options)
        return RecordRules(
            min_pages=self.record_min_pages,
            training=TrainingRules(self.record_samples, self.record_max_samples),
            record_types=types,
            requested=options.wanted,
            goal=options.goal,
            singletons=self.record_singletons,
            tries_guesses=tries_guesses(options.wanted, types),
        )

    def types(self, options: ExploreOptions) -> RecordTypes:
        """Return the page types that have records: those of the user's schema, else RECORD_PAGE_TYPES."""
        if options.wanted is not None and options.wanted.page_types:
            return RecordTypes(False, options.wanted.page_types)
        return RecordTypes.of(self.record_page_types)


class JobSettings(SettingsGroup):
    """JOBDIR or Redis, where a crawl is kept, and what outlives it."""

    jobdir: Folder
    jobdir_force: Flag
    store_bodies: Flag
    max_leases: Count
    redis_url: Text
    crawl_id: Text
    redis_lease_seconds: Annotated[float, Field(ge=3, allow_inf_nan=False)]
    stage_timeout_seconds: Seconds
    page_stages: Names
    templates_file: LocalFile
    feeds: Table

    @property
    def session_rules(self) -> SessionRules:
        return SessionRules(self.redis_url, self.crawl_id, self.redis_lease_seconds, self.max_leases)

    @property
    def templates(self) -> TemplatesFile | None:
        """The file that learned templates are stored in, None for no file."""
        if self.templates_file is not None:
            return TemplatesFile(self.templates_file)
        return None if self.jobdir is None else TemplatesFile(self.jobdir / "templates.json", "JOBDIR")

    @property
    def job_or_crawl(self) -> str:
        """The name of what the crawl is kept in; empty where it is not kept."""
        return str(self.jobdir or self.crawl_id)

    def stages(self) -> dict[str, Callable[[Page], Awaitable[Any]]]:
        """Return the user's own stages by name, in their order."""
        stages: dict[str, Callable[[Page], Awaitable[Any]]] = {}
        for path in self.page_stages:
            function = _load("PAGE_STAGES", path)
            if not asyncio.iscoroutinefunction(function):
                raise ConfigError(f"PAGE_STAGES: {path!r} is not an async function (async def f(page): ...)")
            name = function.__name__
            if name in stages or name in STAGES:
                raise ConfigError(f"PAGE_STAGES: there is a stage named {name!r} already: give it another name")
            stages[name] = function
        return stages

    def spec(self, spider: str, options: ExploreOptions) -> JobSpec:
        known = (*STAGES, *self.stages())
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
            any_arguments=self.jobdir_force,
            retries=options.is_list,
            feeds=tuple(map(str, self.feeds)),
            given=options.given,
        )

    def crawl_name(self, options: ExploreOptions) -> str:
        """Return the label of the crawl's figures, the same every night and at every worker: CRAWL_ID where there is
        REDIS_URL, the name of the JOBDIR, else the first host.
        """
        if self.redis_url:
            return self.crawl_id
        if self.jobdir is not None:
            return self.jobdir.absolute().name
        return urlsplit(options.urls[0]).netloc if options.urls else ""


class CampaignSettings(SettingsGroup):
    campaign_crawls: Natural
    campaign_browsers: Count
    campaign_bundle_sites: Natural
    campaign_retries: Natural
    campaign_retry_seconds: Seconds
    campaign_save_seconds: Seconds


class ItemSettings(SettingsGroup):
    """For items of other projects (docs/parts.md)."""

    understanding_fields: Table
    understanding_keep_html: Flag
    understanding_options: Table

    def options(self) -> ExploreOptions:
        """Return what a crawl is to find where its spider has none of our arguments."""
        given = self.understanding_options
        unknown = sorted(given.keys() - {"page_types", "schema", "fields"})
        if unknown:
            raise ConfigError(f"UNDERSTANDING_OPTIONS: no option {unknown[0]!r}; there are: page_types, schema, fields")
        return ExploreOptions.reading({**given, "duplicates": KEEP})


class ModelSettings(SettingsGroup):
    """The server, its model and their prices are read by `resolve_provider` and `own_prices`."""

    llm_optional: Flag
    llm_fallbacks: Any
    llm_concurrency: Count
    llm_timeout_seconds: Seconds
    llm_batch_pages: Count
    llm_batch_wait_seconds: Seconds
    llm_requests_per_minute: Natural
    llm_tokens_per_minute: Natural
    llm_max_cost_usd: Dollars
    llm_max_tokens: Natural
    llm_budget_file: LocalFile
    llm_budget_url: Text
    llm_cache: Text
    redis_url: Text

    @model_validator(mode="after")
    def _share_in_one_place(self) -> Self:
        if self.llm_budget_file and self.redis_url:
            raise ConfigError(
                "LLM_BUDGET_FILE and REDIS_URL: workers of one crawl share their budget in Redis: leave one out"
            )
        if self.llm_budget_url and (self.redis_url or self.llm_budget_file):
            other = "REDIS_URL" if self.redis_url else "LLM_BUDGET_FILE"
            raise ConfigError(f"LLM_BUDGET_URL and {other}: both say where a budget is shared: leave one out")
        return self

    @property
    def call_limits(self) -> CallLimits:
        from llmcrawler.core.llm.call_limits import CallLimits

        return CallLimits(
            concurrency=self.llm_concurrency,
            timeout_seconds=self.llm_timeout_seconds,
            requests_per_minute=self.llm_requests_per_minute,
            tokens_per_minute=self.llm_tokens_per_minute,
        )

    @property
    def batch_rules(self) -> BatchRules:
        from llmcrawler.core.llm.batching import BatchRules

        return BatchRules(
            max_questions=self.llm_batch_pages,
            max_tokens=_BATCH_TOKENS,
            wait_seconds=self.llm_batch_wait_seconds,
            max_in_flight=self.llm_concurrency,
        )

    def budget_limits(self, price: Price | None, model: str) -> BudgetLimits:
        from llmcrawler.core.llm.budget import BudgetLimits

        if self.llm_max_cost_usd and price is None:
            raise ConfigError(
                f"LLM_MAX_COST_USD={self.llm_max_cost_usd:g}: the price of "
                f"{model or 'the model that the server lists'} is not known; set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT "
                "(US dollars per million tokens), or LLM_MAX_TOKENS instead"
            )
        return BudgetLimits(self.llm_max_tokens, self.llm_max_cost_usd, price)

    def check_for_many_machines(self) -> None:
        """Raise ConfigError where crawls of many machines could not keep to the model's limits together."""
        if self.llm_budget_file:
            raise ConfigError("LLM_BUDGET_FILE is a file on one machine: use LLM_BUDGET_URL for many machines")
        names = ("llm_max_tokens", "llm_max_cost_usd", "llm_requests_per_minute", "llm_tokens_per_minute")
        limited = next((name for name in names if getattr(self, name)), None)
        if limited and not self.llm_budget_url:
            raise ConfigError(
                f"{limited.upper()}: to apply it to many machines, add LLM_BUDGET_URL=redis://HOST/0#NAME"
            )


def check_groups(settings: BaseSettings) -> None:
    for group in SettingsGroup.__subclasses__():
        group.of(settings)


def page_types_of(options: ExploreOptions) -> PageTypes:
    return DEFAULT_PAGE_TYPES if options.page_types is None else load_page_types(options.page_types)


def check_page_types(given: str, names: Sequence[str], options: ExploreOptions) -> None:
    """Refuse a page type that no page will ever have."""
    known = page_types_of(options).names
    unknown = next((name for name in names if name not in known), None)
    if unknown:
        raise ConfigError(f"{given}={','.join(names)}: no page type {unknown!r}; there are: {', '.join(known)}")


def proxies_of(settings: BaseSettings) -> ProxyPool | None:
    provider = resolve_proxies(settings, os.environ)
    if provider is None:
        return None
    from llmcrawler.core.politeness.proxies import PoolRules, ProxyPool

    proxies = ProxySettings.of(settings)
    rules = PoolRules(
        cooldown_seconds=proxies.proxy_rest_seconds,
        sticky=proxies.proxy_sticky,
        countries=read_countries(settings),
    )
    return ProxyPool(provider, rules, clock=time.monotonic)


def rights_of_sites(settings: BaseSettings, options: ExploreOptions) -> SiteRights:
    """Return the table of what hosts say of rights. Where it is only recorded, hosts are asked for files by crawls that
    follow links: three more requests for each single page would be too many. Of what comes from an archive no host is
    asked. A map's lines have no rights.
    """
    rights, politeness = RightsSettings.of(settings), PolitenessSettings.of(settings)
    mode = NO_RIGHTS if isinstance(options, MapOptions) else rights.rights_policy
    is_archive = isinstance(options, ExtractOptions) and options.is_archive
    is_large = not options.is_list and options.depth != 0 and options.max_pages > 1
    return SiteRights(
        RightsPolicy(mode, rights.crawl_purpose or None),
        politeness.robots_token,
        reads_files=not is_archive and (mode == RESPECT or (is_large and not settings.getint(SAMPLE_PAGES))),
        reads_robots=not politeness.robotstxt_obey,
    )


def _load(name: str, path: str) -> Any:
    try:
        return load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"{name}={path!r} is not the path of a function: {error}") from error
