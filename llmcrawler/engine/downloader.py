"""Scrapy's downloader, made to hold its limits for each host exactly."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from scrapy import Request
from scrapy.core.downloader import Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.python.failure import Failure

from llmcrawler.crawl.context import find_crawl
from llmcrawler.distributed.host_limiter import DistributedHostLimiter, HostAllowance, HostInCooldown, HostPlace
from llmcrawler.engine.compat import wake_engine
from llmcrawler.engine.compat.components import DownloaderBase
from llmcrawler.engine.handlers import PageHandlers
from llmcrawler.engine.request_context import update_context
from llmcrawler.errors import ConfigError, StorageFailed

_Result = TypeVar("_Result")
_CANCELLED = (asyncio.CancelledError, CancelledError)
_STOPPING = "the crawl is being stopped"

# Sent with `request` and `exception` when a request got no response; Scrapy has no signal for that.
download_failed = object()
# Sent with `key` and `slot` for each new slot. Scrapy drops those that were idle for a minute.
slot_made = object()
# Sent with `key` and `slot` when a request leaves the slot's queue, before the gap to the next one is drawn.
request_started = object()


class HostPaused(IgnoreRequest):
    """Raised for a request whose host is left alone for now: it goes back, and loses no try."""


class PoliteSlot(Slot):
    """Draws the gap to the next request once, when a request starts.

    Scrapy draws a new one whenever it looks, so that the mean is longer than what was asked for. The mean is never
    shorter than that either: after gaps that were shorter, the next one is longer.
    """

    def __init__(self, concurrency: int, delay: float, jitter: float, on_start: Callable[[PoliteSlot], object]) -> None:
        super().__init__(concurrency, delay, jitter)
        self.queue = _CountingQueue(self)
        self.rests_until = 0.0
        self._on_start = on_start
        self.at_limiter = 0  # requests that have left the queue and wait for room that the other workers leave
        self.elsewhere = 0  # requests in flight of the other workers, as last known
        self.window = float(concurrency)  # what `concurrency` is rounded from
        self._gap = delay
        self._surplus = 0.0  # seconds that the gaps so far were longer than their means

    def download_delay(self) -> float:
        return max(self._gap, self.rests_until - self.lastseen)

    @property
    def gap(self) -> float:
        """Seconds from the request that started last to the next one."""
        return self._gap

    @property
    def in_flight(self) -> int:
        """Requests of all workers that are in flight."""
        return len(self.transferring) - self.at_limiter + self.elsewhere

    def start(self, request: Request) -> None:
        self.transferring.add(request)
        update_context(request, started=monotonic(), in_flight=self.in_flight)
        self._on_start(self)
        self.draw_gap()

    def draw_gap(self) -> None:
        least = 0.0 if self._surplus < 0 else -self.jitter
        self._gap = max(0.0, self.delay * (1 + random.uniform(least, self.jitter)))  # noqa: S311 (no secret)
        self._surplus += self._gap - self.delay


class _CountingQueue(deque[tuple[Request, Any]]):
    """Counts a request as transferring when it leaves the queue.

    Scrapy 2.14 to 2.19 counts it in the task that downloads it. The tasks run after the loop that starts them, so with
    no delay that loop drained the whole queue: 59 requests in flight where 5 were allowed.
    """

    def __init__(self, slot: PoliteSlot) -> None:
        super().__init__()
        self._slot = slot

    def popleft(self) -> tuple[Request, Any]:
        entry = super().popleft()
        self._slot.start(entry[0])
        return entry


class PoliteDownloader(DownloaderBase):
    """Holds CONCURRENT_REQUESTS_PER_DOMAIN and DOWNLOAD_DELAY per host and port, as the server sees them.

    `fetching` counts the requests of each slot that were handed in and are not answered, middlewares included.
    `given_up` has the hosts that are not asked any more, with the reason. Where workers share a crawl, each request
    waits for a place among those of all of them.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.handlers: PageHandlers = PageHandlers(crawler)
        self.fetching: Counter[str] = Counter()
        self.given_up: dict[str, str] = {}
        crawl = find_crawl(crawler)
        session = None if crawl is None else crawl.backend.session
        self._limiter = None if session is None else session.host_limiter
        self._rests: dict[str, float] = {}
        self._fetches: dict[Request, Deferred[Response | Request]] = {}
        self._downloads: dict[Request, asyncio.Task[Any] | None] = {}  # those that have begun
        self._is_stopping = False

    def fetch(self, request: Request, spider: Any = None) -> Deferred[Response | Request]:  # noqa: ARG002 (Scrapy's)
        if self._is_stopping:
            return fail(HostPaused(_STOPPING))
        key = self.get_slot_key(request)
        self.fetching[key] += 1
        fetch = self._fetches[request] = super().fetch(request)
        return fetch.addBoth(self._fetched, key, request)

    def take_back(self, *, unsent_only: bool) -> int:
        """Begin no more downloads. Return how many requests go back to the scheduler at once, wherever they wait: all,
        or those that were not sent. Nobody waits for a robots.txt any more either.
        """
        self._is_stopping = True
        back = [one for one in self._fetches if not (unsent_only and one in self._downloads and _is_page(one))]
        for request in back:
            task = self._downloads.get(request)
            if task is not None:
                task.cancel()
            self._fetches[request].cancel()
        for slot in self.slots.values():
            slot.queue.clear()
        return len(back)

    def room(self, key: str) -> int:
        """Return how many more requests of a slot are worth handing in: what it may transfer, and two that wait."""
        if self.is_resting(key):
            return 0
        slot = self.slots.get(key)
        concurrency = self.domain_concurrency if slot is None else slot.concurrency
        return int(concurrency) + 2 - self.fetching[key]

    def waits_only_for(self, hosts: Collection[str]) -> bool:
        """Return whether nothing is left to do but for these hosts. Scrapy's scheduler hands in all it has, up to
        CONCURRENT_REQUESTS: what is for others waits behind these, or is not there.
        """
        return bool(self.fetching) and all(host in hosts for host in self.fetching)

    def is_resting(self, key: str) -> bool:
        return self._rests.get(key, 0.0) > monotonic()

    def rest(self, key: str, until: float) -> None:
        """Start nothing on a slot until then (monotonic seconds). Requests that wait in it fail with HostPaused."""
        if self._rests.get(key, 0.0) >= until:
            return
        self._rests[key] = until
        call_later(max(0.0, until - monotonic()), self._rested, key, until)
        slot = self.slots.get(key)
        if slot is None:
            return
        assert isinstance(slot, PoliteSlot)
        slot.rests_until = until
        # A robots.txt has no lease: it stays, and the pages that wait for it with it.
        _put_back(key, slot, [entry for entry in slot.queue if _is_page(entry[0])])

    def give_up(self, key: str, reason: str) -> None:
        """Ask nothing more of this host: its requests fail at once."""
        self.given_up[key] = reason
        self._rests.pop(key, None)
        slot = self.slots.get(key)
        if slot is not None:
            assert isinstance(slot, PoliteSlot)
            slot.rests_until = 0.0
            _put_back(key, slot, list(slot.queue))
        wake_engine(self.crawler)

    def get_slot_key(self, request: Request) -> str:
        # Scrapy's key leaves the port out, so two servers of one machine would slow each other down.
        key: str | None = request.meta.get(self.DOWNLOAD_SLOT)
        return key if key is not None else urlparse_cached(request).netloc

    def _fetched(self, result: _Result, key: str, request: Request) -> _Result | Request:
        self.fetching[key] -= 1
        if not self.fetching[key]:
            del self.fetching[key]
        self._fetches.pop(request, None)
        self._downloads.pop(request, None)
        if not (self._is_stopping and isinstance(result, Failure) and isinstance(result.value, _CANCELLED)):
            return result
        if not _is_page(request):
            raise HostPaused(_STOPPING)
        return request.replace(dont_filter=True)

    def make_slot(self, key: str, slot: Slot) -> PoliteSlot:
        return PoliteSlot(slot.concurrency, slot.delay, slot.jitter, partial(self._send, request_started, key))

    def slot_made(self, key: str, slot: Slot) -> None:
        assert isinstance(slot, PoliteSlot)
        slot.rests_until = self._rests.get(key, 0.0)
        self._send(slot_made, key, slot)

    def _send(self, signal: object, key: str, slot: PoliteSlot) -> None:
        self.signals.send_catch_log(signal, key=key, slot=slot)

    async def download(self, slot: Slot, request: Request) -> Response:
        if self._is_stopping:
            slot.transferring.remove(request)
            raise HostPaused(_STOPPING)
        self._downloads[request] = asyncio.current_task()
        if self._limiter is None:
            return await self._download_now(slot, request)
        assert isinstance(slot, PoliteSlot)
        place = await self._place(self._limiter, slot, request)
        try:
            return await self._download_now(slot, request)
        finally:
            self._limiter.leave(place)

    async def _place(self, limiter: DistributedHostLimiter, slot: PoliteSlot, request: Request) -> HostPlace:
        """Wait for a place at the host among all workers. Raises HostPaused when that takes long."""
        slot.at_limiter += 1
        try:
            place = await self._enter(limiter, request.meta[self.DOWNLOAD_SLOT], slot)
        except BaseException:
            slot.at_limiter -= 1
            slot.transferring.remove(request)
            self.start_waiting(slot)
            raise
        slot.at_limiter -= 1
        slot.elsewhere = max(0, place.in_flight - (len(slot.transferring) - slot.at_limiter))
        update_context(request, started=monotonic(), in_flight=slot.in_flight)
        return place

    async def _enter(self, limiter: DistributedHostLimiter, key: str, slot: PoliteSlot) -> HostPlace:
        try:
            return await limiter.enter(key, lambda: HostAllowance(slot.window, slot.gap))
        except HostInCooldown as cooldown:
            self.rest(key, monotonic() + cooldown.seconds)
            raise HostPaused(str(cooldown)) from cooldown
        except StorageFailed as failure:  # the crawl is being closed, and says why; the page is for its next run
            raise HostPaused(str(failure)) from failure

    async def _download_now(self, slot: Slot, request: Request) -> Response:
        # Scrapy measures the delay from the moment it schedules the download. When the loop is busy just then, the next
        # one would follow too closely.
        slot.lastseen = monotonic()
        try:
            return await super().download(slot, request)
        except Exception as error:
            self.signals.send_catch_log(download_failed, request=request, exception=error)
            raise

    def _rested(self, key: str, until: float) -> None:
        if self._rests.get(key) != until:
            return  # the rest was made longer
        if self.is_resting(key):  # the loop's clock is coarser than ours
            call_later(until - monotonic(), self._rested, key, until)
            return
        del self._rests[key]
        wake_engine(self.crawler)


def _is_page(request: Request) -> bool:
    return request.callback is not NO_CALLBACK


def check_downloader(crawler: Crawler) -> None:
    """Raise ConfigError where the settings name a downloader that does not know hosts as this one does."""
    path = crawler.settings["DOWNLOADER"]
    if not issubclass(load_object(path), PoliteDownloader):
        ours = f"{PoliteDownloader.__module__}.PoliteDownloader"
        raise ConfigError(f"DOWNLOADER={path!r} does not hold the limits of hosts: it must be {ours} or a subclass")


def _put_back(key: str, slot: Slot, entries: Collection[tuple[Request, Any]]) -> None:
    """Fail requests that wait in a slot with HostPaused."""
    for entry in entries:
        slot.queue.remove(entry)
    for _request, waiting in entries:
        waiting.errback(HostPaused(f"{key} rests"))
