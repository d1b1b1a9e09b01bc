"""The classification stage: which template made a page, and what kind of page it is."""

from __future__ import annotations

from functools import partial

from scrapy.crawler import Crawler

from llmcrawler.classification import TEMPLATE, Question
from llmcrawler.extraction import described_schema, described_selectors
from llmcrawler.items import Page, PageError, Template
from llmcrawler.pipelines.leading import answer_for_another, led
from llmcrawler.pipelines.stage import Stage
from llmcrawler.templates import Assignment
from llmcrawler.wiring import Crawl


class ClassifyPipeline(Stage):
    """A page may wait here for its batch; other pages go on."""

    name = "classify"

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        super().__init__(crawler, crawl)
        if crawl.crew is not None:
            crawl.crew.desk.handlers[self.name] = partial(answer_for_another, self._judge)

    async def run(self, page: Page) -> PageError | None:
        return await led(self._crawl, page, self.name, self._judge)

    async def _judge(self, page: Page) -> PageError | None:
        assert page.content is not None
        question, assigned = await self._place(page)
        site = self._crawl.site_of(page.url)
        regroupings = site.regroupings
        verdict = await self._crawl.classifier.classify(question)
        page.page_type, page.decided_by = verdict.page_type, verdict.decided_by
        page.confidence = round(verdict.confidence, 3)
        page.template = site.grouper.resolve(assigned.template)
        if site.regroupings != regroupings:  # while it waited, its group may have been parted
            page.template = site.grouper.match(page.id, page.content.features) or page.template
            known = self._crawl.classifier.template_verdict(site.name, page.template)
            if known and verdict.decided_by == TEMPLATE:  # what it took was the verdict of the group that it was in
                page.page_type, page.confidence = known[0], round(known[1], 3)
        return verdict.error

    async def restore(self, page: Page) -> None:
        """Its verdict holds; its template may have another name in this run."""
        question, assigned = await self._place(page)
        page.template = self._crawl.site_of(page.url).grouper.resolve(assigned.template)
        if page.page_type is not None and page.decided_by is not None:
            self._crawl.classifier.recall(question, page.page_type, page.confidence or 0.0, page.decided_by)

    async def _place(self, page: Page) -> tuple[Question, Assignment]:
        assert page.content is not None
        site = self._crawl.site_of(page.url)
        assigned = site.grouper.assign(page.id, page.content.features)
        await self._crawl.recluster(site)
        assert self._crawler.stats is not None
        count = sum(one.grouper.group_count for one in self._crawl.sites.values())
        self._crawler.stats.set_value("llmcrawler/templates", count)
        question = Question(
            url=page.id,  # one url may be asked for in several ways
            title=page.title or "",
            text=page.text or "",
            content=page.content,
            site=site.name,
            template=site.grouper.resolve(assigned.template),
            member=assigned.member,
            settled=assigned.settled,
            rivals=assigned.rivals,
            is_known=assigned.is_known,
        )
        return question, assigned

    async def close_spider(self) -> None:
        """What was learned goes into the feed too; feeds are still open here."""
        assert self._crawler.engine is not None
        for site in self._crawl.led_sites():
            for group in site.grouper.groups():
                verdict = self._crawl.classifier.template_verdict(site.name, group.template)
                template = Template(
                    template=group.template,
                    page_type=verdict[0] if verdict else None,
                    url_pattern=group.url_pattern,
                    page_count=group.page_count,
                    examples=list(group.examples),
                    aliases=list(group.aliases),
                )
                self._add_learned(site.name, template)
                await self._crawler.engine.scraper.start_itemproc_async(template, response=None)
        await self._crawl.close()

    def _add_learned(self, site: str, template: Template) -> None:
        learner = self._crawl.records.learner_of(site, template.template, template.page_type)
        if learner is not None:
            template.schema = described_schema(learner.extractors)
            template.selectors = described_selectors(learner.extractors)
            template.llm_calls = learner.calls
