"""Sees to it that each leased url gives one item, whatever happens to its request."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, NotConfigured
from scrapy.http import Response

from llmcrawler.core.frontier.protocol import Lease
from llmcrawler.crawl.compat import process_item, stats_of
from llmcrawler.engine.failures import error_page, spider_line
from llmcrawler.engine.request_context import context_of, response_context, update_context
from llmcrawler.engine.scheduler import FrontierScheduler, has_scheduler, running_scheduler
from llmcrawler.errors import StorageFailed
from llmcrawler.items import FeedItem

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LeaseMiddleware:
    """Gives an item with an error for each leased url that the spider gives none for; it is the outermost one."""

    crawler: Crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not has_scheduler(crawler.settings, FrontierScheduler):
            raise NotConfigured  # a spider that makes its own requests, with a scheduler that leases none
        middleware = cls(crawler)
        crawler.signals.connect(middleware.spider_idle, signals.spider_idle)
        return middleware

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        lease = response_context(response).lease
        has_page = continues = False
        async for output in result:
            if isinstance(output, Request):
                leased = context_of(output).lease
                if leased is None:  # of a spider of the user's
                    update_context(output, found_at=response.url)
                continues = continues or leased is lease
            elif isinstance(output, FeedItem):
                has_page = has_page or (lease is not None and output.id == lease.url)
            yield output
        # Scrapy ends the output quietly after an exception; `process_spider_exception` has given the page then.
        is_open = lease is not None and not has_page and not continues and self._scheduler().holds(lease)
        if lease is not None and is_open and not response_context(response).has_failed_in_spider:
            yield self._line(lease, "no_page", "the spider yielded no page for this response", response)

    def process_spider_exception(self, response: Response, exception: Exception) -> Iterable[Any] | None:
        lease = response_context(response).lease
        if lease is None or response.request is None or not self._scheduler().holds(lease):
            return None
        update_context(response.request, has_failed_in_spider=True)
        if isinstance(exception, StorageFailed):  # the crawl is being closed, and the page is for its next run
            return []
        logger.error("Error in the spider on %s", response.url, exc_info=exception)
        stats_of(self.crawler).inc_value("llmcrawler/internal_errors")
        return [self._line(lease, "internal", f"{type(exception).__name__}: {exception}", response)]

    def spider_idle(self) -> None:
        """Give an item for each lease that is out when all is quiet: some component dropped its request silently."""
        orphans = self._scheduler().held_leases()
        for lease in orphans:
            message = "the request was dropped; see the log"
            process_item(self.crawler, self._line(lease, "dropped", message))
        if orphans:
            raise DontCloseSpider

    def _line(self, lease: Lease, kind: str, message: str, response: Response | None = None) -> FeedItem:
        return spider_line(self.crawler, lease, error_page(lease, kind, message, response))

    def _scheduler(self) -> FrontierScheduler:
        return running_scheduler(self.crawler, FrontierScheduler)
