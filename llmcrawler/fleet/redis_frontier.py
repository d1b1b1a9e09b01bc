"""The frontier of a crawl that many workers share: its urls are in Redis."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import zlib
from asyncio import Future
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.core.frontier.protocol import Counts, Lease, UrlTask
from llmcrawler.core.storage import Outcome, url_key
from llmcrawler.core.urls import site_name, site_of
from llmcrawler.errors import StorageFailed
from llmcrawler.fleet.connection import BUCKETS
from llmcrawler.items import UrlSource

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

logger = logging.getLogger(__name__)

_BLOOM_ERROR: Final = 0.0001
_FILTERS: Final = {"bloom": f"a Bloom filter ({_BLOOM_ERROR:.2%} taken for known)", "set": "sets of 64-bit hashes"}
_AT_ONCE: Final = 500  # urls in a script: Lua passes some thousand values to a command
_FIELDS: Final = 5  # of a url in what the scripts return
_KEPT_SECONDS: Final = 60.0  # of additions; replicas are behind by less than one
_MAX_PARTS: Final = 100_000  # five of a url: some 6 MB
_SCHEMES = ("https", "http")
_DEFAULTS: tuple[Any, ...] = ("", 0, None, None, None)


def pack(task: UrlTask) -> str:
    """Return a task as JSON, without host, group and priority, which its queue has. New fields go to the end."""
    found = None if task.found is None else [task.found.source, task.found.lastmod, task.found.title]
    fields = [_short(task.url, task.host), task.depth, _short(task.referer, task.host), task.payload, found]
    while fields[-1] in (None, 0):
        fields.pop()
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def unpack(text: str, host: str, group: str, priority: int) -> UrlTask:
    given: list[Any] = json.loads(text)
    url, depth, referer, payload, found = [*given, *_DEFAULTS[len(given) :]]
    return UrlTask(
        _long(url, host),
        host,
        depth,
        None if referer is None else _long(referer, host),
        priority,
        group,
        payload,
        None if found is None else UrlSource(*found),
    )


def _short(url: str | None, host: str) -> str | None:
    for scheme in _SCHEMES:
        start = f"{scheme}://{host}/"
        if url is not None and url.startswith(start):
            return f"{scheme[4:]}/{url[len(start) :]}"
    return url


def _long(url: str, host: str) -> str:
    if url.startswith("s/"):
        return f"https://{host}{url[1:]}"
    return f"http://{host}{url}" if url.startswith("/") else url


@dataclass(frozen=True, slots=True)
class _EndedLease:
    """A lease that waits to be acknowledged. `lease` is its name in Redis; `losses` are those of its worker then."""

    lease: str
    url: str
    outcome: Outcome | None
    losses: int
    was_held: Future[bool]

    def parts(self, *, with_line: bool) -> tuple[str | int | bytes, ...]:
        """Return what the script that acknowledges it wants to know (lua/ack.lua)."""
        outcome = self.outcome
        line = None if outcome is None else outcome.line
        error = (line or {}).get("error")
        return (
            self.lease,
            0 if outcome is None else 1 if outcome.is_dead else 2 * outcome.is_duplicate,
            f"{error['stage']}/{error.get('kind', '')}" if error else "",
            zlib.compress(json.dumps(line).encode(), 1) if with_line and line is not None else "",
            self.url,
        )


@dataclass(eq=False)
class RedisFrontier:
    """Leases the urls of a crawl in Redis to this worker: those of the sites that it owns, and of sites that wait for
    an owner where these are not enough; `on_site` is awaited with a url of each such site before any is leased.

    A url whose holders were lost `max_leases` times is leased a last time, as lost. `max_pages` limits the pages of all
    workers together. Acknowledgements of `ack_seconds` go out together: `confirm` waits until no other worker can have
    them, `make_safe` returns those urls whose lines would be lost with this process, and `on_kept` gets these when
    their lines are in Redis.
    """

    connection: RedisConnection
    _: KW_ONLY
    max_leases: int
    max_pages: int | None = None
    ack_seconds: float = 0.0
    confirm: Callable[[], Awaitable[None]] | None = None
    make_safe: Callable[[Iterable[str]], Collection[str]] = lambda _urls: ()
    on_kept: Callable[[Collection[str]], None] = lambda _urls: None
    on_site: Callable[[str], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        self.sites: set[str] = set()  # those that this worker owns, as far as it knows
        self._asking = 0  # requests for urls that are under way
        self._leased = 0  # the number of the last request for urls
        self._losses = 0  # times that all leases were lost
        self._held: dict[str, str] = {}  # by url: its arrival, and the number of the request that it was leased by
        self._reading: dict[str, str] = {}  # those of `_held` that may take this process down just now
        self._marked: set[str] = set()  # those of which Redis knows that
        self._marking = asyncio.Lock()  # one after the other, so that Redis keeps the last
        self.is_hungry = False  # more could be done here, as the last request for urls says
        # The hosts that had no room when no other one had urls, by `per_host` and `worst` of the request.
        self._full: dict[tuple[int, int | None], set[str]] = {}
        self._counts = Counts()
        # Redis keeps the number of the last addition beside it: what a failover loses is known by that.
        self._last_added = 0
        self._added: deque[tuple[int, float, list[str | int]]] = deque()  # number, moment, parts
        self._part_count = 0
        self._adding = asyncio.Lock()  # one after the other, so that their number tells which of them Redis has
        self._ended: list[_EndedLease] = []  # not yet acknowledged in Redis
        self._acking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        capacity = max(1_000_000, 20 * (self.max_pages or 0))
        chosen, is_new = await self.connection.run("choose_filter", _BLOOM_ERROR, capacity)
        logger.info("Duplicate URLs are filtered by %s%s", _FILTERS[chosen.decode()], "" if is_new else ", as before")

    async def take_counts(self, counts: Sequence[int], last_added: int) -> None:
        """Note the counts, tell Redis what was read, and add again what it has lost of this worker's additions."""
        self._counts = Counts(*counts)
        await self._mark()
        if last_added < self._last_added:
            await self._add_again()

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = 0
        async with self._adding:
            for some in _chunks(list(tasks), _AT_ONCE):
                parts: list[str | int] = []
                for task in some:
                    parts += (*_bucket_and_key(task.url), f"{task.host}\n{task.group}", task.priority, pack(task))
                new += await self._add(self._last_added + 1, parts)
                self._last_added += 1
                now = time.monotonic()
                self._added.append((self._last_added, now, parts))
                self._part_count += len(parts)
                while self._part_count > _MAX_PARTS or self._added[0][1] < now - _KEPT_SECONDS:
                    self._part_count -= len(self._added.popleft()[2])
        return new

    async def _add(self, number: int, parts: Iterable[str | int]) -> int:
        counts, added = await self.connection.run("add", self.connection.worker, number, *parts)
        self._counts = Counts(*counts)
        self.look_again()
        return int(added)

    async def _add_again(self) -> None:
        """Queue again what was queued just before a replica replaced the server without having received it."""
        async with self._adding:
            _counts, known = await self.connection.run("counts", self.connection.worker)
            lost = [parts for number, _at, parts in self._added if number > known]
            for parts in (*lost, ()):  # an empty one at the end sets the number right, also when none is kept any more
                await self._add(self._last_added, parts)
        if lost:
            logger.warning("Redis has lost its last writes: the URLs in them are queued again")

    async def set_priorities(self, priorities: Mapping[str, int]) -> None:
        if priorities:
            self.look_again()
            await self.connection.run("set_priorities", *(part for pair in priorities.items() for part in pair))

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        full = self._full.get((per_host, worst))
        if full is not None and all(held.get(host, 0) >= per_host for host in full):
            return []
        self._asking += 1
        self._leased += 1
        number, losses, last_added = self._leased, self._losses, self._last_added
        given = (min(limit, _AT_ONCE), per_host, "" if worst is None else worst, json.dumps(dict(held)))
        most = "" if self.max_pages is None else self.max_pages
        try:
            counts, rows, is_hungry = await self.connection.run("lease", self.connection.worker, number, *given, most)
            self._counts, self.is_hungry = Counts(*counts), bool(is_hungry)
            leases: dict[str, Lease] = {}  # by their names in Redis
            for arrival, attempts, queue, priority, packed in _chunks(rows, _FIELDS):
                host, _, group = queue.decode().partition("\n")
                task = unpack(packed.decode(), host, group, int(priority))
                is_lost = int(attempts) >= self.max_leases
                leases[f"{arrival} {number}"] = Lease(task, int(attempts) + 1, is_lost=is_lost)
            if is_hungry and last_added == self._last_added:
                now_held = Counter(held) + Counter(lease.task.host for lease in leases.values())
                self._full[per_host, worst] = {host for host, count in now_held.items() if count >= per_host}
            for lease in leases.values():
                site = site_of(lease.task.host)
                if losses == self._losses and site not in self.sites:
                    if self.on_site is not None and not lease.task.fault:
                        await self.on_site(lease.url)
                    self.sites.add(site)
            if leases and losses != self._losses:  # they may have been leased since
                await self._release(leases)
                return []
            self._held |= {lease.url: name for name, lease in leases.items()}
            return [*leases.values()]
        finally:
            self._asking -= 1

    def holds(self, url: str) -> bool:
        return url in self._held

    def has_of(self, site: str) -> bool:
        """Return whether urls of a site are leased here, are being leased, or are not acknowledged in Redis yet."""
        urls = (*self._held, *(one.url for one in self._ended))
        return self._asking > 0 or any(site_name(url) == site for url in urls)

    def lose_all(self) -> None:
        """Forget all leases and sites: they are other workers' now."""
        self._losses += 1
        self._held.clear()
        self._reading.clear()
        self.sites.clear()
        self.look_again()

    def look_again(self) -> None:
        """Ask Redis at the next request for urls, as there may be others now."""
        self._full.clear()

    async def start(self, url: str) -> None:
        if url in self._held:
            self._reading[url] = self._held[url]
            await self._mark()

    def mark_survived(self, url: str) -> None:
        self._reading.pop(url, None)

    async def _mark(self) -> None:
        """Tell Redis what is being read, unless it knows; what was read and is acknowledged soon does not matter."""
        async with self._marking:
            reading = {*self._reading.values()}
            if not reading <= self._marked or (self._marked - reading) & {*self._held.values()}:
                await self.connection.put("reading", {self.connection.worker: ",".join(reading)})
                self._marked = reading

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        lease = self._held.pop(url, None)
        if lease is None:
            return False
        ended = _EndedLease(lease, url, outcome, self._losses, asyncio.get_running_loop().create_future())
        self._ended.append(ended)
        if self._acking is None:
            self._acking = asyncio.ensure_future(self._ack_all())
        return await asyncio.shield(ended.was_held)

    async def release(self, url: str) -> bool:
        lease = self._held.pop(url, None)
        return lease is not None and await self._release([lease])

    async def _release(self, leases: Iterable[str]) -> bool:
        parts = [part for lease in leases for part in (lease, int(lease in self._reading.values()))]
        counts, were_held = await self.connection.run("release", self.connection.worker, *parts)
        self._counts = Counts(*counts)
        self.look_again()
        return any(were_held)

    async def reserve_target(self, url: str, by: str) -> bool:
        return bool(await self.connection.run("reserve_target", *_bucket_and_key(url), url_key(by)))

    def counts(self) -> Counts:
        return self._counts

    async def close(self) -> None:
        if self._acking is not None:
            await self._acking
        await self.connection.close()

    async def _ack_all(self) -> None:
        try:
            while self._ended:
                await asyncio.sleep(self.ack_seconds)
                ended = self._ended[:_AT_ONCE]
                try:
                    await self._ack_together(ended)
                except BaseException as error:
                    for one in ended:
                        if not one.was_held.done():
                            one.was_held.set_exception(error)
                            one.was_held.exception()  # marked as seen: its page may be gone by now
                    if not isinstance(error, StorageFailed):  # then the crawl is being closed, and logs why
                        raise
                finally:
                    del self._ended[: len(ended)]
        finally:
            self._acking = None

    async def _ack_together(self, ended: Sequence[_EndedLease]) -> None:
        if self.confirm is not None:
            await self.confirm()
        for one in ended:
            if one.losses != self._losses:
                one.was_held.set_result(False)
        ended = [one for one in ended if one.losses == self._losses]
        if not ended:
            return
        unsafe = self.make_safe([one.url for one in ended])
        parts = [part for one in ended for part in one.parts(with_line=one.url in unsafe)]
        while True:
            counts, done = await self.connection.run("ack", self.connection.worker, self._last_added, *parts)
            if done is not None:
                break
            await self._add_again()  # a page is acknowledged only when the links that it has are queued
        self._counts = Counts(*counts)
        self.on_kept(unsafe)
        for one, was_held in zip(ended, done, strict=True):
            one.was_held.set_result(bool(was_held))


def _bucket_and_key(url: str) -> tuple[int, int]:
    key = url_key(url)
    return key % BUCKETS, key // BUCKETS


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
