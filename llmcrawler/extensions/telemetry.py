"""Prometheus metrics and OpenTelemetry traces. When they are off, nothing is loaded for them.

Metrics are read from the stats for an endpoint (METRICS_PORT) and for the node exporter's textfile (METRICS_TEXTFILE).
In traces (TRACES) each page is a trace with its fetches and stages; LLM calls are in the crawl's own. Spans are made
when something has ended, from what is recorded anyway.
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

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from twisted.internet.task import LoopingCall

from llmcrawler.crawl.compat import stats_of
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
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from llmcrawler.core.llm.usage import CallReport


logger = logging.getLogger(__name__)

_PREFIX = "llmcrawler_"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STAGE_SECONDS = (0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0)
_WRITE_SECONDS = 15.0  # between two writes of the textfile


@dataclass(eq=False)
class MetricsExtension:
    """Offers the metrics, all with `labels`: the stats, read in the endpoint's thread, and histograms of times."""

    crawler: Crawler
    monitoring: MonitoringSettings
    textfile: Path | None
    labels: dict[str, str]
    max_errors_share: float

    def __post_init__(self) -> None:
        self._endpoint: Any = None
        self._calls: AsyncioLoopingCall | LoopingCall | None = None
        connect_handlers(self.crawler, self, "spider_opened", "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings, crawl = crawler.settings, crawl_of(crawler)
        monitoring = MonitoringSettings.of(settings)
        if not monitoring.metrics_port and not monitoring.metrics_textfile:
            raise NotConfigured
        labels = {"spider": crawler.spidercls.name, "crawl": JobSettings.of(settings).crawl_name(crawl.options)}
        if worker := crawl.backend.worker:
            labels["worker"] = worker
        max_errors_share = LimitSettings.of(settings).crawl_max_errors_share
        return cls(crawler, monitoring, monitoring.textfile_of(worker), labels, max_errors_share)

    def spider_opened(self) -> None:
        from prometheus_client import CollectorRegistry, Histogram, start_http_server

        def histogram(name: str, text: str, buckets: tuple[float, ...], *names: str) -> Histogram:
            labels = [*self.labels, *names]
            return Histogram(_PREFIX + name, text, labels, registry=self._registry, buckets=buckets)

        self._started = time.time()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._fetches = histogram("fetch_seconds", "Time to the first byte", _SECONDS)
        self._stages = histogram("stage_seconds", "Time of a page in a stage, including waits", _STAGE_SECONDS, "stage")
        self._llm_calls = histogram("llm_call_seconds", "Time of one request to the LLM", _SECONDS, "task")
        connect_handlers(self.crawler, self, "response_downloaded", "item_scraped", llm_called=llm_called)
        if self.monitoring.metrics_port:
            host, port = self.monitoring.metrics_host, self.monitoring.metrics_port
            self._endpoint = start_http_server(port, host, self._registry)
            logger.info("Metrics: http://%s:%d/metrics", host, port)
        if self.textfile is not None:
            self._calls = create_looping_call(self._write)
            self._calls.start(_WRITE_SECONDS)

    def response_downloaded(self, response: Response, request: Request) -> None:  # noqa: ARG002 (Scrapy's)
        latency = request.meta.get(LATENCY)
        if latency is not None:
            self._fetches.labels(*self.labels.values()).observe(latency)

    def item_scraped(self, item: Any) -> None:
        if isinstance(item, FeedItem):
            for name, run in _runs_since(item.stages, self._started).items():
                if name != "fetch":
                    self._stages.labels(*self.labels.values(), name).observe(run.seconds)

    def llm_called(self, call: CallReport) -> None:
        self._llm_calls.labels(*self.labels.values(), call.task).observe(call.seconds)

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

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield what the stats say, for the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from llmcrawler.core.reporting.crawl_metrics import metrics_of

        stats = stats_of(self.crawler).get_stats().copy()  # in one go: the crawl goes on meanwhile
        for metric in metrics_of(stats, self.max_errors_share):
            of_kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = of_kind(_PREFIX + metric.name, metric.help, labels=[*self.labels, *metric.labels])
            for values, value in metric.samples:
                family.add_metric([*self.labels.values(), *values], value)
            yield family

    def _write(self) -> None:
        from prometheus_client import write_to_textfile

        try:
            write_to_textfile(str(self.textfile), self._registry)
        except OSError as error:  # the crawl is worth more than its metrics
            logger.warning("METRICS_TEXTFILE=%s cannot be written: %s", self.textfile, error)


def _runs_since(stages: Mapping[str, StageRun], started: float) -> dict[str, StageRun]:
    """Return the stages that ran since `started`: a page of a resumed crawl has those of earlier runs too."""
    return {name: run for name, run in stages.items() if run.status != "skipped" and run.started >= started}


@dataclass(eq=False)
class TracingExtension:
    crawler: Crawler
    make_exporter: Callable[[], Any]
    of_all: dict[str, str]

    def __post_init__(self) -> None:
        self._provider: TracerProvider | None = None
        self._pages: dict[str, Span] = {}  # of those on their way
        connect_handlers(self.crawler, self, "spider_opened", "engine_stopped")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        make_exporter = MonitoringSettings.of(crawler.settings).span_exporter()
        if make_exporter is None:
            raise NotConfigured
        crawl, name = crawl_of(crawler), JobSettings.of(crawler.settings).crawl_name(crawl_of(crawler).options)
        of_all = {"llmcrawler.spider": crawler.spidercls.name, "llmcrawler.crawl": name}
        if crawl.backend.worker:
            of_all["llmcrawler.worker"] = crawl.backend.worker
        return cls(crawler, make_exporter, of_all)

    def spider_opened(self) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # The SDK reads OTEL_* from the environment itself.
        service = os.environ.get("OTEL_SERVICE_NAME", "llmcrawler")
        resource = Resource.create({"service.name": service, **self.of_all})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self.make_exporter()))
        self._trace = trace
        self._tracer = self._provider.get_tracer("llmcrawler")
        self._started = time.time()
        name = self.of_all["llmcrawler.spider"]
        self._crawl = self._tracer.start_span(f"crawl {name}", start_time=_ns(self._started))
        connect_handlers(
            self.crawler,
            self,
            *("response_downloaded", "item_scraped", "item_dropped", "item_error", "spider_closed"),
            llm_called=llm_called,
            download_failed=download_failed,
        )

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
        attributes = {"url.full": item.url, "http.response.status_code": item.status, "llmcrawler.depth": item.depth}
        if isinstance(item, Page):
            names = ("page_type", "decided_by", "template", "change")
            attributes |= {f"llmcrawler.{name}": getattr(item, name) for name in names}
        page.set_attributes({name: value for name, value in attributes.items() if value is not None})
        _end(page, None if item.error is None else item.error.kind, "" if item.error is None else item.error.message)

    def item_dropped(self, item: Any) -> None:
        page = self._pages.pop(item.id, None) if isinstance(item, FeedItem) else None
        if page is not None:
            _end(page, "dropped", "the page has no line")

    item_error = item_dropped

    def llm_called(self, call: CallReport) -> None:
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


def _end(span: Span, error: str | None, message: str, end_time: int | None = None) -> None:
    from opentelemetry.trace import Status, StatusCode

    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, message[:300]))
    span.end(end_time)


def _ns(seconds: float) -> int:
    return int(seconds * 10**9)
