"""The content stage: a page's main text, without what repeats over its site."""

from __future__ import annotations

from dataclasses import replace

from llmcrawler.content import content_hash, main_text
from llmcrawler.items import Page, PageError
from llmcrawler.pipelines.stage import Stage


class ContentPipeline(Stage):
    name = "content"

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        boilerplate = self._crawl.site_of(page.url).boilerplate
        boilerplate.observe(page.content.blocks)
        page.text = main_text(page.content.blocks, boilerplate)
        page.content_hash = content_hash(page.text)
        page.title = page.content.title or None
        page.lang = page.content.lang or None
        # The largest parts of a page that may wait for long from here on, and nobody asks for them any more.
        page.content = replace(page.content, links=(), blocks=())
        return None

    async def restore(self, page: Page) -> None:
        """It is quickly done, and the later stages need it."""
        await self.run(page)
