"""Checks settings, arguments and feeds before the first request, and names a feed where the user named none."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from scrapy.settings import BaseSettings

from llmcrawler.core.storage.feeds.feed_checks import MARKDOWN, RECORDS, RIGHTS, WARC, check_feed, page_types_of_feed
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.job_spec import JobSpec
from llmcrawler.core.understanding import template_store
from llmcrawler.core.understanding.classification.template_samples import SiteVerdicts
from llmcrawler.core.understanding.extraction.learner import read_learners
from llmcrawler.core.understanding.extraction.record_schema import RecordValidator
from llmcrawler.core.understanding.templates.duplicates import DUPLICATES, read_duplicates
from llmcrawler.core.urls import Scope
from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.configuration import (
    BotAuthSettings,
    FeedSettings,
    JobSettings,
    ModelSettings,
    MonitoringSettings,
    ProxySettings,
    RenderSettings,
    check_groups,
    check_page_types,
    proxies_of,
)
from llmcrawler.crawl.model_building import check_shared_budget, model_of
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.crawl.setting_checks import check_values, hint
from llmcrawler.errors import ConfigError, is_installed, require
from llmcrawler.items import Page, Template, Url

CHOSEN_PRIORITY: Final = 1  # of FEEDS: more than a default, less than whatever a user or an add-on sets
_OTHER: Final = re.compile(r"[^\w.-]+")
_LIBRARIES: Final = {"s3": ("boto3", "boto3"), "gs": ("google.cloud.storage", "google-cloud-storage")}
_FLAT: Final = ("csv", "documents", "markdown")  # their fields may be parts, as record.price
_OBJECTS: Final = ("record", "results", "meta", "error")  # fields of a page that have parts
_ALL_LINES: Final = ("json", "jsonlines", "jsonl", "jl", "xml")  # those of templates too
# How the parts of a site in the file of learned templates are read.
_READERS: dict[str, template_store.Reader] = {
    "verdicts": lambda _site, value, origin: SiteVerdicts.from_json(value, origin),
    "records": read_learners,
    DUPLICATES: lambda _site, value, _origin: read_duplicates(value),
}


def check(settings: BaseSettings, options: ExploreOptions, spider: str) -> None:
    check_settings(settings)
    kept = JobSettings.of(settings)
    Scope(options.urls, allow=options.allow, deny=options.deny, max_depth=options.depth)
    check_page_types("goal", options.goal, options)
    model_of(settings)
    check_shared_budget(ModelSettings.of(settings))
    if options.wanted is not None:
        RecordValidator(options.wanted.schema)
    if proxies_of(settings) is None and options.has_countries:
        raise ConfigError("tasks: they name countries, but there are no proxies to choose from: see docs/proxies.md")
    ProxySettings.of(settings).validator()
    BotAuthSettings.of(settings).signer()
    MonitoringSettings.of(settings).check(is_shared=bool(kept.redis_url))
    check_feed_settings(settings, options)
    browser = RenderSettings.of(settings).playwright_executable
    if browser and options.render != NEVER and shutil.which(browser) is None:
        raise ConfigError(f"PLAYWRIGHT_EXECUTABLE={browser}: no such program")
    spec = kept.spec(spider, options)
    if kept.redis_url:
        require("redis", "redis", "REDIS_URL")
        _check_distributed(kept, spec, options)
    elif kept.jobdir is not None:
        from llmcrawler.crawl.job import check_job

        check_job(kept.jobdir, spec)
    elif spec.stages or options.refresh:
        given = f"force={','.join(options.force)}" if spec.stages else "refresh=1"
        raise ConfigError(f"{given}: nothing can be repeated without a JOBDIR: add -s JOBDIR=FOLDER")
    if kept.templates is not None:
        template_store.check(kept.templates, options.urls, _READERS)


def check_settings(settings: BaseSettings) -> None:
    """Raise ConfigError for a value of another type than its setting's, or one out of its range."""
    check_values(settings)
    check_groups(settings)


