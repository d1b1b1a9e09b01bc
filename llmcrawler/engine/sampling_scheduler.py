"""The scheduler of `scrapy plan`: it fetches a sample of a site instead of the whole."""

from __future__ import annotations

from collections.abc import Iterable

from scrapy.crawler import Crawler

from llmcrawler.crawl.context import CrawlContext
from llmcrawler.engine.page_budget import PageBudget
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.frontier.protocol import UrlTask
from llmcrawler.reporting.planning.sampler import SAMPLE_PAGES, Draw


class SamplingScheduler(FrontierScheduler):
    """Tells the sampler of all urls that are found, and ends after PLAN_SAMPLE_PAGES pages."""

    def __init__(self, crawler: Crawler, crawl: CrawlContext) -> None:
        super().__init__(crawler, crawl)
        assert crawl.sampler is not None
        self._sampler = crawl.sampler
        self._draw = Draw()
        self._pages = PageBudget(min(crawl.options.max_pages, crawler.settings.getint(SAMPLE_PAGES)))

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        tasks = list(tasks)
        self._sampler.add_urls(tasks)
        return await super().add(map(self._draw, tasks))
