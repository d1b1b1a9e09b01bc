"""Prometheus metrics and OpenTelemetry traces. When they are off, nothing is loaded for them.

Metrics: an endpoint to scrape while the crawl runs (METRICS_PORT), and a textfile for the node exporter
(METRICS_TEXTFILE), which stays when it has ended. They are read from the stats when somebody asks.

Traces (TRACES): each page is a trace, with its fetches and stages; calls of the LLM are in the crawl's own. Spans are
made when something has ended, from what is recorded anyway, so a page does no more work on its way.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from twisted.internet.task import LoopingCall

from llmcrawler.core.llm import CallReport
from llmcrawler.core.reporting import Metric, ending_of, metrics_of
from llmcrawler.crawl.configuration import JobSettings, LimitSettings, MonitoringSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.signals import llm_called
from llmcrawler.engine.downloader import download_failed
from llmcrawler.engine.request_context import LATENCY, RETRY_TIMES, context_of
from llmcrawler.extensions import connect_handlers
from llmcrawler.items import FeedItem, Page, StageRun, Url

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span
    from prometheus_client import CollectorRegistry, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


logger = logging.getLogger(__name__)

_PREFIX = "llmcrawler_"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STAGE_SECONDS = (0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0)
_WRITE_SECONDS = 15.0  # between two writes of the textfile


@dataclass(eq=False)
class MetricsExtension:
    """Offers the metrics, all with `labels`."""

    signal_manager: SignalManager
    stats: StatsCollector
    monitoring: MonitoringSettings
    textfile: Path | None
    labels: dict[str, str]
    max_errors_share: float

    def __post_init__(self) -> None:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 (an extra)

        self._registry = CollectorRegistry(auto_describe=False)
        self._endpoint: Any = None
        self._calls: AsyncioLoopingCall | LoopingCall | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings, crawl = crawler.settings, crawl_of(crawler)
        monitoring = MonitoringSettings.of(settings)
        if not monitoring.metrics_port and not monitoring.metrics_textfile:
            raise NotConfigured
        assert crawler.stats is not None
        labels = {"spider": crawler.spidercls.name, "crawl": JobSettings.of(settings).crawl_name(crawl.options)}
        if worker := crawl.backend.worker:
            labels["worker"] = worker
        textfile = monitoring.textfile_of(worker)
        max_errors_share = LimitSettings.of(settings).crawl_max_errors_share
        extension = cls(crawler.signals, crawler.stats, monitoring, textfile, labels, max_errors_share)
        connect_handlers(crawler, extension, "spider_opened", "engine_stopped")
        return extension

    def spider_opened(self) -> None:
        self._registry.register(_Collector(self.stats, self.labels, self.max_errors_share))
        self._observe(_Times(self._registry, self.labels))
        if self.monitoring.metrics_port:
            from prometheus_client import start_http_server  # noqa: PLC0415 (an extra)

            host, port = self.monitoring.metrics_host, self.monitoring.metrics_port
            self._endpoint = start_http_server(port, host, self._registry)
            logger.info("Metrics: http://%s:%d/metrics", host, port)
        if self.textfile is not None:
            self._calls = create_looping_call(self._write)
            self._calls.start(_WRITE_SECONDS)

    def engine_stopped(self) -> None:
        if self._calls is not None and self._calls.running:
            self._calls.stop()
            self._write()
        if self._endpoint is not None:
            server, thread = self._endpoint
            server.shutdown()
            server.server_close()
            thread.join()
            self._endpoint = None

    def _observe(self, times: _Times) -> None:
        self.signal_manager.connect(times.response_downloaded, signals.response_downloaded, weak=False)
        self.signal_manager.connect(times.item_scraped, signals.item_scraped, weak=False)
        self.signal_manager.connect(times.llm_called, llm_called, weak=False)

    def _write(self) -> None:
        from prometheus_client import write_to_textfile  # noqa: PLC0415 (an extra)

        assert self.textfile is not None
        try:
            write_to_textfile(str(self.textfile), self._registry)
        except OSError as error:  # the crawl is worth more than its metrics
            logger.warning("METRICS_TEXTFILE=%s cannot be written: %s", self.textfile, error)


def _runs_since(stages: Mapping[str, StageRun], started: float) -> dict[str, StageRun]:
    """Return the stages that ran since `started`: a page of a resumed crawl has those of earlier runs too."""
    return {name: run for name, run in stages.items() if run.status != "skipped" and run.started >= started}


class _Collector:
    """Reads the stats when it is asked, in the endpoint's thread."""

    def __init__(self, stats: StatsCollector, labels: dict[str, str], max_errors_share: float) -> None:
        self._stats = stats
        self._labels = labels
        self._max_errors_share = max_errors_share

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        stats = self._stats.get_stats().copy()  # in one go: the crawl goes on meanwhile
        for metric in (*metrics_of(stats), *ending_of(stats, self._max_errors_share)):
            yield self._family(metric)

    def _family(self, metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 (an extra)

        of_kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = of_kind(_PREFIX + metric.name, metric.help, labels=[*self._labels, *metric.labels])
        for values, value in metric.samples:
            family.add_metric([*self._labels.values(), *values], value)
        return family


class _Times:
    """Histograms of times, which the stats do not hold."""

    def __init__(self, registry: CollectorRegistry, labels: dict[str, str]) -> None:
        from prometheus_client import Histogram  # noqa: PLC0415 (an extra)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *names: str) -> Histogram:
            return Histogram(_PREFIX + name, text, [*labels, *names], registry=registry, buckets=buckets)

        self._started = time.time()
        self._labels = tuple(labels.values())
        self._fetches = histogram("fetch_seconds", "Until an answer began", _SECONDS)
        self._stages = histogram("stage_seconds", "Of a page in a stage, waiting included", _STAGE_SECONDS, "stage")
        self._calls = histogram("llm_call_seconds", "Of one request to the LLM", _SECONDS, "task")

    def response_downloaded(self, response: Response, request: Request) -> None:  # noqa: ARG002 (Scrapy's)
        latency = request.meta.get(LATENCY)
        if latency is not None:
            self._fetches.labels(*self._labels).observe(latency)

    def item_scraped(self, item: Any) -> None:
        if isinstance(item, FeedItem):
            for name, run in _runs_since(item.stages, self._started).items():
                if name != "fetch":
                    self._stages.labels(*self._labels, name).observe(run.seconds)

    def llm_called(self, call: CallReport) -> None:
        self._calls.labels(*self._labels, call.task).observe(call.seconds)


_NANOSECONDS = 10**9


@dataclass(eq=False)
class TracingExtension:
    """Sends the spans. `of_all` are attributes of each."""

    make_exporter: Callable[[], Any]
    name: str
    of_all: dict[str, str]

    def __post_init__(self) -> None:
        self._provider: TracerProvider | None = None
        self._pages: dict[str, Span] = {}  # of those on their way

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        make_exporter = MonitoringSettings.of(crawler.settings).span_exporter()
        if make_exporter is None:
            raise NotConfigured
        crawl, name = crawl_of(crawler), crawler.spidercls.name
        of_all = {
            "llmcrawler.spider": name,
            "llmcrawler.crawl": JobSettings.of(crawler.settings).crawl_name(crawl.options),
        }
        if crawl.backend.worker:
            of_all["llmcrawler.worker"] = crawl.backend.worker
        extension = cls(make_exporter, name, of_all)
        connect_handlers(
            crawler,
            extension,
            "spider_opened",
            "response_downloaded",
            "item_scraped",
            "spider_closed",
            "engine_stopped",
        )
        crawler.signals.connect(extension.llm_called, llm_called)
        crawler.signals.connect(extension.download_failed, download_failed)
        crawler.signals.connect(extension.item_was_lost, signals.item_dropped)
        crawler.signals.connect(extension.item_was_lost, signals.item_error)
        return extension

    def spider_opened(self) -> None:
        from opentelemetry import trace  # noqa: PLC0415 (an extra)

        self._provider = _provider(self.make_exporter(), self.of_all)
        self._trace = trace
        self._tracer = self._provider.get_tracer("llmcrawler")
        self._started = time.time()
        self._crawl = self._tracer.start_span(f"crawl {self.name}", start_time=_ns(self._started))

    # -- what has ended -----------------------------------------------------------------------------------------------

    def response_downloaded(self, response: Response, request: Request) -> None:
        error = f"http_{response.status}" if response.status >= 400 else None
        self._fetched(request, error, {"http.response.status_code": response.status})

    def download_failed(self, request: Request, exception: Exception) -> None:
        self._fetched(request, type(exception).__name__, {})

    def item_scraped(self, item: Any) -> None:
        if not isinstance(item, Page) and not (isinstance(item, Url) and item.was_tried):
            return
        runs = _runs_since(item.stages, self._started)
        begin = min((run.started for run in runs.values()), default=time.time())
        page = self._pages.get(item.id) or self._page(item.id, begin)
        del self._pages[item.id]
        for name, run in runs.items():
            if name != "fetch":  # each try of that has a span of its own
                self._span(f"stage {name}", page, (run.started, run.started + run.seconds), run.error, {})
        page.set_attributes(_of_page(item))
        _end(page, None if item.error is None else item.error.kind, "" if item.error is None else item.error.message)

    def item_was_lost(self, item: Any) -> None:
        page = self._pages.pop(item.id, None) if isinstance(item, FeedItem) else None
        if page is not None:
            _end(page, "dropped", "the page gave no line")

    def llm_called(self, call: CallReport) -> None:
        if not hasattr(self, "_crawl"):
            return  # the model is tried before the spider is opened
        ended = time.time()
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": call.model,
            "gen_ai.usage.input_tokens": call.prompt_tokens,
            "gen_ai.usage.output_tokens": call.completion_tokens,
            "server.address": call.host,
            "llmcrawler.task": call.task,
        }
        times = (ended - call.seconds, ended)
        self._span(f"chat {call.model}", self._crawl, times, call.fault, attributes, is_client=True)

    def spider_closed(self, reason: str) -> None:
        self._crawl.set_attribute("llmcrawler.finish_reason", reason)

    def engine_stopped(self) -> None:
        if self._provider is None:
            return
        for page in self._pages.values():
            _end(page, "unfinished", "the crawl was stopped")
        self._pages.clear()
        self._crawl.end()
        self._provider.shutdown()
        self._provider = None

    # -- spans --------------------------------------------------------------------------------------------------------

    def _fetched(self, request: Request, error: str | None, attributes: dict[str, Any]) -> None:
        context = context_of(request)
        if context.started is None:  # it did not go out
            return
        ended = time.time()
        begin = ended - (time.monotonic() - context.started)
        lease = context.lease
        parent = self._crawl if lease is None else self._pages.get(lease.url) or self._page(lease.url, begin)
        of_request = {
            "http.request.method": request.method,
            "url.full": request.url,
            "server.address": urlsplit(request.url).netloc,
            "http.request.resend_count": request.meta.get(RETRY_TIMES, 0),
        }
        self._span("fetch", parent, (begin, ended), error, of_request | attributes, is_client=True)

    def _page(self, key: str, started: float) -> Span:
        """Begin a trace for the page, as a crawl has more pages than anybody can look at in one."""
        link = self._trace.Link(self._crawl.get_span_context())
        root: Context = self._trace.set_span_in_context(self._trace.INVALID_SPAN)
        page = self._tracer.start_span("page", context=root, links=[link], start_time=_ns(started))
        self._pages[key] = page
        return page

    def _span(  # noqa: PLR0913 - what a span consists of
        self,
        name: str,
        parent: Span,
        times: tuple[float, float],
        error: str | None,
        attributes: dict[str, Any],
        *,
        is_client: bool = False,
    ) -> None:
        span = self._tracer.start_span(
            name,
            context=self._trace.set_span_in_context(parent),
            kind=self._trace.SpanKind.CLIENT if is_client else self._trace.SpanKind.INTERNAL,
            attributes=attributes,
            start_time=_ns(times[0]),
        )
        _end(span, None if error is None else error.partition(":")[0], error or "", _ns(times[1]))


def _provider(exporter: Any, attributes: dict[str, str]) -> TracerProvider:
    """Build the SDK's provider of tracers, which reads OTEL_* from the environment itself."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 (an extra)
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    service = os.environ.get("OTEL_SERVICE_NAME", "llmcrawler")
    provider = TracerProvider(resource=Resource.create({"service.name": service, **attributes}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _end(span: Span, error: str | None, message: str, end_time: int | None = None) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 (an extra)

    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, message[:300]))
    span.end(end_time)


def _of_page(line: FeedItem) -> dict[str, Any]:
    attributes = {"url.full": line.url, "http.response.status_code": line.status, "llmcrawler.depth": line.depth}
    if isinstance(line, Page):
        attributes |= {
            "llmcrawler.page_type": line.page_type,
            "llmcrawler.decided_by": line.decided_by,
            "llmcrawler.template": line.template,
            "llmcrawler.change": line.change,
        }
    return {name: value for name, value in attributes.items() if value is not None}


def _ns(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)
