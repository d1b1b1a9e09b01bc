"""Tells which template made a page and what kind of page it is: the stage `classify`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.core.content import forget_kinds
from llmcrawler.core.understanding.classification import TEMPLATE, Classifier, Question
from llmcrawler.core.understanding.extraction import Records, described_schema, described_selectors
from llmcrawler.core.understanding.sites import Site, SiteRegistry
from llmcrawler.core.understanding.templates import Assignment, words_of
from llmcrawler.crawl.changes import CHANGED, UNCHANGED
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.compat import let_unopened_close
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page, PageError, Template
from llmcrawler.pipelines.stage import Stage, StageRules


async def _do_nothing() -> None:
    """Do nothing, where a test or another owner opens and closes the parts."""


@dataclass(eq=False)
class ClassifyPipeline(Stage):
    """Finds the template and the page type of a page, which may wait here for its batch while other pages go on.
    `prepare` is awaited before the first request, `close` when all pages are through.
    """

    sites: SiteRegistry
    classifier: Classifier
    prepare: Callable[[], Awaitable[None]] = field(default=_do_nothing, kw_only=True)
    close: Callable[[], Awaitable[None]] = field(default=_do_nothing, kw_only=True)

    name = "classify"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        known = crawl.understanding

        async def prepare() -> None:
            try:
                await known.check_model(crawl.options.urls)
            except ConfigError:
                let_unopened_close(crawler)
                raise

        async def close() -> None:
            """Put what was learned into the feed too; feeds are still open now."""
            assert crawler.engine is not None
            session = crawl.backend.session
            own = [one for one in known.sites if session is None or one.name in session.frontier.sites]
            for template in learned_templates(own, known.classifier, known.records):
                await crawler.engine.scraper.start_itemproc_async(template, response=None)
            await crawl.close()

        return cls(StageRules.from_crawler(crawler), known.sites, known.classifier, prepare=prepare, close=close)

    async def open_spider(self) -> None:
        await self.prepare()

    async def run(self, page: Page) -> PageError | None:
        """Judge the page. One that repeats another has only a line: that one's text, type and record are its own."""
        earlier, page.duplicate_of = page.duplicate_of, None
        error = await self._judge(page)
        if _is_duplicate(page):
            _empty(page)
        elif earlier is not None and page.change == UNCHANGED:
            page.change = CHANGED  # what it repeated is gone
        return error

    async def _judge(self, page: Page) -> PageError | None:
        assert page.content is not None
        if self.sites.duplicates is not None:
            self.sites.duplicates.judge(page)
            if _is_duplicate(page):
                return None
        question, assigned = await self._place(page)
        site = self.sites.of(page.url)
        regroupings = site.regroupings
        verdict = await self.classifier.classify(question)
        page.page_type, page.decided_by = verdict.page_type, verdict.decided_by
        page.confidence = round(verdict.confidence, 3)
        page.template = assigned.template
        forget_kinds(page.content)
        judge_again(page, site, self.classifier, was_regrouped=site.regroupings != regroupings)
        return verdict.error

    async def restore(self, page: Page) -> None:
        """Keep the verdict of an earlier run, and find the template, which may have another id in this run."""
        assert page.content is not None
        if self.sites.duplicates is not None:
            self.sites.duplicates.restore_page(page)
        if _is_duplicate(page):
            _empty(page)
            return
        question, assigned = await self._place(page)
        page.template = self.sites.of(page.url).grouper.resolve(assigned.template)
        forget_kinds(page.content)
        if page.page_type is not None and page.decided_by is not None:
            self.classifier.restore_verdict(question, page.page_type, page.confidence or 0.0, page.decided_by)

    async def _place(self, page: Page) -> tuple[Question, Assignment]:
        """Put a page into a group of its site, and write down what the classifier is to know of it."""
        assert page.content is not None
        site = self.sites.of(page.url)
        words = words_of(page.content)
        assigned = site.grouper.assign(page.id, page.content.features, words, title=page.content.title)
        await self.sites.recluster(site)
        self.sites.count_templates(site)
        self.rules.stats.set_value("llmcrawler/templates", self.sites.template_count)
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
            words=words,
        )
        return question, assigned

    async def close_spider(self) -> None:
        await self.close()


def _is_duplicate(page: Page) -> bool:
    return page.duplicate_of is not None


def _empty(page: Page) -> None:
    """Leave nothing of a duplicate to the stages that follow; its line tells what it is a copy of."""
    page.withhold("title", "lang", "content_hash")
    page.content = page.html = None


def judge_again(page: Page, site: Site, classifier: Classifier, *, was_regrouped: bool) -> None:
    """Give a page the template that it has now. If it `was_regrouped` while it waited, its group may have been parted:
    a page that took the verdict of its template takes that of the part that it is in.
    """
    assert page.content is not None
    assert page.template is not None
    page.template = site.grouper.resolve(page.template)
    if was_regrouped:
        content = page.content
        words = words_of(content)
        page.template = site.grouper.match(page.id, content.features, words, title=content.title) or page.template
        known = classifier.template_verdict(site.name, page.template)
        if known and page.decided_by == TEMPLATE:
            page.page_type, page.confidence = known[0], round(known[1], 3)


def learned_templates(sites: Iterable[Site], classifier: Classifier, records: Records) -> list[Template]:
    """Return what this process has learned of each template, as items of the feed."""
    templates = []
    for site in sites:
        for group in site.grouper.groups():
            verdict = classifier.template_verdict(site.name, group.template)
            purity = classifier.purity(site.name, group.template)
            template = Template(
                template=group.template,
                page_type=verdict[0] if verdict else None,
                confidence=round(verdict[1], 3) if verdict else None,
                purity=None if purity is None else round(purity, 3),
                url_pattern=group.url_pattern,
                page_count=group.page_count,
                examples=list(group.examples),
                aliases=list(group.aliases),
                platform=site.platform or None,
            )
            learner = records.learner_of(site.name, template.template, template.page_type)
            if learner is not None:
                template.schema = described_schema(learner.extractors)
                template.selectors = described_selectors(learner.extractors)
                template.llm_calls = learner.calls
            templates.append(template)
    return templates
