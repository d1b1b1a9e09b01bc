"""Answers requests for pages of web archives from there, in place of the network."""

from __future__ import annotations

import asyncio
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.crawl.arguments import ExtractOptions
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.task_lists import place_of, read_place
from llmcrawler.engine.refusals import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of, update_context
from llmcrawler.engine.stored_bodies import response_of


class ArchivedPageMiddleware:
    """Reads the record that a leased task names; the page has the date of that. Nothing else is asked of its host."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        options = crawl_of(crawler).options
        if not isinstance(options, ExtractOptions) or not options.is_archive:
            raise NotConfigured
        return cls()

    async def process_request(self, request: Request) -> Response | None:
        lease = context_of(request).lease
        place = None if lease is None else place_of(lease.task.details())
        if place is None:
            return None
        try:
            stored = await asyncio.to_thread(read_place, place)
        except (WarcFault, OSError) as error:
            raise RequestRefused(RefusalKind.BODY, f"{place.file} at byte {place.offset:,}: {error}") from error
        update_context(request, archived_at=stored.fetched_at or None)
        return response_of(stored).replace(url=request.url)
