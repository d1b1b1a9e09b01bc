"""Joins a crawl that several workers share through Redis (REDIS_URL, CRAWL_ID)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final

import redis

from llmcrawler.crawl.job_spec import JobSpec, SessionRules, check_same
from llmcrawler.distributed.connection import RedisConnection, key_prefix
from llmcrawler.distributed.guest_turns import GuestTurns
from llmcrawler.distributed.membership import Membership, WorkerHeartbeats, WorkerReport, new_worker_name
from llmcrawler.distributed.redis_checks import check_redis
from llmcrawler.distributed.site_ownership import KeptSite, SiteOwnership
from llmcrawler.errors import StorageFailed
from llmcrawler.frontier import Lease
from llmcrawler.frontier.redis import RedisFrontier
from llmcrawler.urls import origin_of, site_name, site_of

logger = logging.getLogger(__name__)

_ACK_SECONDS: Final = 0.05
_CLOSING_SECONDS: Final = 10.0  # that a Redis that is away is waited for at the end

_BEGIN: Final = """
local meta = KEYS[1] .. ':meta'
local at = redis.call('TIME')[1]
redis.call('HSETNX', meta, 'spec', ARGV[1])
redis.call('HSETNX', meta, 'started', at)
redis.call('HSETNX', meta, 'id', ARGV[2])
redis.call('HSET', meta, 'state', 'running')
return redis.call('HMGET', meta, 'spec', 'id')
"""


class DistributedSession:
    """The connection to Redis and what is kept there: urls, who owns which site, what was learned, who works.

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
            confirm=self._confirm,
            make_safe=unsafe_of,
            on_kept=on_kept,
            on_site=self._take_up,
        )
        self.ownership = SiteOwnership(self.connection)
        self.membership = Membership()
        self.report = WorkerReport(self.worker, socket.gethostname(), os.getpid(), time.time())
        self._take_site = take_site
        self._widen = widen
        self._turns = GuestTurns(self.connection)
        self._workers = WorkerHeartbeats(self.connection, rules.lease_seconds)
        self._spec = spec
        self._sure_until = 0.0  # monotonic seconds; before that nobody can have taken this worker for gone
        self._beaten = asyncio.Event()

    async def open(self) -> None:
        """Join the crawl. Raises ConfigError where it was started with other arguments meanwhile."""
        known, identity = await self.connection.run(_BEGIN, _spec_text(self._spec), token_hex(8))
        _check_spec(json.loads(known), self._spec, self.rules.crawl_id)
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
        """Return whether a request to a host, for a lease or without one, may go out now. Waits for a turn where other
        workers ask the host too; the next request follows after the gap. Raises StorageFailed where Redis stays away.
        """
        await self._confirm()
        if lease is not None and not self.frontier.holds(lease.url):
            return False
        is_guest = site_of(host) not in self.frontier.sites
        if is_guest or host in self.membership.guests:
            await self._turns.take(host, gap_seconds, is_guest=is_guest)
        return lease is None or self.frontier.holds(lease.url)

    async def _confirm(self) -> None:
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

    async def drop_lines(self, urls: list[str]) -> None:
        await self._workers.drop_lines(urls)

    async def give_up(self, site: str) -> None:
        """Let another worker own a site, of which nothing is under way here and all is kept."""
        self.frontier.sites.discard(site)
        await self.ownership.free(site)
        logger.info("Gave up %s: another worker has less to do", site)

    def leave(self) -> None:
        """Begin to end: do not wait long for a Redis that is away."""
        self.connection.stop_waiting(_CLOSING_SECONDS)

    def check(self) -> None:
        """Raise StorageFailed where nothing can be acknowledged any more."""
        self.connection.check()

    async def close(self, reason: str) -> None:
        """Leave the crawl. All of this worker's urls have come back by now."""
        await self._workers.leave(self.report)
        if reason == "finished":
            await self.connection.put("meta", {"state": "finished", "finished": str(time.time())})
        await self.frontier.close()

    async def _take_up(self, url: str) -> None:
        site = site_name(url)
        kept = await self.ownership.read(site, origin_of(url))
        self._take_site(url, kept)
        how = f"took over {site} from {kept.before}" if kept.before else f"took {site}"
        known = "" if kept.learned is None else ", with what was learned of it so far"
        logger.info("This worker %s%s", how, known)


def check_session(rules: SessionRules, spec: JobSpec) -> None:
    """Raise ConfigError where this worker could not join the crawl, without changing anything."""
    check_redis(rules.url, rules.crawl_id)
    with redis.Redis.from_url(rules.url) as client:
        known = client.hget(f"{key_prefix(rules.crawl_id)}:meta", "spec")
    if isinstance(known, bytes):
        _check_spec(json.loads(known), spec, rules.crawl_id)


def _spec_text(spec: JobSpec) -> str:
    return json.dumps({"spider": spec.spider, "arguments": dict(spec.arguments)}, ensure_ascii=False)


def _check_spec(known: Mapping[str, Any], spec: JobSpec, crawl_id: str) -> None:
    given = replace(spec, arguments=json.loads(_spec_text(spec))["arguments"])
    check_same(known["spider"], known["arguments"], given, f"CRAWL_ID={crawl_id}", ("join it", "join"))
