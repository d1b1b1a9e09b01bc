"""Limits a host's requests over all workers together: a worker asks here before it starts one.

The gap between starts, the requests in flight and the cooldown of a host are kept in Redis. Events of a host (a
refusal, a failure, a smaller window) are shared with the other workers, whose own policies take account of them; a
window that has grown at one worker has grown for all.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llmcrawler.distributed.connection import RedisConnection

_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.02, 0.1
_SHORT_COOLDOWN_SECONDS: Final = 0.5  # shorter ones are waited for here

# host, permit, seconds of a permit, window, gap, events known, worker, permits that were given back ...
# Returns: granted, in flight, seconds to wait (-1: until a place is free), in cooldown (1 or 0), window, number of
# events, the new ones, and the time.
_ENTER: Final = """
local H = KEYS[1] .. ':host:' .. ARGV[1]
local time = redis.call('TIME')
local at = time[1] + time[2] / 1000000
local state = redis.call('HMGET', H, 'next', 'cooldown_until', 'window', 'events')
local events, known = tonumber(state[4] or '0'), tonumber(ARGV[6])
local window, shared = tonumber(ARGV[4]), tonumber(state[3])
for i = 8, #ARGV do redis.call('ZREM', H .. ':in', ARGV[i]) end
if tonumber(redis.call('GET', KEYS[1] .. ':grace_until') or '0') <= at then
  redis.call('ZREMRANGEBYSCORE', H .. ':in', '-inf', at)
end
if not shared or (known >= events and window > shared) then
  redis.call('HSET', H, 'window', window)
else
  window = shared
end
local news = {}
if known < events then news = redis.call('LRANGE', H .. ':events', math.max(-(events - known), -20), -1) end
local in_flight = redis.call('ZCARD', H .. ':in')
local function wait(seconds, in_cooldown)
  redis.call('ZADD', H .. ':waiting', 'NX', at, ARGV[7])
  redis.call('HSET', H .. ':asked', ARGV[7], at)
  return {0, in_flight, tostring(seconds), in_cooldown, tostring(window), events, news, tostring(at)}
end
local cooldown, start = tonumber(state[2] or '0') - at, tonumber(state[1] or '0') - at
if cooldown > 0 then return wait(cooldown, 1) end
if start > 0 then return wait(start, 0) end
if in_flight >= math.max(1, math.floor(window + 0.000001)) then return wait(-1, 0) end
-- Whoever waits longest is next; one that has not asked for a moment is not waited for.
for _, first in ipairs(redis.call('ZRANGE', H .. ':waiting', 0, -1)) do
  if first == ARGV[7] then break end
  if tonumber(redis.call('HGET', H .. ':asked', first)) > at - 0.25 then return wait(-1, 0) end
  redis.call('ZREM', H .. ':waiting', first)
end
redis.call('ZREM', H .. ':waiting', ARGV[7])
redis.call('ZADD', H .. ':in', at + ARGV[3], ARGV[2])
redis.call('HSET', H, 'next', at + ARGV[5])
redis.call('HINCRBY', H, 'starts', 1)
return {1, in_flight + 1, '0', 0, tostring(window), events, news, tostring(at)}
"""

# host, permit, ...
_LEAVE: Final = """
for i = 1, #ARGV, 2 do redis.call('ZREM', KEYS[1] .. ':host:' .. ARGV[i] .. ':in', ARGV[i + 1]) end
"""

# seconds of a permit, then host, permit, ...
_RENEW: Final = """
local at = redis.call('TIME')[1] + ARGV[1]
for i = 2, #ARGV, 2 do redis.call('ZADD', KEYS[1] .. ':host:' .. ARGV[i] .. ':in', at, ARGV[i + 1]) end
"""

# host, window, seconds of cooldown, the event
_TELL: Final = """
local H = KEYS[1] .. ':host:' .. ARGV[1]
local time = redis.call('TIME')
local at = time[1] + time[2] / 1000000
redis.call('HSET', H, 'window', ARGV[2])
if tonumber(ARGV[3]) > 0 then
  redis.call('HSET', H, 'cooldown_until', math.max(tonumber(redis.call('HGET', H, 'cooldown_until') or '0'), at +
  ARGV[3]))
end
redis.call('RPUSH', H .. ':events', cjson.encode({at = at, event = ARGV[4]}))
redis.call('LTRIM', H .. ':events', -20, -1)
return redis.call('HINCRBY', H, 'events', 1)
"""


class HostInCooldown(Exception):
    """Raised for a host that all workers leave alone for `seconds` more."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the host is in cooldown for {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class HostAllowance:
    """The limits of the worker's own policy at this moment."""

    window: float
    gap_seconds: float


