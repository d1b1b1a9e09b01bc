"""The frontier of a crawl whose sites are shared out to several Redis queues, and the pages that these lend."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.core.frontier.protocol import Counts, Lease, UrlTask, sum_of_counts
from llmcrawler.core.storage import Outcome
from llmcrawler.fleet.queue_structure import COMMON
from llmcrawler.fleet.redis_frontier import RedisFrontier
from llmcrawler.fleet.redis_scripts import PLACES
from llmcrawler.fleet.shards import shard_of_url

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

_PATIENCE_SECONDS: Final = 1.0  # with a shard that is asked, which may be away


class ShardedFrontier:
    """Leases urls of all shards, each of which has the urls of its sites.

    Shards are asked for urls in turn, beginning with `first`, and no more of them than are needed. One that does not
    answer soon is away: others are asked meanwhile, and what it answers at last is handed out then. What concerns a
    site there waits for it: its pages, and pages that link to it. `max_pages` is lent to the shards in blocks.
    """

    def __init__(self, shards: Sequence[RedisFrontier], first: int, max_pages: int) -> None:
        self._shards = shards
        self._first = first
        self._quotas = PageQuotas([shard.connection for shard in shards], max_pages)
        self._priorities: list[dict[str, int]] = [{} for _ in shards]  # those that a shard is to hear of
        self._asked: dict[int, asyncio.Task[list[Lease]]] = {}  # shards that have not answered

    @property
    def sites(self) -> set[str]:
        return set().union(*(shard.sites for shard in self._shards))

    def of(self, url: str) -> RedisFrontier:
        """Return the shard that has the site of a url."""
        return self._shards[shard_of_url(url, len(self._shards))]

    async def open(self) -> None:
        """Prepare what all shards have together; each of them is open by now."""
        await self._quotas.open()

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        by_shard: dict[int, list[UrlTask]] = {}
        for task in tasks:
            by_shard.setdefault(shard_of_url(task.url, len(self._shards)), []).append(task)
        return sum(await asyncio.gather(*(self._add(number, some) for number, some in by_shard.items())))

    async def _add(self, number: int, tasks: list[UrlTask]) -> int:
        await self._send_priorities(number)
        return await self._shards[number].add(tasks)

    async def set_priorities(self, priorities: Mapping[str, int]) -> None:
        """Have each shard hear of it before it is next asked for urls, or given some."""
        for waiting in self._priorities:
            waiting.update(priorities)

    async def _send_priorities(self, number: int) -> None:
        waiting, self._priorities[number] = self._priorities[number], {}
        await self._shards[number].set_priorities(waiting)

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        found: list[Lease] = []
        for turn in range(len(self._shards)):
            number = (self._first + turn) % len(self._shards)
            if len(found) >= limit:
                break
            found += await self._ask(number, limit - len(found), held, per_host, worst)
        self._first += 1
        return found

    async def _ask(
        self, number: int, limit: int, held: Mapping[str, int], per_host: int, worst: int | None
    ) -> list[Lease]:
        """Return urls of a shard; none where it does not answer for now."""
        shard, asked = self._shards[number], self._asked.pop(number, None)
        if asked is None:
            asked = shard.connection.post(self._lease(number, limit, held, per_host, worst))
            await asyncio.wait({asked}, timeout=_PATIENCE_SECONDS)
        if not asked.done():
            self._asked[number] = asked
            return []
        return [lease for lease in asked.result() if shard.holds(lease.url)]  # all may be lost since

    async def _lease(
        self, number: int, limit: int, held: Mapping[str, int], per_host: int, worst: int | None
    ) -> list[Lease]:
        await self._send_priorities(number)
        shard = self._shards[number]
        leases = await shard.lease(limit, held, per_host, worst)
        is_short = len(leases) < limit and not shard.has_places and shard.counts().queued
        if is_short and await self._quotas.extend(number, limit - len(leases)):
            held = Counter(held) + Counter(lease.task.host for lease in leases)
            leases += await shard.lease(limit - len(leases), held, per_host, worst)
        return leases

    def holds(self, url: str) -> bool:
        return any(shard.holds(url) for shard in self._shards)

    async def start(self, url: str) -> None:
        """Note that work on a url begins. Where its shard is away that waits, and the work does not: it has a place
        that pages of other shards need.
        """
        for shard in self._holders(url):
            starting = shard.connection.post(shard.start(url))
            await asyncio.wait({starting}, timeout=_PATIENCE_SECONDS)
            if starting.done():
                starting.result()

    def mark_survived(self, url: str) -> None:
        for shard in self._holders(url):
            shard.mark_survived(url)

    async def renew(self, urls: Iterable[str]) -> None:
        """Do nothing: the leases of a worker last as long as its heartbeats come."""

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        return any([await shard.ack(url, outcome) for shard in self._holders(url)])

    async def release(self, url: str) -> bool:
        return any([await shard.release(url) for shard in self._holders(url)])

    async def reserve_target(self, url: str, by: str) -> bool:
        return await self.of(url).reserve_target(url, by)

    def counts(self) -> Counts:
        return sum_of_counts(shard.counts() for shard in self._shards)

    def close(self) -> None:
        """Ask no more; each shard is closed on its own."""
        for asked in self._asked.values():
            asked.cancel()

    def _holders(self, url: str) -> list[RedisFrontier]:
        return [shard for shard in self._shards if shard.holds(url)]


_BLOCKS: Final = 8  # that a shard's even share is lent in

# A quota that was never lent is none.
_READ: Final = """
redis.call('HSETNX', KEYS[1] .. ':meta', 'quota', 0)
redis.call('HSETNX', KEYS[1] .. ':meta', 'quota_turn', 0)
return redis.call('HMGET', KEYS[1] .. ':meta', 'quota', 'quota_turn')
"""

# number of the shard, its quota and turn, how many pages it wants, max_pages. Returns its new quota and turn.
_LEND: Final = """
local name, lent = KEYS[1] .. ':quotas', 0
local quota, turn, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
for _, shard in ipairs(redis.call('HKEYS', name)) do
  local known, known_turn = string.match(redis.call('HGET', name, shard), '^(%d+) (%d+)$')
  if shard ~= ARGV[1] then
    lent = lent + known
  elseif tonumber(known_turn) > turn or (tonumber(known_turn) == turn and tonumber(known) > quota) then
    return {tonumber(known), tonumber(known_turn)}  -- the shard has given back since, or did not hear of the last block
  end
