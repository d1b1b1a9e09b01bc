"""Which pages the stage `record` asks for, by what is known of their type."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.core.understanding.extraction import RecordQuestion, RecordTypes
from llmcrawler.core.understanding.extraction.records import RecordAnswer
from llmcrawler.core.understanding.sites import Site
from llmcrawler.core.understanding.templates import TemplateGrouper
from llmcrawler.items import Page, PageContent
from llmcrawler.pipelines.stages import RecordPipeline, StageRules
from tests.adapters.stubs import stub


class NotedRecords:
    """Takes questions, and has a record for each."""

    def __init__(self) -> None:
        self.asked: list[RecordQuestion] = []

    async def record_of(self, question: RecordQuestion) -> RecordAnswer:
        self.asked.append(question)
        return RecordAnswer({"title": "A lamp"})


@pytest.mark.parametrize(
    ("page_type", "decided_by", "confidence", "tries_guesses", "is_asked"),
    [
        ("product", "rule", 0.2, False, True),
        ("listing", "rule", 0.6, False, False),
        ("listing", "rule", 0.6, True, True),  # rules that are unsure may be wrong
        ("listing", "rule", 0.9, True, False),
        ("other", "rule", 0.1, True, False),  # nothing speaks for a record either
        ("listing", "llm", 0.6, True, False),
    ],
)
async def test_fields_that_were_asked_for_are_tried_on_pages_whose_type_is_a_guess(
    page_type: str, decided_by: str, confidence: float, tries_guesses: bool, is_asked: bool
) -> None:
    records: Any = NotedRecords()
    site = Site("shop.test", "http://shop.test/", TemplateGrouper())
    rules, sites = StageRules(MemoryStatsCollector(get_crawler())), stub(of=lambda _url: site)
    stage = RecordPipeline(rules, sites, stub(), records, RecordTypes(), tries_guesses)
    page = Page("http://shop.test/lamp/", page_type=page_type, decided_by=decided_by, confidence=confidence)
    page.content, page.html, page.template = PageContent(), "<p>A lamp</p>", "t1"
    await stage.process_item(page)
    assert len(records.asked) == is_asked
    assert (page.record is not None) == is_asked
