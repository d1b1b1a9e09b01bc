"""The frontier of a crawl that many workers share: its urls are in Redis."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.errors import StorageFailed
from llmcrawler.frontier import redis_scripts as scripts
from llmcrawler.frontier.added import AddedLately, Parts
from llmcrawler.frontier.packing import pack, unpack
from llmcrawler.frontier.protocol import Counts, Lease, UrlTask
from llmcrawler.storage import Outcome
from llmcrawler.storage.keys import url_key

if TYPE_CHECKING:
    from llmcrawler.fleet.link import RedisLink

logger = logging.getLogger(__name__)

_BUCKETS: Final = 1 << 14  # of `seen`: their sets stay small up to 8 million urls
_BLOOM_ERROR: Final = 0.0001
_ADDED_AT_ONCE: Final = 500
_FIELDS: Final = 5  # of a url in what the scripts return


@dataclass(frozen=True, slots=True)
class _Ended:
    arrival: int
    url: str
    outcome: Outcome | None
    told: asyncio.Future[bool]


class RedisFrontier:
    """`lease_seconds` and `max_leases` as in Frontier; `max_pages` are those of all workers together, and dead ones do
    not count, as in the scheduler. Acknowledgements of `ack_seconds` go out together; before that `make_safe` is asked
    for which of the urls a death of this process would lose the line: those lines are kept in Redis, and `on_kept` is
    told when they are there.

    `counts` are those of the last call, of whatever worker's urls. `clock` is for tests: Redis has the time.
    """

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        link: RedisLink,
        *,
        lease_seconds: float,
        max_leases: int,
        max_pages: int | None = None,
        ack_seconds: float = 0.0,
        make_safe: Callable[[Iterable[str]], Collection[str]] = lambda _urls: (),
        on_kept: Callable[[Collection[str]], None] = lambda _urls: None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.link = link
        self.max_pages = max_pages
        self._make_safe = make_safe
        self._on_kept = on_kept
        self.lost: list[Lease] = []  # urls that took down their holders: whoever has leased next gives them a line
        self._lease_seconds = lease_seconds
        self._max_leases = max_leases
        self._ack_seconds = ack_seconds
        self._clock = clock
        self._held: dict[str, int] = {}
        self._counts = Counts()
        self._added = AddedLately()
        self._adding = asyncio.Lock()
        self._ended: list[_Ended] = []
        self._acking: asyncio.Task[None] | None = None
        self._posted: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        capacity = max(1_000_000, 20 * (self.max_pages or 0))
        chosen, is_new = await self.link.run(scripts.CHOOSE_FILTER, _BLOOM_ERROR, capacity)
        logger.info("Urls are told apart by %s%s", _FILTERS[chosen.decode()], "" if is_new else ", as before")
        await self.refresh()

    async def refresh(self) -> Counts:
        """The counts of this moment."""
        if await self._last_known() < self._added.number:
            await self._add_again()
        return self._counts

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = 0
        async with self._adding:  # one after the other: their number says which of them Redis has
            for some in _chunks(list(tasks), _ADDED_AT_ONCE):
                parts = [part for task in some for part in _parts(task)]
                new += await self._add(self._added.number + 1, parts)
                self._added.note(parts)
        return new

    async def _add(self, number: int, parts: Parts) -> int:
        counts, added = await self.link.run(scripts.ADD, self.link.worker, number, *parts)
        self._note(counts)
        return int(added)

    async def _last_known(self) -> int:
        """The last of this worker's additions that Redis has."""
        counts, number = await self.link.run(scripts.COUNTS, self.link.worker)
        self._note(counts)
        return int(number)

    async def _add_again(self) -> None:
        """What is lost was queued just before the server was replaced by a replica, which had not heard of it."""
        async with self._adding:
            lost = self._added.since(await self._last_known())
            for parts in (*lost, ()):  # none: for those that are not kept any more, so that the number is right
                await self._add(self._added.number, parts)
        if lost:
            logger.warning("Redis has lost what was last written to it: the urls that were queued are queued again")

    async def prefer(self, ranks: Mapping[str, int]) -> None:
        if ranks:
            await self.link.run(scripts.PREFER, *(part for pair in ranks.items() for part in pair))

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        counts, leased, lost = await self.link.run(
            scripts.LEASE,
            self._now(),
            self.link.worker,
            limit,
            per_host,
            "" if worst is None else worst,
            json.dumps(dict(held)),
            self._lease_seconds,
            self._max_leases,
            "" if self.max_pages is None else self.max_pages,
        )
        self._note(counts)
        self.lost += [_lease(row) for row in _chunks(lost, _FIELDS)]
        leases = []
        for row in _chunks(leased, _FIELDS):
            leases.append(_lease(row))
            self._held[leases[-1].url] = int(row[0])
        return leases

    async def start(self, url: str) -> None:
        if url in self._held:
            await self.link.run(scripts.START, self.link.worker, self._held[url], 1)

    def survive(self, url: str) -> None:
        if url in self._held:
            self.link.post(self.link.run(scripts.START, self.link.worker, self._held[url], 0), self._posted)

    async def renew(self, urls: Iterable[str]) -> None:
        held = [self._held[url] for url in urls if url in self._held]
        for some in _chunks(held, _ADDED_AT_ONCE):
            await self.link.run(scripts.RENEW, self._now(), self.link.worker, self._lease_seconds, *some)

    async def renew_held(self) -> None:
        """All leases of this worker, those whose lines are not safe yet included."""
        await self.renew([*self._held, *(one.url for one in self._ended)])

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        arrival = self._held.pop(url, None)
        if arrival is None:
            return False
        ended = _Ended(arrival, url, outcome, asyncio.get_running_loop().create_future())
        self._ended.append(ended)
        if self._acking is None:
            self._acking = asyncio.ensure_future(self._ack_all())
        return await asyncio.shield(ended.told)

    async def release(self, url: str) -> bool:
        await asyncio.gather(*self._posted)
        arrival = self._held.pop(url, None)
        if arrival is None:
            return False
        counts, done = await self.link.run(scripts.RELEASE, self.link.worker, arrival)
        self._note(counts)
        return bool(done[0])

    async def claim(self, url: str, by: str) -> bool:
        return bool(await self.link.run(scripts.CLAIM, *_bucket_and_key(url), url_key(by)))

    def counts(self) -> Counts:
        return self._counts

    async def close(self) -> None:
        if self._acking is not None:
            await self._acking
        await asyncio.gather(*self._posted, return_exceptions=True)
        await self.link.close()

    async def _ack_all(self) -> None:
        try:
            while self._ended:
                await asyncio.sleep(self._ack_seconds)
                ended, self._ended = self._ended, []
                try:
                    await self._settle(ended)
                except BaseException as error:
                    for one in ended:
                        one.told.set_exception(error)
                        one.told.exception()  # seen: its page may be gone by now
                    if not isinstance(error, StorageFailed):  # the crawl is being closed, and says why
                        raise
        finally:
            self._acking = None

    async def _settle(self, ended: Sequence[_Ended]) -> None:
        unsafe = self._make_safe([one.url for one in ended])
        parts = [part for one in ended for part in _ack_parts(one, with_line=one.url in unsafe)]
        # Not before what their pages link to is queued.
        while (answer := await self.link.run(scripts.ACK, self.link.worker, self._added.number, *parts))[1] is None:
            await self._add_again()
        counts, done = answer
        self._note(counts)
        self._on_kept(unsafe)
        for one, was_held in zip(ended, done, strict=True):
            one.told.set_result(bool(was_held))

    def _now(self) -> float | str:
        return "" if self._clock is None else self._clock()

    def _note(self, counts: Sequence[int]) -> None:
        self._counts = Counts(*counts)


_FILTERS: Final = {"bloom": f"a Bloom filter ({_BLOOM_ERROR:.2%} taken for known)", "set": "sets of 64-bit hashes"}


def _parts(task: UrlTask) -> tuple[str | int, ...]:
    return (*_bucket_and_key(task.url), f"{task.host}\n{task.group}", task.rank, pack(task))


def _bucket_and_key(url: str) -> tuple[int, int]:
    key = url_key(url)
    return key % _BUCKETS, key // _BUCKETS


def _lease(row: Sequence[Any]) -> Lease:
    _arrival, attempts, queue, rank, task = row
    host, _, group = queue.decode().partition("\n")
    return Lease(unpack(task.decode(), host, group, int(rank)), int(attempts) + 1)


def _ack_parts(ended: _Ended, *, with_line: bool) -> tuple[str | int | bytes, ...]:
    outcome = ended.outcome
    line = None if outcome is None else outcome.line
    error = (line or {}).get("error")
    return (
        ended.arrival,
        int(outcome is not None and outcome.is_dead),
        f"{error['stage']}/{error.get('kind', '')}" if error else "",
        zlib.compress(json.dumps(line).encode(), 1) if with_line and line is not None else "",
        ended.url,
    )


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