def _check_distributed(kept: JobSettings, spec: JobSpec, options: ExploreOptions) -> None:
    if kept.jobdir is not None:
        raise ConfigError("REDIS_URL and JOBDIR: a crawl is stored in one of them; leave the other out")
    if isinstance(options, MapOptions):
        raise ConfigError("REDIS_URL: a map runs in one worker: leave it out")
    if isinstance(options, ExtractOptions) and options.listed is not None and options.listed.kind in ("tasks", "warc"):
        raise ConfigError(
            "REDIS_URL: tasks and archives run in one worker, with a JOBDIR; a list of URLs can be shared"
        )
    if options.max_pages_per_site is not None:
        raise ConfigError("max_pages_per_site works in one worker only: leave it out, or REDIS_URL")
    if spec.stages or options.refresh:
        raise ConfigError("force and refresh need a crawl stored in a JOBDIR: leave REDIS_URL out")
    for uri in spec.feeds:
        if "%(worker)s" not in uri and not uri.startswith("stdout:"):
            raise ConfigError(
                f"FEEDS {uri}: with REDIS_URL each worker writes its own feed: name it with %(worker)s, as in "
                "-O pages-%(worker)s.jsonl"
            )
    from llmcrawler.fleet.session import check_session  # redis takes 0.14 s to load

    check_session(kept.session_rules, spec)


def check_feed_settings(settings: BaseSettings, options: ExploreOptions) -> None:
    """Raise ConfigError for a feed that could not be written, and for a field that no line has."""
    kept = JobSettings.of(settings)
    goes_on = kept.jobdir is not None and (kept.jobdir / JOB_FILE).exists()
    is_map = isinstance(options, MapOptions)
    for name, feed in kept.feeds.items():
        uri, format_ = str(name), str(feed.get("format"))
        chosen = feed.get("fields") or settings.getdictorlist("FEED_EXPORT_FIELDS")
        if format_ == WARC:
            if is_map:
                raise ConfigError(f"{uri}: a map keeps no pages for an archive; name another format")
            if kept.redis_url:
                cure = "archive with a JOBDIR instead"
                raise ConfigError(f"{uri}: workers share lines and not what servers have sent: {cure}")
            if kept.jobdir is not None and not kept.store_bodies:
                cure = "leave STORE_BODIES on"
                raise ConfigError(f"{uri}: a job that goes on writes its archive anew from stored pages: {cure}")
        if format_ in (RECORDS, RIGHTS) and is_map:
            raise ConfigError(f"{uri}:{format_}: a map lists urls, and no {format_}; name another form, as urls.csv")
        if format_ == RECORDS:
            check_page_types(f"FEEDS {uri}: page_type", page_types_of_feed(feed), options)
            _check_columns(uri, chosen, options)
        overwrite, is_processed = bool(feed.get("overwrite")), bool(feed.get("postprocessing"))
        check_feed(uri, format_, overwrite=overwrite, goes_on=goes_on, is_processed=is_processed)
        _check_place(settings, uri, format_)
        if format_ in settings.getwithbase("FEED_EXPORTERS"):
            _check_fields(settings, chosen, format_, options)


def wants_exchanges(settings: BaseSettings) -> bool:
    """Tell whether any feed is an archive, for which what was asked and answered is kept with each page."""
    return any(str(feed.get("format")) == WARC for feed in FeedSettings.of(settings).feeds.values())


def _check_columns(uri: str, names: Collection[str], options: ExploreOptions) -> None:
    if options.wanted is None:
        return
    known = [*dict.fromkeys(one.group or one.name for one in options.wanted.fields), *Page.__dataclass_fields__]
    unknown = next((name for name in names if name.removeprefix("record.") not in known), None)
    if unknown is not None:
        meant = hint(unknown, known, alike=0.6)
        raise ConfigError(f"{uri}: no record has a field {unknown!r}: {meant}there are {', '.join(known)}")


