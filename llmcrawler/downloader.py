"""Scrapy's downloader, made to hold its per-host limits to the letter."""

from __future__ import annotations

from collections import Counter, deque
from time import monotonic
from typing import Any, TypeVar

from scrapy import Request
from scrapy.core.downloader import Downloader, Slot
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

_Result = TypeVar("_Result")


class _CountingQueue(deque[tuple[Request, Any]]):
    """Counts a request as transferring when it leaves the queue.

    Scrapy 2.14 to 2.19 counts it in the task that downloads it. The tasks run after the loop that starts them, so with
    no delay that loop drained the whole queue: 59 requests in flight where 5 were allowed.
    """

    def __init__(self, slot: Slot) -> None:
        super().__init__()
        self._slot = slot

    def popleft(self) -> tuple[Request, Any]:
        entry = super().popleft()
        self._slot.transferring.add(entry[0])
        return entry


class PoliteDownloader(Downloader):
    """Holds CONCURRENT_REQUESTS_PER_DOMAIN and DOWNLOAD_DELAY per host and port, as the server sees them.

    `fetching` counts the requests of each slot that were handed in and are not answered, middlewares included.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.fetching: Counter[str] = Counter()

    def fetch(self, request: Request, spider: Any = None) -> Deferred[Response | Request]:  # noqa: ARG002 (Scrapy's)
        key = self.get_slot_key(request)
        self.fetching[key] += 1
        return super().fetch(request).addBoth(self._fetched, key)

    def room(self, key: str) -> int:
        """How many more requests of a slot are worth handing in: what it may transfer, and two that wait."""
        slot = self.slots.get(key)
        concurrency = self.domain_concurrency if slot is None else slot.concurrency
        return int(concurrency) + 2 - self.fetching[key]

    def _fetched(self, result: _Result, key: str) -> _Result:
        self.fetching[key] -= 1
        if not self.fetching[key]:
            del self.fetching[key]
        return result

    def get_slot_key(self, request: Request) -> str:
        # Scrapy's key leaves the port out, so two servers of one machine would slow each other down.
        key: str | None = request.meta.get(self.DOWNLOAD_SLOT)
        return key if key is not None else urlparse_cached(request).netloc

    def _get_slot(self, request: Request, spider: Any = None) -> tuple[str, Slot]:  # noqa: ARG002 (Scrapy's)
        key, slot = super()._get_slot(request)
        if not isinstance(slot.queue, _CountingQueue):
            slot.queue = _CountingQueue(slot)
        return key, slot

    async def _download(self, slot: Slot, request: Request) -> Response:
        # Scrapy measures the delay from the moment it schedules the download. When the loop is busy just then, the next
        # one would follow too closely.
        slot.lastseen = monotonic()
        return await super()._download(slot, request)
