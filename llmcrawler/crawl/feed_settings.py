"""Checks where the feeds that were asked for are to go, and the names of their fields."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from scrapy.settings import BaseSettings

from llmcrawler.core.storage.feeds import RIGHTS, RIGHTS_COLUMNS
from llmcrawler.core.storage.feeds.feed_checks import RECORDS, WARC, check_feed, is_folder, page_types_of_feed
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.crawl.arguments import ExploreOptions, MapOptions
from llmcrawler.crawl.configuration import check_page_types
from llmcrawler.crawl.default_feed import has_own_pipeline
from llmcrawler.crawl.setting_checks import near_name
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page, Template, Url

_LIBRARIES: Final = {"s3": ("boto3", "boto3"), "gs": ("google.cloud.storage", "google-cloud-storage")}
_FLAT: Final = ("csv", "documents", "markdown")  # their fields may be parts, as record.price
_OBJECTS: Final = ("record", "results", "meta", "error")  # fields of a page that have parts
_ALL_LINES: Final = ("json", "jsonlines", "jsonl", "jl", "xml", "marshal", "pickle")  # those of templates too


def check_feed_settings(settings: BaseSettings, options: ExploreOptions) -> None:
    """Raise ConfigError for a feed that could not be written, and for a field that no line has."""
    job = settings.get("JOBDIR")
    goes_on = bool(job) and (Path(job) / JOB_FILE).exists()
    for name, feed in settings.getdict("FEEDS").items():
        uri, format_ = str(name), str(feed.get("format"))
        chosen = feed.get("fields") or settings.getdictorlist("FEED_EXPORT_FIELDS")
        if format_ == WARC:
            _check_archive(settings, uri, options)
        if format_ in (RECORDS, RIGHTS) and isinstance(options, MapOptions):
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
    return any(str(feed.get("format")) == WARC for feed in settings.getdict("FEEDS").values())


def _check_archive(settings: BaseSettings, uri: str, options: ExploreOptions) -> None:
    if isinstance(options, MapOptions):
        raise ConfigError(f"{uri}: a map keeps no pages, so there is nothing for an archive; name another form")
    if settings.get("REDIS_URL"):
        raise ConfigError(f"{uri}: workers share lines and not what servers have sent: archive with a JOBDIR instead")
    if settings.get("JOBDIR") and not settings.getbool("STORE_BODIES"):
        raise ConfigError(f"{uri}: a job that goes on writes its archive anew from stored pages: leave STORE_BODIES on")


def _check_columns(uri: str, names: Collection[str], options: ExploreOptions) -> None:
    """Refuse a column that no record will have, where the fields of records were asked for."""
    if options.wanted is None:
        return
    known = [*dict.fromkeys(one.group or one.name for one in options.wanted.fields), *_names(Page)]
    unknown = next((name for name in names if name.removeprefix("record.") not in known), None)
    if unknown is not None:
        near = near_name(unknown, known, alike=0.6)
        meant = f"did you mean {near}? " if near else ""
        raise ConfigError(f"{uri}: no record has a field {unknown!r}: {meant}there are {', '.join(known)}")


def _check_place(settings: BaseSettings, uri: str, format_: str) -> None:
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        _check_path(uri, Path(unquote(parts.path) if parts.scheme else uri), format_)
        return
    known = {name for name, storage in settings.getwithbase("FEED_STORAGES").items() if name and storage}
    if parts.scheme not in known:
        raise ConfigError(f"-O {uri}: nothing writes to {parts.scheme}:// here; there are: {', '.join(sorted(known))}")
    module, package = _LIBRARIES.get(parts.scheme, ("", ""))
    if module and not _is_installed(module):
        raise ConfigError(f"-O {uri}: {parts.scheme}:// needs a library: pip install {package}")


def _check_path(uri: str, path: Path, format_: str) -> None:
    if "%(" in uri:
        return
    if path.is_dir() and not is_folder(uri, format_):
        raise ConfigError(f"-O {uri}: it is a folder; name a file in it")
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if there != path and not there.is_dir():
        raise ConfigError(f"-O {uri}: {there} is a file, and no folder")
    if not os.access(there, os.W_OK):
        raise ConfigError(f"-O {uri}: {there} may not be written to")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def _check_fields(settings: BaseSettings, chosen: Collection[str], format_: str, options: ExploreOptions) -> None:
    if format_ not in (*_FLAT, *_ALL_LINES, "parquet", RIGHTS):  # those of a form of the user's are its own
        return
    known = _names(Url if isinstance(options, MapOptions) else Page)
    if format_ == RIGHTS:
        known = [*RIGHTS_COLUMNS]
    if format_ in _ALL_LINES:
        known += [name for name in _names(Template) if name not in known]
    for name in chosen:
        if name in known or (format_ in _FLAT and _is_part(name, options)):
            continue
        near = near_name(name, known)
        if near or not has_own_pipeline(settings):
            meant = f"did you mean {near}? " if near else ""
            raise ConfigError(f"FEED_EXPORT_FIELDS: no line has a field {name!r}: {meant}there are {', '.join(known)}")


def _names(item_class: Any) -> list[str]:
    return [one.name for one in fields(item_class)]


def _is_part(name: str, options: ExploreOptions) -> bool:
    """Tell whether a page may have this part of an object; of a record those that were asked for."""
    whole, _, part = name.partition(".")
    if whole not in _OBJECTS or not part:
        return False
    wanted = None if options.wanted is None else options.wanted.schema.get("properties")
    return whole != "record" or not wanted or part in wanted or part.partition(".")[0] in wanted
