"""Runs the user's own stages: async functions of a page that the setting PAGE_STAGES names."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from llmcrawler.core.storage.feeds import clean
from llmcrawler.crawl.configuration import load_stages
from llmcrawler.items import Page, PageError, StageRun
from llmcrawler.pipelines.stage import Stage, StageRules

RUNNING = "running"  # the status of a stage that a process left behind when it died


class OwnStages:
    """Runs the user's stages in their order. What a function returns stands in the page's `results` under its name."""

    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        functions = load_stages(crawler.settings)
        if not functions:
            raise NotConfigured
        rules, max_deaths = StageRules.from_crawler(crawler), crawler.settings.getint("MAX_LEASES")
        return cls([OwnStage(rules, name, function, max_deaths) for name, function in functions.items()])

    async def process_item(self, item: Any) -> Any:
        for stage in self._stages:
            item = await stage.process_item(item)
        return item


@dataclass(eq=False)
class OwnStage(Stage):
    """Runs a function on each page, but not on one on which the crawl has died `max_deaths` times."""

    name: str  # type: ignore[misc]  # of the class in other stages
    function: Callable[[Page], Awaitable[Any]]
    max_deaths: int

    costly_seconds = 0.0  # who knows what it did outside

    async def run(self, page: Page) -> PageError | None:
        if self.rules.ledger is not None:
            earlier = page.stages.get(self.name)
            deaths = earlier.attempts if earlier is not None and earlier.status == RUNNING else 0
            if deaths >= self.max_deaths:
                return PageError(self.name, "lost", f"the crawl was taken down {deaths} times while it ran", deaths)
            run = StageRun(RUNNING, None, deaths + 1, time.time(), 0.0)
            await self.rules.ledger.keep_stage(page.id, self.name, run)
        try:
            result = await self.function(page)
        except asyncio.CancelledError:
            if self.rules.ledger is not None and self.rules.stop.is_over:  # which is no death
                await self.rules.ledger.keep_stage(page.id, self.name, replace(run, attempts=deaths))
            raise
        finally:  # it may have put anything there, and the page is to have its line
            page.title, page.text, page.record = clean(page.title), clean(page.text), clean(page.record)
        try:
            json.dumps(result)
        except (TypeError, ValueError) as error:
            return PageError(self.name, "result", f"what the stage returned is not JSON: {error}")
        if result is not None:
            page.results = {**(page.results or {}), self.name: result}
        return None
