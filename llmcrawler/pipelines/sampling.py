"""The stages of a plan: what a page is as far as that is free, and what a model would be shown of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Any, Self

from scrapy.crawler import Crawler

from llmcrawler.classification import STRUCTURED_DATA, Rules, describe_page, tokens_of
from llmcrawler.configuration import page_types_of, record_types_of
from llmcrawler.extraction import PageBlocks, shown_blocks
from llmcrawler.items import Page, PageError
from llmcrawler.llm import estimate_tokens
from llmcrawler.pipelines.classify import ClassifyPipeline
from llmcrawler.planning import SampledPage
from llmcrawler.sampling import Sampler, sampler_of
from llmcrawler.urls import url_pattern
from llmcrawler.wiring import Crawl


class SampledLinks:
    """Before the content stage, which leaves nothing of them."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(sampler_of(crawler))

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is not None:
            self._sampler.note_links(item.url, (link.url for link in item.content.links))
        return item


class SamplingPipeline(ClassifyPipeline):
    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        super().__init__(crawler, crawl)
        self._sampler = sampler_of(crawler)
        self._record_types = record_types_of(crawler.settings, crawl.options)
        self._rules = Rules(page_types_of(crawl.options))
        self._budget_tokens = crawler.settings.getint("RECORD_SAMPLE_TOKENS")

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is None:
            kind = item.error.kind if item.error is not None else "content"
            self._sampler.note_page(SampledPage(item.url, url_pattern(item.url), error=kind), item.final_url)
        return await super().process_item(item)

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        question, assigned = await self._place(page)
        verdict = await self._crawl.classifier.classify(question)
        is_item = verdict.page_type in self._record_types
        item_type = verdict.page_type if is_item else self._rules.likeliest(question, self._record_types)
        sampled = SampledPage(
            url=page.url,
            pattern=url_pattern(page.url),
            template=assigned.template,
            page_type=verdict.page_type or "other",
            item_type=item_type or "",
            is_sure=verdict.decided_by == STRUCTURED_DATA,
            is_settled=assigned.settled,
            shown_tokens=tokens_of(describe_page(question)),
            block_tokens=await self._block_tokens(page, item_type),
            latency_seconds=page.latency_seconds or 0.0,
        )
        grouper = self._crawl.site_of(page.url).grouper
        self._sampler.note_page(sampled, page.final_url, grouper, page.content.features)
        return None

    async def _block_tokens(self, page: Page, page_type: str | None) -> int:
        if page.html is None or page_type is None:
            return 0
        return await asyncio.to_thread(_block_tokens, page.html, page.url, self._budget_tokens)

    async def close_spider(self) -> None:
        """Nothing was learned that is worth a line."""
        await self._crawl.close()


def _block_tokens(html: str, url: str, budget_tokens: int) -> int:
    blocks = shown_blocks(PageBlocks(html, url).listed(), (), budget_tokens)
    return estimate_tokens(json.dumps([asdict(block) for block in blocks], ensure_ascii=False))
