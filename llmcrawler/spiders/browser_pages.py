"""Fetches pages that come as empty shells again by the browser, as far as the crawl's choice says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scrapy import Request
from scrapy.http import Response, TextResponse

from llmcrawler.core.content import PageReader
from llmcrawler.core.content.render_features import (
    THIN_WORDS,
    RenderFeatures,
    may_need_browser,
    read_render_features,
)
from llmcrawler.core.frontier import Lease
from llmcrawler.core.understanding.site_reader import PageReading
from llmcrawler.crawl.render_choice import NEVER, RenderChoice
from llmcrawler.engine.browser.page_scripts import LINKS_HEADER
from llmcrawler.engine.request_context import LATENCY, RENDER, RENDERED
from llmcrawler.errors import ContentError
from llmcrawler.items import Link, Page, PageError
from llmcrawler.spiders.page_builder import PageBuilder

# In Scrapy's HTTP cache a page and what the browser makes of it would be one.
_BY_BROWSER = {RENDER: True, "dont_cache": True}
_RAW = "raw_page_features"  # in a request's meta: what came over plain HTTP

_OF_THE_RESPONSE = (LATENCY,)


@dataclass(frozen=True, slots=True)
class PageLook:
    """Result of a look at a page: `again`, the request for the browser where the page needs it; or `content` where
    it was read in passing, or the error for which it could not be read.
    """

    again: Request | None = None
    content: PageReading | ContentError | None = None


@dataclass(eq=False)
class BrowserPages:
    """Decides which pages go to the browser, and says of pages that stay empty that they are."""

    choice: RenderChoice
    reader: PageReader
    pages: PageBuilder

    def meta_of(self, lease: Lease) -> dict[str, Any]:
        """Return the meta of a request that is made for a lease."""
        goes_straight = not lease.is_stored and _is_get(lease) and self.choice.goes_straight(lease.task.address)
        return dict(_BY_BROWSER) if goes_straight else {}

    async def look(self, lease: Lease, response: TextResponse, html: str, *, reads: bool) -> PageLook:
        """Tell whether a page needs the browser. `reads`: if it does not, its content is wanted."""
        assert response.request is not None
        if self.choice.mode == NEVER or lease.is_stored or not _is_get(lease):
            return PageLook()
        raw: RenderFeatures | None = response.meta.get(_RAW)
        if RENDERED in response.flags:
            if raw is not None:
                self.choice.note(lease.task.address, raw, await self._features(html, response.url, is_rendered=True))
            return PageLook()
        if RENDER in response.meta:  # there is no browser
            return PageLook()
        content, features = await self._content_and_features(lease, response, html, reads=reads)
        if not self.choice.wants(lease.task.address, features):
            return PageLook(content=content)
        # A page does not refer to itself.
        kept = {name: value for name, value in response.meta.items() if name not in _OF_THE_RESPONSE}
        meta = {**kept, **_BY_BROWSER, _RAW: features, "referrer_policy": "no-referrer"}
        return PageLook(response.request.replace(url=response.url, meta=meta, dont_filter=True))

    def more_links(self, lease: Lease, response: TextResponse) -> list[Link]:
        """Return the links that the browser has found and the body does not show."""
        if RENDERED not in response.flags and not lease.is_stored:
            return []
        return [Link(url) for url in (response.headers.get(LINKS_HEADER) or b"").decode("latin-1").split()]

    async def refuse_shell(self, page: Page, response: Response, html: str) -> None:
        """Give a page that holds nothing but scripts an error, so that it is not classified."""
        assert page.content is not None
        if page.content.cues.get("word_count", 0) > THIN_WORDS or page.error is not None:
            return
        is_rendered = RENDERED in response.flags
        features = await self._features(html, response.url, is_rendered=is_rendered)
        if features.is_blank if is_rendered else features.is_shell:
            page.error = PageError("content", "empty_shell", self._why(is_rendered=is_rendered))
            page.title, page.lang = page.content.title or None, page.content.lang or None
            page.content = None

    async def _content_and_features(
        self, lease: Lease, response: TextResponse, html: str, *, reads: bool
    ) -> tuple[PageReading | ContentError | None, RenderFeatures]:
        if not may_need_browser(html):
            return None, RenderFeatures()
        if not reads:
            return None, await self._features(html, response.url)
        found = await self.pages.read(lease, response, html, with_features=True)
        features = None if isinstance(found, ContentError) else found.features
        return found, features or RenderFeatures()

    async def _features(self, html: str, url: str, *, is_rendered: bool = False) -> RenderFeatures:
        """Read the features of a page by which a browser is chosen; none where it cannot be read, which its content
        will tell.
        """
        if not may_need_browser(html, is_rendered=is_rendered):
            return RenderFeatures()
        try:
            return await self.reader.apply(read_render_features, html, is_rendered, url=url)
        except ContentError:
            return RenderFeatures()

    def _why(self, *, is_rendered: bool) -> str:
        if is_rendered:
            return "the page stayed empty in the browser as well"
        if self.choice.mode == NEVER:
            return "the page is made by scripts: -a render=auto would render it"
        return "the page is made by scripts and not rendered: see the log, or pages like it stayed empty in the browser"


def _is_get(lease: Lease) -> bool:
    return bool(lease.task.details().get("method", "GET") == "GET")