end
quota = quota + math.max(0, math.min(ARGV[4], most - lent - quota))
redis.call('HSET', name, ARGV[1], quota .. ' ' .. turn)
return {quota, turn}
"""

# quota, turn
_TAKE: Final = """
local meta = KEYS[1] .. ':meta'
local quota, turn = unpack(redis.call('HMGET', meta, 'quota', 'quota_turn'))
if turn == ARGV[2] and tonumber(quota) < tonumber(ARGV[1]) then redis.call('HSET', meta, 'quota', ARGV[1]) end
"""

# max_pages. Returns the quota and turn of a shard that has nothing queued, without the places that it does not need.
_GIVE_BACK: Final = (
    COMMON
    + PLACES
    + """
local spare, meta = places(tonumber(ARGV[1])), P .. 'meta'
if counts()[1] > 0 or redis.call('HEXISTS', meta, 'quota') == 0 then return false end
if spare > 0 then
  redis.call('HINCRBY', meta, 'quota', -spare)
  redis.call('HINCRBY', meta, 'quota_turn', 1)
end
return redis.call('HMGET', meta, 'quota', 'quota_turn')
"""
)


class PageQuotas:
    """Lends the pages that a crawl may still fetch (max_pages) to its shards in blocks, and takes back what is not
    needed.

    A quota is a number of pages and a turn. A shard's own `meta` says what it may lease; its turn counts the times that
    it gave pages back. The first shard's `quotas` have what was lent to each, and hear of a turn with the next
    question: so a process may be killed between any two commands, and no page is lent twice.
    """

    def __init__(self, shards: Sequence[RedisConnection], max_pages: int) -> None:
        self._shards = shards
        self._max_pages = max_pages
        self._block = max(1, max_pages // (_BLOCKS * len(shards)))

    async def open(self) -> None:
        """Have no shard lease before it was lent a page."""
        await asyncio.gather(*(shard.run(_READ) for shard in self._shards))

    async def extend(self, number: int, wanted: int) -> bool:
        """Lend a shard more pages, about as many as are wanted; return whether it has more now."""
        shard = self._shards[number]
        before = await self._run(shard, _READ)
        if before is None:
            return False
        lent = await self._lend(number, before, max(wanted, self._block))
        if lent == before and await self._take_back(number):
            lent = await self._lend(number, before, max(wanted, self._block))
        if lent is None or lent == before:
            return False
        return await self._run(shard, _TAKE, *lent) is not None

    async def _take_back(self, but: int) -> bool:
        """Take from the other shards what they do not need."""
        found = False
        for number, shard in enumerate(self._shards):
            if number != but and (kept := await self._run(shard, _GIVE_BACK, self._max_pages)):
                await self._lend(number, kept, 0)
                found = True
        return found

    async def _lend(self, number: int, quota: Sequence[int], wanted: int) -> list[int] | None:
        return await self._run(self._shards[0], _LEND, number, *quota, wanted, self._max_pages)

    async def _run(self, shard: RedisConnection, script: str, *arguments: int) -> list[int] | None:
        """Return the numbers that a script gives, [] for none of them; None where its shard is away."""
        if shard.is_away:
            return None
        task: asyncio.Task[Any] = shard.post(shard.run(script, *arguments))
        await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)
        return list(map(int, task.result() or ())) if task.done() else None
