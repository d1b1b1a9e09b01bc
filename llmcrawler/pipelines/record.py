"""Takes a page's record, the fields of its template: the stage `record`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.core.understanding.classification import Classifier
from llmcrawler.core.understanding.extraction import RecordQuestion, Records, RecordTypes
from llmcrawler.core.understanding.page_extractor import is_unsure
from llmcrawler.core.understanding.sites import SiteRegistry
from llmcrawler.crawl.context import crawl_of
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.classify import judge_again
from llmcrawler.pipelines.stage import Stage, StageRules

_MAX_JUDGED = 3  # times that one page is judged; its site settles


@dataclass(eq=False)
class RecordPipeline(Stage):
    """Takes the record of a page, which may wait here until its template is learned while other pages go on. Only pages
    of `record_types` have records; with `tries_guesses`, also those that unsure rules take for something else.
    """

    sites: SiteRegistry
    classifier: Classifier
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
        tries = wanted is not None and not wanted.page_types and crawl.record_types.auto
        return cls(rules, known.sites, known.classifier, known.records, crawl.record_types, tries)

    def applies(self, page: Page) -> bool:
        return page.html is not None and page.page_type is not None and page.template is not None

    async def run(self, page: Page) -> PageError | None:
        if page.page_type not in self.record_types and not self._is_guess(page):
            return None
        return await self._take_record(page)

    def _is_guess(self, page: Page) -> bool:
        return self.tries_guesses and is_unsure(page)

    async def _take_record(self, page: Page) -> PageError | None:
        site = self.sites.of(page.url)
        for _ in range(_MAX_JUDGED):
            regroupings, page_type = site.regroupings, page.page_type
            answer = await self.records.record_of(self._question(page))
            if answer.home is not None:
                page.template, page.page_type = answer.home.template, answer.home.page_type
                site.grouper.move(page.id, page.template)
                self.sites.count_templates(site)
                break
            # While it was held its template may have been parted, and the page may be no longer what it was taken for.
            judge_again(page, site, self.classifier, was_regrouped=site.regroupings != regroupings)
            if page.page_type == page_type:
                break
        page.record, page.record_by = answer.record, answer.by
        return answer.error

    def _question(self, page: Page) -> RecordQuestion:
        assert page.content is not None
        assert page.page_type is not None
        assert page.template is not None
        return RecordQuestion(
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
