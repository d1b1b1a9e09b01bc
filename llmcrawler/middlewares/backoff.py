"""Requests whose host wants to be left alone go back to the scheduler: no place is held, no try is lost."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from llmcrawler.downloader import HostRests, PoliteDownloader
from llmcrawler.middlewares.refusals import RequestRefused
from llmcrawler.scheduler import NOT_BEFORE_SECONDS

REFUSAL_STATUSES = frozenset({429, 503})
PUT_BACKS = "put_backs"  # in a request's meta: how many times it was refused and put back

# The host rests after a refusal. A page that is refused again and again waits by itself on top of that.
_PATIENT_FROM, _MAX_PATIENCE_SECONDS = 3, 5.0


class BackoffMiddleware:
    """Stands between the downloader and Scrapy's RetryMiddleware, which would spend RETRY_TIMES on refusals."""

    def __init__(self, crawler: Crawler, max_put_backs: int) -> None:
        self._crawler = crawler
        self._max_put_backs = max_put_backs

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawler.settings.getint("THROTTLE_PUT_BACKS"))

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if response.status not in REFUSAL_STATUSES or request.meta.get("dont_retry"):
            return response
        put_backs = request.meta.get(PUT_BACKS, 0)
        if request.callback is NO_CALLBACK or put_backs >= self._max_put_backs:
            request.meta["dont_retry"] = True
            return response
        wait_seconds = min(2.0 ** (put_backs + 1 - _PATIENT_FROM), _MAX_PATIENCE_SECONDS)
        meta = {PUT_BACKS: put_backs + 1, NOT_BEFORE_SECONDS: wait_seconds if put_backs + 1 >= _PATIENT_FROM else 0.0}
        self._count(f"status/{response.status}")
        return self._put_back(request, meta)

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if not isinstance(exception, HostRests) or request.callback is NO_CALLBACK:
            return None
        return self._put_back(request, {})

    def _put_back(self, request: Request, meta: dict[str, object]) -> Request:
        self._count("count")
        return request.replace(dont_filter=True, meta={**request.meta, **meta})

    def _count(self, name: str) -> None:
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(f"llmcrawler/throttle/put_back/{name}")


class GivenUpMiddleware:
    """Refuses what is for a host that was given up."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        assert self._crawler.engine is not None
        downloader = self._crawler.engine.downloader
        if not isinstance(downloader, PoliteDownloader):
            return
        reason = downloader.given_up.get(downloader.get_slot_key(request))
        if reason is not None:
            raise RequestRefused("host_down", reason)
