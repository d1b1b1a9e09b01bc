"""Explores a site, and gives one line for each url that was tried."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from functools import cached_property
from typing import Any, ClassVar

from scrapy import Request
from scrapy.http import Response, TextResponse
from scrapy.robotstxt import RobotParser
from twisted.python.failure import Failure

from llmcrawler.core.frontier import Lease
from llmcrawler.core.frontier.site_views import block_facts
from llmcrawler.core.urls import Sitemap, UrlRefusalKind, in_turns, route_of
from llmcrawler.engine.error_pages import error_page
from llmcrawler.engine.failures import response_fault
from llmcrawler.engine.request_context import lease_of, response_context
from llmcrawler.engine.rights_files import RightsFiles
from llmcrawler.items import Link, Page
from llmcrawler.spiders.base import FrontierSpider, faulty_task
from llmcrawler.spiders.browser_pages import BrowserPages
from llmcrawler.spiders.page_builder import PageBuilder, add_facts, now
from llmcrawler.spiders.page_rights import PageRights

logger = logging.getLogger(__name__)


class ExploreSpider(FrontierSpider):
    """Follows links and sitemaps from the start urls; see docs/explore.md for the arguments."""

    name = "explore"
    WITHHOLDS: ClassVar[bool] = True  # what pages do not want to be indexed is not taken

    @property
    def worker(self) -> str:
        """Name of this worker, for %(worker)s in the uri of a feed; empty where no workers share the crawl."""
        return self.crawl.backend.worker

    @cached_property
    def _pages(self) -> PageBuilder:
        crawl, known = self.crawl, self.crawl.understanding
        return PageBuilder(
            known.reader,
            crawl.frontier,
            known.sites,
            known.records,
            crawl.page_robots,
            crawl.ledger,
            refreshes=crawl.options.refresh,
            withholds=self.WITHHOLDS,
            may_refuse=crawl.rights.policy.refusing_purpose is not None,
        )

    @cached_property
    def _browser(self) -> BrowserPages:
        return BrowserPages(self.crawl.rendering, self.crawl.understanding.reader.pages, self._pages)

    @cached_property
    def _rights(self) -> PageRights:
        return PageRights(self.crawl.rights, RightsFiles(self.crawler), self.crawl.ledger)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert response.request is not None
        lease = lease_of(response.request)
        if "#" not in response.url and route_of(lease.task.address):
            response = response.replace(url=response.url + route_of(lease.task.address))
        unchanged = self._pages.not_modified(lease, response)
        fault = response_fault(response)
        if unchanged is not None:
            await self._pages.keep_unchanged(unchanged)
            await self._rights.settle(unchanged, response)
            yield unchanged
        elif fault is not None:
            page = error_page(lease, *fault, response)
            assert response.request is not None
            page.change = self._pages.change_of_fault(page, response.request)
            add_facts(page, response)
            self._pages.note_robots(page, response)
            await self._rights.settle(page, response)
            yield page
        else:
            assert isinstance(response, TextResponse)  # response_fault saw to it
            links: list[Link] | None = None
            with self.crawl.arriving_pages.one():
                async with self._pages.html_of(response) as html:
                    is_new = response_context(response).stored is None
                    look = await self._browser.look(lease, response, html, reads=is_new)
                    if look.again is not None:
                        yield look.again
                        return
                    page = await self._pages.page_of(lease, response, html, look.content)
                    if page.content is not None:
                        if self.crawl.focused_crawl is None:
                            facts = page.block_facts or block_facts(page.url, page.content.blocks)
                            self.crawl.admission.views.note_page(page.url, facts)
                        links = [*page.content.links, *self._browser.more_links(lease, response)]
                        if not self.crawl.page_robots.follows(page.robots):
                            links = []
                        if not page.is_withheld:
                            await self._browser.refuse_shell(page, response, html)
                del html, look  # of a large page they are much, and the page may wait long for a verdict
                # In no place of those who read: links may wait long for a Redis that is away.
                if links is not None:
                    await self._follow(links, page.depth + 1, response.url, of=page.url)
            await self._rights.settle(page, response)
            yield page

    async def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        """Ask for the sitemaps that a robots.txt names, and follow what they list."""
        if self.options.depth != 0:
            await self._lists.ask_named(robotparser, request.url)

    def closed(self, _reason: str) -> None:
        """Say that `allow` has let no link through: a slip in it looks like a small site."""
        assert self.crawler.stats is not None
        stats = self.crawler.stats.get_stats()
        refused = self.crawl.admission.refused[UrlRefusalKind.NOT_ALLOWED]
        if refused and stats.get("llmcrawler/lines") == stats.get("llmcrawler/start_lines"):
            logger.warning("allow=%s matched none of the %d links that were found", self.options.allow[0], refused)

    async def _queue_given(self) -> None:
        await self._scheduler().add(map(faulty_task, self.options.faulty))  # before places run out
        await self._scheduler().add(self.crawl.admission.given(self.options.urls))

    def _meta_of(self, lease: Lease) -> dict[str, Any]:
        return self._browser.meta_of(lease)

    def _line_of_failure(self, page: Page, _lease: Lease, failure: Failure) -> Page:
        page.change = self._pages.change_of_fault(page, failure.request)  # type: ignore[attr-defined]  # see failed
        page.final_url = getattr(failure.value, "url", None)
        page.fetched_at = now()
        self._rights.note_failure(page)
        return page

    async def _take_list(self, found: Sitemap, _kind: str, address: str) -> str:
        listed = (Link(one.url, place="sitemap") for one in found.urls)
        await self._follow(listed, 1, address)
        return f"{len(found.urls):,} urls"

    def _wants_lists(self) -> bool:
        return self._scheduler().frontier.counts().queued <= 10 * self.options.max_pages

    async def _follow(self, links: Iterable[Link], depth: int, referer: str, of: str | None = None) -> None:
        """Queue links. `of` is the leased url whose page has them."""
        focused, views = self.crawl.focused_crawl, self.crawl.admission.views
        found = []
        for turn, part in enumerate(in_turns(links, lambda link: len(link.url))):
            if turn:
                await asyncio.sleep(0)
            some = {link.url: link for link in part}
            group_of = views.group_of if focused is None else focused.scorer.grouping(some)
            tasks = self.crawl.admission.admit(some, depth, referer, group_of)
            found += tasks
            await self._scheduler().add(tasks)
        if of is not None:
            (focused or views).note_links(of, found)
