"""Says in one line what the crawl is going to do, before its first request."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Self
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings

from llmcrawler.core.llm.providers import resolve_provider
from llmcrawler.core.reporting.text import plain
from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.configuration import (
    BotAuthSettings,
    FeedSettings,
    JobSettings,
    ModelSettings,
    MonitoringSettings,
    PolitenessSettings,
)
from llmcrawler.crawl.start_checks import CHOSEN_PRIORITY, has_own_pipeline
from llmcrawler.extensions import connect_handlers

logger = logging.getLogger(__name__)

_SHOWN = 3  # urls, feeds
_CHARS = 200  # of each


class StartLine:
    """Warns where nothing is kept, too. PROGRESS=off turns it off."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = crawler.settings
        connect_handlers(crawler, self, "spider_opened")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if MonitoringSettings.of(crawler.settings).progress == "off":
            raise NotConfigured
        return cls(crawler)

    def spider_opened(self, spider: Spider) -> None:
        options = getattr(spider, "options", None)
        is_ours = isinstance(options, ExploreOptions)
        say(logger, start_line(self._settings, spider.name, options if is_ours else None))
        feeds, job = FeedSettings.of(self._settings).uris, JobSettings.of(self._settings).job_or_crawl
        if is_ours and not feeds and not job and not has_own_pipeline(self._settings):
            logger.warning("Results are not kept: there is no feed (-O FILE, FEEDS) and no JOBDIR")


def start_line(settings: BaseSettings, spider: str, options: ExploreOptions | None) -> str:
    """Return what the settings say; `options` are None for a spider of the user's own."""
    politeness, feeds = PolitenessSettings.of(settings), FeedSettings.of(settings).uris
    at_a_time, job = politeness.concurrent_requests_per_domain, JobSettings.of(settings).job_or_crawl
    signed_as = "" if options is None else BotAuthSettings.of(settings).bot_auth_agent
    output = "none but the job, -O FILE writes it" if job else "none, -O FILE writes one"
    if feeds:
        is_chosen = settings.getpriority("FEEDS") != CHOSEN_PRIORITY
        output = _some(feeds) + ("" if is_chosen else " (chosen, as there is no -O)")
    listed = options.listed if isinstance(options, ExtractOptions) else None
    targets = () if options is None else options.urls if listed is None else (listed.argument,)
    parts = [
        f"{spider} {_some(targets)}".rstrip(),
        "" if options is None else ", ".join(_limits(options)),
        "" if options is None or isinstance(options, MapOptions) else _model(settings),
        f"robots.txt {'obeyed' if politeness.robotstxt_obey else 'NOT obeyed'}",
        f"signed as {signed_as}" if signed_as else "",
        f"{at_a_time} requests at a time per host, {politeness.download_delay:g} s apart",
        f"job {job}" if job else "",
        f"output: {output}",
    ]
    return plain(" | ".join(part for part in parts if part))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(plain(name, _CHARS) for name in names[:_SHOWN]) + more


def _limits(options: ExploreOptions) -> list[str]:
    """Return the limits; a default is named as one, since nobody has chosen it."""
    if isinstance(options, ExtractOptions):
        return []
    given = options.model_fields_set
    limits = [f"at most {options.max_pages:,} pages (max_pages{'' if 'max_pages' in given else ', the default'})"]
    if options.max_pages_per_site is not None:
        limits.append(f"{options.max_pages_per_site:,} of a site (max_pages_per_site)")
    if isinstance(options, MapOptions):
        limits.append(f"{options.max_urls:,} urls (max_urls{'' if 'max_urls' in given else ', the default'})")
    if options.depth is not None:
        limits.append(f"depth {options.depth}")
    if options.goal:
        limits.append(f"{','.join(options.goal)} first")
    if options.max_records is not None:
        limits.append(f"{options.max_records:,} records (max_records)")
    return limits


def _model(settings: BaseSettings) -> str:
    choice = resolve_provider(settings, os.environ)
    if choice.kind == "none":
        cure = "" if choice.is_chosen else " (OPENAI_API_KEY or LLM_BASE_URL brings a model)"
        return f"no model: page types from a trained classifier, records from structured data and an annotator{cure}"
    most = ModelSettings.of(settings).llm_max_cost_usd
    budget = f", ${most:g} at most" if most else ""
    return f"model {choice.model or '(the first that the server lists)'} at {urlsplit(choice.base_url).netloc}{budget}"


def say(logger: logging.Logger, text: str) -> None:
    """Log a text; where the log does not reach the terminal, write it there too."""
    logger.info("%s", text)
    if sys.stderr.isatty() and not any(map(_shows, logging.root.handlers)):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def terminal_columns() -> int | None:
    """Return the width of the terminal; None without one."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else None
    except (OSError, ValueError):
        return None


def _shows(handler: logging.Handler) -> bool:
    """A FileHandler is a StreamHandler too, and writes to no terminal."""
    return (
        isinstance(handler, logging.StreamHandler)
        and not isinstance(handler, logging.FileHandler)
        and handler.level <= logging.INFO
        and handler.stream.isatty()
    )
