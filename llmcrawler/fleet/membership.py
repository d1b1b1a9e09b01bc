"""Tells which workers of a crawl are there, by their heartbeats, and what each of them is to know of the others."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.fleet.queue_structure import COMMON

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

_SILENCE: Final = """
-- Whether silence says that a worker is gone. Where no heartbeat at all came for long, the server itself stood still,
-- and what waited to be said is only now being read.
local function may_judge(at, gone_seconds)
  local last = tonumber(redis.call('GET', P .. 'beat_at') or '0')
  if at - last > gone_seconds / 2 then
    redis.call('SET', P .. 'grace_until', at + gone_seconds, 'EX', math.ceil(gone_seconds) + 1)
  end
  return tonumber(redis.call('GET', P .. 'grace_until') or '0') <= at
end
local function free_all(worker)
  local expired = 0
  for _, site in ipairs(redis.call('ZRANGE', P .. 'own:' .. worker, 0, -1)) do
    expired = expired + free(site, worker)
  end
  tally()
  redis.call('DEL', P .. 'turns:' .. worker)
  redis.call('ZREM', P .. 'hungry', worker)
  redis.call('HDEL', P .. 'replies', worker)
  return expired
end
"""

# worker, its heartbeat, seconds until it counts as gone, 1 where it joins, how many urls that widened the scope it has
# heard of. Returns whether it is a member; the workers that are gone; which of its sites it is to give up; how many
# workers are silent; the other urls that widened the scope; the hosts that have guests; the counts of the queue; the
# number of its last addition; whether the crawl is paused. Of a worker with two sites at work more than another one has
# who could do more, one goes to that one, best of all one that it has not begun with.
_BEAT: Final = (
    COMMON
    + _SILENCE
    + """
