"""Gives a job's next run the lines of the earlier ones, for the feed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.extensions.feedexport import FeedExporter

from llmcrawler.core.reporting.exit_status import count_item
from llmcrawler.core.understanding.site_reader import FetchedPage, SiteReader
from llmcrawler.core.understanding.sites import SiteRegistry
from llmcrawler.crawl.compat import stats_of
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.start_checks import wants_exchanges
from llmcrawler.engine.responses import text_of
from llmcrawler.errors import ContentError
from llmcrawler.extensions import connect_handlers
from llmcrawler.items import Page, Url, feed_item_of

if TYPE_CHECKING:
    from llmcrawler.crawl.job import Job

logger = logging.getLogger(__name__)

_PAGES_TO_LOOK_AT = 30


@dataclass(eq=False)
class ResumeExtension:
    """Lines go from the ledger straight to the feeds: they have been through the pipelines and what listens to them."""

    crawler: Crawler
    job: Job
    sites: SiteRegistry
    reader: SiteReader

    def __post_init__(self) -> None:
        connect_handlers(self.crawler, self, "engine_started", "spider_closed")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.job is None:
            raise NotConfigured
        return cls(crawler, crawl.job, crawl.understanding.sites, crawl.understanding.reader)

    async def engine_started(self) -> None:
        """Replay the lines. Feeds are open by now, and the first request waits for this."""
        if self.job.resumed.is_new:
            return
        logger.info("%s", self.job.resumed)
        await self._observe_earlier_pages()
        exporter, spider = self.crawler.get_extension(FeedExporter), self.crawler.spider
        assert spider is not None
        stats, count = stats_of(self.crawler), 0
        archives = wants_exchanges(self.crawler.settings)
        async for seq, line in self.job.earlier_lines():
            page = feed_item_of(line)
            if archives and isinstance(page, Page) and page.status is not None:
                page.exchanges = await self.job.exchanges.of_line(seq)
            if isinstance(page, Page) and page.template is not None:
                grouper = self.sites.of(page.url).grouper
                page.template = grouper.count_earlier(page.url, page.template)
            if not isinstance(page, Url):  # which are not counted in the run that finds them either
                count_item(stats.inc_value, page.depth, page.error)
            if exporter is not None:
                exporter.item_scraped(page, spider)
            count += 1
        stats.set_value("llmcrawler/replayed", count)

    async def _observe_earlier_pages(self) -> None:
        """Learn what repeats over a site's pages from some of the earlier ones, for the first pages of this run."""
        for url, body in await self.job.ledger.bodies(_PAGES_TO_LOOK_AT):
            with suppress(ContentError):
                site, html = self.sites.of(url), await asyncio.to_thread(text_of, body)
                fetched = FetchedPage(html, body.url, url)
                found = await self.reader.read(site, fetched, with_features=False, with_main=False)
                await self.reader.observe(site, found.content)

    def spider_closed(self, reason: str) -> None:
        if reason != "finished":
            waiting, how = self.job.frontier.counts().queued, "run the same command again to go on"
            logger.info("The crawl is not at its end (%s, %d URLs queued): %s", reason, waiting, how)
