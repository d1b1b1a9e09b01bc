"""What the stage `content` makes of the pages of one site, in the order in which they come."""

from __future__ import annotations

from typing import Any

from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.core.content import PageReader
from llmcrawler.core.storage import StoredBody
from llmcrawler.core.understanding.site_reader import SiteReader
from llmcrawler.core.understanding.sites import Site
from llmcrawler.core.understanding.templates import TemplateGrouper
from llmcrawler.extensions.resume import ResumeExtension
from llmcrawler.items import Page
from llmcrawler.pipelines.stages import ContentPipeline, StageRules
from tests.adapters.stubs import stub

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
    site = Site("shop.test", "http://shop.test/", TemplateGrouper())
    return stub(of=lambda _url: site, duplicates=None)


async def texts(known: Any, numbers: range) -> list[str]:
    reader = PageReader(1_000_000)
    stage = ContentPipeline(StageRules(MemoryStatsCollector(get_crawler())), known, SiteReader(reader))
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
