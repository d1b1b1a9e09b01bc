"""Sends OpenTelemetry traces: each page is a trace, with its fetches and stages; calls of the LLM are in the crawl's
own.

Spans are made when something has ended, from what is recorded anyway, so a page does no more work on its way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from llmcrawler.core.llm import CallReport
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.monitoring import crawl_name, runs_since, span_exporter
from llmcrawler.crawl.signals import llm_called
from llmcrawler.engine.downloader import download_failed
from llmcrawler.engine.request_context import RETRY_TIMES, context_of
from llmcrawler.extensions.connecting import connect_handlers
from llmcrawler.items import FeedItem, Page, Url

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

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
        make_exporter = span_exporter(crawler.settings)
        if make_exporter is None:
            raise NotConfigured
        crawl, name = crawl_of(crawler), crawler.spidercls.name
        of_all = {"llmcrawler.spider": name, "llmcrawler.crawl": crawl_name(crawler.settings, crawl.options)}
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
        runs = runs_since(item.stages, self._started)
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
