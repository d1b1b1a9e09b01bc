"""Keeps what is known of a site with it in Redis, for its next owner, and gives sites up."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.fleet.queue_structure import COMMON

if TYPE_CHECKING:
    from llmcrawler.fleet.connection import RedisConnection

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


@dataclass(frozen=True, slots=True)
class KeptSite:
    """What earlier owners have kept of a site: what was learned, with the `origin` that the site was asked at, and by
    host what the throttle knew `age_seconds` ago. `before` is the owner before this one; `number` tells a site that
    nothing was learned of from others.
    """

    learned: Mapping[str, Any] | None = None
    origin: str = ""
    manners: Mapping[str, Mapping[str, float]] | None = None
    age_seconds: float = 0.0
    before: str = ""
    number: int = 0


class SiteOwnership:
    """Reads and writes what belongs to sites. Only what this worker owns is written."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._kept: dict[str, tuple[int, str]] = {}  # by site, what it has in Redis: hash of the learned, and manners
        self._origins: dict[str, str] = {}

    async def read(self, site: str, origin: str = "") -> KeptSite:
        """Read what is kept of a site, which is to be asked at an origin from now on; as before where none is given."""
        self._kept.pop(site, None)
        packed, manners, age, before, number = await self._connection.run(_READ, site)
        learned = None if packed is None else await asyncio.to_thread(_unpacked, packed)
        origin_before = "" if learned is None else learned.pop("origin")
        self._origins[site] = origin or origin_before
        return KeptSite(
            learned,
            self._origins[site],
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
            known, said = self._kept.get(site, (0, ""))
            packed, now = b"", known
            if site in learned:
                packed, now = await asyncio.to_thread(_packed, learned[site], self._origins.get(site, ""), known)
            told = json.dumps(manners[site]) if manners and site in manners else said
            if packed or told != said:
                parts += [site, packed, told if told != said else ""]
                self._kept[site] = now, told
        if parts:
            await self._connection.run(_KEEP, self._connection.worker, *parts)

    async def free(self, site: str) -> None:
        """Let another worker own the site."""
        self._kept.pop(site, None)
        await self._connection.run(_FREE, self._connection.worker, site)


def _packed(learned: Any, origin: str, known: int) -> tuple[bytes, int]:
    """Return what was learned of a site as it is kept, or nothing where its hash is the known one; and that hash."""
    text = json.dumps({"origin": origin, **asdict(learned)}).encode()
    digest = hash(text)
    return b"" if digest == known else zlib.compress(text, 1), digest


def _unpacked(packed: bytes) -> dict[str, Any]:
    learned: dict[str, Any] = json.loads(zlib.decompress(packed))
    return learned
