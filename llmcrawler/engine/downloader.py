"""Scrapy's downloader, made to hold its limits for each host exactly."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

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
from llmcrawler.engine.compat import wake_engine
from llmcrawler.engine.compat.components import DownloaderBase
from llmcrawler.engine.handlers import PageHandlers
from llmcrawler.engine.polite_slot import PoliteSlot, StartGate
from llmcrawler.engine.refusals import RefusalKind
from llmcrawler.engine.request_context import context_of
from llmcrawler.errors import ConfigError, StorageFailed

if TYPE_CHECKING:
    from llmcrawler.fleet.session import DistributedSession

_Result = TypeVar("_Result")
_CANCELLED = (asyncio.CancelledError, CancelledError)
_STOPPING = "the crawl is being stopped"

# A request that waits here takes some 8 KB. Of a host there are few; of hosts with long gaps there may be many.
_MOST_WAITING = 2048
_AHEAD_SECONDS = 1.0  # for a loop that is busy

# Sent with `request` and `exception` when a request got no response; Scrapy has no signal for that.
download_failed = object()
# Sent with `key` and `slot` for each new slot. Scrapy drops those that were idle for a minute.
slot_made = object()
# Sent with `key` and `slot` when a request leaves the slot's queue, before the gap to the next one is drawn.
request_started = object()


class HostPaused(IgnoreRequest):
    """Raised for a request whose host is left alone for now: it goes back, and loses no try."""


class PoliteDownloader(DownloaderBase):
    """Holds CONCURRENT_REQUESTS_PER_DOMAIN and DOWNLOAD_DELAY per host and port, as the server sees them, and
    CONCURRENT_REQUESTS over all hosts: what waits here for a gap or for a robots.txt takes no place of those.

    `fetching` counts the requests of each slot that were handed in and are not answered, middlewares included.
    `given_up` has the hosts that are not asked any more, `rests` until when (monotonic seconds) others are left alone,
    and `held` those whose robots.txt is long in coming. `on_room` is called with a host that may have room again.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.handlers: PageHandlers = PageHandlers(crawler)
        self.fetching: Counter[str] = Counter()
        self.given_up: dict[str, tuple[RefusalKind, str]] = {}
        self.held: set[str] = set()
        crawl = find_crawl(crawler)
        self._session = None if crawl is None else crawl.backend.session
        self.rests: dict[str, float] = {}
        self.on_room: Callable[[str], object] = _ignore
        self._usual_gap_seconds = crawler.settings.getfloat("DOWNLOAD_DELAY")
        self._gate = StartGate(self.total_concurrency, self.start_waiting)
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

    def needs_backout(self) -> bool:
        return self._gate.is_full or len(self.active) - self._gate.in_flight >= _MOST_WAITING

    def is_crowded(self) -> bool:
        """Return whether requests that wait here may soon keep others away."""
        return 2 * (len(self.active) - self._gate.in_flight) >= _MOST_WAITING

    def has_room(self, key: str) -> bool:
        """Return whether one more request of a slot is worth handing in: it transfers it, or it waits for one of the
        next gaps there, two at most when the slot transfers as many as it may.
        """
        if self.is_resting(key):
            return False
        slot = self.slots.get(key)
        if slot is None:
            return self.fetching[key] < self._ahead(self._usual_gap_seconds)
        return self.fetching[key] < min(int(slot.concurrency) + 2, len(slot.transferring) + self._ahead(slot.delay))

    def wanted(self, key: str = "", most: int | None = None) -> int:
        """Return how many requests of a slot, those that were handed in included, keep it busy, `most` of them; without
        a key, of a host that is not known yet.
        """
        slot = self.slots.get(key)
        most = 2 * self.domain_concurrency + 2 if most is None else most
        if slot is None:
            return min(most, 2 * self._ahead(self._usual_gap_seconds))
        return min(most, len(slot.transferring) + 2 * self._ahead(slot.delay))

    def _ahead(self, gap_seconds: float) -> int:
        """Return how many requests are to wait for the next gaps, so that none begins late."""
        most = self.domain_concurrency + 2
        return most if gap_seconds * most <= _AHEAD_SECONDS else max(1, math.ceil(_AHEAD_SECONDS / gap_seconds))

    def waits_only_for(self, hosts: Collection[str]) -> bool:
        """Return whether nothing is left to do but for these hosts. Scrapy's scheduler hands in all it has, up to
        CONCURRENT_REQUESTS: what is for others waits behind these, or is not there.
        """
        return bool(self.fetching) and all(host in hosts for host in self.fetching)

    def is_resting(self, key: str) -> bool:
        return key in self.held or self.rests.get(key, 0.0) > monotonic()

    def hold(self, key: str) -> None:
        """Hand in nothing of a host until its robots.txt is there."""
        self.held.add(key)

    def let_go(self, key: str) -> None:
        """Undo `hold`."""
        if key in self.held:
            self.held.discard(key)
            self._has_room_again(key)

    def _has_room_again(self, key: str) -> None:
        self.on_room(key)
        wake_engine(self.crawler)

    def rest(self, key: str, until: float) -> None:
        """Start nothing on a slot until then (monotonic seconds). Requests that wait in it fail with HostPaused."""
        if self.rests.get(key, 0.0) >= until:
            return
        self.rests[key] = until
        call_later(max(0.0, until - monotonic()), self._rested, key, until)
        slot = self.slots.get(key)
        if not isinstance(slot, PoliteSlot):
            return
        slot.rests_until = until
        # A robots.txt has no lease: it stays, and the pages that wait for it with it.
        slot.give_back([entry for entry in slot.queue if _is_page(entry[0])], partial(_paused, key))

    def give_up(self, key: str, kind: RefusalKind, reason: str) -> None:
        """Ask nothing more of this host: its requests fail at once."""
        self.given_up[key] = kind, reason
        self.rests.pop(key, None)
        self.held.discard(key)
        slot = self.slots.get(key)
        if slot is not None:
            assert isinstance(slot, PoliteSlot)
            slot.rests_until = 0.0
            slot.give_back(list(slot.queue), partial(_paused, key))
        self._has_room_again(key)

    def get_slot_key(self, request: Request) -> str:
        # Scrapy's key leaves the port out, so two servers of one machine would slow each other down.
        key: str | None = request.meta.get(self.DOWNLOAD_SLOT)
        return key if key is not None else urlparse_cached(request).netloc

    def _fetched(self, result: _Result, key: str, request: Request) -> _Result | Request:
        self.fetching[key] -= 1
        if not self.fetching[key]:
            del self.fetching[key]
        self.on_room(key)
        self._fetches.pop(request, None)
        self._downloads.pop(request, None)
        if not (self._is_stopping and isinstance(result, Failure) and isinstance(result.value, _CANCELLED)):
            return result
        if not _is_page(request):
            raise HostPaused(_STOPPING)
        return request.replace(dont_filter=True)

    def make_slot(self, key: str, slot: Slot) -> PoliteSlot:
        return PoliteSlot(slot.concurrency, slot.delay, slot.jitter, self._gate, partial(self._started, key))

    def slot_made(self, key: str, slot: Slot) -> None:
        assert isinstance(slot, PoliteSlot)
        slot.rests_until = self.rests.get(key, 0.0)
        self._send(slot_made, key, slot)

    def _started(self, key: str, slot: PoliteSlot) -> None:
        self._send(request_started, key, slot)
        self.on_room(key)

    def _send(self, signal: object, key: str, slot: PoliteSlot) -> None:
        self.signals.send_catch_log(signal, key=key, slot=slot)

    async def download(self, slot: Slot, request: Request) -> Response:
        try:
            return await self._download_started(slot, request)
        finally:
            self._gate.leave()

    async def _download_started(self, slot: Slot, request: Request) -> Response:
        if self._is_stopping:
            slot.transferring.remove(request)
            raise HostPaused(_STOPPING)
        self._downloads[request] = asyncio.current_task()
        if self._session is not None and not await self._may_start(self._session, slot, request):
            slot.transferring.remove(request)
            self.start_waiting(slot)
            raise HostPaused("another worker has its host now")
        return await self._download_now(slot, request)

    async def _may_start(self, session: DistributedSession, slot: Slot, request: Request) -> bool:
        assert isinstance(slot, PoliteSlot)
        try:
            key, lease = self.get_slot_key(request), context_of(request).lease
            # All that came while Redis stood still would go out together when it is back.
            async with slot.turn:
                may_start = await session.may_start(key, lease, slot.gap)
                left = slot.went_out + slot.least_gap - monotonic()
                if may_start and left > 0:
                    await asyncio.sleep(left)
                    may_start = lease is None or session.frontier.holds(lease.url)
                if may_start:
                    slot.went_out = monotonic()
                return may_start
        except StorageFailed:  # the crawl is being closed, and says why; the page is for its next run
            return False

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
        if self.rests.get(key) != until:
            return  # the rest was made longer
        if until > monotonic():  # the loop's clock is coarser than ours
            call_later(until - monotonic(), self._rested, key, until)
            return
        del self.rests[key]
        self._has_room_again(key)


def _ignore(_key: str) -> None:
    """Do nothing: the scheduler does not ask for room."""


def _paused(key: str) -> HostPaused:
    return HostPaused(f"{key} rests")


def _is_page(request: Request) -> bool:
    return request.callback is not NO_CALLBACK


def check_downloader(crawler: Crawler) -> None:
    """Raise ConfigError where the settings name a downloader that does not know hosts as this one does."""
    path = crawler.settings["DOWNLOADER"]
    if not issubclass(load_object(path), PoliteDownloader):
        ours = f"{PoliteDownloader.__module__}.PoliteDownloader"
        raise ConfigError(f"DOWNLOADER={path!r} does not hold the limits of hosts: it must be {ours} or a subclass")
