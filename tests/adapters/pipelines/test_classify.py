"""The stages of classification and of records: a page whose group changes while it waits."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.core.understanding.classification import LLM, TEMPLATE, Question, Verdict
from llmcrawler.core.understanding.extraction import RecordAnswer, RecordQuestion, RecordRules
from llmcrawler.core.understanding.sites import Site
from llmcrawler.core.understanding.templates import TemplateGrouper
from llmcrawler.items import Page, PageContent
from llmcrawler.pipelines.stages import ClassifyPipeline, RecordPipeline, StageRules


class Parting:
    """A classifier that waits while the page's group is parted: its verdict is still that of the old group."""

    def __init__(self, site: Any, decided_by: str) -> None:
        self._site = site
        self._decided_by = decided_by

    async def classify(self, question: Question) -> Verdict:
        self._site.regroupings += 1
        return Verdict("listing", 0.8, self._decided_by)

    def template_verdict(self, _site: str, _template: str) -> tuple[str, float]:
        return "product", 0.75


class Sites:
    """The registry of a crawl with one site."""

    duplicates = None
    template_count = 1

    def __init__(self, site: Site) -> None:
        self._site = site

    def count_templates(self, _site: Site) -> None:
        return

    def of(self, _url: str) -> Site:
        return self._site

    async def recluster(self, _site: Site) -> None:
        return


@pytest.mark.parametrize(("decided_by", "expected"), [(TEMPLATE, ("product", 0.75)), (LLM, ("listing", 0.8))])
async def test_a_verdict_of_a_template_is_that_of_the_template_on_the_line(decided_by, expected) -> None:
    site = Site("site.test", "http://site.test/", TemplateGrouper())
    page = Page(url="http://site.test/1")
    page.content = PageContent(features=frozenset({"html>body"}))
    rules = StageRules(MemoryStatsCollector(get_crawler()), timeout_seconds=60)
    sites: Any = Sites(site)
    classifier: Any = Parting(site, decided_by)
    await ClassifyPipeline(rules, sites, classifier).process_item(page)
    assert (page.page_type, page.confidence) == expected


class PartingRecords:
    """Records that hold a page until its group was parted; only listings have one."""

    def __init__(self, site: Site) -> None:
        self.rules = RecordRules()
        self._site = site
        self.asked: list[str] = []

    async def record_of(self, question: RecordQuestion) -> RecordAnswer:
        self.asked.append(question.page_type)
        self._site.regroupings += len(self.asked) == 1
        return RecordAnswer({"title": "Write a review"} if question.page_type == "listing" else None)


@pytest.mark.parametrize(
    ("decided_by", "asked", "expected"),
    [
        (TEMPLATE, ["listing", "product"], ("product", 0.75, None)),
        (LLM, ["listing"], ("listing", 0.8, {"title": "Write a review"})),
    ],
)
async def test_a_page_whose_template_is_parted_while_it_is_held_is_judged_again(decided_by, asked, expected) -> None:
    site = Site("site.test", "http://site.test/", TemplateGrouper())
    page = Page(url="http://site.test/1", page_type="listing", confidence=0.8, decided_by=decided_by, template="t1")
    page.content, page.html = PageContent(features=frozenset({"html>body"})), "<p>Write a review</p>"
    rules = StageRules(MemoryStatsCollector(get_crawler()), timeout_seconds=60)
    sites: Any = Sites(site)
    classifier: Any = Parting(site, decided_by)
    records: Any = PartingRecords(site)
    await RecordPipeline(rules, sites, classifier, records).process_item(page)
    assert records.asked == asked
    assert (page.page_type, page.confidence, page.record) == expected
