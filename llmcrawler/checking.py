"""What is wrong with settings and arguments, before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scrapy.settings import BaseSettings

from llmcrawler import learned
from llmcrawler.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.classification import SiteVerdicts
from llmcrawler.configuration import (
    at_least,
    bans_of,
    crew_rules,
    job_wish,
    load_validator,
    model_of,
    page_types_of,
    progress_mode,
    proxies_of,
    templates_file,
)
from llmcrawler.errors import ConfigError
from llmcrawler.extraction import Validator, read_learners
from llmcrawler.feeds import check_feed
from llmcrawler.job import check_job
from llmcrawler.job_spec import Wish
from llmcrawler.monitoring import check_monitoring
from llmcrawler.storage.folder import JOB_FILE
from llmcrawler.urls import Scope

# What the file of learned templates has to hold for the parts of `Crawl.learned`.
_READERS: dict[str, learned.Reader] = {
    "verdicts": lambda _site, value, origin: SiteVerdicts.from_json(value, origin),
    "records": read_learners,
}

_MINIMA: Mapping[str, float] = {
    **dict.fromkeys(("LLM_BATCH_PAGES", "LLM_CONCURRENCY", "LLM_MAX_ATTEMPTS", "CONTENT_INLINE_CHARS"), 1),
    **dict.fromkeys(("LLM_BATCH_TOKENS", "LLM_BATCH_WAIT_SECONDS", "LLM_BATCH_PATIENT_SECONDS"), 0),
    **dict.fromkeys(("RECORD_MIN_PAGES", "RECORD_LEARN_PAGES", "RECORD_SAMPLES", "RECORD_MAX_SAMPLES"), 1),
    **dict.fromkeys(("CONCURRENT_REQUESTS_PER_DOMAIN", "THROTTLE_BREAKER_FAILURES", "LEASE_SECONDS", "MAX_LEASES"), 1),
    **dict.fromkeys(("DOWNLOAD_DELAY", "THROTTLE_PUT_BACKS", "THROTTLE_BREAKER_REST_SECONDS"), 0),
    **dict.fromkeys(("THROTTLE_BREAKER_PROBES", "JOBDIR_SYNC_SECONDS", "STAGE_TIMEOUT_SECONDS"), 0),
    **dict.fromkeys(("RENDER_WAIT_SECONDS", "RENDER_SCROLLS", "RENDER_CLICKS"), 0),
    "RENDER_CONTEXT_PAGES": 1,
    "LLM_TIMEOUT_SECONDS": 0,
    "REDIS_LEASE_SECONDS": 3,
    "RECORD_MAX_RELEARNED": 0,
    "RECORD_SAMPLE_TOKENS": 200,
}


def check(settings: BaseSettings, options: ExploreOptions, spider: str) -> None:
    """Raises ConfigError for a setting or an argument that a crawl could not be built from."""
    Scope(options.urls, allow=options.allow, deny=options.deny, max_depth=options.depth)
    _check_goal(options)
    model_of(settings)
    if options.wanted is not None:
        Validator(options.wanted.schema)
    proxies_of(settings)
    if options.has_countries and proxies_of(settings) is None:
        raise ConfigError("tasks: they name countries, and there are no proxies to choose from: see docs/proxies.md")
    bans_of(settings)
    load_validator(settings)
    progress_mode(settings)
    check_monitoring(settings)
    for name, minimum in _MINIMA.items():
        at_least(settings, name, minimum)
    _check_feeds(settings)
    wish = job_wish(settings, spider, options)
    if settings.get("REDIS_URL"):
        _check_crew(settings, wish, options)
    elif settings.get("JOBDIR"):
        check_job(Path(settings["JOBDIR"]), wish)
    elif wish.stages:
        raise ConfigError(f"force={','.join(options.force)}: there is nothing to run again without a JOBDIR")
    file = templates_file(settings)
    if file is not None:
        learned.check(file, options.urls, _READERS)


def _check_crew(settings: BaseSettings, wish: Wish, options: ExploreOptions) -> None:
    if settings.get("JOBDIR"):
        raise ConfigError("REDIS_URL and JOBDIR: a crawl is kept in one of them; leave the other out")
    if isinstance(options, MapOptions):
        raise ConfigError("REDIS_URL: a map is made by one worker, which reads the site's lists: leave it out")
    if isinstance(options, ExtractOptions) and options.listed is not None and options.listed.kind == "tasks":
        raise ConfigError("REDIS_URL: a list of tasks is for one worker, with a JOBDIR; a list of urls may be shared")
    if wish.stages or options.refresh:
        raise ConfigError("force and refresh go through a crawl again that was kept in a JOBDIR: leave REDIS_URL out")
    for uri in settings.getdict("FEEDS"):
        if "%(worker)s" not in str(uri) and not str(uri).startswith("stdout:"):
            raise ConfigError(
                f"FEEDS {uri}: with REDIS_URL each worker writes a feed of its own: name it with %(worker)s, as in "
                "-O pages-%(worker)s.jsonl"
            )
    from llmcrawler.crew import check_crew  # noqa: PLC0415 - redis takes 0.14 s to load

    check_crew(crew_rules(settings), wish)


def _check_goal(options: ExploreOptions) -> None:
    """Raises ConfigError for a page type that no page will ever have."""
    known = page_types_of(options)
    unknown = [name for name in options.goal if name not in known.names]
    if unknown:
        raise ConfigError(
            f"goal={','.join(options.goal)}: no page type {unknown[0]!r}; there are: {', '.join(known.names)}"
        )


def _check_feeds(settings: BaseSettings) -> None:
    job = settings.get("JOBDIR")
    for uri, feed in settings.getdict("FEEDS").items():
        check_feed(
            str(uri),
            str(feed.get("format")),
            overwrite=bool(feed.get("overwrite")),
            goes_on=bool(job) and (Path(job) / JOB_FILE).exists(),
            is_processed=bool(feed.get("postprocessing")),
        )
