"""Keeps the figures and the timeline of a run in its JOBDIR. `scrapy report` shows them."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from twisted.internet.task import LoopingCall

from llmcrawler.core.reporting import CrawlProgress, lasting_stats
from llmcrawler.core.reporting.timeline import Timeline
from llmcrawler.core.storage.job_file import Run
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.job import Job
from llmcrawler.crawl.signals import job_closing
from llmcrawler.engine.refusals import OVERLOAD_STATUSES
from llmcrawler.engine.request_context import LATENCY
from llmcrawler.extensions.connecting import connect_handlers
from llmcrawler.extensions.progress_reports import read_flow, read_hosts
from llmcrawler.items import Page, Url

_SAMPLE_SECONDS = 1.0
_WRITE_SECONDS = 5.0  # what a kill may take away of the timeline
_LATENCIES = 50
_MAX_HOSTS = 50
_KEPT_SETTINGS = (
    "CONCURRENT_REQUESTS",
    "CONCURRENT_REQUESTS_PER_DOMAIN",
    "DOWNLOAD_DELAY",
    "AUTOTHROTTLE_ENABLED",
    "ROBOTSTXT_OBEY",
    "CRAWL_PURPOSE",
    "ROBOTS_META_OBEY",
    "TEMPLATES_FILE",
)


class HistoryExtension:
    """Samples the crawl once a second, and writes the run into the job every few seconds and when it ends."""

    def __init__(self, crawler: Crawler, job: Job) -> None:
        self._crawler = crawler
        self._job = job
        self._timeline = Timeline()
        self._progress = CrawlProgress(time.monotonic)
        self._started = self._sampled = self._written = time.monotonic()
        self._started_at = time.time()
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)
        self._calls: AsyncioLoopingCall | LoopingCall | None = None
        connect_handlers(crawler, self, "spider_opened", "response_downloaded", "item_scraped", "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        job = crawl_of(crawler).job
        if job is None:
            raise NotConfigured
        return cls(crawler, job)

    def spider_opened(self) -> None:
        self._progress = CrawlProgress(time.monotonic)
        self._started = self._sampled = self._written = time.monotonic()
        self._started_at = time.time()
        self._crawler.signals.connect(self.job_closing, job_closing)
        self._calls = create_looping_call(self._tick)
        self._calls.start(_SAMPLE_SECONDS, now=False)

    def response_downloaded(self, response: Response, request: Request) -> None:
        latency, refused = request.meta.get(LATENCY), response.status in OVERLOAD_STATUSES
        self._timeline.add_answer(time.monotonic() - self._started, latency, refused=refused)
        if latency is not None and not refused:
            self._latencies.append(latency)

    def item_scraped(self, item: Any) -> None:
        if isinstance(item, Page) or (isinstance(item, Url) and item.was_tried):
            self._timeline.add_page(time.monotonic() - self._started, has_error=item.error is not None)

    def engine_stopped(self) -> None:
        if self._calls is not None and self._calls.running:
            self._calls.stop()

    def _tick(self) -> None:
        self._sample()
        if time.monotonic() - self._written >= _WRITE_SECONDS:
            self._write(None)

    def _sample(self) -> None:
        latency = sum(self._latencies) / len(self._latencies) if self._latencies else None
        assert self._crawler.stats is not None
        report = self._progress.sample(self._crawler.stats.get_stats(), read_flow(self._crawler), latency)
        now = time.monotonic()
        self._timeline.add_sample(now - self._started, report, now - self._sampled)
        self._sampled = now

    def job_closing(self, reason: str) -> None:
        self.engine_stopped()
        self._write(reason)

    def _write(self, reason: str | None) -> None:
        self._written = time.monotonic()
        run = Run(
            number=self._job.run_number,
            started=self._started_at,
            ended=time.time(),
            reason=reason,
            figures=self._figures(),
            timeline=self._timeline.as_json(),
        )
        self._job.note_run(run)

    def _figures(self) -> dict[str, Any]:
        assert self._crawler.stats is not None
        stats = lasting_stats(self._crawler.stats.get_stats())
        settings = {name: str(self._crawler.settings.get(name)) for name in _KEPT_SETTINGS}
        busiest = sorted(read_hosts(self._crawler), key=lambda host: -host.requests)
        hosts = [{**asdict(host), "limit": host.limit} for host in busiest[:_MAX_HOSTS]]
        return {"stats": stats, "settings": settings, "hosts": hosts}
