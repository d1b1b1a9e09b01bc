"""Opens the JOBDIR of a spider that makes its own requests."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable
from pathlib import Path

from scrapy import Spider
from scrapy.crawler import Crawler

from llmcrawler.crawl.job import Job
from llmcrawler.crawl.job_spec import JobRules, JobSpec
from llmcrawler.errors import StorageFailed

logger = logging.getLogger(__name__)


def open_request_job(crawler: Crawler, end: Callable[[str], None]) -> Job:
    """Open or create the job that JOBDIR names; `end` is called with a reason when the disk takes no more.

    Raises ConfigError where the job cannot be had.
    """
    settings, spider = crawler.settings, crawler.spider
    assert spider is not None

    def fail(failure: StorageFailed) -> None:
        logger.error("%s. What was written before is kept: make room and run the same command again", failure)
        end("storage_failed")

    spec = JobSpec(
        spider.name,
        arguments_of(spider),
        any_arguments=settings.getbool("JOBDIR_FORCE"),
        feeds=tuple(map(str, settings.getdict("FEEDS"))),
    )
    rules = JobRules(
        sync_seconds=settings.getfloat("JOBDIR_SYNC_SECONDS", 1.0),
        keep_bodies=False,
        lease_seconds=math.inf,  # no other process has the job, so no lease is ever lost while it runs
    )
    return Job(Path(settings["JOBDIR"]), spec, rules, on_failure=fail)


def arguments_of(spider: Spider) -> dict[str, str]:
    """Return the arguments of a spider (-a NAME=VALUE), as far as it keeps them as attributes of the same names.

    A spider with a constructor of its own may have any other attributes, so only those that it has parameters for
    count.
    """
    given = {name: value for name, value in vars(spider).items() if isinstance(value, str) and name[0] != "_"}
    given.pop("name", None)
    makers = (type(spider).__init__, type(spider).from_crawler)
    own = [maker for maker in makers if not maker.__module__.startswith("scrapy.")]
    names = {name for maker in own for name in inspect.signature(maker).parameters}
    return {name: value for name, value in given.items() if name in names or not own}
