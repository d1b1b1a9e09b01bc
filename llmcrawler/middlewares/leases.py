"""One line per leased url, whatever happens to its request."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response

from llmcrawler.errors import StorageFailed
from llmcrawler.frontier import Lease
from llmcrawler.items import Line, Page, PageError
from llmcrawler.middlewares.addresses import FOUND_AT
from llmcrawler.middlewares.backoff import PUT_BACKS
from llmcrawler.scheduler import LEASE, FrontierScheduler, scheduler_of

logger = logging.getLogger(__name__)

_FAILED = "spider_failed"


class LeaseMiddleware:
    """The outermost spider middleware: a leased url leads to its page, if need be to one with an error."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler)
        crawler.signals.connect(middleware.spider_idle, signals.spider_idle)
        return middleware

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        lease = _lease_of(response)
        has_page = continues = False
        async for output in result:
            if isinstance(output, Request) and LEASE not in output.meta:  # of a spider of the user's
                output.meta[FOUND_AT] = response.url
            has_page = has_page or (isinstance(output, Line) and lease is not None and output.id == lease.url)
            continues = continues or (isinstance(output, Request) and output.meta.get(LEASE) is lease)
            yield output
        # Scrapy ends the output quietly after an exception; `process_spider_exception` has given the page then.
        is_open = lease is not None and not has_page and not continues and self._scheduler().holds(lease)
        if lease is not None and is_open and not response.meta.get(_FAILED):
            yield self._line(lease, "no_page", "the spider gave no page for this response", response)

    def process_spider_exception(self, response: Response, exception: Exception) -> Iterable[Any] | None:
        lease = _lease_of(response)
        if lease is None or not self._scheduler().holds(lease):
            return None
        response.meta[_FAILED] = True
        if isinstance(
            exception, StorageFailed
        ):  # the crawl is being closed, and says why; the page is for its next run
            return []
        logger.error("Error in the spider on %s", response.url, exc_info=exception)
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value("llmcrawler/internal_errors")
        return [self._line(lease, "internal", f"{type(exception).__name__}: {exception}", response)]

    def spider_idle(self) -> None:
        """A lease that nobody holds when all is quiet is an orphan: its request was dropped without a word."""
        orphans = self._scheduler().held_leases()
        assert self._crawler.engine is not None
        for lease in orphans:
            self._crawler.engine.scraper._start_itemproc_nowait(
                self._line(lease, "dropped", "the request was dropped on its way; see the log")
            )
        if orphans:
            raise DontCloseSpider

    def _line(self, lease: Lease, kind: str, message: str, response: Response | None = None) -> Line:
        page = error_page(lease, kind, message, response)
        # A spider whose lines are no pages says what they are.
        line_of_fault = getattr(self._crawler.spider, "line_of_fault", None)
        line: Line = page if line_of_fault is None else line_of_fault(lease, page)
        return line

    def _scheduler(self) -> FrontierScheduler:
        return scheduler_of(self._crawler)


def error_page(
    lease: Lease, kind: str, message: str, response: Response | None = None, request: Request | None = None
) -> Page:
    """The line of a url that gave no content."""
    tried = request or (response.request if response is not None else None)
    attempts = 1 if tried is None else 1 + tried.meta.get("retry_times", 0) + tried.meta.get(PUT_BACKS, 0)
    page = lease.task.page()
    page.status = response.status if response is not None else None
    page.error = PageError("fetch", kind, message, attempts)
    return page


def _lease_of(response: Response) -> Lease | None:
    return response.meta.get(LEASE) if response.request is not None else None
