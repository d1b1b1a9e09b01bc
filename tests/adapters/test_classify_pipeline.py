"""The classification stage: a page whose group changes while it waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.settings import Settings

from llmcrawler.classification import LLM, TEMPLATE, Question, Verdict
from llmcrawler.items import Page, PageContent
from llmcrawler.pipelines.classify import ClassifyPipeline
from llmcrawler.templates import TemplateGrouper


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


@pytest.mark.parametrize(("decided_by", "expected"), [(TEMPLATE, ("product", 0.75)), (LLM, ("listing", 0.8))])
async def test_a_verdict_of_a_template_is_that_of_the_template_on_the_line(decided_by, expected) -> None:
    site = SimpleNamespace(name="site.test", grouper=TemplateGrouper(), regroupings=0)

    async def recluster(_site: object) -> None:
        return None

    crawl = SimpleNamespace(
        site_of=lambda _url: site,
        crew=None,
        recluster=recluster,
        sites={"site.test": site},
        classifier=Parting(site, decided_by),
        keep_progress=lambda _page: None,  # asked for on a machine that takes its time
    )
    page = Page(url="http://site.test/1")
    page.content = PageContent(features=frozenset({"html>body"}))
    stats = SimpleNamespace(set_value=lambda _name, _value: None, inc_value=lambda _name: None)
    crawler = SimpleNamespace(stats=stats, settings=Settings({"STAGE_TIMEOUT_SECONDS": 60}))
    await ClassifyPipeline(crawler, crawl).process_item(page)
    assert (page.page_type, page.confidence) == expected
