"""Scrapy's downloader, made to hold its limits for each host exactly, with the browser as one of its handlers."""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import Request
from scrapy.core.downloader import Downloader, Slot
from scrapy.core.downloader.handlers import DownloadHandlerProtocol, DownloadHandlers
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.python.failure import Failure

from llmcrawler.crawl.compat import engine_of, is_closing, wake_engine
from llmcrawler.crawl.configuration import PolitenessSettings
from llmcrawler.crawl.context import find_crawl
from llmcrawler.engine.failures import RefusalKind
from llmcrawler.engine.request_context import RENDER, context_of, update_context
from llmcrawler.errors import BrowserMissing, ConfigError, StorageFailed, install_command

if TYPE_CHECKING:
    from llmcrawler.fleet.session import DistributedSession


logger = logging.getLogger(__name__)

_BROWSER = "browser"  # no scheme of a url


class NotRendered(Exception):
    """Raised by the browser for a download: it is fetched as what needs no browser is."""


class PageHandlers(DownloadHandlers):
    """Imports and starts the browser with the first page that needs it. Without one pages come as the server sends
    them, and `no_browser` says why.
    """

    no_browser: str | None = None

    async def download_request_async(self, request: Request) -> Response:
        if request.meta.get(RENDER) and request.method == "GET" and self.no_browser is None:
            try:
                return await (await self._browser()).download_request(request)
            except BrowserMissing as error:
                if self.no_browser is None:
                    self.no_browser = str(error)
                    logger.warning("Pages are not rendered; the crawl continues without: %s", error)
            except NotRendered:
                pass
        return await super().download_request_async(request)

    async def _browser(self) -> DownloadHandlerProtocol:
        if _BROWSER not in self._handlers:
            try:  # in a thread, as it takes a tenth of a second
                module = await asyncio.to_thread(importlib.import_module, "llmcrawler.engine.browser.handler")
            except ImportError as error:
                raise BrowserMissing(f"{error}: {install_command('browser')}") from error
            if _BROWSER not in self._handlers:  # another page has waited for it, too
                self._handlers[_BROWSER] = build_from_crawler(module.BrowserDownloadHandler, self._crawler)
        return self._handlers[_BROWSER]


class StartGate:
    """Lets no more than `most` requests of all slots be in flight (0: any number)."""

    def __init__(self, most: int, start: Callable[[Slot], None]) -> None:
        self._most = most
        self._start = start
        self._in_turn: OrderedDict[Slot, None] = OrderedDict()  # slots that could start a request if it were not full
        self.in_flight = 0

    @property
    def is_full(self) -> bool:
        return 0 < self._most <= self.in_flight

    def admits(self, slot: Slot) -> bool:
        """Return whether a slot may start a request. One that may not is told when it may."""
        if not self.is_full:
            return True
        if slot.queue:
            self._in_turn[slot] = None
        return False

    def leave(self) -> None:
        """Note that a request is no longer in flight, and let those start that wait for its place."""
        self.in_flight -= 1
        while self._in_turn and not self.is_full:
            slot, _ = self._in_turn.popitem(last=False)
            self._start(slot)


class PoliteSlot(Slot):
    """Draws the gap to the next request once, when a request starts.

    Scrapy draws a new one whenever it looks, so that the mean is longer than what was asked for. Here the gaps so far
    are never far from it: after gaps that were shorter the next one is longer, and the other way round.
    """

    def __init__(self, slot: Slot, gate: StartGate, on_start: Callable[[], object], rests_until: float) -> None:
        super().__init__(slot.concurrency, slot.delay, slot.jitter)
        self.queue = _CountingQueue(self)
        self.rests_until = rests_until
        self.went_out = -math.inf  # when its last request did: after its start, where other workers are heard first
        self.turn = asyncio.Lock()  # of those that have started and have not gone out
        self._gate = gate
        self._on_start = on_start
        self.gap = slot.delay  # seconds from the request that started last to the next one
        self._excess = 0.0  # seconds that this gap is longer than its mean
        self._surplus = 0.0  # that those before it were

    def download_delay(self) -> float:
        return max(self.gap, self.rests_until - self.lastseen)

    def free_transfer_slots(self) -> int:
        free = super().free_transfer_slots()
        return free if free <= 0 or self._gate.admits(self) else 0

    def start(self, request: Request) -> None:
        self.transferring.add(request)
        self._gate.in_flight += 1
        update_context(request, started=monotonic(), in_flight=len(self.transferring))
        self._on_start()
        self._surplus += self._excess
        self.draw_gap()

    def give_back(self, entries: Collection[tuple[Request, Any]], reason: str) -> None:
        """Fail requests that wait here with HostPaused."""
        for entry in entries:
            self.queue.remove(entry)
        for _request, waiting in entries:
            waiting.errback(HostPaused(reason))

    def draw_gap(self) -> None:
        """Draw the gap after the request that started last, in the place of one that was drawn before."""
        least = 0.0 if self._surplus < 0 else -self.jitter
        most = 0.0 if self._surplus > 0 else self.jitter
        self.gap = max(0.0, self.delay * (1 + random.uniform(least, most)))  # noqa: S311 (no secret)
        self._excess = self.gap - self.delay


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


