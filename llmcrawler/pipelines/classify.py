"""Tells which template made a page and what kind of page it is: the stage `classify`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self

from scrapy.crawler import Crawler

from llmcrawler.classification import TEMPLATE, Classifier, Question
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.extraction import Records, described_schema, described_selectors
from llmcrawler.items import Page, PageError, Template
from llmcrawler.pipelines.site_stage import SiteStage
from llmcrawler.pipelines.stage import StageRules
from llmcrawler.templates import Assignment

if TYPE_CHECKING:
    from llmcrawler.crawl.distributed_session import DistributedSession


async def _do_nothing() -> None:
    """Do nothing, where a test or another owner closes the parts."""


class ClassifyPipeline(SiteStage):
    """Finds the template and the page type of a page, which may wait here for its batch while other pages go on.
    `close` is awaited when all pages are through.
    """

    name = "classify"

    def __init__(
        self,
        rules: StageRules,
        sites: SiteRegistry,
        classifier: Classifier,
        session: DistributedSession | None = None,
        close: Callable[[], Awaitable[None]] = _do_nothing,
    ) -> None:
        super().__init__(rules, sites, session)
        self._classifier = classifier
        self._close = close

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        known = crawl.understanding

        async def close() -> None:
            """Put what was learned into the feed too; feeds are still open now."""
            assert crawler.engine is not None
            for template in learned_templates(known.sites, known.classifier, known.records):
                await crawler.engine.scraper.start_itemproc_async(template, response=None)
            await crawl.close()

        return cls(StageRules.from_crawler(crawler), known.sites, known.classifier, crawl.backend.session, close)

    async def run_here(self, page: Page) -> PageError | None:
        assert page.content is not None
        question, assigned = await self._place(page)
        site = self._sites.of(page.url)
        regroupings = site.regroupings
        verdict = await self._classifier.classify(question)
        page.page_type, page.decided_by = verdict.page_type, verdict.decided_by
        page.confidence = round(verdict.confidence, 3)
        page.template = site.grouper.resolve(assigned.template)
        if site.regroupings != regroupings:  # while it waited, its group may have been parted
            page.template = site.grouper.match(page.id, page.content.features) or page.template
            known = self._classifier.template_verdict(site.name, page.template)
            if known and verdict.decided_by == TEMPLATE:  # what it took was the verdict of the group that it was in
                page.page_type, page.confidence = known[0], round(known[1], 3)
        return verdict.error

    async def restore(self, page: Page) -> None:
        """Keep the verdict of an earlier run, and find the template, which may have another id in this run."""
        question, assigned = await self._place(page)
        page.template = self._sites.of(page.url).grouper.resolve(assigned.template)
        if page.page_type is not None and page.decided_by is not None:
            self._classifier.recall(question, page.page_type, page.confidence or 0.0, page.decided_by)

    async def _place(self, page: Page) -> tuple[Question, Assignment]:
        """Put a page into a group of its site, and write down what the classifier is to know of it."""
        assert page.content is not None
        site = self._sites.of(page.url)
        assigned = site.grouper.assign(page.id, page.content.features)
        await self._sites.recluster(site)
        self._rules.stats.set_value("llmcrawler/templates", sum(one.grouper.group_count for one in self._sites))
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
        await self._close()


def learned_templates(sites: SiteRegistry, classifier: Classifier, records: Records) -> list[Template]:
    """Return what this process has learned of each template, as items of the feed."""
    templates = []
    for site in sites.own():
        for group in site.grouper.groups():
            verdict = classifier.template_verdict(site.name, group.template)
            template = Template(
                template=group.template,
                page_type=verdict[0] if verdict else None,
                url_pattern=group.url_pattern,
                page_count=group.page_count,
                examples=list(group.examples),
                aliases=list(group.aliases),
            )
            learner = records.learner_of(site.name, template.template, template.page_type)
            if learner is not None:
                template.schema = described_schema(learner.extractors)
                template.selectors = described_selectors(learner.extractors)
                template.llm_calls = learner.calls
            templates.append(template)
    return templates
