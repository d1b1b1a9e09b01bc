"""Ends a crawl that has nothing left to do but to wait for the Batch API, for its next run to go on."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from llmcrawler.core.reporting import calls_in_batches
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.crawl.engine_state import Phase, phase_of
from llmcrawler.extensions.connecting import connect_handlers

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.5


@dataclass(eq=False)
class BatchPatience:
    """Stops the crawl, as Ctrl-C would, when nothing but answers was waited for during `wait_seconds`."""

    crawler: Crawler
    crawl: CrawlContext
    wait_seconds: float

    def __post_init__(self) -> None:
        self._watching: asyncio.Task[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        connect_handlers(self.crawler, self, "spider_opened", "spider_closed")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        wait_seconds = crawler.settings.getfloat("LLM_BATCH_API_WAIT_SECONDS")
        if not crawler.settings.getbool("LLM_BATCH_API") or not wait_seconds:
            raise NotConfigured
        return cls(crawler, crawl_of(crawler), wait_seconds)

    def spider_opened(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    def spider_closed(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        model = self.crawl.understanding.model
        idle_since: float | None = None
        while model is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            waiting = model.waiting_calls
            # Calls that are still gathered are not left behind.
            only_waits = waiting.batches and phase_of(self.crawl.watch.state()) in (Phase.IDLE, Phase.BACKING_OUT)
            idle_since = (idle_since or time.monotonic()) if only_waits else None
            if idle_since is not None and time.monotonic() - idle_since >= self.wait_seconds and waiting.is_sent:
                what = "%s, for longer than LLM_BATCH_API_WAIT_SECONDS=%g: the crawl ends here for now"
                logger.info(what, calls_in_batches(waiting), self.wait_seconds)
                # In a task of its own, as the end of the crawl cancels this one.
                self._stopping = asyncio.ensure_future(self.crawler.stop_async())
                return
