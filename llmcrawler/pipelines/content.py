"""The content stage: a page's main text, without what repeats over its site."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from llmcrawler.content import content_hash, main_text
from llmcrawler.items import Page
from llmcrawler.wiring import Crawl, crawl_of


class ContentPipeline:
    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler))

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is not None:
            boilerplate = self._crawl.site_of(item.url).boilerplate
            boilerplate.observe(item.content.blocks)
            item.text = main_text(item.content.blocks, boilerplate)
            item.content_hash = content_hash(item.text)
            item.title = item.content.title or None
            item.lang = item.content.lang or None
        return item
