"""The last stage: what the feed shows of a page, and what the stats count of it."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from llmcrawler.feeds.values import clean
from llmcrawler.items import Page


class FeedPipeline:
    def __init__(self, stats: StatsCollector, with_text: bool) -> None:
        self._stats = stats
        self._with_text = with_text

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.stats is not None
        return cls(crawler.stats, crawler.settings.getbool("CONTENT_IN_FEED"))

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            item.content = item.html = None
            # Half a surrogate pair, of an escape in a page's JSON-LD say, would cost the page its line in a feed.
            item.title, item.record, item.results = clean(item.title), clean(item.record), clean(item.results)
            if not self._with_text:
                item.text = None
            self._count(item)
        return item

    def _count(self, page: Page) -> None:
        self._stats.inc_value("llmcrawler/pages")
        if page.page_type is not None:
            self._stats.inc_value(f"llmcrawler/page_types/{page.page_type}")
        if page.decided_by is not None:
            self._stats.inc_value(f"llmcrawler/decided_by/{page.decided_by}")
        if page.error is not None:
            self._stats.inc_value(f"llmcrawler/errors/{page.error.stage}/{page.error.kind}")
