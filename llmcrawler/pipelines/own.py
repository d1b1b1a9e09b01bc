"""The user's own stages: async functions of a page that the setting PAGE_STAGES names."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from llmcrawler.configuration import load_stages
from llmcrawler.feeds import clean
from llmcrawler.items import Page, PageError, StageRun
from llmcrawler.pipelines.stage import Stage
from llmcrawler.wiring import Crawl, crawl_of

OwnStage = Callable[[Page], Awaitable[Any]]

RUNNING = "running"  # the status of a stage that a process left behind when it died


class OwnStages:
    """Runs them one after the other. What a function returns stands in the page's `results` under its name."""

    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        functions = load_stages(crawler.settings)
        if not functions:
            raise NotConfigured
        crawl = crawl_of(crawler)
        return cls([_OneOwnStage(crawler, crawl, name, function) for name, function in functions.items()])

    async def process_item(self, item: Any) -> Any:
        for stage in self._stages:
            item = await stage.process_item(item)
        return item


class _OneOwnStage(Stage):
    costly_seconds = 0.0  # who knows what it did outside

    def __init__(self, crawler: Crawler, crawl: Crawl, name: str, function: OwnStage) -> None:
        super().__init__(crawler, crawl)
        self.name = name
        self._function = function
        self._max_deaths = crawler.settings.getint("MAX_LEASES")

    async def run(self, page: Page) -> PageError | None:
        if self._crawl.ledger is not None:
            earlier = page.stages.get(self.name)
            deaths = earlier.attempts if earlier is not None and earlier.status == RUNNING else 0
            if deaths >= self._max_deaths:
                return PageError(self.name, "lost", f"the crawl was taken down {deaths} times while it ran", deaths)
            run = StageRun(RUNNING, None, deaths + 1, time.time(), 0.0)
            await self._crawl.ledger.keep_stage(page.id, self.name, run)
        try:
            result = await self._function(page)
        finally:  # it may have put anything there, and the page is to have its line
            page.title, page.text, page.record = clean(page.title), clean(page.text), clean(page.record)
        try:
            json.dumps(result)
        except (TypeError, ValueError) as error:
            return PageError(self.name, "result", f"what the stage returned is not JSON: {error}")
        if result is not None:
            page.results = {**(page.results or {}), self.name: result}
        return None
