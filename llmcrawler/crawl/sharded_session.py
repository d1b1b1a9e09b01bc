"""Joins a crawl that several workers share through one Redis, or through several that each have some of its sites."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from llmcrawler.core.frontier import Lease
from llmcrawler.core.storage import SiteState, url_key
from llmcrawler.crawl.distributed_session import DistributedSession
from llmcrawler.crawl.job_spec import JobSpec, SessionRules
from llmcrawler.errors import StorageFailed
from llmcrawler.fleet.membership import new_worker_name
from llmcrawler.fleet.ownership_log import OwnershipLog
from llmcrawler.fleet.redis_address import shown
from llmcrawler.fleet.redis_frontier import RedisFrontier
from llmcrawler.fleet.sharded import ShardedFrontier
from llmcrawler.fleet.shards import shard_of_site, shard_of_url, shards_of
from llmcrawler.fleet.site_ownership import KeptSite

_PATIENCE_SECONDS: Final = 1.0  # with a shard that is away


class ShardedSession:
    """A worker's sessions with the shards of a crawl, one or several.

    What is of a site is at its shard, and so are the pages, lines and errors of its urls; the first one also has what
    is one for the crawl (`connection`). A shard that is away keeps only its sites waiting.
    """

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        rules: SessionRules,
        spec: JobSpec,
        max_pages: int,
        *,
        unsafe_of: Callable[[Iterable[str]], Collection[str]],
        on_kept: Callable[[Iterable[str]], None],
        take_site: Callable[[str, KeptSite], None],
        widen: Callable[[str], object],
        on_failure: Callable[[StorageFailed], None],
    ) -> None:
        self.rules = rules
        self.worker = new_worker_name()
        self.ownership_log = OwnershipLog(self.worker)
        self._take_site = take_site
        self.shards = tuple(
            DistributedSession(
                rules,
                spec,
                max_pages,
                shard=shard,
                worker=self.worker,
                ownership_log=self.ownership_log,
                unsafe_of=unsafe_of,
                on_kept=on_kept,
                take_site=partial(self._take_up, shard.number),
                widen=widen,
                on_failure=on_failure,
            )
            for shard in shards_of(rules.url, rules.crawl_id)
        )
        self.connection = self.shards[0].connection
        self.frontier: RedisFrontier | ShardedFrontier = self.shards[0].frontier
        if len(self.shards) > 1:
            frontiers = [shard.frontier for shard in self.shards]
            self.frontier = ShardedFrontier(frontiers, url_key(self.worker), max_pages)
        self._keeping: dict[int, asyncio.Task[Any]] = {}  # shards that have not taken yet what was learned

    async def open(self) -> None:
        """Join the crawl. Raises ConfigError where it was started with other arguments meanwhile."""
        await asyncio.gather(*(shard.open() for shard in self.shards))
        if isinstance(self.frontier, ShardedFrontier):
            await self.frontier.open()

    async def may_start(self, url: str, host: str, lease: Lease | None, gap_seconds: float) -> bool:
        """Return whether a request may go out, with its lease or without one: not where other workers may have taken
        over what this one owns, after a silence. Then it waits, and for its turn where other workers ask the host too;
        the next request follows after the gap. Where the shard is one of several that is away, a leased url goes back,
        and takes no place of those of other shards. Raises StorageFailed where Redis stays away.
        """
        for number in {self._number(url), self._number(url if lease is None else lease.url)}:
            shard = self.shards[number]
            if len(self.shards) == 1 or lease is None:
                await shard.confirm()
            elif shard.connection.is_away or not await _in_time(shard.confirm()):
                return False
        if lease is not None and not self.frontier.holds(lease.url):
            return False
        await self.shards[self._number(url)].take_turn(host, gap_seconds)
        return lease is None or self.frontier.holds(lease.url)

    async def keep(self, learned: Mapping[str, SiteState]) -> None:
        """Keep what was learned with its sites. A shard that is away is left out: it gets it another time."""
        by_shard: dict[int, dict[str, SiteState]] = {}
        for site, state in learned.items():
            by_shard.setdefault(shard_of_site(site, len(self.shards)), {})[site] = state
        tasks = []
        for number, states in by_shard.items():
            shard, before = self.shards[number], self._keeping.get(number)
            if before is None or before.done():
                self._keeping[number] = shard.connection.post(shard.ownership.keep(states))
                tasks.append(self._keeping[number])
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=None if len(self.shards) == 1 else _PATIENCE_SECONDS)
            for task in done:
                task.result()

    async def widen(self, url: str) -> None:
        """Have all workers crawl the site of a url, to which a start url was redirected: the first shard tells them."""
        await self.shards[0].widen(url)

    def note_safe(self, urls: Iterable[str]) -> None:
        """Have the lines of these urls dropped that are kept in Redis: they are in a closed feed by now."""
        for url in urls:
            self.shards[self._number(url)].safe_lines.append(url)

    def has_site(self, shard: DistributedSession, site: str) -> bool:
        return shard_of_site(site, len(self.shards)) == shard.shard.number

    def resume_command(self) -> str:
        """Return the command that has a crawl go on that was paused."""
        return f"scrapy workers resume {shown(self.rules.url)} {self.rules.crawl_id}"

    def leave(self) -> None:
        """Begin to end: do not wait long for a Redis that is away."""
        if isinstance(self.frontier, ShardedFrontier):
            self.frontier.close()
        for shard in self.shards:
            shard.leave()

    def check(self) -> None:
        """Raise StorageFailed where nothing can be acknowledged any more."""
        for shard in self.shards:
            shard.check()

    def _number(self, url: str) -> int:
        return shard_of_url(url, len(self.shards))

    def _take_up(self, shard: int, url: str, kept: KeptSite) -> None:
        """Have sites of different shards told apart by their numbers, too."""
        self._take_site(url, replace(kept, number=kept.number * len(self.shards) + shard))


async def _in_time(waiting: Any) -> bool:
    try:
        await asyncio.wait_for(waiting, _PATIENCE_SECONDS)
    except TimeoutError:
        return False
    return True
