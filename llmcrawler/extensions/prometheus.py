"""Prometheus metrics: an endpoint to scrape while the crawl runs (METRICS_PORT), and a textfile for the node exporter
(METRICS_TEXTFILE), which stays when it has ended. They are read from the stats when somebody asks; when off, nothing is
loaded for them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

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
from llmcrawler.crawl.configuration import errors_share
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.monitoring import MetricsPlace, crawl_name, metrics_place, runs_since
from llmcrawler.crawl.signals import llm_called
from llmcrawler.engine.request_context import LATENCY
from llmcrawler.extensions.connecting import connect_handlers
from llmcrawler.items import FeedItem

if TYPE_CHECKING:
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
    place: MetricsPlace
    labels: dict[str, str]
    max_errors_share: float

    def __post_init__(self) -> None:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 (an extra)

        self._registry = CollectorRegistry(auto_describe=False)
        self._endpoint: Any = None
        self._calls: AsyncioLoopingCall | LoopingCall | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        place = metrics_place(crawler.settings)
        if place is None:
            raise NotConfigured
        crawl, settings = crawl_of(crawler), crawler.settings
        assert crawler.stats is not None
        labels = {"spider": crawler.spidercls.name, "crawl": crawl_name(settings, crawl.options)}
        if worker := crawl.backend.worker:
            labels["worker"] = worker
        extension = cls(crawler.signals, crawler.stats, place.of(worker), labels, errors_share(settings))
        connect_handlers(crawler, extension, "spider_opened", "engine_stopped")
        return extension

    def spider_opened(self) -> None:
        self._registry.register(_Collector(self.stats, self.labels, self.max_errors_share))
        self._observe(_Times(self._registry, self.labels))
        if self.place.port:
            from prometheus_client import start_http_server  # noqa: PLC0415 (an extra)

            self._endpoint = start_http_server(self.place.port, self.place.host, self._registry)
            logger.info("Metrics: http://%s:%d/metrics", self.place.host, self.place.port)
        if self.place.textfile is not None:
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

        assert self.place.textfile is not None
        try:
            write_to_textfile(str(self.place.textfile), self._registry)
        except OSError as error:  # the crawl is worth more than its metrics
            logger.warning("METRICS_TEXTFILE=%s cannot be written: %s", self.place.textfile, error)


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
            for name, run in runs_since(item.stages, self._started).items():
                if name != "fetch":
                    self._stages.labels(*self._labels, name).observe(run.seconds)

    def llm_called(self, call: CallReport) -> None:
        self._calls.labels(*self._labels, call.task).observe(call.seconds)
