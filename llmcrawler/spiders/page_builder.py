"""Builds the page of a response, as it enters its stages, with what the job's ledger knows of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from scrapy import Request
from scrapy.http import Response, TextResponse

from llmcrawler.content import PageReader, content_hash, main_text
from llmcrawler.crawl.changes import CHANGED, GONE, GONE_STATUSES, NEW, UNCHANGED, PageVersion, says_the_same
from llmcrawler.crawl.context import ArrivingPages
from llmcrawler.crawl.site_registry import SiteRegistry
from llmcrawler.engine.request_context import LATENCY, attempts_of, context_of, response_context
from llmcrawler.engine.response_text import page_text
from llmcrawler.engine.stored_bodies import body_of, text_of
from llmcrawler.errors import ContentError, TooCostly
from llmcrawler.extraction import Records
from llmcrawler.frontier import Frontier, Lease
from llmcrawler.items import Page, PageContent, PageError, StageRun
from llmcrawler.storage import STAGES, Ledger, StoredPage, body_hash

NOT_MODIFIED = 304
# A page that was read takes twenty times the memory of its body until its links are in the frontier. When pages come in
# faster than that, they wait as bodies.
_READ_AT_ONCE = 4
# Pages that are read in another process have places of their own, so that they are not in the way of the others.
_COSTLY_AT_ONCE = 16
_LARGE_AT_ONCE = 4
_LARGE_BYTES = 256 * 2**10
# A longer page is not kept for its record: it may wait long for a verdict, and beside many others.
_KEPT_CHARS = 2_000_000


@dataclass(eq=False)
class PageBuilder:
    """Makes pages of responses. `ledger` is None without a job. `refreshes`: pages are compared with the last
    crawl's.
    """

    reader: PageReader
    frontier: Frontier
    sites: SiteRegistry
    records: Records
    arriving: ArrivingPages
    ledger: Ledger | None = None
    refreshes: bool = False

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(_READ_AT_ONCE)
        self._costly_places = asyncio.Semaphore(_COSTLY_AT_ONCE)
        self._large_places = asyncio.Semaphore(_LARGE_AT_ONCE)

    @asynccontextmanager
    async def html_of(self, response: TextResponse) -> AsyncIterator[str]:
        """Wait for a place among the pages that are read, and yield the page's text. Large pages have fewer places."""
        if len(response.body) > _LARGE_BYTES:
            with self.arriving.one():
                async with self._large_places:
                    yield await asyncio.to_thread(page_text, response)
            return
        html = page_text(response)
        places = self._places if self.reader.is_cheap(html) else self._costly_places
        with self.arriving.one():
            async with places:
                yield html

    async def page_of(
        self, lease: Lease, response: TextResponse, html: str, content: PageContent | ContentError | None = None
    ) -> Page:
        """Return the page. Its content is None where the stages have nothing to do: it cannot be read, or has not
        changed. With a JOBDIR the body is safe from here on. `content` is given where it has been read in passing, or
        why it could not be.
        """
        before = response_context(response).stored
        is_restored = before is not None and before.body is not None and lease.is_stored
        is_new = before is None or before.body is None
        page = _restored(lease, before) if before is not None and is_restored else lease.task.page()
        if not is_restored:
            add_facts(page, response)
        page.status, page.depth, page.referer = response.status, lease.task.depth, lease.task.referer
        if is_new:
            await self._keep_body(page, response, NEW if self.refreshes else None)
        if content is not None:
            self._take(page, html, content)
        elif before is None or is_new or is_restored:
            await self._read(page, response, html)
        else:
            page = await self._compared(page, response, html, before)
        return page

    def not_modified(self, lease: Lease, response: Response) -> Page | None:
        """Return the page as it was before where the server answers that it has not changed; else None."""
        before = response_context(response).stored
        if response.status != NOT_MODIFIED or before is None or before.line is None:
            return None
        page = lease.task.page()
        page.fetched_at = now()
        return self._unchanged(page, before.line)

    def change_of_fault(self, page: Page, request: Request) -> str | None:
        """Return what has changed with a page that could not be fetched, where the crawl looks for changes."""
        if not self.refreshes or page.error is None:
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
        assert self.ledger is not None
        await self.ledger.note_unchanged(page.id)

    async def _compared(self, page: Page, response: TextResponse, html: str, before: StoredPage) -> Page:
        """Compare a page with what the last crawl has kept of it."""
        assert before.body is not None
        was_fine = before.line is not None and before.line.get("error") is None
        if before.body.digest == await _hash_of(response.body) and was_fine:
            assert before.line is not None
            page = self._unchanged(page, before.line)
            await self.keep_unchanged(page)
            return page
        await self._read(page, response, html)
        same = page.content is not None and await self._says_the_same(page, before)
        page.change = UNCHANGED if same else CHANGED
        if before.line is not None and before.line["status"] in GONE_STATUSES:  # it has come back
            page.change = NEW
        await self._keep_body(page, response, page.change)
        if same and was_fine:
            assert before.line is not None
            return self._unchanged(page, before.line)
        return page

    def _unchanged(self, page: Page, line: dict[str, Any]) -> Page:
        """Return the page of the last crawl, with the times of this one. Its stages have nothing to do."""
        known = Page.of_line(line)
        known.id = page.id
        known.change = UNCHANGED
        known.fetched_at, known.latency_seconds = page.fetched_at, page.latency_seconds or known.latency_seconds
        fetch = page.stages.get("fetch") or StageRun("success", None, 1, time.time(), known.latency_seconds or 0.0)
        skipped = StageRun("skipped", None, 0, time.time(), 0.0)
        known.stages = {"fetch": fetch, **dict.fromkeys(STAGES[1:], skipped)}
        if known.template is not None:
            grouper = self.sites.of(known.url).grouper
            known.template = grouper.count_earlier(known.id, known.template)
        return known

    async def _says_the_same(self, page: Page, before: StoredPage) -> bool:
        assert page.content is not None
        assert before.body is not None
        boilerplate = self.sites.of(page.url).boilerplate
        line = before.line or {}
        if before.body.body is None:  # STORE_BODIES is off: what is left to compare with
            text = await asyncio.to_thread(main_text, page.content.blocks, boilerplate)
            return bool(line.get("content_hash") == await asyncio.to_thread(content_hash, text))
        try:
            html = await asyncio.to_thread(text_of, before.body)
            old = PageVersion(html, await self.reader.read(html, before.body.url))
        except ContentError:
            return False
        site, template, page_type = self.sites.of(page.url), line.get("template"), line.get("page_type")
        learner = self.records.learner_of(site.name, site.grouper.resolve(template), page_type) if template else None

        async def record_of(version: PageVersion) -> dict[str, Any] | None:
            if learner is None:
                return None
            url = page.final_url or page.url
            return await self.records.record_by(learner, version.html, url, version.content.lang)

        try:
            return await says_the_same(old, PageVersion(page.html or "", page.content), boilerplate, record_of)
        except TooCostly:
            return False

    async def _keep_body(self, page: Page, response: TextResponse, change: str | None) -> None:
        page.change = change
        if self.ledger is None:
            return
        assert page.fetched_at is not None
        attempts = attempts_of(response.request)
        seconds = page.latency_seconds or 0.0
        page.stages["fetch"] = StageRun("success", None, attempts, time.time() - seconds, seconds)
        body = replace(body_of(response, page.fetched_at), change=change)
        await self.ledger.keep_body(page.id, body, page.stages["fetch"])

    def _take(self, page: Page, html: str, content: PageContent | ContentError) -> None:
        if isinstance(content, ContentError):
            page.error = PageError("content", content.kind, str(content))
            return
        page.content = content
        page.html = html if len(html) <= _KEPT_CHARS else None

    async def _read(self, page: Page, response: TextResponse, html: str) -> None:
        await self.frontier.start(page.id)
        try:
            self._take(page, html, await self.reader.read(html, response.url))
        except ContentError as error:
            self._take(page, html, error)
        self.frontier.mark_survived(page.id)


def add_facts(page: Page, response: Response) -> None:
    page.final_url = response.url if response.url != page.url else None
    page.latency_seconds = round(response.meta.get(LATENCY, 0.0), 4)
    page.fetched_at = now()


async def _hash_of(body: bytes) -> bytes:
    return body_hash(body) if len(body) <= _LARGE_BYTES else await asyncio.to_thread(body_hash, body)


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
