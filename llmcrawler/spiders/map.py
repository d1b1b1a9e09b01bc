"""Map a site: one line for each of its urls, most of them without fetching the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, ClassVar, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse
from scrapy.robotstxt import RobotParser
from scrapy.settings import BaseSettings
from scrapy.utils.response import get_meta_refresh
from twisted.python.failure import Failure

from llmcrawler.arguments import MapOptions
from llmcrawler.content import Outline, decoded, read_outline
from llmcrawler.frontier import Lease, MapAdmission
from llmcrawler.items import Page, Url
from llmcrawler.map_scheduler import MapScheduler, line_of_task
from llmcrawler.middlewares.leases import error_page
from llmcrawler.scheduler import LEASE
from llmcrawler.spiders.failures import failure_kind, response_fault
from llmcrawler.spiders.lists import FEED, LLMS_TXT, ListLimits, SiteLists
from llmcrawler.urls import Sitemap, normalise, origin_of
from llmcrawler.wiring import Crawl, crawl_of

logger = logging.getLogger(__name__)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LIMITS = ListLimits(files=2000, feeds=10, levels=5)
_LISTED_AT_ONCE = 500
_INLINE_CHARS = 200_000
_OWN_STAGES = ("content.ContentPipeline", "classify.ClassifyPipeline", "record.RecordPipeline", "feed.FeedPipeline")


class MapSpider(Spider):
    """Reads the site's lists, and looks through its pages for links; see docs/map.md for the arguments."""

    name = "map"
    Options: ClassVar[type[MapOptions]] = MapOptions

    options: MapOptions
    _lists: SiteLists
    _opened: set[str]

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """No model (whatever is set for other spiders), no stages of pages; pipelines of the user's own stay."""
        super().update_settings(settings)
        settings.set("LLM_PROVIDER", "none", priority="cmdline")
        settings.set("SCHEDULER", "llmcrawler.map_scheduler.MapScheduler", priority="spider")
        own = dict.fromkeys(f"llmcrawler.pipelines.{stage}" for stage in _OWN_STAGES)
        # As a whole: Scrapy puts the project's settings over a spider's once more, entry by entry.
        settings.set("ITEM_PIPELINES", {**settings["ITEM_PIPELINES"], **own}, priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.options = cls.Options.of(kwargs)
        spider._opened = set()
        spider._lists = SiteLists(crawler, spider._take_list, lambda: spider.admission.room > 0, _LIMITS)
        crawler.signals.connect(spider.robots_parsed, signals.robots_parsed)
        return spider

    @property
    def crawl(self) -> Crawl:
        return crawl_of(self.crawler)

    @property
    def admission(self) -> MapAdmission:
        assert isinstance(self.crawl.admission, MapAdmission)
        return self.crawl.admission

    @property
    def reads_lists(self) -> bool:
        return self._lists.pending > 0

    async def start(self) -> AsyncIterator[Any]:
        await self._scheduler().add(self.admission.of_start(self.options.urls))
        if self.crawl.job is None or not self.crawl.job.resumed.finished:
            for url in self.options.urls:
                self._open_site(url)
        requests: tuple[Request, ...] = ()
        for request in requests:  # Scrapy wants a generator; the requests come from the frontier
            yield request

    def request_of(self, lease: Lease) -> Request:
        return Request(
            lease.url,
            callback=self.parse,
            errback=self.failed,
            headers={"Referer": lease.task.referer} if lease.task.referer else None,
            dont_filter=True,
            meta={"dont_redirect": True},  # where a url leads to is a url of its own
        )

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        lease: Lease = response.meta[LEASE]
        target = _redirect_target(response)
        if target == lease.url and self._may_ask_again(response):  # the server wants a cookie first
            assert response.request is not None
            meta = {**response.request.meta, "redirect_times": response.meta.get("redirect_times", 0) + 1}
            yield response.request.replace(meta=meta)
            return
        line = line_of_task(lease)
        line.status, line.latency_seconds = response.status, response.meta.get("download_latency")
        fault = response_fault(response)
        if target is not None:
            line.final_url = target
            if lease.task.depth == 0:
                self.admission.scope.widen(target)
            await self._follow(lease, [target], lease.task.depth, lease.url)
        elif fault is not None:
            line.error = error_page(lease, *fault, response).error
            self.admission.note_links(lease.task)
        else:
            assert isinstance(response, TextResponse)  # response_fault saw to it
            outline = await self._outline(response)
            line.title = outline.title or line.title
            await self._look_through(outline, lease, response.url)
        if self.admission.matches(lease.url):
            yield line
        else:
            await self._scheduler().pass_over(lease)

    def failed(self, failure: Failure) -> Any:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy's scraper
        lease: Lease = request.meta[LEASE]
        kind, message = failure_kind(failure.value)
        if kind == "internal":
            logger.error("Error on %s", request.url, exc_info=failure.value)
            assert self.crawler.stats is not None
            self.crawler.stats.inc_value("llmcrawler/internal_errors")
        self.admission.note_links(lease.task)
        yield self.line_of_fault(lease, error_page(lease, kind, message, request=request))

    def line_of_fault(self, lease: Lease, page: Page) -> Url:
        line = line_of_task(lease, page.error)
        line.status = page.status
        return line

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        if not self._open_site(request.url):
            return
        for url in getattr(getattr(robotparser, "rp", None), "sitemaps", ()):
            self._lists.ask(request.url, str(url))

    def _open_site(self, url: str) -> bool:
        """Ask a host of the site for the lists that hosts have; False where there is nothing to ask."""
        if self.options.depth == 0 or not self.admission.scope.has_site_of(url):
            return False
        origin = origin_of(url)
        if origin not in self._opened:
            self._opened.add(origin)
            self._lists.ask(origin, "/sitemap.xml", is_guess=True)
            self._lists.ask(origin, "/llms.txt", kind=LLMS_TXT, is_guess=True)
        return True

    async def _take_list(self, found: Sitemap, kind: str, address: str) -> str:
        new = there = 0
        for start in range(0, len(found.urls), _LISTED_AT_ONCE):
            tasks = self.admission.of_list(found.urls[start : start + _LISTED_AT_ONCE], kind, address)
            there += len(tasks)
            new += await self.admission.add(tasks, self._scheduler().add)
            await asyncio.sleep(0)
        return f"{len(found.urls):,} urls, {there:,} of the map, {new:,} of them new"

    async def _outline(self, response: TextResponse) -> Outline:
        html = decoded(response.body, response.text)
        if len(html) <= _INLINE_CHARS:
            return read_outline(html, response.url)
        return await asyncio.to_thread(read_outline, html, response.url)

    async def _look_through(self, outline: Outline, lease: Lease, url: str) -> None:
        if self.options.depth == 0:
            return
        self._open_site(url)
        for feed in outline.feeds:
            if self.admission.scope.has_site_of(feed):
                self._lists.ask(url, feed, kind=FEED)
        await self._follow(lease, outline.links, lease.task.depth + 1, url)

    async def _follow(self, lease: Lease, links: Iterable[str], depth: int, referer: str) -> None:
        tasks = self.admission.of_page(links, depth, referer)
        self.admission.note_links(lease.task, tasks)
        await self.admission.add(tasks, self._scheduler().add)

    def _may_ask_again(self, response: Response) -> bool:
        return bool(response.meta.get("redirect_times", 0) < self.crawler.settings.getint("REDIRECT_MAX_TIMES"))

    def _scheduler(self) -> MapScheduler:
        assert self.crawler.engine is not None
        scheduler = self.crawler.engine.scheduler
        assert isinstance(scheduler, MapScheduler)
        return scheduler


def _redirect_target(response: Response) -> str | None:
    """Where a response leads to, by its status or by the page."""
    location = response.headers.get("Location")
    if response.status in _REDIRECTS and location is not None:
        return normalise(location.decode("utf-8", "replace"), response.url)
    if isinstance(response, TextResponse) and response.status == 200:
        _seconds, target = get_meta_refresh(response)
        return normalise(target, response.url) if target else None
    return None
