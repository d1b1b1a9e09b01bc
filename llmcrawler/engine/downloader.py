"""Scrapy's downloader, made to hold its limits for each host exactly."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any, Protocol, TypeVar

from scrapy import Request
from scrapy.core.downloader import Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from twisted.internet.defer import Deferred

from llmcrawler.engine.compat import wake_engine
from llmcrawler.engine.compat.components import DownloaderBase
from llmcrawler.engine.handlers import PageHandlers
from llmcrawler.engine.request_context import update_context
from llmcrawler.errors import ConfigError

_Result = TypeVar("_Result")

# Sent with `request` and `exception` when a request got no response; Scrapy has no signal for that.
download_failed = object()


class HostPaused(IgnoreRequest):
    """Raised for a request whose host is left alone for now: it goes back, and loses no try."""


class PoliteSlot(Slot):
    """Draws the gap to the next request once, when a request starts.

    Scrapy draws a new one whenever it looks, so that the mean is longer than what was asked for. The mean is never
    shorter than that either: after gaps that were shorter, the next one is longer.
    """

    def __init__(self, concurrency: int, delay: float, jitter: float) -> None:
        super().__init__(concurrency, delay, jitter)
        self.queue = _CountingQueue(self)
        self.rests_until = 0.0
        self.on_start: Callable[[], object] | None = None
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
        if self.on_start is not None:
            self.on_start()
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


class SharedLimiter(Protocol):
    """The limits that several processes share for a host; each request asks it before it starts."""

    async def enter(self, key: str, slot: PoliteSlot) -> Any:
        """Wait until a request may start; what is returned is for `leave`. Raises HostPaused when that takes long."""

    def leave(self, entry: Any) -> None: ...


class PoliteDownloader(DownloaderBase):
    """Holds CONCURRENT_REQUESTS_PER_DOMAIN and DOWNLOAD_DELAY per host and port, as the server sees them.

    `fetching` counts the requests of each slot that were handed in and are not answered, middlewares included.
    `given_up` has the hosts that are not asked any more, with the reason. `on_new_slot` is called with each new slot:
    Scrapy drops those that were idle for a minute.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.handlers: PageHandlers = PageHandlers(crawler)
        self.fetching: Counter[str] = Counter()
        self.given_up: dict[str, str] = {}
        self.on_new_slot: Callable[[str, PoliteSlot], object] | None = None
        self.limiter: SharedLimiter | None = None
        self._rests: dict[str, float] = {}

    def fetch(self, request: Request, spider: Any = None) -> Deferred[Response | Request]:  # noqa: ARG002 (Scrapy's)
        key = self.get_slot_key(request)
        self.fetching[key] += 1
        return super().fetch(request).addBoth(self._fetched, key)

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
        _put_back(key, slot, [entry for entry in slot.queue if entry[0].callback is not NO_CALLBACK])

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

    def _fetched(self, result: _Result, key: str) -> _Result:
        self.fetching[key] -= 1
        if not self.fetching[key]:
            del self.fetching[key]
        return result

    def make_slot(self, slot: Slot) -> PoliteSlot:
        return PoliteSlot(slot.concurrency, slot.delay, slot.jitter)

    def slot_made(self, key: str, slot: Slot) -> None:
        assert isinstance(slot, PoliteSlot)
        slot.rests_until = self._rests.get(key, 0.0)
        if self.on_new_slot is not None:
            self.on_new_slot(key, slot)

    async def download(self, slot: Slot, request: Request) -> Response:
        if self.limiter is None:
            return await self._download_now(slot, request)
        assert isinstance(slot, PoliteSlot)
        entry = await self._pass(self.limiter, slot, request)
        try:
            return await self._download_now(slot, request)
        finally:
            self.limiter.leave(entry)

    async def _pass(self, limiter: SharedLimiter, slot: PoliteSlot, request: Request) -> Any:
        slot.at_limiter += 1
        try:
            entry = await limiter.enter(request.meta[self.DOWNLOAD_SLOT], slot)
        except BaseException:
            slot.at_limiter -= 1
            slot.transferring.remove(request)
            self.start_waiting(slot)
            raise
        slot.at_limiter -= 1
        update_context(request, started=monotonic(), in_flight=slot.in_flight)
        return entry

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
