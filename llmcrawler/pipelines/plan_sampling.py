"""Fetches a sample of a site for `scrapy plan`, classifies its pages as far as that is free, and counts what a model
would be shown of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

from scrapy.crawler import Crawler

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.llm.usage import estimate_tokens
from llmcrawler.core.reporting.planning.site_sample import Draw, SampledPage, Sampler
from llmcrawler.core.understanding.classification.classify_prompt import describe_page
from llmcrawler.core.understanding.classification.page_asker import tokens_of
from llmcrawler.core.understanding.classification.question import STRUCTURED_DATA
from llmcrawler.core.understanding.extraction.blocks import listed_to_show, shown_blocks
from llmcrawler.core.understanding.extraction.record_schema import RecordTypes
from llmcrawler.core.understanding.extraction.training_run import TrainingRules
from llmcrawler.core.urls import url_pattern
from llmcrawler.crawl.configuration import SAMPLE_PAGES
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.stages import ClassifyPipeline, StageRules


@dataclass(eq=False)
class SampledLinks:
    """Keeps the links of each page, before the content stage drops them."""

    sampler: Sampler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        sampler = crawl_of(crawler).sampler
        assert sampler is not None
        return cls(sampler)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is not None:
            self.sampler.add_links(item.url, (link.url for link in item.content.links))
        return item


@dataclass(eq=False)
class SamplingPipeline(ClassifyPipeline):
    """Classifies without a model, and counts the tokens that one would be shown. Nothing is learned that is worth a
    line.
    """

    sampler: Sampler
    record_types: RecordTypes

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        assert crawl.sampler is not None
        return cls(
            StageRules.from_crawler(crawler),
            crawl.understanding.sites,
            crawl.understanding.classifier,
            crawl.sampler,
            crawl.record_types,
            crawler=crawler,
        )

    async def open_spider(self) -> None:
        """Ask for no model."""

    async def close_spider(self) -> None:
        assert self.crawler is not None
        await crawl_of(self.crawler).close()

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is None:
            error = item.error or PageError("content", "content", "content")
            self.sampler.failures.setdefault(error.kind, error.message)
            self.sampler.add_page(SampledPage(item.url, url_pattern(item.url), error=error.kind), item.final_url)
        elif isinstance(item, Page) and item.is_withheld:  # it comes, and costs nothing more
            seconds = item.latency_seconds or 0.0
            page = SampledPage(
                item.url, url_pattern(item.url), template="withheld", is_sure=True, latency_seconds=seconds
            )
            self.sampler.add_page(page, item.final_url)
        return await super().process_item(item)

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        question, assigned = await self._place(page)
        verdict = await self.classifier.classify(question)
        sampled = SampledPage(
            url=page.url,
            pattern=url_pattern(page.url),
            template=assigned.template,
            page_type=verdict.page_type or "other",
            is_sure=verdict.decided_by == STRUCTURED_DATA,
            is_settled=assigned.settled,
            shown_tokens=tokens_of(describe_page(question)),
            block_tokens=await self._block_tokens(page, verdict.page_type),
            latency_seconds=page.latency_seconds or 0.0,
        )
        match, title = self.sites.of(page.url).grouper.match, page.content.title
        self.sampler.add_page(sampled, page.final_url, partial(match, page.url, page.content.features, title=title))
        return None

    async def _block_tokens(self, page: Page, page_type: str | None) -> int:
        if page.html is None or page_type not in self.record_types:
            return 0
        return await asyncio.to_thread(_block_tokens, page.html, page.url, TrainingRules().budget_tokens)


def _block_tokens(html: str, url: str, budget_tokens: int) -> int:
    blocks = shown_blocks(listed_to_show(html, url, budget_tokens), {}, budget_tokens)
    return estimate_tokens(json.dumps([asdict(block) for block in blocks], ensure_ascii=False))


class SamplingScheduler(FrontierScheduler):
    """Tells the sampler of all urls that are found, and ends after PLAN_SAMPLE_PAGES pages."""

    def __init__(self, crawler: Crawler, crawl: CrawlContext) -> None:
        super().__init__(crawler, crawl)
        assert crawl.sampler is not None
        self.sampler = crawl.sampler
        self.budget.max_pages = min(self.budget.max_pages, crawler.settings.getint(SAMPLE_PAGES))
        self._draw = Draw()

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        tasks = list(tasks)
        self.sampler.add_urls(tasks)
        return await super().add(map(self._draw, tasks))
