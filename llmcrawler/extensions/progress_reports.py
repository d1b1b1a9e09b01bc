"""Samples a crawl for its progress (a live display, or a log line a minute), its summary, and the figures and timeline
that its JOBDIR keeps for `scrapy report`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
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
from llmcrawler.core.reporting.account import CrawlAccount, lasting_stats, read_figures
from llmcrawler.core.reporting.progress import CrawlProgress, DownloadFlow, HostThrottle, ProgressReport
from llmcrawler.core.reporting.summary import WIDTH, Ending, summary
from llmcrawler.core.reporting.timeline import Timeline
from llmcrawler.core.storage.job_file import Run
from llmcrawler.crawl.arguments import NO_LIMIT, ExploreOptions
from llmcrawler.crawl.compat import engine_of, stats_of
from llmcrawler.crawl.configuration import FeedSettings, MonitoringSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.signals import job_closing
from llmcrawler.engine import log_setup
from llmcrawler.engine.failures import OVERLOAD_STATUSES
from llmcrawler.engine.request_context import LATENCY
from llmcrawler.extensions import connect_handlers
from llmcrawler.extensions.feed_export import Feeds
from llmcrawler.extensions.start_line import say, terminal_columns
from llmcrawler.extensions.throttle import policies_of
from llmcrawler.items import FeedItem, Page, Template, Url

if TYPE_CHECKING:
    from llmcrawler.core.reporting.display import LiveDisplay

logger = logging.getLogger(__name__)

_REFRESH_SECONDS = 0.25  # of the display; a refresh takes about 5 ms
_SAMPLE_SECONDS = 1.0
_TICK_SHARE = 50  # at most a fiftieth of the time goes into it: of thousands of hosts a report takes its time
_WAITING_SECONDS = 10.0  # between two lines while nothing goes on but the model's work
_WRITE_SECONDS = 5.0  # what a kill may take away of the timeline
_LATENCIES = 50  # of the last answers, whose mean is shown
_MAX_HOSTS = 50


class ProgressExtension:
    """Shows the progress on the display, or without one in the log every `log_seconds` (0: nothing is shown), and
    writes the run into the job, if there is one, every few seconds and at its end.
    """

    def __init__(self, crawler: Crawler, display: LiveDisplay | None, log_seconds: float) -> None:
        self._crawler = crawler
        self._job = crawl_of(crawler).job
        self._display = display
        self._log_seconds = log_seconds
        self._account = CrawlAccount()
        self._timeline = Timeline()
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)
        self._calls: AsyncioLoopingCall | LoopingCall | None = None
        self._ending: Ending | None = None
        names = ("spider_opened", "response_downloaded", "item_scraped", "spider_closed", "engine_stopped")
        connect_handlers(crawler, self, *names)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        shown = MonitoringSettings.of(crawler.settings)
        if shown.progress != "off":
            return cls(crawler, _live_display(shown.progress, crawler.settings), shown.progress_log_seconds)
        if crawl_of(crawler).job is None:
            raise NotConfigured
        return cls(crawler, None, 0)

    def spider_opened(self, spider: Spider) -> None:
        options = getattr(spider, "options", None)
        if isinstance(options, ExploreOptions):
            aims = {"max_pages": options.max_pages, "goal": ",".join(options.goal), "max_records": options.max_records}
            for name, value in aims.items():
                if value and value != NO_LIMIT:
                    stats_of(self._crawler).set_value(f"llmcrawler/{name}", value)
        self._started_at = time.time()
        self._started = self._sampled = self._logged = self._told = self._written = time.monotonic()
        self._next_tick = 0.0
        self._progress = CrawlProgress(time.monotonic)
        connect_handlers(self._crawler, self, job_closing=job_closing)
        if self._display is not None:
            self._display.start(get_scrapy_root_handler())
        self._calls = create_looping_call(self._tick)
        is_live = self._display is not None
        self._calls.start(_REFRESH_SECONDS if is_live else _SAMPLE_SECONDS, now=is_live)

    def response_downloaded(self, response: Response, request: Request) -> None:
        latency, refused = request.meta.get(LATENCY), response.status in OVERLOAD_STATUSES
        self._timeline.add_answer(time.monotonic() - self._started, latency, refused=refused)
        if latency is not None and not refused:
            self._latencies.append(latency)

    def item_scraped(self, item: Any) -> None:
        if isinstance(item, Page) or (isinstance(item, Url) and item.was_tried):
            self._timeline.add_page(time.monotonic() - self._started, has_error=item.error is not None)
        if isinstance(item, FeedItem) and self._log_seconds:
            self._account.count(item.as_line())
        elif isinstance(item, Template):
            self._account.add_template(item)

    def spider_closed(self, reason: str) -> None:
        self._stop()
        if self._calls is not None and self._log_seconds:
            seconds = self._sample().elapsed_seconds
            self._ending = Ending(reason, seconds, self._timeline.total().limits, read_hosts(self._crawler))

    def job_closing(self, reason: str) -> None:
        self._stop()
        self._write(reason)

    def engine_stopped(self) -> None:
        """Show the summary last, when feeds are closed and Scrapy has logged all that it does."""
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
            is_resumed=crawl.job is not None and not crawl.job.resumed.is_new,
        )
        width = min(WIDTH, terminal_columns() or WIDTH)
        say(logger, summary(read_figures(self._stats()), self._account, ending, width))

    def _stop(self) -> None:
        if self._calls is not None and self._calls.running:
            self._calls.stop()
        if self._display is not None:
            self._display.stop()

    def _tick(self) -> None:
        started = time.monotonic()
        if started < self._next_tick:
            return
        report = self._sample()
        if self._display is not None:
            self._display.show(report, f"{self._crawler.settings['BOT_NAME']} {self._crawler.spidercls.name}")
        elif self._log_seconds and started - self._logged >= self._log_seconds:
            self._logged = self._told = started
            logger.info("%s", report.as_line())
        elif not report.waits_for_model:
            self._told = started
        elif self._log_seconds and started - self._told >= _WAITING_SECONDS:
            self._told = started
            logger.info("%s", "; ".join(report.waiting_parts()))
        if started - self._written >= _WRITE_SECONDS:
            self._write(None)
        self._next_tick = started + _TICK_SHARE * (time.monotonic() - started)

    def _sample(self) -> ProgressReport:
        latency = sum(self._latencies) / len(self._latencies) if self._latencies else None
        waiting = crawl_of(self._crawler).understanding.waiting()
        report = self._progress.sample(self._stats(), read_flow(self._crawler), latency, waiting)
        now = time.monotonic()
        self._timeline.add_sample(report, now - self._sampled)
        self._sampled = now
        return report

    def _write(self, reason: str | None) -> None:
        self._written = time.monotonic()
        if self._job is None:
            return
        busiest = sorted(read_hosts(self._crawler), key=lambda host: -host.requests)
        figures = {
            "stats": lasting_stats(self._stats()),
            "settings": {"TEMPLATES_FILE": str(self._crawler.settings["TEMPLATES_FILE"])},
            "hosts": [{**asdict(host), "limit": host.limit} for host in busiest[:_MAX_HOSTS]],
        }
        number, timeline = self._job.run_number, self._timeline.as_json()
        self._job.note_run(Run(number, self._started_at, time.time(), reason, figures, timeline))

    def _stats(self) -> dict[str, Any]:
        return stats_of(self._crawler).get_stats()


def read_flow(crawler: Crawler) -> DownloadFlow:
    engine = engine_of(crawler)
    policies, slots = policies_of(crawler), engine.downloader.slots
    # Of a broad crawl's hosts most have nothing to do.
    busy = {key: slot for key, slot in slots.items() if slot.transferring or slot.queue}
    resting = [key for key, policy in policies.items() if key not in busy and policy.cooldown_seconds > 0]
    hosts = [_throttle_of(key, busy.get(key), policies.get(key)) for key in [*busy, *resting]]
    scraper = engine.scraper.slot
    return DownloadFlow(hosts, engine.downloader.total_concurrency, scraper is not None and scraper.needs_backout())


def read_hosts(crawler: Crawler) -> list[HostThrottle]:
    """Return all hosts of the crawl, each with the throughput of its whole time."""
    return [
        replace(_throttle_of(key, None, policy), throughput=policy.meter.figures().mean_throughput)
        for key, policy in policies_of(crawler).items()
    ]


def _throttle_of(key: str, slot: Slot | None, policy: HostPolicy | None) -> HostThrottle:
    in_flight, waiting = (0, 0) if slot is None else (len(slot.transferring), len(slot.queue))
    if policy is None:
        concurrency, gap_seconds = (0, 0.0) if slot is None else (slot.concurrency, slot.delay)
        return HostThrottle(key, concurrency, gap_seconds, in_flight, waiting)
    figures = policy.meter.figures()
    return HostThrottle(
        host=key,
        concurrency=policy.concurrency,
        gap_seconds=policy.gap().seconds,
        in_flight=in_flight,
        waiting=waiting,
        rest_seconds=policy.cooldown_seconds,
        requests=figures.requests,
        throughput=figures.throughput,
        latency_p50=figures.latency_p50,
        latency_p95=figures.latency_p95,
        refused_share=figures.refused_share,
        failures=policy.breaker.failures,
        failure=policy.breaker.reason,
    )


def _live_display(mode: str, settings: BaseSettings) -> LiveDisplay | None:
    if mode == "log" or (mode == "auto" and (not sys.stderr.isatty() or log_setup.is_wanted(settings))):
        return None
    # Imported where it is used: rich's console takes 50 ms to load.
    from llmcrawler.core.reporting.display import LiveDisplay, terminal_is_free

    feed_on_terminal = sys.stdout.isatty() and any(uri.startswith("stdout:") for uri in FeedSettings.of(settings).uris)
    if mode == "auto" and (feed_on_terminal or not terminal_is_free()):
        return None
    return LiveDisplay()
