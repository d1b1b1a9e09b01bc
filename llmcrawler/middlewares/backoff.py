"""Puts requests back into the scheduler when their host has no time: they hold no place there and lose no try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from llmcrawler.crawl.compat import engine_of, stats_of
from llmcrawler.crawl.configuration import PolitenessSettings
from llmcrawler.engine.downloader import HostPaused, PoliteDownloader
from llmcrawler.engine.failures import OVERLOAD_STATUSES, RequestRefused
from llmcrawler.engine.request_context import context_of, update_context

# The host rests after a refusal. A page that is refused again and again waits by itself on top of that.
_PATIENT_FROM, _MAX_PATIENCE_SECONDS = 3, 5.0


@dataclass(eq=False)
class BackoffMiddleware:
    """Stands between the downloader and Scrapy's RetryMiddleware, which would spend RETRY_TIMES on refusals."""

    crawler: Crawler
    max_put_backs: int

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, PolitenessSettings.of(crawler.settings).throttle_put_backs)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status not in OVERLOAD_STATUSES or request.meta.get("dont_retry"):
            return response
        put_backs = context_of(request).put_backs
        if request.callback is NO_CALLBACK or put_backs >= self.max_put_backs:
            request.meta["dont_retry"] = True
            return response
        patience = put_backs + 1 - _PATIENT_FROM
        wait_seconds = min(2.0**patience, _MAX_PATIENCE_SECONDS) if patience >= 0 else 0.0
        self._count(f"status/{response.status}")
        return self._put_back(request, put_backs=put_backs + 1, wait_seconds=wait_seconds)

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, HostPaused) or request.callback is NO_CALLBACK:
            return None
        return self._put_back(request)

    def _put_back(self, request: Request, **changes: float) -> Request:
        self._count("count")
        again = request.replace(dont_filter=True)
        update_context(again, **changes)
        return again

    def _count(self, name: str) -> None:
        stats_of(self.crawler).inc_value(f"llmcrawler/throttle/put_back/{name}")


@dataclass(eq=False)
class GivenUpMiddleware:
    """Refuses requests to a host that was given up."""

    crawler: Crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        downloader = engine_of(self.crawler).downloader
        if not isinstance(downloader, PoliteDownloader):
            return
        given_up = downloader.given_up.get(downloader.get_slot_key(request))
        if given_up is not None:
            raise RequestRefused(*given_up)
