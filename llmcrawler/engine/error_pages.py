"""Feed items of urls that gave no content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmcrawler.engine.request_context import attempts_of
from llmcrawler.items import Page, PageError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from llmcrawler.core.frontier import Lease
    from llmcrawler.items import FeedItem


def error_page(
    lease: Lease, kind: str, message: str, response: Response | None = None, request: Request | None = None
) -> Page:
    """Return the item of a leased url that ended with an error of stage `fetch`."""
    tried = request or (response.request if response is not None else None)
    page = lease.task.page()
    page.status = response.status if response is not None else None
    page.error = PageError("fetch", kind, message, attempts_of(tried))
    return page


def unasked_line(crawler: Crawler, lease: Lease) -> FeedItem:
    """Return the line of a url that is not fetched: it is none, or it took down the crawl too often."""
    lost = f"the crawl was taken down {lease.attempts - 1} times while it was read"
    error = ("lost", lost) if lease.is_lost else ("url", lease.task.fault)
    return spider_line(crawler, lease, error_page(lease, *error))


def spider_line(crawler: Crawler, lease: Lease, page: Page) -> FeedItem:
    """Return the line of a page that `error_page` made, for a spider whose lines may be no pages."""
    line_of_fault = getattr(crawler.spider, "line_of_fault", None)
    line: FeedItem = page if line_of_fault is None else line_of_fault(lease, page)
    return line