class PoliteDownloader(Downloader):
    """Holds CONCURRENT_REQUESTS_PER_DOMAIN and DOWNLOAD_DELAY per host and port, as the server sees them, and
    CONCURRENT_REQUESTS over all hosts: what waits here for a gap or for a robots.txt takes no place of those.

    `fetching` counts the requests of each slot that were handed in and are not answered, middlewares included.
    `given_up` has the hosts that are not asked any more, `rests` until when (monotonic seconds) others are left alone,
    and `held` those whose robots.txt is long in coming. `on_room` is called with a host that may have room again.
    """

    slots: dict[str, PoliteSlot]  # type: ignore[assignment]

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.handlers: PageHandlers = PageHandlers(crawler)
        self.fetching: Counter[str] = Counter()
        self.given_up: dict[str, tuple[RefusalKind, str]] = {}
        self.held: set[str] = set()
        crawl = find_crawl(crawler)
        self._session = None if crawl is None else crawl.backend.session
        self.rests: dict[str, float] = {}
        self.on_room: Callable[[str], object] = lambda _host: None  # a scheduler that asks for room sets it
        self._usual_gap_seconds = PolitenessSettings.of(crawler.settings).download_delay
        self._gate = StartGate(self.total_concurrency, self._process_queue)
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
        if slot is None:
            return
        slot.rests_until = until
        # A robots.txt has no lease: it stays, and the pages that wait for it with it.
        slot.give_back([entry for entry in slot.queue if _is_page(entry[0])], f"{key} rests")

    def give_up(self, key: str, kind: RefusalKind, reason: str) -> None:
        """Ask nothing more of this host: its requests fail at once."""
        self.given_up[key] = kind, reason
        self.rests.pop(key, None)
        self.held.discard(key)
        slot = self.slots.get(key)
        if slot is not None:
            slot.rests_until = 0.0
            slot.give_back(list(slot.queue), f"{key} rests")
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

    def _get_slot(self, request: Request, spider: Any = None) -> tuple[str, PoliteSlot]:  # noqa: ARG002 (Scrapy's)
        key = self.get_slot_key(request)
        if key not in self.slots:
            _, plain = super()._get_slot(request)

            def started() -> None:
                self.signals.send_catch_log(request_started, key=key, slot=slot)
                self.on_room(key)

            slot = self.slots[key] = PoliteSlot(plain, self._gate, started, self.rests.get(key, 0.0))
            self.signals.send_catch_log(slot_made, key=key, slot=slot)
        return key, self.slots[key]

    def _process_queue(self, slot: Slot) -> None:
        if slot.queue and self.crawler.crawling and is_closing(self.crawler):
            assert isinstance(slot, PoliteSlot)
            slot.give_back([entry for entry in slot.queue if _is_page(entry[0])], "the spider is being closed")
        super()._process_queue(slot)

    async def _download(self, slot: PoliteSlot, request: Request) -> Response:  # type: ignore[override]
        try:
            if self._is_stopping:
                slot.transferring.remove(request)
                raise HostPaused(_STOPPING)
            self._downloads[request] = asyncio.current_task()
            if self._session is not None and not await self._may_start(self._session, slot, request):
                slot.transferring.remove(request)
                self._process_queue(slot)
                raise HostPaused("another worker owns its host now")
            # Scrapy measures the delay from the moment it schedules the download. When the loop is busy just then, the
            # next one would follow too closely.
            slot.lastseen = monotonic()
            try:
                return await super()._download(slot, request)
            except Exception as error:
                self.signals.send_catch_log(download_failed, request=request, exception=error)
                raise
        finally:
            self._gate.leave()

    async def _may_start(self, session: DistributedSession, slot: PoliteSlot, request: Request) -> bool:
        key, lease = self.get_slot_key(request), context_of(request).lease
        try:
            # All that came while Redis stood still would go out together when it is back.
            async with slot.turn:
                may_start = await session.may_start(key, lease, slot.gap)
                left = slot.went_out + max(0.0, slot.delay * (1 - slot.jitter)) - monotonic()
                if may_start and left > 0:
                    await asyncio.sleep(left)
                    may_start = lease is None or session.frontier.holds(lease.url)
                if may_start:
                    slot.went_out = monotonic()
                return may_start
        except StorageFailed:  # the crawl is being closed, and says why; the page is for its next run
            return False

    def _rested(self, key: str, until: float) -> None:
        if self.rests.get(key) != until:
            return  # the rest was made longer
        if until > monotonic():  # the loop's clock is coarser than ours
            call_later(until - monotonic(), self._rested, key, until)
            return
        del self.rests[key]
        self._has_room_again(key)


def _is_page(request: Request) -> bool:
    return request.callback is not NO_CALLBACK


def downloader_of(crawler: Crawler) -> PoliteDownloader:
    """Return the downloader of a crawl whose settings `check_downloader` has passed."""
    downloader = engine_of(crawler).downloader
    assert isinstance(downloader, PoliteDownloader)
    return downloader


def check_downloader(crawler: Crawler) -> None:
    """Raise ConfigError where the settings name a downloader that does not know hosts as this one does."""
    path = crawler.settings["DOWNLOADER"]
    if not issubclass(load_object(path), PoliteDownloader):
        ours = f"{PoliteDownloader.__module__}.PoliteDownloader"
        raise ConfigError(f"DOWNLOADER={path!r} does not hold the limits of hosts: it must be {ours} or a subclass")
