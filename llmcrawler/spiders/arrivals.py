"""From a response to the page before its stages, with what the job's ledger knows of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from scrapy import Request
from scrapy.http import Response, TextResponse

from llmcrawler.changes import CHANGED, GONE, GONE_STATUSES, NEW, UNCHANGED, Version, says_the_same
from llmcrawler.content import content_hash, main_text
from llmcrawler.engine.request_context import LATENCY, attempts_of, context_of, response_context
from llmcrawler.engine.response_text import page_text
from llmcrawler.engine.stored_bodies import body_of, text_of
from llmcrawler.errors import ContentError, TooCostly
from llmcrawler.frontier import Lease
from llmcrawler.items import Page, PageContent, PageError, StageRun
from llmcrawler.storage import StoredPage
from llmcrawler.storage.ledger import STAGES, body_hash
from llmcrawler.wiring import Crawl

NOT_MODIFIED = 304
# A page that was read takes twenty times the memory of its body until its links are in the frontier. When pages come in
# faster than that, they wait as bodies.
_READ_AT_ONCE = 4
# What is read in another process waits for that apart, so that it is not in the way of the others.
_COSTLY_AT_ONCE = 16
_LARGE_AT_ONCE = 4
_LARGE_BYTES = 256 * 2**10
# A longer page is not kept for its record: it may wait long for a verdict, and beside many others.
_KEPT_CHARS = 2_000_000


class Arrivals:
    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._places = asyncio.Semaphore(_READ_AT_ONCE)
        self._costly_places = asyncio.Semaphore(_COSTLY_AT_ONCE)
        self._large_places = asyncio.Semaphore(_LARGE_AT_ONCE)

    @asynccontextmanager
    async def html_of(self, response: TextResponse) -> AsyncIterator[str]:
        """The text of a page, for who reads it. Few are read at a time, and few large ones are there as text."""
        if len(response.body) > _LARGE_BYTES:
            with self._arriving():
                async with self._large_places:
                    yield await asyncio.to_thread(page_text, response)
            return
        html = page_text(response)
        places = self._places if self._crawl.reader.is_cheap(html) else self._costly_places
        with self._arriving():
            async with places:
                yield html

    async def page_of(
        self, lease: Lease, response: TextResponse, html: str, content: PageContent | ContentError | None = None
    ) -> Page:
        """The page, for who looks into its content, which is None where the stages have nothing to do: it cannot be
        read, or has not changed. With a JOBDIR the body is safe from here on. `content`: where it has been read, or
        why it could not be.
        """
        before = response_context(response).stored
        is_restored = before is not None and before.body is not None and lease.is_stored
        is_new = before is None or before.body is None
        page = _restored(lease, before) if before is not None and is_restored else lease.task.page()
        if not is_restored:
            add_facts(page, response)
        _place(page, lease, response)
        if is_new:
            await self._keep_body(page, response, NEW if self._crawl.options.refresh else None)
        if content is not None:
            self._take(page, html, content)
        elif before is None or is_new or is_restored:
            await self._read(page, response, html)
        else:
            page = await self._compared(page, response, html, before)
        return page

    @contextmanager
    def _arriving(self) -> Iterator[None]:
        self._crawl.arriving += 1
        try:
            yield
        finally:
            self._crawl.arriving -= 1

    def not_modified(self, lease: Lease, response: Response) -> Page | None:
        """The page as it was, where the server says so and it was asked."""
        before = response_context(response).stored
        if response.status != NOT_MODIFIED or before is None or before.line is None:
            return None
        page = lease.task.page()
        page.fetched_at = now()
        return self._unchanged(page, before.line)

    def change_of_fault(self, page: Page, request: Request) -> str | None:
        """Of a page that could not be had."""
        if not self._crawl.options.refresh or page.error is None:
            return None
        before = context_of(request).stored
        if before is None or before.line is None:
            return NEW
        earlier = before.line.get("error")
        if earlier is not None and earlier["kind"] == page.error.kind:
            return UNCHANGED
        return GONE if page.status in GONE_STATUSES else None

    async def note_unchanged(self, page: Page) -> None:
        assert self._crawl.ledger is not None
        await self._crawl.ledger.note_unchanged(page.id)

    async def _compared(self, page: Page, response: TextResponse, html: str, before: StoredPage) -> Page:
        """A page that is known from before, in a crawl that refreshes."""
        assert before.body is not None
        was_fine = before.line is not None and before.line.get("error") is None
        if before.body.digest == await _hash_of(response.body) and was_fine:
            assert before.line is not None
            page = self._unchanged(page, before.line)
            await self.note_unchanged(page)
            return page
        await self._read(page, response, html)
        same = page.content is not None and await self._says_the_same(page, before)
        page.change = UNCHANGED if same else CHANGED
        if before.line is not None and before.line["status"] in GONE_STATUSES:  # who took it out when it was gone
            page.change = NEW
        await self._keep_body(page, response, page.change)
        if same and was_fine:
            assert before.line is not None
            return self._unchanged(page, before.line)
        return page

    def _unchanged(self, page: Page, line: dict[str, Any]) -> Page:
        """The line of before, but for when it was looked at. Its stages have nothing to do."""
        known = Page.of_line(line)
        known.id = page.id
        known.change = UNCHANGED
        known.fetched_at, known.latency_seconds = page.fetched_at, page.latency_seconds or known.latency_seconds
        fetch = page.stages.get("fetch") or StageRun("success", None, 1, time.time(), known.latency_seconds or 0.0)
        skipped = StageRun("skipped", None, 0, time.time(), 0.0)
        known.stages = {"fetch": fetch, **dict.fromkeys(STAGES[1:], skipped)}
        if known.template is not None:
            grouper = self._crawl.site_of(known.url).grouper
            known.template = grouper.count_earlier(known.id, known.template)
        return known

    async def _says_the_same(self, page: Page, before: StoredPage) -> bool:
        assert page.content is not None
        assert before.body is not None
        boilerplate = self._crawl.site_of(page.url).boilerplate
        line = before.line or {}
        if before.body.body is None:  # STORE_BODIES is off: what is left to compare with
            text = await asyncio.to_thread(main_text, page.content.blocks, boilerplate)
            return bool(line.get("content_hash") == await asyncio.to_thread(content_hash, text))
        try:
            html = await asyncio.to_thread(text_of, before.body)
            old = Version(html, await self._crawl.reader.read(html, before.body.url))
        except ContentError:
            return False
        site, template, page_type = self._crawl.site_of(page.url), line.get("template"), line.get("page_type")
        learner = (
            self._crawl.records.learner_of(site.name, site.grouper.resolve(template), page_type) if template else None
        )

        async def record_of(version: Version) -> dict[str, Any] | None:
            if learner is None:
                return None
            url = page.final_url or page.url
            return await self._crawl.records.record_by(learner, version.html, url, version.content.lang)

        try:
            return await says_the_same(old, Version(page.html or "", page.content), boilerplate, record_of)
        except TooCostly:
            return False

    async def _keep_body(self, page: Page, response: TextResponse, change: str | None) -> None:
        page.change = change
        if self._crawl.ledger is None:
            return
        assert page.fetched_at is not None
        attempts = attempts_of(response.request)
        seconds = page.latency_seconds or 0.0
        page.stages["fetch"] = StageRun("success", None, attempts, time.time() - seconds, seconds)
        body = replace(body_of(response, page.fetched_at), change=change)
        await self._crawl.ledger.keep_body(page.id, body, page.stages["fetch"])

    def _take(self, page: Page, html: str, content: PageContent | ContentError) -> None:
        if isinstance(content, ContentError):
            page.error = PageError("content", "unreadable", str(content))
            return
        page.content = content
        page.html = html if len(html) <= _KEPT_CHARS else None

    async def _read(self, page: Page, response: TextResponse, html: str) -> None:
        await self._crawl.frontier.start(page.id)
        try:
            self._take(page, html, await self._crawl.reader.read(html, response.url))
        except ContentError as error:
            self._take(page, html, error)
        self._crawl.frontier.survive(page.id)


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


def _place(page: Page, lease: Lease, response: Response) -> None:
    page.status, page.depth, page.referer = response.status, lease.task.depth, lease.task.referer
