"""Which pages the stage `record` asks for, by what is known of their type."""

from __future__ import annotations

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.core.understanding.extraction import RecordRules, Records
from llmcrawler.core.understanding.sites import Site
from llmcrawler.core.understanding.templates import TemplateGrouper
from llmcrawler.items import Page, PageContent
from llmcrawler.pipelines.stages import RecordPipeline, StageRules
from tests.adapters.stubs import stub

URL = "http://shop.test/lamp/"
LAMP = f'<script type="application/ld+json">{{"@type": "Product", "name": "A lamp", "url": "{URL}"}}</script>'


@pytest.mark.parametrize(
    ("page_type", "decided_by", "confidence", "tries_guesses", "has_record"),
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
    page_type: str, decided_by: str, confidence: float, tries_guesses: bool, has_record: bool
) -> None:
    site = Site("shop.test", "http://shop.test/", TemplateGrouper())
    rules, sites = StageRules(MemoryStatsCollector(get_crawler())), stub(of=lambda _url: site)
    stage = RecordPipeline(rules, sites, stub(), Records(None, RecordRules(tries_guesses=tries_guesses)))
    page = Page(URL, page_type=page_type, decided_by=decided_by, confidence=confidence)
    page.content, page.html, page.template = PageContent(), LAMP, "t1"
    await stage.process_item(page)
    assert (page.record is not None) == has_record
