"""Lends the pages that a crawl may still fetch (max_pages) to its shards in blocks, and takes back what is not needed.

A quota is a number of pages and a turn. A shard's own `meta` says what it may lease; its turn counts the times that it
gave pages back. The first shard's `quotas` have what was lent to each, and hear of a turn with the next question: so a
process may be killed between any two commands, and no page is lent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.distributed.queue_structure import COMMON
from llmcrawler.frontier.redis_scripts import PLACES

if TYPE_CHECKING:
    from llmcrawler.distributed.connection import RedisConnection

_BLOCKS: Final = 8  # that a shard's even share is lent in
_PATIENCE_SECONDS: Final = 1.0  # with a shard, which may be away

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
    """Keeps the pages of all shards together under `max_pages`."""

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
