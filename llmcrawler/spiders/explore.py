"""Explores a site, and gives one line for each url that was tried: builds the page of a response, as it enters its
stages, and sends pages that come as empty shells to the browser.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, ClassVar

from scrapy import Request
from scrapy.http import Response, TextResponse
from scrapy.robotstxt import RobotParser
from twisted.python.failure import Failure

from llmcrawler.core.content.render_features import THIN_WORDS, RenderFeatures, may_need_browser, read_render_features
from llmcrawler.core.frontier.list_patterns import block_facts
from llmcrawler.core.frontier.protocol import Lease
from llmcrawler.core.storage import STAGES, StoredPage, body_hash
from llmcrawler.core.understanding.site_reader import (
    CHANGED,
    GONE,
    GONE_STATUSES,
    NEW,
    UNCHANGED,
    FetchedPage,
    PageReading,
    PageVersion,
    may_withhold,
)
from llmcrawler.core.urls import Sitemap, UrlRefusalKind, canonical_link, in_turns, route_of
from llmcrawler.crawl.context import CrawlContext
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.engine.failures import error_page, response_fault
from llmcrawler.engine.page_rights import PageRights, download_file
from llmcrawler.engine.request_context import (
    LATENCY,
    RENDER,
    RENDERED,
    attempts_of,
    context_of,
    lease_of,
    response_context,
)
from llmcrawler.engine.responses import (
    LINKS_HEADER,
    ROBOTS_HEADER,
    body_of,
    page_text,
    robots_tags_of,
    text_of,
)
from llmcrawler.errors import ContentError, TooCostly
from llmcrawler.items import Link, Page, PageError, StageRun
from llmcrawler.spiders.base import FrontierSpider, faulty_task

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
        return PageBuilder(self.crawl, withholds=self.WITHHOLDS)

    @cached_property
    def _rights(self) -> PageRights:
        return PageRights(self.crawl.rights, partial(download_file, self.crawler), self.crawl.ledger)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert response.request is not None
        lease = lease_of(response.request)
        if "#" not in response.url and route_of(lease.task.address):
            response = response.replace(url=response.url + route_of(lease.task.address))
        fault = response_fault(response)
        if (unchanged := self._pages.not_modified(lease, response)) is not None:
            page = unchanged
            await self._pages.keep_unchanged(page)
        elif fault is not None:
            page = error_page(lease, *fault, response)
            assert response.request is not None
            page.change = self._pages.change_of_fault(page, response.request)
            add_facts(page, response)
            self._pages.note_robots(page, response)
        else:
            assert isinstance(response, TextResponse)  # response_fault saw to it
            links: list[Link] | None = None
            with self.crawl.arriving_pages.one():
                async with self._pages.html_of(response) as html:
                    again, content = await self._pages.look(lease, response, html)
                    if again is not None:
                        yield again
                        return
                    page = await self._pages.page_of(lease, response, html, content)
                    if page.content is not None:
                        links = self._links_of(page, lease, response)
                        if not page.is_withheld:
                            await self._pages.refuse_shell(page, response, html)
                del html, content  # of a large page they are much, and the page may wait long for a verdict
                # In no place of those who read: links may wait long for a Redis that is away.
                if links is not None:
                    await self._follow(links, page.depth + 1, response.url, of=page.url)
        await self._rights.settle(page, response)
        yield page

    def _links_of(self, page: Page, lease: Lease, response: Response) -> list[Link]:
        assert page.content is not None
        if self.crawl.focused_crawl is None:
            facts = page.block_facts or block_facts(page.url, page.content.blocks)
            self.crawl.admission.list_patterns.note_page(page.url, facts)
        if not self.crawl.page_robots.follows(page.robots):
            return []
        if RENDERED not in response.flags and not lease.is_stored:
            return list(page.content.links)
        by_scripts = (response.headers.get(LINKS_HEADER) or b"").decode("latin-1").split()
        return [*page.content.links, *map(Link, by_scripts)]

    async def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        if self.options.depth != 0:
            await self._lists.ask_named(robotparser, request.url)

    def closed(self, _reason: str) -> None:
        """Count what was not fetched, and say that `allow` has let no link through: a slip in it looks like a small
        site.
        """
        assert self.crawler.stats is not None
        stats = self.crawler.stats.get_stats()
        for ending, count in self.crawl.admission.files.items():
            self.crawler.stats.inc_value(f"llmcrawler/file_links/{ending}", count)
        if self.crawl.rendering.unpressed:
            self.crawler.stats.inc_value("llmcrawler/unpressed_pages", self.crawl.rendering.unpressed)
        refused = self.crawl.admission.refused[UrlRefusalKind.NOT_ALLOWED]
        if refused and stats.get("llmcrawler/lines") == stats.get("llmcrawler/start_lines"):
            logger.warning("allow=%s matched none of the %d links found", self.options.allow[0], refused)

    async def _queue_given(self) -> None:
        await self._scheduler().add(map(faulty_task, self.options.faulty))  # before places run out
        await self._scheduler().add(self.crawl.admission.given(self.options.urls))

    def _meta_of(self, lease: Lease) -> dict[str, Any]:
        may_go = not lease.is_stored and _is_get(lease)
        return dict(_BY_BROWSER) if may_go and self.crawl.rendering.goes_straight(lease.task.address) else {}

    def _line_of_failure(self, page: Page, _lease: Lease, failure: Failure) -> Page:
        page.change = self._pages.change_of_fault(page, failure.request)  # type: ignore[attr-defined]  # see failed
        page.final_url = getattr(failure.value, "url", None)
        page.fetched_at = now()
        self._rights.note_failure(page)
        return page

    async def take_list(self, found: Sitemap, _kind: str, address: str) -> str:
        listed = (Link(one.url, place="sitemap") for one in found.urls)
        await self._follow(listed, 1, address)
        return f"{len(found.urls):,} urls"

    def wants_lists(self) -> bool:
        return self._scheduler().frontier.counts().queued <= 10 * self.options.max_pages

    async def _follow(self, links: Iterable[Link], depth: int, referer: str, of: str | None = None) -> None:
        """Queue links. `of` is the leased url whose page has them."""
        focused, patterns = self.crawl.focused_crawl, self.crawl.admission.list_patterns
        found = []
        for turn, part in enumerate(in_turns(links, lambda link: len(link.url))):
            if turn:
                await asyncio.sleep(0)
            some = {link.url: link for link in part}
            group_of = patterns.group_of if focused is None else focused.scorer.grouping(some)
            tasks = self.crawl.admission.admit(some, depth, referer, group_of)
            found += tasks
            await self._scheduler().add(tasks)
        if of is not None:
            (focused or patterns).note_links(of, found)


NOT_MODIFIED = 304
# In Scrapy's HTTP cache a page and what the browser makes of it would be one.
_BY_BROWSER = {RENDER: True, "dont_cache": True}
_RAW = "raw_page_features"  # in a request's meta: what came over plain HTTP
# A page that was read takes twenty times the memory of its body until its links are in the frontier. When pages come in
# faster than that, they wait as bodies.
_READ_AT_ONCE = 4
# Pages that are read in another process have places of their own, so that they are not in the way of the others.
_COSTLY_AT_ONCE = 16
_LARGE_AT_ONCE = 4
_LARGE_BYTES = 256 * 2**10
# A longer page is not kept for its record: it may wait long for a verdict, and beside many others.
_KEPT_CHARS = 2_000_000


class PageBuilder:
    """Makes pages of responses, or sends them to the browser. The last crawl's pages are compared where the crawl is a
    refresh. `withholds`: the content of pages is not taken whose `robots` say so.
    """

    def __init__(self, crawl: CrawlContext, *, withholds: bool = True) -> None:
        known = crawl.understanding
        self._reader, self._sites, self._records = known.reader, known.sites, known.records
        self._frontier, self._ledger = crawl.frontier, crawl.ledger
        self._rendering, self._robots = crawl.rendering, crawl.page_robots
        self._refreshes = crawl.options.refresh
        self._withholds = withholds
        self._may_refuse = crawl.rights.policy.refusing_purpose is not None
        self._places = asyncio.Semaphore(_READ_AT_ONCE * (1 + known.reader.most_workers))
        self._costly_places = asyncio.Semaphore(_COSTLY_AT_ONCE)
        self._large_places = asyncio.Semaphore(_LARGE_AT_ONCE)

    @asynccontextmanager
    async def html_of(self, response: TextResponse) -> AsyncIterator[str]:
        """Wait for a place among the pages that are read, and yield the page's text. Large pages have fewer places."""
        if len(response.body) > _LARGE_BYTES:
            async with self._large_places:
                yield await asyncio.to_thread(page_text, response)
            return
        html = page_text(response)
        places = self._places if self._reader.pages.is_cheap(html) else self._costly_places
        async with places:
            yield html

    async def page_of(
        self, lease: Lease, response: TextResponse, html: str, content: PageReading | ContentError | None = None
    ) -> Page:
        """Return the page. Its content is None where the stages have nothing to do: it cannot be read, or has not
        changed. With a JOBDIR the body is safe from here on. `content` is what `look` has returned.
        """
        before = response_context(response).stored
        is_restored = before is not None and before.body is not None and lease.is_stored
        is_new = before is None or before.body is None
        page = _restored(lease, before) if before is not None and is_restored else lease.task.page()
        if not is_restored:
            add_facts(page, response)
        page.status, page.depth, page.referer = response.status, lease.task.depth, lease.task.referer
        if is_new:
            self._keep_body(page, response, NEW if self._refreshes else None)
        if content is None and before is not None and not is_new and not is_restored:
            return await self._compared(lease, page, response, html, before)
        self._take(page, response, html, content or await self._read(lease, response, html))
        return page

    def not_modified(self, lease: Lease, response: Response) -> Page | None:
        """Return the page as it was before where the server answers that it has not changed; else None."""
        before = response_context(response).stored
        if response.status != NOT_MODIFIED or before is None or before.line is None:
            return None
        page = lease.task.page()
        page.fetched_at = now()
        # What a 304 leaves out still holds (RFC 9110, 15.4.5).
        return self._unchanged(page, before.line, [*(before.line.get("robots") or ()), *robots_tags_of(response)])

    def note_robots(self, page: Page, response: Response) -> None:
        """Put into the page what it says to robots, in its headers and its content; withhold it where they say so."""
        metas = page.content.robots if page.content is not None else {}
        self._mark(page, self._robots.directives(datetime.now(UTC), robots_tags_of(response), metas))

    def change_of_fault(self, page: Page, request: Request) -> str | None:
        """Return what has changed with a page that could not be fetched, where the crawl looks for changes."""
        if not self._refreshes or page.error is None:
            return None
        before = context_of(request).stored
        if before is None or before.line is None:
            return NEW
        earlier = before.line.get("error")
        if earlier is not None and earlier["kind"] == page.error.kind:
            return UNCHANGED
        return GONE if page.status in GONE_STATUSES else None

    async def keep_unchanged(self, page: Page) -> None:
        """Note in the ledger that the stored body is this crawl's too."""
        assert self._ledger is not None
        await self._ledger.note_unchanged(page.id)

    async def _compared(self, lease: Lease, page: Page, response: TextResponse, html: str, before: StoredPage) -> Page:
        assert before.body is not None
        was_fine = before.line is not None and before.line.get("error") is None
        if before.line is not None and before.line.get("duplicate_of") is not None:  # what it repeats may be gone
            page.duplicate_of, was_fine = before.line["duplicate_of"], False
        is_large = len(response.body) > _LARGE_BYTES
        digest = await asyncio.to_thread(body_hash, response.body) if is_large else body_hash(response.body)
        is_same = before.body.digest == digest
        if is_same and was_fine and self._says_the_same_to_robots(response, before):
            assert before.line is not None
            page = self._unchanged(page, before.line, before.line["robots"])
            await self.keep_unchanged(page)
            return page
        self._take(page, response, html, await self._read(lease, response, html))
        said = (before.line or {}).get("robots", page.robots)
        same = page.content is not None and page.robots == said and await self._says_the_same(page, before)
        page.change = UNCHANGED if same else CHANGED
        if before.line is not None and before.line["status"] in GONE_STATUSES:  # it has come back
            page.change = NEW
        self._keep_body(page, response, page.change)
        if same and was_fine:
            assert before.line is not None
            return self._unchanged(page, before.line, page.robots or ())
        return page

    def _says_the_same_to_robots(self, response: Response, before: StoredPage) -> bool:
        """Return whether headers say what they said, and no date that they named is over now."""
        if before.line is None or before.body is None or "robots" not in before.line:
            return False
        headers = [value for name, value in before.body.headers if name.lower() == ROBOTS_HEADER.lower()]
        said = before.line["robots"]
        return headers == robots_tags_of(response) and said == self._robots.directives(datetime.now(UTC), said or ())

    def _mark(self, page: Page, robots: list[str] | None) -> None:
        page.robots = robots
        if self._withholds and self._robots.withholds(robots):
            page.withhold()  # an earlier crawl may have read it

    def _unchanged(self, page: Page, line: dict[str, Any], robots: Iterable[str] | None) -> Page:
        """Return the page of the last crawl, with the times of this one and what it says to robots now. Its stages have
        nothing to do.
        """
        known = Page.of_line(line)
        known.id = page.id
        self._mark(known, self._robots.directives(datetime.now(UTC), robots or ()))
        known.change = UNCHANGED if known.robots == line.get("robots", known.robots) else CHANGED
        known.fetched_at, known.latency_seconds = page.fetched_at, page.latency_seconds or known.latency_seconds
        fetch = page.stages.get("fetch") or StageRun("success", None, 1, time.time(), known.latency_seconds or 0.0)
        skipped = StageRun("skipped", None, 0, time.time(), 0.0)
        known.stages = {"fetch": fetch, **dict.fromkeys(STAGES[1:], skipped)}
        if self._sites.duplicates is not None:
            self._sites.duplicates.keep_unchanged(known)
        if known.template is not None:
            grouper = self._sites.of(known.url).grouper
            known.template = grouper.count_earlier(known.id, known.template)
        return known

    async def _says_the_same(self, page: Page, before: StoredPage) -> bool:
        assert page.content is not None
        assert before.body is not None
        line = before.line or {}
        site, template, page_type = self._sites.of(page.url), line.get("template"), line.get("page_type")
        if before.body.body is None:  # STORE_BODIES is off: what is left to compare with
            return bool(line.get("content_hash") == await self._reader.main_hash(site, page.content))
        try:
            html = await asyncio.to_thread(text_of, before.body)
            fetched = FetchedPage(html, before.body.url, page.url)
            read = self._reader.read(site, fetched, with_features=False, with_main=False)
            old = PageVersion(html, (await read).content)
        except ContentError:
            return False
        learner = self._records.learner_of(site.name, site.grouper.resolve(template), page_type) if template else None

        async def record_of(version: PageVersion) -> dict[str, Any] | None:
            if learner is None:
                return None
            url = page.final_url or page.url
            return await self._records.record_by(learner, version.html, url, version.content.lang)

        try:
            new = PageVersion(page.html or "", page.content)
            return await self._reader.says_the_same(site, old, new, record_of)
        except TooCostly:
            return False

    def _keep_body(self, page: Page, response: TextResponse, change: str | None) -> None:
        page.change = change
        if self._ledger is None:
            return
        assert page.fetched_at is not None
        attempts = attempts_of(response.request)
        seconds = page.latency_seconds or 0.0
        page.stages["fetch"] = StageRun("success", None, attempts, time.time() - seconds, seconds)
        body = replace(body_of(response, page.fetched_at), change=change)
        self._ledger.keep_body(page.id, body, page.stages["fetch"])

    def _take(self, page: Page, response: Response, html: str, found: PageReading | ContentError) -> None:
        if isinstance(found, ContentError):
            page.error = PageError("content", found.kind, str(found))
            page.duplicate_of = None  # whatever it was before
        else:
            content, page.main, page.block_facts = found.content, found.main, found.facts
            header = b", ".join(response.headers.getlist("Link")).decode("latin-1")
            if header and "canonical" not in content.metadata and (named := canonical_link(header, response.url)):
                content = replace(content, metadata={**content.metadata, "canonical": named})
            page.content = content
            page.html = html if len(html) <= _KEPT_CHARS else None
        self.note_robots(page, response)

    async def look(
        self, lease: Lease, response: TextResponse, html: str
    ) -> tuple[Request | None, PageReading | ContentError | None]:
        """Return the request for the browser where the page needs it; and what has been read of the page in passing, or
        the error for which it could not be read.
        """
        assert response.request is not None
        address = lease.task.address
        if self._rendering.mode == NEVER or lease.is_stored or not _is_get(lease):
            return None, None
        raw: RenderFeatures | None = response.meta.get(_RAW)
        if RENDERED in response.flags and raw is not None:
            self._rendering.note(address, raw, await self._features(html, response.url, is_rendered=True))
        if RENDERED in response.flags or RENDER in response.meta:  # the latter: there is no browser
            return None, None
        content: PageReading | ContentError | None = None
        features: RenderFeatures | None = None
        if may_need_browser(html) and response_context(response).stored is None:
            content = await self._read(lease, response, html, with_features=True)
            features = None if isinstance(content, ContentError) else content.features
        elif may_need_browser(html):
            features = await self._features(html, response.url)
        features = features or RenderFeatures()
        if not self._rendering.wants(address, features):
            return None, content
        kept = {name: value for name, value in response.meta.items() if name != LATENCY}
        # A page does not refer to itself.
        meta = {**kept, **_BY_BROWSER, _RAW: features, "referrer_policy": "no-referrer"}
        return response.request.replace(url=response.url, meta=meta, dont_filter=True), None

    async def refuse_shell(self, page: Page, response: Response, html: str) -> None:
        """Give a page that holds nothing but scripts an error, so that it is not classified."""
        assert page.content is not None
        if page.content.cues.get("word_count", 0) > THIN_WORDS or page.error is not None:
            return
        is_rendered = RENDERED in response.flags
        features = await self._features(html, response.url, is_rendered=is_rendered)
        if not (features.is_blank if is_rendered else features.is_shell):
            return
        if is_rendered:
            why = "the page stayed empty in the browser as well"
        elif self._rendering.mode == NEVER:
            why = "the page is made by scripts: -a render=auto would render it"
        else:
            why = "the page is made by scripts and not rendered"
            why += ": see the log, or pages like it stayed empty in the browser"
        page.error = PageError("content", "empty_shell", why)
        page.title, page.lang = page.content.title or None, page.content.lang or None
        page.content = None

    async def _features(self, html: str, url: str, *, is_rendered: bool = False) -> RenderFeatures:
        """Read the features of a page by which a browser is chosen; none where it cannot be read, which its content
        will tell.
        """
        if not may_need_browser(html, is_rendered=is_rendered):
            return RenderFeatures()
        try:
            return await self._reader.pages.apply(read_render_features, html, is_rendered, url=url)
        except ContentError:
            return RenderFeatures()

    async def _read(
        self, lease: Lease, response: TextResponse, html: str, *, with_features: bool = False
    ) -> PageReading | ContentError:
        url = lease.task.page().url
        # Else headers, the last crawl or the page's rights decide whether, and with what, the site learns from it.
        with_main = not (
            self._may_refuse
            or response_context(response).stored is not None
            or RENDERED in response.flags
            or may_withhold(robots_tags_of(response))
            or b"canonical" in b" ".join(response.headers.getlist("Link"))
        )
        await self._frontier.start(lease.url)
        try:
            fetched = FetchedPage(html, response.url, url)
            site = self._sites.of(url)
            return await self._reader.read(site, fetched, with_features=with_features, with_main=with_main)
        except ContentError as error:
            return error
        finally:
            self._frontier.mark_survived(lease.url)


def add_facts(page: Page, response: Response) -> None:
    page.final_url = response.url if response.url != page.url else None
    page.latency_seconds = round(response.meta.get(LATENCY, 0.0), 4)
    context = response_context(response)
    date = context.exchanges[-1].date if context.exchanges else now()  # a revisit in an archive refers to it
    page.fetched_at = context.archived_at or date


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _restored(lease: Lease, before: StoredPage) -> Page:
    assert before.body is not None
    fresh = lease.task.page()
    page = Page.of_line({**(before.line or fresh.as_line()), "error": None})
    page.id = fresh.id
    page.stages = before.stages
    page.final_url = before.body.url if before.body.url != page.url else None
    page.fetched_at, page.latency_seconds = before.body.fetched_at, before.body.latency_seconds
    page.change = before.body.change
    return page


def _is_get(lease: Lease) -> bool:
    return bool(lease.task.details().get("method", "GET") == "GET")
