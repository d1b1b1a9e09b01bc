"""Maps a site: gives one line for each of its urls, most of them without fetching the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Response, TextResponse
from scrapy.robotstxt import RobotParser
from scrapy.settings import BaseSettings
from scrapy.utils.response import get_meta_refresh
from twisted.python.failure import Failure

from llmcrawler.core.content import Outline, read_outline
from llmcrawler.core.frontier import Lease, MapAdmission, UrlTask
from llmcrawler.core.urls import Listed, Sitemap, in_turns, normalise, origin_of
from llmcrawler.crawl.arguments import MapOptions
from llmcrawler.crawl.task_lists import CaptureIndex
from llmcrawler.engine.compat import close_spider_soon, is_closing
from llmcrawler.engine.error_pages import error_page
from llmcrawler.engine.failures import response_fault
from llmcrawler.engine.map_scheduler import MapScheduler, line_of_task
from llmcrawler.engine.own_schedulers import running_scheduler
from llmcrawler.engine.request_context import LATENCY, lease_of
from llmcrawler.engine.response_text import head_of, page_text, robots_tags_of
from llmcrawler.items import CDX, Page, Url
from llmcrawler.spiders.base import FrontierSpider, faulty_task
from llmcrawler.spiders.index_reader import IndexFault, IndexReader
from llmcrawler.spiders.lists import FEED, LLMS_TXT, ListLimits

logger = logging.getLogger(__name__)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_INLINE_BYTES = 256 * 2**10
_OWN_STAGES = (
    "page_content.ContentPipeline",
    "classify.ClassifyPipeline",
    "record.RecordPipeline",
    "feed.FeedPipeline",
)


class MapSpider(FrontierSpider):
    """Reads the site's lists, and looks through its pages for links; see docs/map.md for the arguments."""

    name = "map"
    Options: ClassVar[type[MapOptions]] = MapOptions
    LIST_LIMITS: ClassVar[ListLimits] = ListLimits(files=2000, feeds=10, levels=5)
    SCHEDULER_CLASS: ClassVar[type[MapScheduler]] = MapScheduler

    options: MapOptions

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Switch off the model and the stages of pages, whatever is set for other spiders; pipelines of the user's own
        stay.
        """
        super().update_settings(settings)
        settings.set("LLM_PROVIDER", "none", priority="cmdline")
        settings.set("SCHEDULER", "llmcrawler.engine.map_scheduler.MapScheduler", priority="spider")
        own = dict.fromkeys(f"llmcrawler.pipelines.{stage}" for stage in _OWN_STAGES)
        # As a whole: Scrapy puts the project's settings over a spider's once more, entry by entry.
        settings.set("ITEM_PIPELINES", {**settings["ITEM_PIPELINES"], **own}, priority="spider")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opened: set[str] = set()

    @property
    def admission(self) -> MapAdmission:
        assert isinstance(self.crawl.admission, MapAdmission)
        return self.crawl.admission

    @property
    def reads_lists(self) -> bool:
        return self._lists.pending > 0

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert response.request is not None
        lease = lease_of(response.request)
        target = _redirect_target(response)
        if target == lease.url and self._may_ask_again(response):  # the server wants a cookie first
            assert response.request is not None
            meta = {**response.request.meta, "redirect_times": response.meta.get("redirect_times", 0) + 1}
            yield response.request.replace(meta=meta)
            return
        line = line_of_task(lease)
        line.status, line.latency_seconds = response.status, response.meta.get(LATENCY)
        fault = response_fault(response)
        line.robots = self._robots(response)
        if target is not None:
            line.final_url = target
            if lease.task.depth == 0 and self.crawl.hosts.addresses.reason_to_refuse(target, response.url) is None:
                self.admission.scope.widen(target)
            await self._follow(lease, [target], lease.task.depth, lease.url)
        elif fault is not None:
            line.error = error_page(lease, *fault, response).error
            self.admission.note_links(lease.task)
        else:
            assert isinstance(response, TextResponse)  # response_fault saw to it
            outline = await self._outline(response)
            line.title = outline.title or line.title
            line.robots = self._robots(response, outline)
            if not self.crawl.page_robots.follows(line.robots):
                outline = replace(outline, links=(), feeds=())
            await self._look_through(outline, lease, response.url)
        if self.admission.matches(lease.url):
            yield line
        else:
            await self._scheduler().pass_over(lease)

    def line_of_fault(self, lease: Lease, page: Page) -> Url:
        line = line_of_task(lease, page.error)
        line.status = page.status
        return line

    async def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        if self._open_site(request.url):
            await self._lists.ask_named(robotparser, request.url)

    async def _queue_given(self) -> None:
        if self.options.cdx is not None:
            if not self._is_finished():
                await self._queue_indexed(self.options.cdx)
            return
        await self._scheduler().add(map(faulty_task, self.options.faulty))  # before places run out
        await self._scheduler().add(self.admission.of_start(self.options.urls))
        if not self._is_finished():
            for url in self.options.urls:
                self._open_site(url)

    def _is_finished(self) -> bool:
        return self.crawl.job is not None and self.crawl.job.resumed.finished

    async def _queue_indexed(self, index: CaptureIndex) -> None:
        async def take(urls: Sequence[str], address: str) -> int:
            tasks = self.admission.of_list(map(Listed, urls), CDX, address)
            return await self.admission.add(tasks, self._scheduler().add)

        engine = self.crawler.engine
        assert engine is not None
        reader = IndexReader(index, engine.crawl, take, self._wants_lists, partial(is_closing, self.crawler))
        hosts = dict.fromkeys(urlsplit(url).netloc for url in self.options.urls)
        try:
            await reader.read(tuple(hosts), subdomains=self.options.subdomains)
        except IndexFault as fault:
            logger.error("cdx=%s: not all of it was read: %s", index, fault)
            close_spider_soon(self.crawler, "index_failed")

    def _meta_of(self, _lease: Lease) -> dict[str, Any]:
        return {"dont_redirect": True}  # where a url leads to is a url of its own

    def _line_of_failure(self, page: Page, lease: Lease, _failure: Failure) -> Url:
        self.admission.note_links(lease.task)
        return self.line_of_fault(lease, page)

    def _open_site(self, url: str) -> bool:
        """Ask a host of the site for the lists that hosts usually have; False where there is nothing to ask."""
        if self.options.depth == 0 or self.options.cdx is not None or not self.admission.scope.has_site_of(url):
            return False
        origin = origin_of(url)
        if origin not in self._opened:
            self._opened.add(origin)
            self._lists.ask(origin, "/sitemap.xml", is_guess=True)
            self._lists.ask(origin, "/llms.txt", kind=LLMS_TXT, is_guess=True)
        return True

    async def _take_list(self, found: Sitemap, kind: str, address: str) -> str:
        new = there = 0
        for some in in_turns(found.urls, lambda listed: len(listed.url)):
            tasks = self.admission.of_list(some, kind, address)
            there += len(tasks)
            new += await self.admission.add(tasks, self._scheduler().add)
            await asyncio.sleep(0)
        return f"{len(found.urls):,} urls, {there:,} of the map, {new:,} of them new"

    def _wants_lists(self) -> bool:
        return self.admission.room > 0

    async def _outline(self, response: TextResponse) -> Outline:
        if len(response.body) <= _INLINE_BYTES:
            html = page_text(response)
        else:
            html = await asyncio.to_thread(page_text, response)
        return await self.crawl.understanding.reader.pages.apply(read_outline, html, response.url, url=response.url)

    def _robots(self, response: Response, outline: Outline | None = None) -> list[str] | None:
        metas = {} if outline is None else outline.robots
        return self.crawl.page_robots.directives(datetime.now(UTC), robots_tags_of(response), metas)

    async def _look_through(self, outline: Outline, lease: Lease, url: str) -> None:
        if self.options.depth == 0:
            return
        self._open_site(url)
        for feed in outline.feeds:
            if self.admission.scope.has_site_of(feed):
                self._lists.ask(url, feed, kind=FEED)
        await self._follow(lease, outline.links, lease.task.depth + 1, url)

    async def _follow(self, lease: Lease, links: Iterable[str], depth: int, referer: str) -> None:
        tasks: list[UrlTask] = []
        for turn, some in enumerate(in_turns(links, len)):
            if turn:
                await asyncio.sleep(0)
            tasks += self.admission.of_page(some, depth, referer)
        self.admission.note_links(lease.task, tasks)
        await self.admission.add(tasks, self._scheduler().add)

    def _may_ask_again(self, response: Response) -> bool:
        return bool(response.meta.get("redirect_times", 0) < self.crawler.settings.getint("REDIRECT_MAX_TIMES"))

    def _scheduler(self) -> MapScheduler:
        return running_scheduler(self.crawler, MapScheduler)


def _redirect_target(response: Response) -> str | None:
    """Return the url that a response leads to, by its status or by a refresh in the page."""
    location = response.headers.get("Location")
    if response.status in _REDIRECTS and location is not None:
        return normalise(location.decode("utf-8", "replace"), response.url)
    if isinstance(response, TextResponse) and response.status == 200:
        try:
            _seconds, target = get_meta_refresh(head_of(response))
        except ValueError:  # it leads to no url at all
            return None
        return normalise(target, response.url) if target else None
    return None
