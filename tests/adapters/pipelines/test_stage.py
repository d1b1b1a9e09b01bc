import asyncio
import time
from typing import Any

from scrapy.statscollectors import DummyStatsCollector
from scrapy.utils.test import get_crawler

from llmcrawler.items import Page, PageContent
from llmcrawler.pipelines.stage import Stage, StageRules


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
