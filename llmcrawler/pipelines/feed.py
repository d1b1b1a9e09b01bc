"""Cuts an item down to what the feed shows, and counts it in the stats: the last pipeline."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self, get_args

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.politeness.robots import NOINDEX
from llmcrawler.core.reporting import count_item
from llmcrawler.core.storage import marks_of
from llmcrawler.core.storage.feeds import clean, clean_text
from llmcrawler.items import FeedItem, Page, PageError, Template


@dataclass(eq=False)
class FeedPipeline:
    """Takes out of an item what the feed does not show, and counts it. `with_text`: the feed has the main text."""

    stats: StatsCollector
    with_text: bool

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.stats is not None
        return cls(crawler.stats, crawler.settings.getbool("CONTENT_IN_FEED"))

    def process_item(self, item: Any) -> Any:
        if isinstance(item, FeedItem):
            count_item(self.stats.inc_value, item.depth, item.error)
        if isinstance(item, Page):
            item.content = item.html = None
            if not self.with_text:
                item.text = None
            self._count(item)
        if isinstance(item, FeedItem | Template):
            _clean_fields(item)
        return item

    def _count(self, page: Page) -> None:
        self.stats.inc_value("llmcrawler/pages")
        if page.duplicate_of is not None:
            self.stats.inc_value("llmcrawler/duplicates")
        counted = {"page_types": page.page_type, "decided_by": page.decided_by, "changes": page.change}
        counted["page_records"] = None if page.record is None else page.page_type
        for name, value in counted.items():
            if value is not None:
                self.stats.inc_value(f"llmcrawler/{name}/{value}")
        if page.is_withheld and page.error is None and NOINDEX in (page.robots or ()):
            self.stats.inc_value("llmcrawler/noindex_pages")
        for mark in marks_of({"rights": page.rights, "robots": page.robots}):
            self.stats.inc_value(f"llmcrawler/rights/{mark}")
        if page.error is not None:
            self.stats.inc_value(f"llmcrawler/errors/{page.error.stage}/{page.error.kind}")


def _clean_fields(item: FeedItem | Template) -> None:
    """Replace what is no UTF-8: half a surrogate pair, from an escape in JSON-LD say, would cost the item its line."""
    for name in _FIELDS[type(item)]:
        value = getattr(item, name)
        if isinstance(value, PageError):
            setattr(item, name, replace(value, message=clean_text(value.message)))
        elif value is not None:
            setattr(item, name, clean(value))


_FIELDS = {item_class: tuple(one.name for one in fields(item_class)) for item_class in (*get_args(FeedItem), Template)}
