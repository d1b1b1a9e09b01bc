"""Joins a crawl that several workers share through Redis (REDIS_URL, CRAWL_ID)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final

from llmcrawler.core.frontier import Lease
from llmcrawler.core.storage import SiteState
from llmcrawler.core.urls import origin_of, site_name, site_of
from llmcrawler.crawl.job import JobSpec, SessionRules, check_same
from llmcrawler.errors import ConfigError, StorageFailed
from llmcrawler.fleet.connection import TIMEOUT_SECONDS, RedisConnection, key_prefix
from llmcrawler.fleet.crawl_control import CRAWLS
from llmcrawler.fleet.guest_turns import GuestTurns
from llmcrawler.fleet.membership import Membership, WorkerHeartbeats, WorkerReport, new_worker_name
from llmcrawler.fleet.ownership_log import OwnershipLog
from llmcrawler.fleet.queue_structure import FORMAT
from llmcrawler.fleet.redis_address import redis_address, shown
from llmcrawler.fleet.redis_checks import check_format, check_redis
from llmcrawler.fleet.redis_frontier import RedisFrontier
from llmcrawler.fleet.site_ownership import KeptSite, SiteOwnership

logger = logging.getLogger(__name__)

_ACK_SECONDS: Final = 0.05
_CLOSING_SECONDS: Final = 10.0  # that a Redis that is away is waited for at the end

# what is asked for, an id, the format of our keys. Returns what the crawl that is there now was asked for, its
# format, and its id: none where it is being deleted. One that was finished may have urls again.
_BEGIN: Final = """
local meta = KEYS[1] .. ':meta'
if redis.call('HEXISTS', meta, 'spec') == 0 then
  redis.call('HSET', meta, 'spec', ARGV[1], 'started', redis.call('TIME')[1], 'id', ARGV[2], 'format', ARGV[3],
    'state', 'running')
