"""Builds the parts of a crawl, before any other component asks for them."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from llmcrawler.crawl.context import build_crawl
from llmcrawler.crawl.start_checks import check, check_numbers
from llmcrawler.engine.compat import SpiderControl
from llmcrawler.engine.own_schedulers import check_scheduler


class CrawlSetup:
    """Builds the crawl when it is made, as the first extension: Scrapy makes extensions first once settings are final,
    also for `scrapy shell`, `fetch` and `parse` and for spiders of the user's own. It has nothing to do later.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        needed = getattr(crawler.spider, "SCHEDULER_CLASS", None)
        if needed is not None:  # one of this project's spiders
            check_scheduler(crawler.settings, needed)
            _check_late(crawler)
        check_numbers(crawler.settings)
        build_crawl(crawler, SpiderControl(crawler))
        return cls()


def _check_late(crawler: Crawler) -> None:
    """Check the arguments of a spider whose own code may have changed them: nobody could before it was made."""
    spider: Any = crawler.spider
    if spider.changes_arguments():
        check(crawler.settings, spider.options, spider.name)
