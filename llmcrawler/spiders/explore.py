"""Explore a site: one line for each url that was tried."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response, TextResponse
from scrapy.robotstxt import RobotParser
from twisted.python.failure import Failure

from llmcrawler.arguments import ExploreOptions
from llmcrawler.content import decoded
from llmcrawler.errors import ContentError
from llmcrawler.frontier import Lease
from llmcrawler.items import Page, PageError, StageRun
from llmcrawler.middlewares.backoff import PUT_BACKS
from llmcrawler.middlewares.leases import error_page
from llmcrawler.middlewares.stored import STORED_PAGE, body_of
from llmcrawler.scheduler import LEASE, FrontierScheduler
from llmcrawler.spiders.failures import failure_kind, response_fault
from llmcrawler.storage import StoredPage
from llmcrawler.urls import normalise, parse_sitemap
from llmcrawler.wiring import Crawl, crawl_of

logger = logging.getLogger(__name__)

_LINKS_AT_ONCE = 200
_MAX_SITEMAPS = 50
_MAX_SITEMAP_LEVEL = 3


class ExploreSpider(Spider):
    """Follows links and sitemaps from the start urls; see README for the arguments."""

    name = "explore"
    Options: ClassVar[type[ExploreOptions]] = ExploreOptions

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.options = cls.Options.of(kwargs)
        spider._sitemaps_seen = set()
        crawler.signals.connect(spider.robots_parsed, signals.robots_parsed)
        return spider

    options: ExploreOptions
    _sitemaps_seen: set[str]

    @property
    def crawl(self) -> Crawl:
        return crawl_of(self.crawler)

    async def start(self) -> AsyncIterator[Any]:
        await self._scheduler().add(self.crawl.admission.given(self.options.urls))
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
        )

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        lease: Lease = response.meta[LEASE]
        fault = response_fault(response)
        if fault is not None:
            kind, message = fault
            page = error_page(lease, kind, message, response)
            self._add_facts(page, response)
        else:
            assert isinstance(response, TextResponse)  # response_fault saw to it
            page = await self._page_of(lease, response)
            await self.crawl.frontier.start(lease.url)
            await self._read(page, response)
            self.crawl.frontier.survive(lease.url)
        yield page

    def failed(self, failure: Failure) -> Any:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy's scraper
        lease: Lease = request.meta[LEASE]
        kind, message = failure_kind(failure.value)
        page = error_page(lease, kind, message, request=request)
        page.final_url = getattr(failure.value, "url", None)
        page.fetched_at = _now()
        if kind == "internal":
            logger.error("Error on %s", request.url, exc_info=failure.value)
            assert self.crawler.stats is not None
            self.crawler.stats.inc_value("llmcrawler/internal_errors")
        yield page

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        """Sitemaps are a source of links."""
        if self.options.depth == 0:
            return
        for url in getattr(getattr(robotparser, "rp", None), "sitemaps", ()):
            self._ask_sitemap(request.url, str(url), level=0)

    async def parse_sitemap(self, response: Response, level: int) -> None:
        sitemap = await asyncio.to_thread(parse_sitemap, response.body)
        logger.info("Sitemap %s: %d urls, %d sitemaps", response.url, len(sitemap.urls), len(sitemap.sitemaps))
        await self._follow([url for url, _lastmod in sitemap.urls], 1, response.url)
        for url in sitemap.sitemaps:
            self._ask_sitemap(response.url, url, level + 1)

    def sitemap_failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy's scraper
        logger.warning("Sitemap %s: %s", request.url, failure_kind(failure.value)[1])

    async def _page_of(self, lease: Lease, response: TextResponse) -> Page:
        """The page before its stages. With a JOBDIR its body is safe from here on, and is not fetched again."""
        stored: StoredPage | None = response.meta.get(STORED_PAGE)
        if stored is not None and stored.body is not None:
            page = Page.of_line({"url": lease.url, **(stored.line or {}), "error": None})
            page.stages = stored.stages
            page.fetched_at, page.latency_seconds = stored.body.fetched_at, stored.body.latency_seconds
        else:
            page = Page(url=lease.url)
            self._add_facts(page, response)
            if self.crawl.ledger is not None:
                await self._keep_body(page, response)
        page.status, page.depth, page.referer = response.status, lease.task.depth, lease.task.referer
        page.final_url = response.url if response.url != page.url else None
        return page

    async def _keep_body(self, page: Page, response: TextResponse) -> None:
        assert self.crawl.ledger is not None
        assert page.fetched_at is not None
        attempts = 1 + response.meta.get("retry_times", 0) + response.meta.get(PUT_BACKS, 0)
        started = time.time() - (page.latency_seconds or 0.0)
        page.stages["fetch"] = StageRun("success", None, attempts, started, page.latency_seconds or 0.0)
        await self.crawl.ledger.keep_body(page.url, body_of(response, page.fetched_at))

    async def _read(self, page: Page, response: TextResponse) -> None:
        try:
            page.html = decoded(response.body, response.text)
            page.content = await self.crawl.reader.read(page.html, response.url)
        except ContentError as error:
            page.error = PageError("content", "unreadable", str(error))
            return
        await self._follow([link.url for link in page.content.links], page.depth + 1, response.url)

    async def _follow(self, links: list[str], depth: int, referer: str) -> None:
        # A sitemap has up to 50,000 links; the event loop is never held for more than some milliseconds of them.
        for start in range(0, len(links), _LINKS_AT_ONCE):
            await self._scheduler().add(
                self.crawl.admission.admit(links[start : start + _LINKS_AT_ONCE], depth, referer)
            )
            if start:
                await asyncio.sleep(0)

    def _ask_sitemap(self, base: str, url: str, level: int) -> None:
        target = normalise(url, base)
        queued = self._scheduler().frontier.counts().queued
        wanted = len(self._sitemaps_seen) < _MAX_SITEMAPS and level <= _MAX_SITEMAP_LEVEL
        if target is None or target in self._sitemaps_seen or not wanted or queued > 10 * self.options.max_pages:
            return
        self._sitemaps_seen.add(target)
        assert self.crawler.engine is not None
        request = Request(
            target,
            callback=self.parse_sitemap,
            errback=self.sitemap_failed,
            cb_kwargs={"level": level},
            meta={"max_retry_times": 1, "autothrottle_dont_adjust_delay": True},  # it is large, and may hang
        )
        self.crawler.engine.crawl(request)

    def _add_facts(self, page: Page, response: Response) -> None:
        page.final_url = response.url if response.url != page.url else None
        page.latency_seconds = round(response.meta.get("download_latency", 0.0), 4)
        page.fetched_at = _now()

    def _scheduler(self) -> FrontierScheduler:
        assert self.crawler.engine is not None
        scheduler = self.crawler.engine.scheduler
        assert isinstance(scheduler, FrontierScheduler)
        return scheduler


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
