"""Takes the main text of a page, without what repeats over its site: the stage `content`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from scrapy.crawler import Crawler

from llmcrawler.core.understanding.site_reader import SiteReader
from llmcrawler.core.understanding.sites import SiteRegistry
from llmcrawler.crawl.context import crawl_of
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.stage import Stage, StageRules


@dataclass(eq=False)
class ContentPipeline(Stage):
    """Takes the text, its hash, the title and the language from what was read of the page."""

    sites: SiteRegistry
    reader: SiteReader

    name = "content"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        known = crawl_of(crawler).understanding
        return cls(StageRules.from_crawler(crawler), known.sites, known.reader)

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        main, page.main = page.main, None
        if main is None:
            main = await self.reader.main_text(self.sites.of(page.url), page.content, page.final_url or page.url)
        page.text, page.content_hash, page.sketch = main
        page.title = page.content.title or None
        page.lang = page.content.lang or None
        # The largest parts of a page that may wait for long from here on, and nobody asks for them any more.
        page.content = replace(page.content, links=(), blocks=())
        return None

    async def restore(self, page: Page) -> None:
        """Run the stage again: it is quickly done, and the later stages need its text."""
        await self.run(page)