def _check_place(settings: BaseSettings, uri: str, format_: str) -> None:
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        known = {name for name, storage in settings.getwithbase("FEED_STORAGES").items() if name and storage}
        if parts.scheme not in known:
            there = ", ".join(sorted(known))
            raise ConfigError(f"-O {uri}: nothing writes to {parts.scheme}:// here; there are: {there}")
        module, package = _LIBRARIES.get(parts.scheme, ("", ""))
        if module and not is_installed(module):
            raise ConfigError(f"-O {uri}: {parts.scheme}:// needs a library: pip install {package}")
    elif "%(" not in uri:
        path = Path(unquote(parts.path) if parts.scheme else uri)
        if path.is_dir() and format_ != MARKDOWN:
            raise ConfigError(f"-O {uri}: it is a folder; name a file in it")
        there_is = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        if there_is != path and not there_is.is_dir():
            raise ConfigError(f"-O {uri}: {there_is} is a file, not a folder")
        if not os.access(there_is, os.W_OK):
            raise ConfigError(f"-O {uri}: {there_is} is not writable")


def _check_fields(settings: BaseSettings, chosen: Collection[str], format_: str, options: ExploreOptions) -> None:
    if format_ not in (*_FLAT, *_ALL_LINES, "parquet", RIGHTS):  # those of a form of the user's are its own
        return
    lines: dict[str, Any] = (Url if isinstance(options, MapOptions) else Page).__dataclass_fields__
    known = [*lines]
    if format_ == RIGHTS:
        from llmcrawler.core.storage.feeds.rights_table import RIGHTS_COLUMNS

        known = [*RIGHTS_COLUMNS]
    if format_ in _ALL_LINES:
        known = [*dict.fromkeys((*known, *Template.__dataclass_fields__))]
    for name in chosen:
        if name in known or (format_ in _FLAT and _is_part(name, options)):
            continue
        meant = hint(name, known)
        if meant or not has_own_pipeline(settings):
            raise ConfigError(f"FEED_EXPORT_FIELDS: no line has a field {name!r}: {meant}there are {', '.join(known)}")


def _is_part(name: str, options: ExploreOptions) -> bool:
    """Tell whether a page may have this part of an object; of a record those that were asked for."""
    whole, _, part = name.partition(".")
    if whole not in _OBJECTS or not part:
        return False
    wanted = None if options.wanted is None else options.wanted.schema.get("properties")
    return whole != "record" or not wanted or part in wanted or part.partition(".")[0] in wanted


def needs_feed(settings: BaseSettings, arguments: Mapping[str, object]) -> bool:
    """Tell whether the lines of a crawl would be kept nowhere: no feed, no job, no pipeline of the user's own; and
    whether a file would be found by who started it, as it would not with Scrapyd or on one of many machines.
    """
    kept = JobSettings.of(settings)
    is_kept = FeedSettings.of(settings).uris or kept.jobdir or kept.redis_url or has_own_pipeline(settings)
    return not is_kept and "_job" not in arguments


def has_own_pipeline(settings: BaseSettings) -> bool:
    """Tell whether there is an item pipeline that is not ours: it may keep what comes."""
    pipelines = settings.getdict("ITEM_PIPELINES").items()
    names = [one if isinstance(one, str) else one.__module__ for one, order in pipelines if order is not None]
    return any(not name.startswith("llmcrawler.") for name in names)


def default_feed(spider: str, options: ExploreOptions, folder: Path) -> Path:
    """Return a file of that folder that is not there yet: shop.example.jsonl, shop.example-2.jsonl; of another spider
    than explore map-shop.example.jsonl.
    """
    if isinstance(options, ExtractOptions) and options.listed is not None:
        given = options.listed.argument.partition("=")[2]
        what = "stdin" if given == "-" else Path(given).stem
    else:
        what = urlsplit(options.urls[0]).netloc
    name = f"{'' if spider == 'explore' else f'{spider}-'}{_OTHER.sub('-', what)[:100].strip('-.')}"
    names = (folder / f"{name}{'' if number == 1 else f'-{number}'}.jsonl" for number in count(1))
    return next(path for path in names if not path.exists())
