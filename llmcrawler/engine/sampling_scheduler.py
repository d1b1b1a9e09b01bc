"""The scheduler of `scrapy plan`: it fetches a sample of a site instead of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.core.frontier import UrlTask
from llmcrawler.core.reporting.planning.site_sample import SAMPLE_PAGES, Draw, Sampler
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.scheduler import FrontierScheduler


class SamplingScheduler(FrontierScheduler):
    """Tells the sampler of all urls that are found, and ends after PLAN_SAMPLE_PAGES pages."""

    sampler: Sampler

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draw = Draw()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        scheduler, sampler = super().from_crawler(crawler), crawl_of(crawler).sampler
        assert sampler is not None
        scheduler.sampler = sampler
        scheduler.budget.max_pages = min(scheduler.budget.max_pages, crawler.settings.getint(SAMPLE_PAGES))
        return scheduler

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        tasks = list(tasks)
        self.sampler.add_urls(tasks)
        return await super().add(map(self._draw, tasks))