local worker, seconds, at = ARGV[1], tonumber(ARGV[3]), now()
local is_calm = may_judge(at, seconds)
redis.call('SET', P .. 'beat_at', at)
if ARGV[4] == '0' and not redis.call('ZSCORE', P .. 'workers', worker) then return {0} end
redis.call('ZADD', P .. 'workers', at, worker)
redis.call('HSET', P .. 'heartbeats', worker, ARGV[2])
redis.call('HDEL', P .. 'lost', worker)
local leaving, moving = {}, redis.call('ZCARD', P .. 'waiting')
local drained = redis.call('HGETALL', P .. 'draining')
for i = 1, #drained, 2 do
  moving = moving + 1
  if drained[i + 1] == worker then leaving[#leaving + 1] = drained[i] end
end
local at_work = sites_at_work(worker) - #leaving
local function begin_to_give()
  local chosen
  local sites = redis.call('ZREVRANGE', P .. 'own:' .. worker, 0, 99, 'WITHSCORES')
  for i = 1, #sites, 2 do
    local site, urls = sites[i], tonumber(sites[i + 1])
    if urls > 0 and redis.call('HEXISTS', P .. 'draining', site) == 0 then
      if redis.call('EXISTS', P .. 'out:' .. site) == 0 then chosen = site break end
      if i > 1 and urls >= 20 and not chosen then chosen = site end
    end
  end
  if not chosen then return end
  redis.call('HSET', P .. 'draining', chosen, worker)
  for _, queue in ipairs(redis.call('SMEMBERS', P .. 's:' .. chosen)) do
    redis.call('ZREM', P .. 'turns:' .. worker, queue)
  end
  leaving[#leaving + 1] = chosen
  at_work, moving = at_work - 1, moving + 1
end
local hungry = redis.call('ZRANGE', P .. 'hungry', 0, -1, 'WITHSCORES')
for i = 1, #hungry, 2 do
  if moving < #hungry / 2 and hungry[i] ~= worker and at_work >= hungry[i + 1] + 2 then begin_to_give() end
end
local gone = is_calm and redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', at - seconds) or {}
local silent = redis.call('ZCOUNT', P .. 'workers', '-inf', at - math.min(5, seconds / 2))
local widening = redis.call('LRANGE', P .. 'widened', ARGV[5], -1)
redis.call('ZREMRANGEBYSCORE', P .. 'guests', '-inf', at - GUEST_SECONDS)
local guests = redis.call('ZRANGE', P .. 'guests', 0, -1)
local is_paused = redis.call('HGET', P .. 'meta', 'state') == 'paused' and 1 or 0
return {1, gone, leaving, silent, widening, guests, counts(), last_added(worker), is_paused}
"""
)

# worker, one that is gone, seconds until it counts as that: its lines that no feed has become the first one's, and its
# sites wait for new owners. Those of which nothing is left to do but to write what was learned become the first one's.
_INHERIT: Final = (
    COMMON
    + _SILENCE
    + """
local worker, gone, at = ARGV[1], ARGV[2], now()
local beat_at = redis.call('ZSCORE', P .. 'workers', gone)
if not may_judge(at, tonumber(ARGV[3])) or not beat_at or tonumber(beat_at) > at - ARGV[3] then return false end
local lines = redis.call('HGETALL', P .. 'lines:' .. gone)
for i = 1, #lines, 2 do redis.call('HSET', P .. 'lines:' .. worker, lines[i], lines[i + 1]) end
redis.call('DEL', P .. 'lines:' .. gone)
local finished = {}
for _, site in ipairs(redis.call('ZRANGEBYSCORE', P .. 'own:' .. gone, '-inf', 0)) do
  if redis.call('HEXISTS', P .. 'learned', site) == 1 then finished[#finished + 1] = site end
end
redis.call('HINCRBY', P .. 'counts', 'expired', free_all(gone))
for _, site in ipairs(finished) do own(site, worker) end
redis.call('ZREM', P .. 'workers', gone)
local said = redis.call('HGET', P .. 'heartbeats', gone)
if said then
  redis.call('HSET', P .. 'lost', gone, said)
  redis.call('HSET', P .. 'ended', gone, beat_at)
end
redis.call('HDEL', P .. 'heartbeats', gone)
return {lines, finished}
"""
)

# a url; one that came before does no harm
_WIDEN: Final = COMMON + "redis.call('RPUSH', P .. 'widened', ARGV[1])"

# worker, its last heartbeat
_LEAVE: Final = (
    COMMON
    + _SILENCE
    + """
free_all(ARGV[1])
redis.call('ZREM', P .. 'workers', ARGV[1])
redis.call('HDEL', P .. 'heartbeats', ARGV[1])
-- Lines that it could not store go to another worker's feed, as if it had died.
if redis.call('EXISTS', P .. 'lines:' .. ARGV[1]) == 1 then redis.call('ZADD', P .. 'workers', 0, ARGV[1]) end
redis.call('HSET', P .. 'left', ARGV[1], ARGV[2])
redis.call('HSET', P .. 'ended', ARGV[1], now())
"""
)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's report of itself. `pages_a_minute` are those of the last minute; `rights`: its pages by their marks
    (core/storage/rights_marks.py).
    """

    worker: str
    machine: str
    pid: int
    started: float
    pages: int = 0
    pages_a_minute: float = 0.0
    leases: int = 0
    in_flight: int = 0
    llm_calls: int = 0
    tokens: int = 0
    rights: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | bytes) -> WorkerReport:
        value: Mapping[str, Any] = json.loads(text)
        return cls(**{name: value[name] for name in cls.__slots__ if name in value})


@dataclass(frozen=True, slots=True)
class Membership:
    """The answer to a heartbeat. `is_member` is False where the others took this worker for gone: its sites are theirs.
    `gone` names workers to inherit, `leaving` the sites that this one is to give up; `silent` counts workers that may
    be gone; to the sites of the `widening` urls start urls were redirected; `guests` are hosts that others ask too;
    `counts` and `last_added` are for the frontier. Of a crawl that `is_paused` nothing is leased.
    """

    is_member: bool = True
    gone: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    silent: int = 0
    widening: tuple[str, ...] = ()
    guests: frozenset[str] = frozenset()
    counts: tuple[int, ...] = ()
    last_added: int = 0
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Heritage:
    """What a worker that is gone leaves: `lines` packed, by url, and `finished` sites with what was learned of them."""

    lines: Mapping[str, bytes]
    finished: tuple[str, ...]


class WorkerHeartbeats:
    """Keeps the membership: a worker without a heartbeat for `gone_seconds` is gone."""

    def __init__(self, connection: RedisConnection, gone_seconds: float) -> None:
        self._connection = connection
        self._gone_seconds = gone_seconds
        self._widened = 0  # urls that have widened the scope and are known here

    async def beat(self, report: WorkerReport, *, joins: bool = False) -> Membership:
        is_member, *said = await self._connection.run(
            _BEAT, report.worker, json.dumps(asdict(report)), self._gone_seconds, int(joins), self._widened
        )
        if not is_member:
            return Membership(is_member=False)
        gone, leaving, silent, widening, guests, counts, last_added, is_paused = said
        self._widened += len(widening)
        names = [tuple(map(bytes.decode, some)) for some in (gone, leaving, widening, guests)]
        return Membership(
            is_member=True,
            gone=names[0],
            leaving=names[1],
            silent=silent,
            widening=names[2],
            guests=frozenset(names[3]),
            counts=tuple(counts),
            last_added=last_added,
            is_paused=bool(is_paused),
        )

    async def widen(self, url: str) -> None:
        """Have all workers take in the site of a url, to which a start url was redirected."""
        await self._connection.run(_WIDEN, url)

    async def inherit(self, gone: str) -> Heritage | None:
        """Take over the lines of a worker that is gone and free its sites. None where another worker did it, or it is
        not gone after all.
        """
        found = await self._connection.run(_INHERIT, self._connection.worker, gone, self._gone_seconds)
        if found is None:
            return None
        flat, finished = found
        lines = {url.decode(): line for url, line in zip(flat[::2], flat[1::2], strict=True)}
        return Heritage(lines, tuple(map(bytes.decode, finished)))

    async def drop_lines(self, urls: Iterable[str]) -> None:
        """Drop lines that are in a closed feed by now."""
        name, wanted = f"{self._connection.prefix}:lines:{self._connection.worker}", list(urls)
        if wanted:
            await self._connection.call(lambda: self._connection.client.hdel(name, *wanted))

    async def leave(self, report: WorkerReport) -> None:
        """Give up all sites and be no member any more."""
        await self._connection.run(_LEAVE, report.worker, json.dumps(asdict(report)))


def new_worker_name() -> str:
    """Make a unique name, so that a pod that was started again does not overwrite its own feed."""
    return f"{socket.gethostname()[:40]}-{token_hex(4)}"
