"""Takes a page's record, the fields of its template: the stage `record`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.classification import RULE, UNSURE
from llmcrawler.crawl.context import crawl_of
from llmcrawler.extraction import RecordQuestion, Records, RecordTypes
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.site_stage import SiteStage
from llmcrawler.pipelines.stage import StageRules


@dataclass(eq=False)
class RecordPipeline(SiteStage):
    """Takes the record of a page, which may wait here until its template is learned while other pages go on. Only pages
    of `record_types` have records; with `tries_guesses`, also those that unsure rules take for something else.
    """

    records: Records
    record_types: RecordTypes
    tries_guesses: bool = False

    name = "record"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl, rules = crawl_of(crawler), StageRules.from_crawler(crawler)
        known = crawl.understanding
        # Fields that somebody has asked for tell a template more surely than rules do.
        wanted = crawl.options.wanted
        tries_guesses = wanted is not None and not wanted.page_types and crawl.record_types.auto
        return cls(rules, known.sites, known.records, crawl.record_types, tries_guesses, session=crawl.backend.session)

    def applies(self, page: Page) -> bool:
        return page.html is not None and page.page_type is not None and page.template is not None

    async def run(self, page: Page) -> PageError | None:
        return await super().run(page) if page.page_type in self.record_types or self._is_guess(page) else None

    def _is_guess(self, page: Page) -> bool:
        is_unsure = page.decided_by == RULE and (page.confidence or 0.0) < UNSURE
        return self.tries_guesses and is_unsure

    async def run_here(self, page: Page) -> PageError | None:
        assert page.content is not None
        assert page.page_type is not None
        assert page.template is not None
        question = RecordQuestion(
            url=page.final_url or page.url,
            title=page.title or "",
            lang=page.lang or "",
            html=page.html or "",
            features=page.content.features,
            site=self.sites.of(page.url).name,
            template=page.template,
            page_type=page.page_type,
            id=page.id,
            is_sure=page.decided_by != "template",
            is_guess=self._is_guess(page),
        )
        answer = await self.records.record_of(question)
        page.record = answer.record
        if answer.home is not None:
            page.template, page.page_type = answer.home.template, answer.home.page_type
        return answer.error
