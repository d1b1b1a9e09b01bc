"""Tells this project's schedulers from others.

`isinstance` and `issubclass` cannot: the metaclass of Scrapy's schedulers has them say yes to whatever has the methods
of a scheduler.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from llmcrawler.errors import ConfigError

SchedulerT = TypeVar("SchedulerT")


def has_scheduler(settings: BaseSettings, needed: type[Any]) -> bool:
    """Return whether SCHEDULER names this class or a subclass of it."""
    return needed in load_object(settings["SCHEDULER"]).__mro__


def check_scheduler(settings: BaseSettings, needed: type[Any]) -> None:
    """Raise ConfigError where SCHEDULER names neither this class nor a subclass of it."""
    if not has_scheduler(settings, needed):
        raise _refusal(settings, needed)


def running_scheduler(crawler: Crawler, needed: type[SchedulerT]) -> SchedulerT:
    """Return the scheduler of a crawl that is open; raise ConfigError where it is none of the class that is needed."""
    assert crawler.engine is not None
    scheduler = crawler.engine.scheduler
    if needed not in type(scheduler).__mro__:
        raise _refusal(crawler.settings, needed)
    return cast("SchedulerT", scheduler)


def _refusal(settings: BaseSettings, needed: type[Any]) -> ConfigError:
    return ConfigError(
        f"SCHEDULER={settings['SCHEDULER']!r} does not do what this crawl needs: leave it out, or name"
        f" {needed.__module__}.{needed.__qualname__} or a subclass of it"
    )
