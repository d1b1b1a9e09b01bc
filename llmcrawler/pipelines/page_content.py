"""Takes the main text of a page, without what repeats over its site: the stage `content`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.content import content_hash, main_text
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.items import Page, PageError, TextBlock
from llmcrawler.pipelines.stage import Stage, StageRules

_LONG_BLOCKS = 2_000
_LONG_CHARS = 200_000


def is_long(blocks: Sequence[TextBlock]) -> bool:
    """Return whether the page's text is more than some milliseconds of work."""
    return len(blocks) > _LONG_BLOCKS or sum(len(block.markdown) for block in blocks) > _LONG_CHARS


@dataclass(eq=False)
class ContentPipeline(Stage):
    """Takes the text, its hash, the title and the language from what was read of the page."""

    sites: SiteRegistry

    name = "content"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(StageRules.from_crawler(crawler), crawl_of(crawler).understanding.sites)

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        boilerplate = self.sites.of(page.url).boilerplate
        boilerplate.observe(page.content.blocks)
        if is_long(page.content.blocks):
            page.text = await asyncio.to_thread(main_text, page.content.blocks, boilerplate)
            page.content_hash = await asyncio.to_thread(content_hash, page.text)
        else:
            page.text = main_text(page.content.blocks, boilerplate)
            page.content_hash = content_hash(page.text)
        page.title = page.content.title or None
        page.lang = page.content.lang or None
        # The largest parts of a page that may wait for long from here on, and nobody asks for them any more.
        page.content = replace(page.content, links=(), blocks=())
        return None

    async def restore(self, page: Page) -> None:
        """Run the stage again: it is quickly done, and the later stages need its text."""
        await self.run(page)
