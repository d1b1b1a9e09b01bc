"""Tells which workers of a crawl are there, by their heartbeats."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from llmcrawler.distributed.connection import RedisConnection


# worker, its heartbeat, seconds until it counts as gone, then the sites that it owns.
# Returns all heartbeats, the workers that are gone, and those of the sites that another worker owns now.
_BEAT: Final = """
local P = KEYS[1] .. ':'
local at = tonumber(redis.call('TIME')[1])
redis.call('ZADD', P .. 'workers', at, ARGV[1])
redis.call('HSET', P .. 'heartbeats', ARGV[1], ARGV[2])
redis.call('HDEL', P .. 'lost', ARGV[1])  -- for a worker that was only stopped for a while
local gone, said, lost = {}, {}, {}
if tonumber(redis.call('GET', P .. 'grace_until') or '0') <= at then
  gone = redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', at - ARGV[3])
end
for _, worker in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
  said[#said + 1] = redis.call('HGET', P .. 'heartbeats', worker)
end
for i = 4, #ARGV do
  local name = P .. 'owner:' .. ARGV[i]
  local holder = redis.call('GET', name)
  if not holder or holder == ARGV[1] then
    redis.call('SET', name, ARGV[1], 'EX', ARGV[3])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return {said, gone, lost}
"""

# worker, a worker that is gone, whose lines that no feed has become the first one's
_INHERIT: Final = """
local P = KEYS[1] .. ':'
local lines = redis.call('HGETALL', P .. 'lines:' .. ARGV[2])
for i = 1, #lines, 2 do redis.call('HSET', P .. 'lines:' .. ARGV[1], lines[i], lines[i + 1]) end
redis.call('DEL', P .. 'lines:' .. ARGV[2], P .. 'inbox:' .. ARGV[2])
if redis.call('ZREM', P .. 'workers', ARGV[2]) == 1 then
  local said = redis.call('HGET', P .. 'heartbeats', ARGV[2])
  if said then redis.call('HSET', P .. 'lost', ARGV[2], said) end
  redis.call('HDEL', P .. 'heartbeats', ARGV[2])
end
return lines
"""

# worker, its last heartbeat, the sites that it owns
_LEAVE: Final = """
local P = KEYS[1] .. ':'
redis.call('ZREM', P .. 'workers', ARGV[1])
redis.call('HDEL', P .. 'heartbeats', ARGV[1])
-- Lines that it could not store go to another worker's feed, as if it had died.
if redis.call('EXISTS', P .. 'lines:' .. ARGV[1]) == 1 then redis.call('ZADD', P .. 'workers', 0, ARGV[1]) end
redis.call('HSET', P .. 'left', ARGV[1], ARGV[2])
redis.call('DEL', P .. 'inbox:' .. ARGV[1])
for i = 3, #ARGV do
  if redis.call('GET', P .. 'owner:' .. ARGV[i]) == ARGV[1] then redis.call('DEL', P .. 'owner:' .. ARGV[i]) end
end
"""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's report of itself. `working`: urls that are buffered, delayed or being fetched; `held`: pages that wait
    until a template is learned; `pressed`: why its pages must not wait any longer, if so; `rights`: its pages by their
    marks (storage/rights_marks.py).
    """

    worker: str
    machine: str
    pid: int
    started: float
    pages: int = 0
    pages_a_minute: float = 0.0
    in_flight: int = 0
    working: int = 0
    held: int = 0
    pressed: str | None = None
    llm_calls: int = 0
    tokens: int = 0
    rights: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | bytes) -> WorkerReport:
        value: Mapping[str, Any] = json.loads(text)
        return cls(**{name: value[name] for name in cls.__slots__ if name in value})


@dataclass(frozen=True, slots=True)
class Membership:
    """The answer to a heartbeat: the reports of all workers but the gone ones, this one included; the names of those
    that are gone; and the sites that this worker has lost to another one.
    """

    reports: tuple[WorkerReport, ...]
    gone: tuple[str, ...]
    lost_sites: tuple[str, ...]


class WorkerHeartbeats:
    """Keeps the membership: a worker without a heartbeat for `gone_seconds` is gone."""

    def __init__(self, connection: RedisConnection, gone_seconds: int) -> None:
        self._connection = connection
        self._gone_seconds = gone_seconds

    async def beat(self, report: WorkerReport, sites: Iterable[str]) -> Membership:
        said, gone, lost = await self._connection.run(
            _BEAT, report.worker, json.dumps(asdict(report)), self._gone_seconds, *sites
        )
        names = {one.decode() for one in gone}
        known = (WorkerReport.read(text) for text in said if text)
        return Membership(
            tuple(one for one in known if one.worker not in names), tuple(names), tuple(map(bytes.decode, lost))
        )

    async def inherit(self, gone: str) -> dict[str, bytes]:
        """Take over the lines of a worker that is gone; returns them packed, by url."""
        flat = await self._connection.run(_INHERIT, self._connection.worker, gone)
        return {url.decode(): line for url, line in zip(flat[::2], flat[1::2], strict=True)}

    async def drop_lines(self, urls: Iterable[str]) -> None:
        """Drop lines that are in a closed feed by now."""
        name, wanted = f"{self._connection.prefix}:lines:{self._connection.worker}", list(urls)
        if wanted:
            await self._connection.call(lambda: self._connection.client.hdel(name, *wanted))

    async def leave(self, report: WorkerReport, sites: Iterable[str]) -> None:
        await self._connection.run(_LEAVE, report.worker, json.dumps(asdict(report)), *sites)


def new_worker_name() -> str:
    """Make a unique name, so that a pod that was started again does not overwrite its own feed."""
    return f"{socket.gethostname()[:40]}-{token_hex(4)}"