@dataclass(frozen=True, slots=True)
class HostPlace:
    """A place at a host. `in_flight` counts the requests of all workers, this one included."""

    host: str
    permit: str
    in_flight: int


class DistributedHostLimiter:
    """Gives out places at hosts. `on_news` gets a host, new events of it at other workers, and the window that all
    share. The places of a worker that does not renew them for `permit_seconds` are free.
    """

    def __init__(
        self,
        connection: RedisConnection,
        on_news: Callable[[str, list[Mapping[str, Any]], float], None],
        permit_seconds: float,
    ) -> None:
        self._connection = connection
        self._permit_seconds = permit_seconds
        self._on_news = on_news
        self._number = count()
        self._known: dict[str, int] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._freed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._given_back: defaultdict[str, list[str]] = defaultdict(list)
        self._held: dict[str, str] = {}
        self._flush: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[Any]] = set()

    async def enter(self, host: str, allowance_of: Callable[[], HostAllowance]) -> HostPlace:
        """Wait for a place. Raises HostInCooldown where that takes long, StorageFailed where Redis is lost.

        Of this worker's requests for a host one asks at a time; the others wait for it.
        """
        async with self._turns[host]:
            pause = _FIRST_PAUSE_SECONDS
            while True:
                freed = self._freed[host]
                freed.clear()
                entry, wait_seconds = await self._ask(host, allowance_of())
                if entry is not None:
                    return entry
                if wait_seconds >= 0:
                    await asyncio.sleep(wait_seconds + random.uniform(0, 0.002))  # noqa: S311 (no secret)
                    continue
                try:
                    await asyncio.wait_for(freed.wait(), pause)
                except TimeoutError:
                    pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def leave(self, entry: HostPlace) -> None:
        """Give the place back, without waiting for Redis."""
        if self._held.pop(entry.permit, None) is None:
            return
        self._given_back[entry.host].append(entry.permit)
        self._freed[entry.host].set()
        if self._flush is None or self._flush.done():
            self._flush = self._connection.post(self._give_back())

    def tell(self, host: str, event: Mapping[str, Any], window: float, cooldown_seconds: float) -> None:
        """Share an event with the other workers, without waiting for Redis."""
        text = json.dumps({**event, "by": self._connection.worker})
        self._connection.post(self._connection.run(_TELL, host, window, cooldown_seconds, text), self._telling)

    async def told(self) -> None:
        """Wait until all events are shared."""
        await asyncio.gather(*self._telling, return_exceptions=True)

    async def renew(self) -> None:
        """Renew the places of this worker's requests."""
        parts = [part for permit, host in self._held.items() for part in (host, permit)]
        if parts:
            await self._connection.run(_RENEW, self._permit_seconds, *parts)

    async def close(self) -> None:
        for task in (*self._telling, *([self._flush] if self._flush is not None else [])):
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        for permit, host in self._held.items():
            self._given_back[host].append(permit)
        await self._send_back()

    async def _ask(self, host: str, allowance: HostAllowance) -> tuple[HostPlace | None, float]:
        permit = f"{self._connection.worker}/{next(self._number)}"
        given_back = self._given_back.pop(host, [])
        granted, in_flight, wait, in_cooldown, window, events, news, now = await self._connection.run(
            _ENTER,
            host,
            permit,
            self._permit_seconds,
            allowance.window,
            allowance.gap_seconds,
            self._known.get(host, 0),
            self._connection.worker,
            *given_back,
        )
        if granted:
            self._held[permit] = host
        self._known[host] = int(events)
        self._on_news(host, self._others(news, float(now)), float(window))
        if in_cooldown and float(wait) > _SHORT_COOLDOWN_SECONDS:
            raise HostInCooldown(float(wait))
        return (HostPlace(host, permit, int(in_flight)) if granted else None), float(wait)

    def _others(self, news: Iterable[bytes], now: float) -> list[Mapping[str, Any]]:
        told = [json.loads(one) for one in news]
        events = [{**json.loads(one["event"]), "age_seconds": max(0.0, now - one["at"])} for one in told]
        return [event for event in events if event["by"] != self._connection.worker]

    async def _give_back(self) -> None:
        await asyncio.sleep(0.005)  # a request that enters meanwhile sends it along
        await self._send_back()

    async def _send_back(self) -> None:
        given_back, self._given_back = self._given_back, defaultdict(list)
        parts = [part for host, permits in given_back.items() for permit in permits for part in (host, permit)]
        if parts:
            await self._connection.run(_LEAVE, *parts)
