"""Chooses where a crawl keeps its urls and pages: in memory, in a job directory, or in a Redis that workers share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler

from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import Frontier
from llmcrawler.core.storage.job_spec import JobRules
from llmcrawler.crawl import signals
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.compat import close_spider_soon
from llmcrawler.crawl.configuration import JobSettings
from llmcrawler.errors import StorageFailed
from llmcrawler.fleet.safe_lines import SafeLines

if TYPE_CHECKING:
    from llmcrawler.crawl.job import Job
    from llmcrawler.fleet.session import DistributedSession, KeptSite

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CrawlBackend:
    """Storage of a crawl. At most one of `job` and `session` is given, the latter with `lines`."""

    frontier: Frontier
    job: Job | None = None
    session: DistributedSession | None = None
    lines: SafeLines | None = None

    @property
    def worker(self) -> str:
        """Name of this worker; empty where no workers share the crawl."""
        return "" if self.session is None else self.session.worker


def build_backend(
    crawler: Crawler, options: ExploreOptions, take_site: Callable[[str, KeptSite], None]
) -> CrawlBackend:
    """Open what JOBDIR or REDIS_URL name. `take_site` gets a url of each site that this worker owns from then on.

    Raises ConfigError where that cannot be had.
    """
    kept = JobSettings.of(crawler.settings)
    if kept.redis_url and options.urls:
        from llmcrawler.fleet.session import DistributedSession  # redis takes 0.14 s to load

        lines = SafeLines(crawler)
        session = DistributedSession(
            kept.session_rules,
            kept.spec(crawler.spidercls.name, options),
            options.max_pages,
            lines,
            take_site=take_site,
            widen_here=lambda url: crawler.signals.send_catch_log(signals.scope_widened, url=url),
            on_failure=partial(_end_crawl, crawler),
        )
        return CrawlBackend(session.frontier, session=session, lines=lines)
    if kept.jobdir is not None and options.urls:
        from llmcrawler.crawl.job import Job

        job = Job(
            kept.jobdir,
            kept.spec(crawler.spidercls.name, options),
            JobRules(kept.store_bodies, kept.max_leases),
            on_failure=partial(_end_crawl, crawler),
            before_close=lambda reason: crawler.signals.send_catch_log(signals.job_closing, reason=reason),
        )
        return CrawlBackend(job.frontier, job=job)
    return CrawlBackend(MemoryFrontier())


def _end_crawl(crawler: Crawler, failure: StorageFailed) -> None:
    """End the crawl when its backend takes no more."""
    cure = "make room and run" if JobSettings.of(crawler.settings).jobdir else "run"
    logger.error("%s. What was written before is kept: %s the same command again", failure, cure)
    close_spider_soon(crawler, "storage_failed")
