"""The frontier of a crawl whose sites are shared out to several Redis queues."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from llmcrawler.distributed.shards import shard_of_url
from llmcrawler.frontier.page_quotas import PageQuotas
from llmcrawler.frontier.protocol import Counts, Lease, UrlTask, sum_of_counts
from llmcrawler.frontier.redis import RedisFrontier
from llmcrawler.storage import Outcome

_PATIENCE_SECONDS: Final = 1.0  # with a shard that is asked for urls


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
