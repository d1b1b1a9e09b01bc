"""Joins a crawl that several workers share through Redis (REDIS_URL, CRAWL_ID)."""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final

import redis

from llmcrawler.crawl.job_spec import JobSpec, SessionRules, check_same
from llmcrawler.distributed.connection import RedisConnection, key_prefix
from llmcrawler.distributed.host_limiter import DistributedHostLimiter
from llmcrawler.distributed.membership import Membership, WorkerHeartbeats, WorkerReport, new_worker_name
from llmcrawler.distributed.redis_checks import check_redis
from llmcrawler.distributed.shared_stores import SharedSites
from llmcrawler.distributed.site_requests import SiteRequests
from llmcrawler.errors import StorageFailed
from llmcrawler.frontier.redis import RedisFrontier

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
    """The connection to Redis and what is shared through it: urls, limits of hosts, what is learned, who works.

    `take_site` is awaited with a site that this worker owns from then on. `on_news` gets a host, what other workers
    have met there, and the window that all have. `unsafe_of` returns those of some urls whose lines a death of this
    process would take away; `on_kept` is told when these are in Redis. `on_failure` is called when Redis stays away.
    """

    def __init__(  # noqa: PLR0913 - by keyword
        self,
        rules: SessionRules,
        spec: JobSpec,
        max_pages: int,
        *,
        unsafe_of: Callable[[Iterable[str]], Collection[str]],
        on_kept: Callable[[Iterable[str]], None],
        take_site: Callable[[str], Awaitable[None]],
        on_news: Callable[[str, list[Mapping[str, Any]], float], None],
        on_failure: Callable[[StorageFailed], None],
    ) -> None:
        self.rules = rules
        self.worker = new_worker_name()
        self.connection = RedisConnection(
            rules.url, rules.crawl_id, self.worker, grace_seconds=rules.lease_seconds, on_failure=self._fail
        )
        self._on_failure = on_failure
        self.frontier = RedisFrontier(
            self.connection,
            lease_seconds=rules.lease_seconds,
            max_leases=rules.max_leases,
            max_pages=max_pages,
            ack_seconds=_ACK_SECONDS,
            make_safe=unsafe_of,
            on_kept=on_kept,
        )
        self.host_limiter = DistributedHostLimiter(self.connection, on_news, 1.5 * rules.gone_seconds)
        self.site_requests = SiteRequests(self.connection, take_site, rules.gone_seconds)
        self.sites = SharedSites(self.connection)
        self.membership = Membership((), (), ())
        self.report = WorkerReport(self.worker, socket.gethostname(), os.getpid(), time.time())
        self._workers = WorkerHeartbeats(self.connection, rules.gone_seconds)
        self._spec = spec

    async def open(self) -> None:
        """Join the crawl. Raises ConfigError where it was started with other arguments meanwhile."""
        known, identity = await self.connection.run(_BEGIN, _spec_text(self._spec), token_hex(8))
        _check_spec(json.loads(known), self._spec, self.rules.crawl_id)
        self.connection.identity = identity.decode()
        await self.frontier.open()
        self.site_requests.open()
        await self.beat()

    async def beat(self, **activity: Any) -> None:
        """Tell the others what this worker does, and hear of them. `activity` has fields of WorkerReport."""
        self.report = replace(self.report, **activity)
        self.membership = await self._workers.beat(self.report, self.site_requests.sites)
        self.site_requests.note_membership({one.worker for one in self.membership.reports}, self.membership.lost_sites)
        await self.host_limiter.renew()
        await self.frontier.refresh()

    async def inherited_lines(self) -> list[dict[str, Any]]:
        """Take over the lines of workers that are gone which are in no feed, for this worker's feed."""
        packed = [line for gone in self.membership.gone for line in (await self._workers.inherit(gone)).values()]
        return [json.loads(zlib.decompress(line)) for line in packed]

    async def drop_lines(self, urls: list[str]) -> None:
        await self._workers.drop_lines(urls)

    def answer(self, kind: str, handler: Callable[[Any], Awaitable[Any]]) -> None:
        """Let this handler answer the requests of other workers for the sites that this one owns."""
        self.site_requests.handlers[kind] = handler

    def leave(self) -> None:
        """Begin to end: ask no other worker, and do not wait long for a Redis that is away."""
        self.site_requests.leave()
        self.connection.stop_waiting(_CLOSING_SECONDS)

    def check(self) -> None:
        """Raise StorageFailed where nothing can be acknowledged any more."""
        self.connection.check()

    def _fail(self, failure: StorageFailed) -> None:
        self.site_requests.leave()  # no answer of another worker comes any more
        self._on_failure(failure)

    def others(self) -> list[WorkerReport]:
        return [one for one in self.membership.reports if one.worker != self.worker]

    async def close(self, reason: str) -> None:
        """Leave the crawl. All of this worker's urls have come back by now."""
        sites = await self.site_requests.close()
        await self.host_limiter.close()
        await self._workers.leave(self.report, sites)
        if reason == "finished":
            await self.connection.put("meta", {"state": "finished", "finished": str(time.time())})
        await self.frontier.close()


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