end
local known = redis.call('HMGET', meta, 'format', 'state')
if known[1] == ARGV[3] and known[2] == 'finished' then redis.call('HSET', meta, 'state', 'running') end
return redis.call('HMGET', meta, 'spec', 'format', 'id')
"""


class DistributedSession:
    """The connection to a crawl's Redis and what is kept there: urls, who owns which site, what was learned, who works.

    `take_site` is called with a url of a site that this worker owns from then on, and with what its earlier owners have
    kept of it; `widen` with a url whose site all workers are to crawl from then on. `unsafe_of` returns those of some
    urls whose lines a death of this process would take away; `on_kept` is told when these are in Redis. `on_failure` is
    called when Redis stays away.
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
        self.connection = RedisConnection(
            rules.url, rules.crawl_id, self.worker, grace_seconds=rules.lease_seconds, on_failure=on_failure
        )
        self.frontier = RedisFrontier(
            self.connection,
            max_leases=rules.max_leases,
            max_pages=max_pages,
            ack_seconds=_ACK_SECONDS,
            confirm=self.confirm,
            make_safe=unsafe_of,
            on_kept=on_kept,
            on_site=self._take_up,
        )
        self.ownership = SiteOwnership(self.connection)
        self.ownership_log = OwnershipLog(self.worker)
        self.membership = Membership()
        self.safe_lines: list[str] = []  # urls
        self.report = WorkerReport(self.worker, socket.gethostname(), os.getpid(), time.time())
        self._take_site = take_site
        self._widen = widen
        self._turns = GuestTurns(self.connection)
        self._workers = WorkerHeartbeats(self.connection, rules.lease_seconds)
        self._spec = spec
        self._sure_until = 0.0  # monotonic seconds; before that nobody can have taken this worker for gone
        self._beaten = asyncio.Event()

    async def open(self) -> None:
        """Join the crawl. Raises ConfigError where another one of its name was begun meanwhile."""
        await self.connection.call(lambda: self.connection.client.sadd(CRAWLS, self.rules.crawl_id))
        known = await self.connection.run(_BEGIN, _spec_text(self._spec), token_hex(8), FORMAT)
        identity = _check_known(known, self._spec, self.rules.crawl_id)
        self.connection.identity = identity.decode()
        await self.frontier.open()
        await self.beat(joins=True)

    async def beat(self, *, joins: bool = False, **activity: Any) -> Membership:
        """Tell the others what this worker does, and hear of them. `activity` has fields of WorkerReport. Where this
        worker is no member any more it has lost all of its sites, and has to join again.
        """
        self.report, started = replace(self.report, **activity), time.monotonic()
        try:
            self.membership = await self._workers.beat(self.report, joins=joins)
        finally:
            self._beaten.set()  # who waits is to see a failure, too
        for url in self.membership.widening:
            self._widen(url)
        if self.membership.is_member:
            self._sure_until = started + self.rules.lease_seconds
            await self.frontier.take_counts(self.membership.counts, self.membership.last_added)
        return self.membership

    async def may_start(self, host: str, lease: Lease | None, gap_seconds: float) -> bool:
        """Return whether a request may go out, with its lease or without one: not where other workers may have taken
        over what this one owns, after a silence. Then it waits, and for its turn where other workers ask the host too;
        the next request follows after the gap. Raises StorageFailed where Redis stays away.
        """
        await self.confirm()
        if lease is not None and not self.frontier.holds(lease.url):
            return False
        is_guest = site_of(host) not in self.frontier.sites
        if is_guest or host in self.membership.guests:
            await self._turns.take(host, gap_seconds, is_guest=is_guest)
        return lease is None or self.frontier.holds(lease.url)

    async def confirm(self) -> None:
        """Wait until no other worker can have taken over what this one owns, which may be so after a silence. Raises
        StorageFailed where Redis stays away.
        """
        while time.monotonic() >= self._sure_until:
            self._beaten.clear()
            self.check()
            await self._beaten.wait()

    async def widen(self, url: str) -> None:
        """Have all workers crawl the site of a url, to which a start url was redirected."""
        await self._workers.widen(url)

    async def inherit(self) -> list[dict[str, Any]]:
        """Take over workers that are gone: free their sites, and return their lines that no feed has. What they have
        learned of sites that are finished is for this worker to write.
        """
        packed: list[bytes] = []
        for gone in self.membership.gone:
            left = await self._workers.inherit(gone)
            if left is None:
                continue
            logger.warning("Worker %s is gone; what it had comes back", gone)
            packed += left.lines.values()
            for site in left.finished:
                kept = await self.ownership.read(site)
                self._take_site(f"{kept.origin}/", kept)
                self.frontier.sites.add(site)
        return [json.loads(zlib.decompress(line)) for line in packed]

    async def keep(self, learned: Mapping[str, SiteState]) -> None:
        """Keep what was learned with its sites, also where the caller does not wait for it to the end."""
        await asyncio.shield(self.connection.post(self.ownership.keep(learned)))

    async def drop_lines(self) -> None:
        """Drop the `safe_lines`, which are in a closed feed by now."""
        urls, self.safe_lines = self.safe_lines, []
        await self._workers.drop_lines(urls)

    async def give_up(self, site: str) -> None:
        """Let another worker own a site, of which nothing is under way here and all is kept."""
        self.frontier.sites.discard(site)
        await self.ownership.free(site)
        self.ownership_log.note_given_up(site)

    def resume_command(self) -> str:
        """Return the command that has a crawl go on that was paused."""
        return f"scrapy workers resume {shown(self.rules.url)} {self.rules.crawl_id}"

    def leave(self) -> None:
        """Begin to end: do not wait long for a Redis that is away."""
        self.connection.stop_waiting(_CLOSING_SECONDS)

    def check(self) -> None:
        """Raise StorageFailed where nothing can be acknowledged any more."""
        self.connection.check()

    async def close(self, reason: str) -> None:
        """Leave the crawl. All of this worker's urls have come back by now."""
        self.ownership_log.write(at_end=True)
        await self._workers.leave(self.report)
        if reason == "finished":
            await self.connection.put("meta", {"state": "finished", "finished": str(time.time())})
        await self.frontier.close()

    async def _take_up(self, url: str) -> None:
        site = site_name(url)
        kept = await self.ownership.read(site, origin_of(url))
        self._take_site(url, kept)
        self.ownership_log.note_taken(site, kept.before, is_known=kept.learned is not None)


def check_session(rules: SessionRules, spec: JobSpec) -> None:
    """Raise ConfigError where this worker could not join the crawl, without changing anything."""
    check_redis(rules.url, rules.crawl_id)
    with closing(redis_address(rules.url).client(TIMEOUT_SECONDS)) as client:
        known = client.hmget(f"{key_prefix(rules.crawl_id)}:meta", "spec", "format", "id")
    if known[0] is not None:
        _check_known(known, spec, rules.crawl_id)


def _spec_text(spec: JobSpec) -> str:
    return json.dumps({"spider": spec.spider, "arguments": dict(spec.arguments)}, ensure_ascii=False)


def _check_known(known: Sequence[bytes | None], spec: JobSpec, crawl_id: str) -> bytes:
    """Return the id of the crawl that Redis has, if this worker can join it."""
    text, found, identity = known
    check_format(crawl_id, None if found is None else found.decode())
    if identity is None:
        raise ConfigError(
            f"CRAWL_ID={crawl_id}: it is being deleted; if that was interrupted, go on with it by "
            f"scrapy workers delete REDIS_URL {crawl_id}, or name another CRAWL_ID"
        )
    there, given = json.loads(text or "{}"), replace(spec, arguments=json.loads(_spec_text(spec))["arguments"])
    check_same(there["spider"], there["arguments"], given, f"CRAWL_ID={crawl_id}", ("join it", "join"))
    return identity
