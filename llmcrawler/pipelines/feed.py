"""The last stage: what the feed shows of a page, and what the stats count of it."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from llmcrawler.feeds.values import clean
from llmcrawler.items import Line, Page
from llmcrawler.reporting import count_line


class FeedPipeline:
    def __init__(self, stats: StatsCollector, with_text: bool) -> None:
        self._stats = stats
        self._with_text = with_text

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.stats is not None
        return cls(crawler.stats, crawler.settings.getbool("CONTENT_IN_FEED"))

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Line):
            count_line(self._stats.inc_value, item.depth, item.error)
        if isinstance(item, Page):
            item.content = item.html = None
            # Half a surrogate pair, of an escape in a page's JSON-LD say, would cost the page its line in a feed.
            for name in ("title", "record", "results", "key", "meta"):
                setattr(item, name, clean(getattr(item, name)))
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
        if page.change is not None:
            self._stats.inc_value(f"llmcrawler/changes/{page.change}")
        if page.error is not None:
            self._stats.inc_value(f"llmcrawler/errors/{page.error.stage}/{page.error.kind}")
