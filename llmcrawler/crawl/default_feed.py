"""Chooses a file for the lines of a crawl whose user has named none: what was paid for is not thrown away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings

from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions

CHOSEN_PRIORITY: Final = 1  # of FEEDS: more than a default, less than whatever a user or an add-on sets
_OTHER: Final = re.compile(r"[^\w.-]+")
_MAX_CHARS: Final = 100


def needs_feed(settings: BaseSettings, arguments: Mapping[str, object]) -> bool:
    """Tell whether the lines of a crawl would be kept nowhere: no feed, no job, no pipeline of the user's own; and
    whether a file would be found by who started it, as it would not with Scrapyd or on one of many machines.
    """
    if settings.getdict("FEEDS") or settings.get("FEED_URI") or settings.get("JOBDIR") or settings.get("REDIS_URL"):
        return False
    return "_job" not in arguments and not has_own_pipeline(settings)


def has_own_pipeline(settings: BaseSettings) -> bool:
    """Tell whether there is an item pipeline that is not ours: it may keep what comes."""
    pipelines = settings.getdict("ITEM_PIPELINES").items()
    names = [one if isinstance(one, str) else one.__module__ for one, order in pipelines if order is not None]
    return any(not name.startswith("llmcrawler.") for name in names)


def default_feed(spider: str, options: ExploreOptions, folder: Path) -> Path:
    """Return a file of that folder that is not there yet: explore-shop.example.jsonl, explore-shop.example-2.jsonl."""
    if isinstance(options, ExtractOptions) and options.listed is not None:
        given = options.listed.argument.partition("=")[2]
        what = "stdin" if given == "-" else Path(given).stem
    else:
        what = urlsplit(options.urls[0]).netloc
    name = f"{spider}-{_OTHER.sub('-', what)[:_MAX_CHARS].strip('-.')}"
    names = (folder / f"{name}{'' if number == 1 else f'-{number}'}.jsonl" for number in count(1))
    return next(path for path in names if not path.exists())
