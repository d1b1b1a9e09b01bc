"""The record stage: what a page says, as the fields of its template."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from llmcrawler.extraction import RecordQuestion
from llmcrawler.items import Page
from llmcrawler.wiring import Crawl, crawl_of


class RecordPipeline:
    """A page may wait here until its template has been learned; other pages go on."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler))

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.html is not None and item.content is not None:
            await self._extract(item)
        return item

    async def _extract(self, page: Page) -> None:
        assert page.content is not None
        if page.page_type is None or page.template is None:
            return
        site = self._crawl.site_of(page.url)
        question = RecordQuestion(
            url=page.final_url or page.url,
            title=page.title or "",
            lang=page.lang or "",
            html=page.html or "",
            features=page.content.features,
            site=site.name,
            template=page.template,
            page_type=page.page_type,
            is_sure=page.decided_by != "template",
        )
        answer = await self._crawl.records.record_of(question)
        page.record = answer.record
        if answer.home is not None:
            page.template, page.page_type = answer.home.template, answer.home.page_type
        page.error = page.error or answer.error
