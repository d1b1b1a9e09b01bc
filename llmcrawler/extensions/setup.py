"""Builds the parts of a crawl, before any other component asks for them."""

from __future__ import annotations

from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.crawl.context import build_crawl
from llmcrawler.engine.compat import SpiderControl


class CrawlSetup:
    """Builds the crawl when it is made, as the first extension: Scrapy makes extensions first once settings are final,
    also for `scrapy shell`, `fetch` and `parse` and for spiders of the user's own. It has nothing to do later.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        build_crawl(crawler, SpiderControl(crawler))
        return cls()
