"""Keeps what is known of a site with it in Redis, for its next owner, and gives sites up."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.distributed.queue_structure import COMMON

if TYPE_CHECKING:
    from llmcrawler.distributed.connection import RedisConnection

# worker, then for each site: its name, what was learned of it and how its hosts are to be treated ("": as before)
_KEEP: Final = (
    COMMON
    + """
for i = 2, #ARGV, 3 do
  if redis.call('HGET', P .. 'owners', ARGV[i]) == ARGV[1] then
    if ARGV[i + 1] ~= '' then redis.call('HSET', P .. 'learned', ARGV[i], ARGV[i + 1]) end
    if ARGV[i + 2] ~= '' then redis.call('HSET', P .. 'manners', ARGV[i], now() .. ' ' .. ARGV[i + 2]) end
  end
end
"""
)

# site. Returns what was learned, its manners with their age in seconds, the owner before, and the number of a site that
# nothing was learned of.
_READ: Final = (
    COMMON
    + """
local learned = redis.call('HGET', P .. 'learned', ARGV[1])
local at, manners = string.match(redis.call('HGET', P .. 'manners', ARGV[1]) or '', '^(%S+) (.*)$')
local before = string.match(redis.call('HGET', P .. 'owned_by', ARGV[1]) or '', '^(.-)\\31')
local number = learned and 0 or redis.call('HINCRBY', P .. 'meta', 'sites', 1) - 1
return {learned, manners or '', tostring(at and now() - at or 0), before or '', number}
"""
)

# worker, site
_FREE: Final = (
    COMMON
    + """
if redis.call('HGET', P .. 'owners', ARGV[2]) ~= ARGV[1] then return end
free(ARGV[2], ARGV[1])
tally()
"""
)

# worker, site. Returns whether the worker owns it now.
_OWN: Final = (
    COMMON
    + """
local owner = redis.call('HGET', P .. 'owners', ARGV[2])
if owner then return owner == ARGV[1] and 1 or 0 end
if not redis.call('ZSCORE', P .. 'workers', ARGV[1]) then return 0 end
own(ARGV[2], ARGV[1])
return 1
"""
)


@dataclass(frozen=True, slots=True)
class KeptSite:
    """What earlier owners have kept of a site: what was learned, and by host what the throttle knew `age_seconds` ago.
    `before` is the owner before this one; `number` tells a site that nothing was learned of from others.
    """

    learned: Mapping[str, Any] | None = None
    manners: Mapping[str, Mapping[str, float]] | None = None
    age_seconds: float = 0.0
    before: str = ""
    number: int = 0


class SiteOwnership:
    """Reads and writes what belongs to sites. Only what this worker owns is written."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._kept: dict[str, tuple[int, str]] = {}  # by site, what it has in Redis: hash of the learned, and manners

    async def read(self, site: str) -> KeptSite:
        self._kept.pop(site, None)
        learned, manners, age, before, number = await self._connection.run(_READ, site)
        return KeptSite(
            None if learned is None else json.loads(zlib.decompress(learned)),
            json.loads(manners) if manners else None,
            float(age),
            before.decode(),
            int(number),
        )

    async def keep(
        self, learned: Mapping[str, Any], manners: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    ) -> None:
        """Write what has changed: `learned` has dataclasses, `manners` figures by host, both by site."""
        parts: list[str | bytes] = []
        for site in {**learned, **(manners or {})}:
            was = self._kept.get(site, (0, ""))
            text = json.dumps(asdict(learned[site])).encode() if site in learned else b""
            said = json.dumps(manners[site]) if manners and site in manners else ""
            now = hash(text) if text else was[0], said or was[1]
            if now == was:
                continue
            packed = await asyncio.to_thread(zlib.compress, text, 1) if now[0] != was[0] else b""
            parts += [site, packed, said if now[1] != was[1] else ""]
            self._kept[site] = now
        if parts:
            await self._connection.run(_KEEP, self._connection.worker, *parts)

    async def own(self, site: str) -> bool:
        """Become the owner of a site that has none; return whether this worker owns it."""
        return bool(await self._connection.run(_OWN, self._connection.worker, site))

    async def free(self, site: str) -> None:
        """Let another worker own the site."""
        self._kept.pop(site, None)
        await self._connection.run(_FREE, self._connection.worker, site)
