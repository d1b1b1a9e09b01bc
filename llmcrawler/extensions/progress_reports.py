"""Shows a crawl's progress, live on a terminal, else as a log line a minute, and a summary when it ends; and keeps the
figures and the timeline of a run in its JOBDIR, for `scrapy report`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider
from scrapy.core.downloader import Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from scrapy.utils.log import get_scrapy_root_handler
from twisted.internet.task import LoopingCall

from llmcrawler.core.politeness.throttling import HostPolicy
from llmcrawler.core.reporting import (
    WIDTH,
    Actual,
    CrawlAccount,
    CrawlProgress,
    DownloadFlow,
    Ending,
    HostThrottle,
    ProgressReport,
    lasting_stats,
    read_figures,
    summary,
)
from llmcrawler.core.reporting.timeline import Timeline
from llmcrawler.core.storage.job_file import Run
from llmcrawler.crawl.arguments import NO_LIMIT, ExploreOptions
from llmcrawler.crawl.configuration import FeedSettings, MonitoringSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.job import Job
from llmcrawler.crawl.signals import job_closing
from llmcrawler.engine import log_setup
from llmcrawler.engine.failures import OVERLOAD_STATUSES
from llmcrawler.engine.request_context import LATENCY
from llmcrawler.extensions import connect_handlers
from llmcrawler.extensions.feed_export import Feeds
from llmcrawler.extensions.start_line import say, terminal_columns
from llmcrawler.extensions.throttle import AdaptiveThrottle
from llmcrawler.items import FeedItem, Page, Template, Url

if TYPE_CHECKING:
    from llmcrawler.core.reporting.display import LiveDisplay


logger = logging.getLogger(__name__)

_REFRESH_SECONDS = 0.25  # a refresh takes about 5 ms
_SAMPLE_SECONDS = 1.0
_TICK_SHARE = 50  # at most a fiftieth of the time goes into it


class ProgressExtension:
    """Reports the progress of a crawl: on the `display`, or without one in the log every `log_seconds`."""

    def __init__(self, crawler: Crawler, display: LiveDisplay | None, log_seconds: float) -> None:
        self._crawler = crawler
        self._log_seconds = log_seconds
        self._account = CrawlAccount()
        self._display = display
        self._progress: CrawlProgress | None = None
        self._logged = self._next_tick = 0.0
        self._calls: AsyncioLoopingCall | LoopingCall | None = None
        self._ending: Ending | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        monitoring = MonitoringSettings.of(crawler.settings)
        if monitoring.progress == "off":
            raise NotConfigured
        display = _live_display(monitoring.progress, crawler.settings)
        extension = cls(crawler, display, monitoring.progress_log_seconds)
        connect_handlers(crawler, extension, "spider_opened", "item_scraped", "spider_closed", "engine_stopped")
        return extension

    def spider_opened(self, spider: Spider) -> None:
        assert self._crawler.stats is not None
        options = getattr(spider, "options", None)
        if isinstance(options, ExploreOptions):
            aims = {"max_pages": options.max_pages, "goal": ",".join(options.goal), "max_records": options.max_records}
            for name, value in aims.items():
                if value and value != NO_LIMIT:
                    self._crawler.stats.set_value(f"llmcrawler/{name}", value)
        self._progress = CrawlProgress(time.monotonic)
        self._logged = time.monotonic()
        if self._display is not None:
            self._display.start(get_scrapy_root_handler())
        self._calls = create_looping_call(self._tick)
        self._calls.start(_REFRESH_SECONDS if self._display is not None else _SAMPLE_SECONDS)

    def item_scraped(self, item: Any) -> None:
        if isinstance(item, FeedItem):
            self._account.count(item.as_line())
        elif isinstance(item, Template):
            self._account.add_template(item)

    def spider_closed(self, reason: str) -> None:
        self._stop()
        if self._progress is None:
            return
        report = self._sample(self._progress)
        hosts = read_hosts(self._crawler)
        plan, actual = read_plan(self._crawler, report.elapsed_seconds)
        self._ending = Ending(reason, report.elapsed_seconds, self._progress.limit_seconds, hosts, plan, actual)

    def engine_stopped(self) -> None:
        """Give the summary, when feeds are closed and Scrapy has logged all that it does: it is to be seen."""
        self._stop()
        if self._ending is None:
            return
        crawl, feeds = crawl_of(self._crawler), self._crawler.get_extension(Feeds)
        ending = replace(
            self._ending,
            outcomes=crawl.understanding.records.outcomes(),
            record_types=crawl.record_types,
            feeds=() if feeds is None else feeds.written,
            goes_on_later=crawl.stop.goes_on_later,
        )
        width = min(WIDTH, terminal_columns() or WIDTH)
        say(logger, summary(read_figures(self._stats()), self._account, ending, width))

    def _stop(self) -> None:
        if self._calls is not None and self._calls.running:
            self._calls.stop()
        if self._display is not None:
            self._display.stop()

    def _tick(self) -> None:
        assert self._progress is not None
        started = time.monotonic()
        if started < self._next_tick:
            return
        self._show(self._progress)
        # Of thousands of hosts a report takes its time.
        self._next_tick = started + _TICK_SHARE * (time.monotonic() - started)

    def _show(self, progress: CrawlProgress) -> None:
        report = self._sample(progress)
        if self._display is not None:
            self._display.show(report, f"{self._crawler.settings['BOT_NAME']} {self._crawler.spidercls.name}")
        elif time.monotonic() - self._logged >= self._log_seconds:
            self._logged = time.monotonic()
            logger.info("%s", report.as_line())

    def _sample(self, progress: CrawlProgress) -> ProgressReport:
        waiting = crawl_of(self._crawler).understanding.waiting()
        return progress.sample(self._stats(), read_flow(self._crawler), self._account.latency_seconds, waiting)

    def _stats(self) -> dict[str, Any]:
        assert self._crawler.stats is not None
        return self._crawler.stats.get_stats()


def read_flow(crawler: Crawler) -> DownloadFlow:
    """Return what limits the crawl just now, host by host."""
    engine = crawler.engine
    assert engine is not None  # from before spider_opened until after spider_closed
    policies, slots = _policies(crawler), engine.downloader.slots
    hosts = [_throttle_of(key, slot, policies.get(key)) for key, slot in slots.items()]
    # A slot that was idle for a minute is gone; its host may rest for longer.
    hosts += [
        _throttle_of(key, None, policy)
        for key, policy in policies.items()
        if key not in slots and policy.cooldown_seconds > 0
    ]
    scraper = engine.scraper.slot
    return DownloadFlow(hosts, engine.downloader.total_concurrency, scraper is not None and scraper.needs_backout())


def read_hosts(crawler: Crawler) -> list[HostThrottle]:
    """Return all hosts of the crawl, each with the throughput of its whole time."""
    return [
        replace(_throttle_of(key, None, policy), throughput=policy.meter.figures().mean_throughput)
        for key, policy in _policies(crawler).items()
    ]


def read_plan(crawler: Crawler, elapsed_seconds: float) -> tuple[Mapping[str, Any] | None, Actual | None]:
    """Return what was planned for the job, and what all of its runs came to; (None, None) without a plan."""
    crawl = crawl_of(crawler)
    if crawl.job is None or crawl.job.plan is None:
        return None, None
    counts = crawl.frontier.counts()
    budget = None if crawl.understanding.model is None else crawl.understanding.model.budget
    actual = Actual(
        pages=counts.done,
        errors=counts.dead,
        seconds=elapsed_seconds if crawl.job.resumed.is_new else None,
        llm_calls=0 if budget is None else budget.spent.calls,
        llm_tokens=0 if budget is None else budget.spent.tokens,
        cost_usd=None if budget is None or budget.limits.price is None else budget.spent.cost_usd,
    )
    return crawl.job.plan, actual


def _throttle_of(key: str, slot: Slot | None, policy: HostPolicy | None) -> HostThrottle:
    shown = HostThrottle(
        host=key,
        concurrency=0 if slot is None else slot.concurrency,
        gap_seconds=0.0 if slot is None else slot.delay,
        in_flight=0 if slot is None else len(slot.transferring),
        waiting=0 if slot is None else len(slot.queue),
    )
    if policy is None:
        return shown
    figures = policy.meter.figures()
    return replace(
        shown,
        concurrency=policy.concurrency,
        gap_seconds=policy.gap().seconds,
        rest_seconds=policy.cooldown_seconds,
        requests=figures.requests,
        throughput=figures.throughput,
        latency_p50=figures.latency_p50,
        latency_p95=figures.latency_p95,
        refused_share=figures.refused_share,
    )


def _policies(crawler: Crawler) -> dict[str, HostPolicy]:
    throttle = crawler.get_extension(AdaptiveThrottle)
    return {} if throttle is None else throttle.policies()


def _live_display(mode: str, settings: BaseSettings) -> LiveDisplay | None:
    if mode == "log" or (mode == "auto" and (not sys.stderr.isatty() or log_setup.is_wanted(settings))):
        return None
    # Imported where it is used: rich's console takes 50 ms to load.
    from llmcrawler.core.reporting.display import LiveDisplay, terminal_is_free  # noqa: PLC0415

    feed_on_terminal = sys.stdout.isatty() and any(uri.startswith("stdout:") for uri in FeedSettings.of(settings).uris)
    if mode == "auto" and (feed_on_terminal or not terminal_is_free()):
        return None
    return LiveDisplay()


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
