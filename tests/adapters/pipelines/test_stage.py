import asyncio
import time
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.statscollectors import DummyStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.crawl.engine_state import CrawlStop
from llmcrawler.errors import STOPPED, WorkGivenBack
from llmcrawler.items import Page, PageContent, PageError
from llmcrawler.pipelines.stages import RUNNING, OwnStage, Stage, StageRules
from tests.adapters.stubs import stub


class Noted(Stage):
    name = "noted"

    def __init__(self, seen):
        super().__init__(StageRules(DummyStatsCollector(get_crawler())))
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


def rules_with(stop, ledger=None):
    return StageRules(DummyStatsCollector(get_crawler()), ledger=ledger, stop=stop)


def own_stage(stop, ledger=None):
    """Returns the stage and an event that is set when its function, which has no end, has begun."""
    begun = asyncio.Event()

    async def function(_page):
        begun.set()
        await asyncio.Event().wait()

    return OwnStage(rules_with(stop, ledger), "own", function, 3), begun


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
