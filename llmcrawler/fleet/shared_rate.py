"""Keeps to the model's limits of requests and tokens a minute over all workers of a crawl together."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

# requests a minute, tokens a minute (0: no limit), tokens, name of the call. Returns the seconds to wait.
_ADMIT: Final = """
local P = KEYS[1] .. ':llm:'
local time = redis.call('TIME')
local at = time[1] + time[2] / 1000000
local requests, most, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wait = tonumber(redis.call('GET', P .. 'paused_until') or '0') - at
for _, old in ipairs(redis.call('ZRANGEBYSCORE', P .. 'starts', '-inf', at - 60)) do
  redis.call('HDEL', P .. 'tokens', old)
  redis.call('ZREM', P .. 'starts', old)
end
local starts = redis.call('ZRANGE', P .. 'starts', 0, -1, 'WITHSCORES')
if requests > 0 and #starts / 2 >= requests then
  wait = math.max(wait, starts[#starts - 2 * requests + 2] + 60 - at)
end
if most > 0 then
  -- A call over the whole limit waits until the minute is empty: it could never go otherwise.
  local surplus = tokens - most
  for _, spent in ipairs(redis.call('HVALS', P .. 'tokens')) do surplus = surplus + spent end
  for i = 1, #starts, 2 do
    if surplus <= 0 then break end
    surplus = surplus - (redis.call('HGET', P .. 'tokens', starts[i]) or 0)
    wait = math.max(wait, starts[i + 1] + 60 - at)
  end
end
if wait <= 0 then
  redis.call('ZADD', P .. 'starts', at, ARGV[4])
  redis.call('HSET', P .. 'tokens', ARGV[4], tokens)
end
return tostring(wait)
"""

# name of the call, tokens
_SETTLE: Final = """
local name = KEYS[1] .. ':llm:tokens'
if redis.call('HEXISTS', name, ARGV[1]) == 1 then redis.call('HSET', name, ARGV[1], ARGV[2]) end
"""

_HOLD: Final = """
local name, at = KEYS[1] .. ':llm:paused_until', redis.call('TIME')[1] + ARGV[1]
if at > tonumber(redis.call('GET', name) or '0') then redis.call('SET', name, at, 'EX', math.ceil(ARGV[1]) + 1) end
"""


class SharedRate:
    """Limits calls as llm.RateLimiter does, for all workers together."""

    def __init__(self, connection: RedisConnection, requests_per_minute: int, tokens_per_minute: int) -> None:
        self._connection = connection
        self._limits = (requests_per_minute, tokens_per_minute)
        self._number = count()
        self._posted: set[asyncio.Task[Any]] = set()

    def hold(self, seconds: float) -> None:
        """Start no call for so many seconds, as the server refused one as too fast."""
        self._post(_HOLD, seconds)

    async def admit(self, tokens: int) -> str:
        name = f"{self._connection.worker}/{next(self._number)}"
        while True:
            wait_seconds = float(await self._connection.run(_ADMIT, *self._limits, tokens, name))
            if wait_seconds <= 0:
                return name
            await asyncio.sleep(wait_seconds)

    def settle(self, entry: Any, tokens: int) -> None:
        self._post(_SETTLE, entry, tokens)

    def _post(self, script: str, *arguments: str | float) -> None:
        self._connection.post(self._connection.run(script, *arguments), self._posted)
