"""Takes turns at hosts that a worker asks although it does not own their sites: where redirects and lists lead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from llmcrawler.fleet.queue_structure import COMMON

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

_LAG_SECONDS: Final = 0.25  # from a word of Redis until the worker acts on it

# host, seconds to the next start there, 1 for a guest, seconds of lag. Returns how long to wait, "0" where a request
# may go out now. A guest waits until all workers have heard of it: from then on the owner takes turns too.
_TAKE: Final = (
    COMMON
    + """
local host, gap, at, lag = ARGV[1], tonumber(ARGV[2]), now(), tonumber(ARGV[4])
if ARGV[3] == '1' then
  local key = P .. 'guest:' .. host
  local since, heard = string.match(redis.call('GET', key) or '', '^(%S+) (%S*)$')
  since, heard = tonumber(since) or at, tonumber(heard)
  redis.call('ZADD', P .. 'guests', at, host)
  if not heard and redis.call('ZCOUNT', P .. 'workers', '-inf', since) == 0 then heard = at end
  redis.call('SET', key, since .. ' ' .. (heard or ''), 'EX', GUEST_SECONDS)
  if not heard then return tostring(lag) end
  if at < heard + gap + lag then return tostring(heard + gap + lag - at) end
end
local left = redis.call('PTTL', P .. 'turn:' .. host)
if left > 0 then return tostring(left / 1000) end
if gap > 0 then redis.call('SET', P .. 'turn:' .. host, 1, 'PX', math.ceil(1000 * gap)) end
return '0'
"""
)


class GuestTurns:
    """Keeps the gap between starts at a host over all workers, where more than its owner ask it."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    async def take(self, host: str, gap_seconds: float, *, is_guest: bool) -> None:
        """Wait until a request may go out; the next one follows after the gap at the earliest."""
        wait = 1.0
        while wait > 0:
            wait = float(await self._connection.run(_TAKE, host, gap_seconds, int(is_guest), _LAG_SECONDS))
            await asyncio.sleep(wait)
