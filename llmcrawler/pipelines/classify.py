"""The classification stage: which template made a page, and what kind of page it is."""

from __future__ import annotations

from typing import Any, Self

from scrapy.crawler import Crawler

from llmcrawler.classification import TEMPLATE, Question
from llmcrawler.extraction import described_schema, described_selectors
from llmcrawler.items import Page, Template
from llmcrawler.wiring import Crawl, crawl_of


class ClassifyPipeline:
    """A page may wait here for its batch; `process_item` awaits it, and other pages go on."""

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        self._crawler = crawler
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawl_of(crawler))

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is not None:
            await self._classify(item)
        return item

    async def _classify(self, page: Page) -> None:
        assert page.content is not None
        site = self._crawl.site_of(page.url)
        assigned = site.grouper.assign(page.url, page.content.features)
        await self._crawl.recluster(site)
        assert self._crawler.stats is not None
        count = sum(one.grouper.group_count for one in self._crawl.sites.values())
        self._crawler.stats.set_value("llmcrawler/templates", count)
        question = Question(
            url=page.url,
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
        regroupings = site.regroupings
        verdict = await self._crawl.classifier.classify(question)
        page.page_type, page.decided_by, page.error = verdict.page_type, verdict.decided_by, verdict.error
        page.confidence = round(verdict.confidence, 3)
        page.template = site.grouper.resolve(assigned.template)
        if site.regroupings != regroupings:  # while it waited, its group may have been parted
            page.template = site.grouper.match(page.url, page.content.features) or page.template
            known = self._crawl.classifier.template_verdict(site.name, page.template)
            if known and verdict.decided_by == TEMPLATE:  # what it took was the verdict of the group that it was in
                page.page_type, page.confidence = known[0], round(known[1], 3)

    async def close_spider(self) -> None:
        """What was learned goes into the feed too; feeds are still open here."""
        assert self._crawler.engine is not None
        for site in self._crawl.sites.values():
            for group in site.grouper.groups():
                verdict = self._crawl.classifier.template_verdict(site.name, group.template)
                template = Template(
                    template=group.template,
                    page_type=verdict[0] if verdict else None,
                    url_pattern=group.url_pattern,
                    page_count=group.page_count,
                    examples=list(group.examples),
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
