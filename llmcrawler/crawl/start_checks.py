"""Checks settings and arguments before the first request."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from scrapy.settings import BaseSettings

from llmcrawler.core.llm.embedded import explicit_model
from llmcrawler.core.understanding import template_store
from llmcrawler.core.understanding.classification import SiteVerdicts
from llmcrawler.core.understanding.extraction import RecordValidator, read_learners
from llmcrawler.core.urls import Scope
from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.configuration import (
    bans_of,
    check_page_types,
    distributed_rules,
    job_spec_of,
    load_validator,
    number,
    progress_mode,
    proxies_of,
    templates_file,
    worker_rules,
)
from llmcrawler.crawl.feed_settings import check_feed_settings
from llmcrawler.crawl.job import check_job
from llmcrawler.crawl.job_spec import JobSpec
from llmcrawler.crawl.manners import rights_policy, signer_of
from llmcrawler.crawl.model_settings import check_shared_budget, model_of
from llmcrawler.crawl.monitoring import check_monitoring
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.crawl.setting_checks import check_values
from llmcrawler.errors import ConfigError, require

# How the parts of a site in the file of learned templates are read.
_READERS: dict[str, template_store.Reader] = {
    "verdicts": lambda _site, value, origin: SiteVerdicts.from_json(value, origin),
    "records": read_learners,
}

_MINIMA: Mapping[float, str] = {
    0: """DOWNLOAD_DELAY STOP_SECONDS JOBDIR_SYNC_SECONDS STAGE_TIMEOUT_SECONDS RECORD_MAX_RELEARNED LLM_TIMEOUT_SECONDS
        LLM_BATCH_TOKENS LLM_BATCH_WAIT_SECONDS LLM_BATCH_PATIENT_SECONDS RENDER_WAIT_SECONDS RENDER_SCROLLS
        RENDER_CLICKS THROTTLE_PUT_BACKS THROTTLE_BREAKER_REST_SECONDS THROTTLE_BREAKER_PROBES RETRY_TIMES
        REDIRECT_MAX_TIMES DOWNLOAD_MAXSIZE CAMPAIGN_CRAWLS CAMPAIGN_BUNDLE_SITES CAMPAIGN_RETRIES
        CAMPAIGN_RETRY_SECONDS CAMPAIGN_SAVE_SECONDS""",
    0.1: "DOWNLOAD_TIMEOUT",
    1: """CONCURRENT_REQUESTS_PER_DOMAIN THROTTLE_BREAKER_FAILURES LEASE_SECONDS MAX_LEASES LLM_BATCH_PAGES
        LLM_CONCURRENCY LLM_MAX_ATTEMPTS CONTENT_INLINE_CHARS RENDER_CONTEXT_PAGES RECORD_MIN_PAGES
        CAMPAIGN_BROWSERS RECORD_LEARN_PAGES RECORD_SAMPLES RECORD_MAX_SAMPLES CONCURRENT_REQUESTS CONCURRENT_ITEMS""",
    3: "REDIS_LEASE_SECONDS",
    200: "RECORD_SAMPLE_TOKENS",
}


def check(settings: BaseSettings, options: ExploreOptions, spider: str) -> None:
    """Raise ConfigError for a setting or an argument that a crawl could not be built from."""
    check_numbers(settings)
    Scope(options.urls, allow=options.allow, deny=options.deny, max_depth=options.depth)
    check_page_types("goal", options.goal, options)
    model = model_of(settings)
    check_shared_budget(settings)
    if model is not None and model.is_embedded and not model.is_optional:
        require("xllamacpp", "embedded", "LLM_PROVIDER=embedded")
    if model is not None and model.is_embedded and settings.get("LLM_EMBEDDED_MODEL"):
        explicit_model(settings["LLM_EMBEDDED_MODEL"])
    if options.wanted is not None:
        RecordValidator(options.wanted.schema)
    proxies = proxies_of(settings)
    if options.has_countries and proxies is None:
        raise ConfigError("tasks: they name countries, and there are no proxies to choose from: see docs/proxies.md")
    bans_of(settings)
    worker_rules(settings)
    signer_of(settings)
    load_validator(settings)
    progress_mode(settings)
    rights_policy(settings)
    check_monitoring(settings)
    check_feed_settings(settings, options)
    browser = settings.get("PLAYWRIGHT_EXECUTABLE")
    if browser and options.render != NEVER and shutil.which(browser) is None:
        raise ConfigError(f"PLAYWRIGHT_EXECUTABLE={browser}: no such program")
    spec = job_spec_of(settings, spider, options)
    if settings.get("REDIS_URL"):
        require("redis", "redis", "REDIS_URL")
        _check_distributed(settings, spec, options)
    elif settings.get("JOBDIR"):
        check_job(Path(settings["JOBDIR"]), spec)
    elif spec.stages or options.refresh:
        given = f"force={','.join(options.force)}" if spec.stages else "refresh=1"
        raise ConfigError(f"{given}: there is nothing to go through again without a JOBDIR: add -s JOBDIR=FOLDER")
    file = templates_file(settings)
    if file is not None:
        template_store.check(file, options.urls, _READERS)


def check_numbers(settings: BaseSettings) -> None:
    """Raise ConfigError for a value of another type than its setting's, or a number less than its minimum."""
    check_values(settings)
    for minimum, names in _MINIMA.items():
        for name in names.split():
            number(settings, name, minimum)


def _check_distributed(settings: BaseSettings, spec: JobSpec, options: ExploreOptions) -> None:
    if settings.get("JOBDIR"):
        raise ConfigError("REDIS_URL and JOBDIR: a crawl is kept in one of them; leave the other out")
    if isinstance(options, MapOptions):
        raise ConfigError("REDIS_URL: a map is made by one worker, which reads the site's lists: leave it out")
    if isinstance(options, ExtractOptions) and options.listed is not None and options.listed.kind in ("tasks", "warc"):
        raise ConfigError(
            "REDIS_URL: tasks and archives are for one worker, with a JOBDIR; a list of urls may be shared"
        )
    if options.max_pages_per_site is not None:
        raise ConfigError("max_pages_per_site is counted by one worker: leave it out, or REDIS_URL")
    if spec.stages or options.refresh:
        raise ConfigError("force and refresh go through a crawl again that was kept in a JOBDIR: leave REDIS_URL out")
    for uri in settings.getdict("FEEDS"):
        if "%(worker)s" not in str(uri) and not str(uri).startswith("stdout:"):
            raise ConfigError(
                f"FEEDS {uri}: with REDIS_URL each worker writes a feed of its own: name it with %(worker)s, as in "
                "-O pages-%(worker)s.jsonl"
            )
    from llmcrawler.crawl.distributed_session import check_session  # noqa: PLC0415 - redis takes 0.14 s to load

    check_session(distributed_rules(settings), spec)
