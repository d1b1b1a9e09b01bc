"""The stages of a page: what each makes of it, a page whose group changes while it waits, and what a stop cuts off."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.core.content import PageReader
from llmcrawler.core.storage import StoredBody
from llmcrawler.core.understanding.classification.question import LLM, TEMPLATE, Question, Verdict
from llmcrawler.core.understanding.extraction.records import RecordAnswer, RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.site_reader import SiteReader
from llmcrawler.core.understanding.sites import Site
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from llmcrawler.crawl.engine_state import CrawlStop
from llmcrawler.errors import STOPPED, WorkGivenBack
from llmcrawler.extensions.resume import ResumeExtension
from llmcrawler.items import Page, PageContent, PageError
from llmcrawler.pipelines.stages import (
    RUNNING,
    ClassifyPipeline,
    ContentPipeline,
    OwnStage,
    RecordPipeline,
    Stage,
    StageRules,
)
from tests.adapters.stubs import stub


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


def sites_of(site: Site) -> Any:
    """The registry of a crawl with one site."""

    async def recluster(_site: Site) -> None:
        return

    return stub(
        of=lambda _url: site,
        duplicates=None,
        template_count=1,
        count_templates=lambda _site: None,
        recluster=recluster,
    )


def rules_of(**given: Any) -> StageRules:
    return StageRules(MemoryStatsCollector(get_crawler()), **given)


@pytest.mark.parametrize(("decided_by", "expected"), [(TEMPLATE, ("product", 0.75)), (LLM, ("listing", 0.8))])
async def test_a_verdict_of_a_template_is_that_of_the_template_on_the_line(decided_by, expected) -> None:
    site = Site("site.test", "http://site.test/", TemplateGrouper())
    page = Page(url="http://site.test/1")
    page.content = PageContent(features=frozenset({"html>body"}))
    rules = rules_of(timeout_seconds=60)
    classifier: Any = Parting(site, decided_by)
    await ClassifyPipeline(rules, sites_of(site), classifier).process_item(page)
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
    rules = rules_of(timeout_seconds=60)
    classifier: Any = Parting(site, decided_by)
    records: Any = PartingRecords(site)
    await RecordPipeline(rules, sites_of(site), classifier, records).process_item(page)
    assert records.asked == asked
    assert (page.page_type, page.confidence, page.record) == expected


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
    records = Records(None, RecordRules(tries_guesses=tries_guesses))
    stage = RecordPipeline(rules_of(), sites_of(site), stub(), records)
    page = Page(URL, page_type=page_type, decided_by=decided_by, confidence=confidence)
    page.content, page.html, page.template = PageContent(), LAMP, "t1"
    await stage.process_item(page)
    assert (page.record is not None) == has_record


OFFER = "This week all lamps are sold for half of their price, and you are welcome to see them."


def html_of(number: int) -> str:
    story = " ".join(f"Lamp {number} of series {part} shines over the table, as good lamps do." for part in range(12))
    return (
        '<html><head><meta charset="utf-8"></head><body><div class="page"><div class="story">'
        f"<h1>Lamp {number}</h1><p>{story}</p></div>"
        f'<div class="rail"><h3>Offers</h3><p>{OFFER}</p><p>We are open from nine in the morning until the evening.</p>'
        "</div></div></body></html>"
    )


def sites() -> Any:
    return sites_of(Site("shop.test", "http://shop.test/", TemplateGrouper()))


async def texts(known: Any, numbers: range) -> list[str]:
    reader = PageReader(1_000_000)
    stage = ContentPipeline(rules_of(), known, SiteReader(reader))
    found = []
    for number in numbers:
        page = Page(f"http://shop.test/{number}")
        page.content = await reader.read(html_of(number), page.url)
        await stage.process_item(page)
        assert page.content is not None
        assert page.content.blocks == ()  # a page that waits for its verdict holds none
        found.append(page.text or "")
    return found


async def test_what_repeats_around_the_main_region_leaves_the_text_once_enough_pages_have_shown_it() -> None:
    first, *_, last = await texts(sites(), range(10))
    assert OFFER in first
    assert OFFER not in last
    assert "Lamp 9 of series 11" in last


async def test_texts_of_a_crawl_that_goes_on_are_those_of_one_that_was_not_killed() -> None:
    whole = await texts(sites(), range(14))
    earlier = [
        (f"http://shop.test/{n}", StoredBody(f"http://shop.test/{n}", 200, (), html_of(n).encode(), "", 0.0))
        for n in range(8)
    ]

    async def bodies(limit: int) -> list[tuple[str, StoredBody]]:
        return earlier[:limit]

    known = sites()
    resumed: Any = stub(job=stub(ledger=stub(bodies=bodies)), sites=known, reader=SiteReader(PageReader(1_000_000)))
    await ResumeExtension._observe_earlier_pages(resumed)
    assert await texts(known, range(8, 14)) == whole[8:]


class Noted(Stage):
    name = "noted"

    def __init__(self, seen):
        super().__init__(rules_of())
        self._seen = seen

    async def run(self, page):
        self._seen.append("stage")
        time.sleep(0.01)  # noqa: ASYNC251 - it holds the loop for so long at least


async def test_all_else_goes_on_between_two_stages_that_take_some_milliseconds():
    seen: list[Any] = []
    page = Page(url="http://a.test/")
    page.content = PageContent()
    for _ in range(2):
        asyncio.get_running_loop().call_soon(seen.append, "else")
        page.stages = {}
        await Noted(seen).process_item(page)
    assert seen == ["stage", "else", "stage", "else"]


def own_stage(stop, ledger=None):
    """Returns the stage and an event that is set when its function, which has no end, has begun."""
    begun = asyncio.Event()

    async def function(_page):
        begun.set()
        await asyncio.Event().wait()

    return OwnStage(rules_of(ledger=ledger, stop=stop), "own", function, 3), begun


def page_with_content():
    page = Page(url="http://a.test/")
    page.content = PageContent()
    return page


async def test_a_stage_is_cut_off_when_the_time_of_a_stopped_crawl_is_over():
    stop = CrawlStop()
    stage, begun = own_stage(stop)
    working = asyncio.ensure_future(stage.process_item(page_with_content()))
    await begun.wait()
    stop.end()
    page = await working
    assert page.error == PageError("own", STOPPED, "the crawl was stopped before this was done")
    late = await stage.process_item(page_with_content())  # it comes when all is over
    assert late.error == page.error


async def test_a_page_that_is_cut_off_goes_back_where_the_crawl_goes_on_later_and_that_is_no_death():
    kept = []

    async def keep_stage(_url, name, run):
        kept.append((name, run.status, run.attempts))

    stop = CrawlStop(goes_on_later=True)
    stage, begun = own_stage(stop, stub(keep_stage=keep_stage))
    working = asyncio.ensure_future(stage.process_item(page_with_content()))
    await begun.wait()
    stop.end()
    with pytest.raises(DropItem) as dropped:
        await working
    assert isinstance(dropped.value.__cause__, WorkGivenBack)
    assert kept == [("own", RUNNING, 1), ("own", RUNNING, 0)]


async def test_a_page_that_was_not_read_in_time_goes_back_too():
    stage, _ = own_stage(CrawlStop(goes_on_later=True))
    unread = Page(url="http://a.test/", error=PageError("content", STOPPED, "the crawl was stopped"))
    with pytest.raises(DropItem):
        await stage.process_item(unread)
    unread.error = PageError("content", "unreadable", "it is no page")
    assert await stage.process_item(unread) is unread
