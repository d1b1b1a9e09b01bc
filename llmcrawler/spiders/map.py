"""Maps a site: gives one line for each of its urls, most of them without fetching the page.

The urls come from pages that are looked through, and from lists of the site.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request, signals
from scrapy.http import Response, TextResponse
from scrapy.robotstxt import RobotParser
from scrapy.settings import BaseSettings
from scrapy.utils.python import global_object_name
from scrapy.utils.response import get_meta_refresh
from twisted.python.failure import Failure

from llmcrawler.core.content import Outline, read_outline
from llmcrawler.core.frontier.admission import LISTED_ONLY_PRIORITY, TEST_PRIORITY, MapAdmission
from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.core.storage import Outcome
from llmcrawler.core.urls import Sitemap, in_turns, normalise, origin_of
from llmcrawler.crawl.arguments import MapOptions
from llmcrawler.crawl.compat import engine_of, is_closing, settle_scraper, stats_of, wake_engine
from llmcrawler.crawl.configuration import LimitSettings
from llmcrawler.engine.failures import error_page, response_fault
from llmcrawler.engine.request_context import LATENCY, lease_of
from llmcrawler.engine.responses import head_of, page_text, robots_tags_of
from llmcrawler.engine.scheduler import FrontierScheduler, running_scheduler
from llmcrawler.items import Page, PageError, Url
from llmcrawler.spiders.base import FEED, LLMS_TXT, FrontierSpider, ListLimits, faulty_task

if TYPE_CHECKING:
    from llmcrawler.crawl.job import Job

_LINES_AT_ONCE = 100
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_INLINE_BYTES = 256 * 2**10
_OWN_STAGES = ("ContentPipeline", "ClassifyPipeline", "RecordPipeline", "FeedPipeline")


class MapScheduler(FrontierScheduler):
    """Leases pages to be looked through; when those are enough, it gives the lines of the urls that wait as they are.

    Each url is acknowledged with its line like any other, so a map that was killed goes on where it was.
    """

    _aside: tuple[Lease, ...] = ()  # leased to be listed
    _early: tuple[Lease, ...] = ()  # leased, and to go back
    _only_tests_wait = False

    def has_pending_requests(self) -> bool:
        return bool(super().has_pending_requests() or self._aside or self.frontier.counts().queued)

    async def pass_over(self, lease: Lease) -> None:
        if self._leases.pop(lease.url, None) is not None:
            await self.frontier.ack(lease.url, Outcome(None, {}))
            self._count()

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = await super().add(tasks)
        self._only_tests_wait = self._only_tests_wait and not new
        return new

    @property
    def _admission(self) -> MapAdmission:
        assert isinstance(self.admission, MapAdmission)
        return self.admission

    def _new_leases_left(self) -> int:
        return 0 if self._admission.reason_to_end is not None else super()._new_leases_left()

    async def _open(self) -> None:
        await super()._open()
        self.budget.refunds = 0  # a page that could not be had has cost a request too
        if self.backend.job is not None:
            self.budget.spent = await self.backend.job.ledger.tried_count()

    def _resume_budget(self, job: Job) -> None:
        """Do nothing: most lines of earlier runs were no pages, and `_open` counts those that were."""

    async def _fill(self) -> None:
        spider: MapSpider = self.crawler.spider  # type: ignore[assignment]  # the one that chose this scheduler
        engine = engine_of(self.crawler)
        scraper = engine.scraper.slot
        is_quiet = not self._waiting and not self._delayed and not engine.downloader.active
        # Lists tell what the pages are worth; but a request that was dropped without a word is no reason to wait.
        if spider.reads_lists and not (is_quiet and (scraper is None or scraper.is_idle())):
            return
        if not self.may_lease():
            self._note_end()
            await self._list_all()
        elif not (self._only_tests_wait and self._has_better()):
            await super()._fill()
            for lease in self._early:
                await self.frontier.release(lease.url)
            self._early = ()
            await self._list(self._aside)

    def _has_better(self) -> bool:
        """Return whether pages that no list has are on their way: they may lead to more of their kind."""
        return any(lease.task.priority < TEST_PRIORITY for lease in self._leases.values())

    def _take(self, leases: Iterable[Lease]) -> None:
        wanted = list(leases)
        super()._take(lease for lease in wanted if lease.task.priority < TEST_PRIORITY)
        tests = tuple(lease for lease in wanted if TEST_PRIORITY <= lease.task.priority < LISTED_ONLY_PRIORITY)
        if self._has_better():
            self._early, self._only_tests_wait = tests, bool(tests)
        else:
            super()._take(tests)
        self._aside = tuple(lease for lease in wanted if lease.task.priority >= LISTED_ONLY_PRIORITY)
        if self._aside:
            self._refill.set()  # they leave room for others

    async def _list_all(self) -> None:
        self._aside = tuple(self._buffer.drain())
        self.budget.spent -= len(self._aside)
        while self._aside or self.frontier.counts().queued:
            await self._list(self._aside)
            if is_closing(self.crawler):
                break
            self._is_leasing = True
            try:
                self._aside = tuple(await self.frontier.lease(_LINES_AT_ONCE, {}, _LINES_AT_ONCE))
            finally:
                self._is_leasing = False
        wake_engine(self.crawler)

    async def _list(self, leases: tuple[Lease, ...]) -> None:
        if not leases:
            return
        self._leases |= {lease.url: lease for lease in leases}
        scraper = engine_of(self.crawler).scraper
        passed_over = [self.pass_over(lease) for lease in leases if not self._admission.matches(lease.url)]
        lines = [line_of_task(lease) for lease in leases if self._admission.matches(lease.url)]
        await asyncio.gather(*passed_over, *(scraper.start_itemproc_async(line, response=None) for line in lines))
        self._aside = ()
        settle_scraper(self.crawler)  # one that is being closed waits for these lines too

    def _note_end(self) -> None:
        stats = stats_of(self.crawler)
        if stats.get_value("llmcrawler/map_end") is None:
            reason = self._admission.reason_to_end
            more = self.frontier.counts().queued + len(self._buffer)
            reason = reason or f"max_pages={self.budget.max_pages} looked through, {more:,} more urls were not"
            stats.set_value("llmcrawler/map_end", reason)

    async def _item_is_through(self, item: object) -> None:
        if isinstance(item, Url) and item.id in self._leases:
            stats = stats_of(self.crawler)
            stats.inc_value("llmcrawler/urls")
            stats.inc_value(f"llmcrawler/urls/{item.source}")
            if item.was_tried:
                stats.inc_value("llmcrawler/pages")
            if item.error is not None:
                stats.inc_value(f"llmcrawler/errors/{item.error.stage}/{item.error.kind}")
        await super()._item_is_through(item)

    async def _close(self, reason: str) -> None:
        if self.backend.job is None and reason != "finished":
            self._stop_filling()
            await self._list_at_the_end()
        await super()._close(reason)

    async def _list_at_the_end(self) -> None:
        """Write the lines of all urls that are known, when a map is cut short and cannot go on. The pipelines are
        closed by now, the feeds are not.
        """
        leases = self.held_leases()
        while leases:
            self._leases |= {lease.url: lease for lease in leases}
            for lease in leases:
                if self._admission.matches(lease.url):
                    about = {"item": line_of_task(lease), "response": None, "spider": self.crawler.spider}
                    await self.crawler.signals.send_catch_log_async(signals.item_scraped, **about)
            leases = await self.frontier.lease(_LINES_AT_ONCE, {}, _LINES_AT_ONCE)


def line_of_task(lease: Lease, error: PageError | None = None) -> Url:
    """Return the item of a url whose page was not fetched, or failed."""
    line = lease.task.url_line()
    line.error = PageError("fetch", "url", lease.task.fault) if lease.task.fault else error
    return line


class MapSpider(FrontierSpider):
    """Reads the site's lists, and looks through its pages for links; see docs/map.md for the arguments."""

    name = "map"
    Options: ClassVar[type[MapOptions]] = MapOptions
    LIST_LIMITS: ClassVar[ListLimits] = ListLimits(files=2000, feeds=10, levels=5)
    SCHEDULER_CLASS: ClassVar[type[MapScheduler]] = MapScheduler

    options: MapOptions

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Switch off the model and the stages of pages, whatever is set; pipelines of the user's own stay."""
        super().update_settings(settings)
        settings.set("LLM_PROVIDER", "none", priority="cmdline")
        settings.set("SCHEDULER", global_object_name(cls.SCHEDULER_CLASS), priority="spider")
        own = dict.fromkeys(f"llmcrawler.pipelines.stages.{stage}" for stage in _OWN_STAGES)
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
        redirects = response.meta.get("redirect_times", 0)
        may_ask_again = redirects < LimitSettings.of(self.crawler.settings).redirect_max_times
        if target == lease.url and may_ask_again:  # the server wants a cookie first
            yield response.request.replace(meta={**response.request.meta, "redirect_times": redirects + 1})
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
            is_large = len(response.body) > _INLINE_BYTES
            html = await asyncio.to_thread(page_text, response) if is_large else page_text(response)
            pages = self.crawl.understanding.reader.pages
            outline = await pages.apply(read_outline, html, response.url, url=response.url)
            line.title = outline.title or line.title
            line.robots = self._robots(response, outline)
            if not self.crawl.page_robots.follows(line.robots):
                outline = replace(outline, links=(), feeds=())
            if self.options.depth != 0:
                self._open_site(response.url)
                for feed in outline.feeds:
                    if self.admission.scope.has_site_of(feed):
                        self._lists.ask(response.url, feed, kind=FEED)
                await self._follow(lease, outline.links, lease.task.depth + 1, response.url)
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
        is_finished = self.crawl.job is not None and self.crawl.job.resumed.finished
        await self._scheduler().add(map(faulty_task, self.options.faulty))  # before places run out
        await self._scheduler().add(self.admission.of_start(self.options.urls))
        if not is_finished:
            for url in self.options.urls:
                self._open_site(url)

    def _meta_of(self, _lease: Lease) -> dict[str, Any]:
        return {"dont_redirect": True}  # where a url leads to is a url of its own

    def _line_of_failure(self, page: Page, lease: Lease, _failure: Failure) -> Url:
        self.admission.note_links(lease.task)
        return self.line_of_fault(lease, page)

    def _open_site(self, url: str) -> bool:
        """Ask a host of the site for the lists that hosts usually have; False where there is nothing to ask."""
        if self.options.depth == 0 or not self.admission.scope.has_site_of(url):
            return False
        origin = origin_of(url)
        if origin not in self._opened:
            self._opened.add(origin)
            self._lists.ask(origin, "/sitemap.xml", is_guess=True)
            self._lists.ask(origin, "/llms.txt", kind=LLMS_TXT, is_guess=True)
        return True

    async def take_list(self, found: Sitemap, kind: str, address: str) -> str:
        new = there = 0
        for some in in_turns(found.urls, lambda listed: len(listed.url)):
            tasks = self.admission.of_list(some, kind, address)
            there += len(tasks)
            new += await self.admission.add(tasks, self._scheduler().add)
            await asyncio.sleep(0)
        return f"{len(found.urls):,} urls, {there:,} of the map, {new:,} of them new"

    def wants_lists(self) -> bool:
        return self.admission.room > 0

    def _robots(self, response: Response, outline: Outline | None = None) -> list[str] | None:
        metas = {} if outline is None else outline.robots
        return self.crawl.page_robots.directives(datetime.now(UTC), robots_tags_of(response), metas)

    async def _follow(self, lease: Lease, links: Iterable[str], depth: int, referer: str) -> None:
        tasks: list[UrlTask] = []
        for turn, some in enumerate(in_turns(links, len)):
            if turn:
                await asyncio.sleep(0)
            tasks += self.admission.of_page(some, depth, referer)
        self.admission.note_links(lease.task, tasks)
        await self.admission.add(tasks, self._scheduler().add)

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
