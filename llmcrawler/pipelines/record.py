"""The record stage: what a page says, as the fields of its template."""

from __future__ import annotations

from functools import partial

from scrapy.crawler import Crawler

from llmcrawler.extraction import RecordQuestion
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.leading import answer_for_another, led
from llmcrawler.pipelines.stage import Stage
from llmcrawler.wiring import Crawl


class RecordPipeline(Stage):
    """A page may wait here until its template has been learned; other pages go on."""

    name = "record"

    def applies(self, page: Page) -> bool:
        return page.html is not None and page.page_type is not None and page.template is not None

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        super().__init__(crawler, crawl)
        if crawl.crew is not None:
            crawl.crew.desk.handlers[self.name] = partial(answer_for_another, self._extract)

    async def run(self, page: Page) -> PageError | None:
        if page.page_type not in self._crawl.record_types:
            return None
        return await led(self._crawl, page, self.name, self._extract)

    async def _extract(self, page: Page) -> PageError | None:
        assert page.content is not None
        assert page.page_type is not None
        assert page.template is not None
        question = RecordQuestion(
            url=page.final_url or page.url,
            title=page.title or "",
            lang=page.lang or "",
            html=page.html or "",
            features=page.content.features,
            site=self._crawl.site_of(page.url).name,
            template=page.template,
            page_type=page.page_type,
            id=page.id,
            is_sure=page.decided_by != "template",
        )
        answer = await self._crawl.records.record_of(question)
        page.record = answer.record
        if answer.home is not None:
            page.template, page.page_type = answer.home.template, answer.home.page_type
        return answer.error
