"""A crawl in Redis that many workers share (REDIS_URL, CRAWL_ID): what was asked for, and this worker's part in it."""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final

import redis

from llmcrawler.errors import ConfigError, StorageFailed
from llmcrawler.fleet.checking import check_redis
from llmcrawler.fleet.desk import Desk
from llmcrawler.fleet.gate import HostGate
from llmcrawler.fleet.link import RedisLink, key_prefix
from llmcrawler.fleet.sharing import SharedSites
from llmcrawler.fleet.workers import Roll, Words, Workers, new_worker_name
from llmcrawler.frontier.redis import RedisFrontier
from llmcrawler.job import CrewRules, Wish, differing_arguments

_ACK_SECONDS: Final = 0.05
_CLOSING_SECONDS: Final = 10.0  # that a Redis that is away is waited for at the end

_BEGIN: Final = """
local meta = KEYS[1] .. ':meta'
local at = redis.call('TIME')[1]
redis.call('HSETNX', meta, 'wish', ARGV[1])
redis.call('HSETNX', meta, 'started', at)
redis.call('HSETNX', meta, 'id', ARGV[2])
redis.call('HSET', meta, 'state', 'running')
return redis.call('HMGET', meta, 'wish', 'id')
"""


class Crew:
    """`take_lead` is awaited with a site that this worker leads from then on; `on_news`: see HostGate."""

    def __init__(
        self,
        rules: CrewRules,
        wish: Wish,
        max_pages: int,
        *,
        take_lead: Callable[[str], Awaitable[None]],
        on_failure: Callable[[StorageFailed], None],
    ) -> None:
        self.rules = rules
        self.worker = new_worker_name()
        self.link = RedisLink(
            rules.url, rules.crawl_id, self.worker, pardon_seconds=rules.lease_seconds, on_failure=self._fail
        )
        self._on_failure = on_failure
        self.frontier = RedisFrontier(
            self.link,
            lease_seconds=rules.lease_seconds,
            max_leases=rules.max_leases,
            max_pages=max_pages,
            ack_seconds=_ACK_SECONDS,
        )
        self.on_news: Callable[[str, list[Mapping[str, Any]], float], None] = lambda _host, _events, _window: None
        self.gate = HostGate(self.link, self._hear, 1.5 * rules.gone_seconds)
        self.desk = Desk(self.link, take_lead, rules.gone_seconds)
        self.sites = SharedSites(self.link)
        self.roll = Roll((), (), ())
        self.words = Words(self.worker, socket.gethostname(), os.getpid(), time.time())
        self._workers = Workers(self.link, rules.gone_seconds)
        self._wish = wish

    async def open(self) -> None:
        """Raises ConfigError where the crawl was started with other arguments meanwhile."""
        known, identity = await self.link.run(_BEGIN, _wish_text(self._wish), token_hex(8))
        _check_wish(json.loads(known), self._wish, self.rules.crawl_id)
        self.link.identity = identity.decode()
        await self.frontier.open()
        self.desk.open()
        await self.beat()

    async def beat(self, **words: Any) -> None:
        """Say what this worker does, and hear of the others. `words` as in Words."""
        self.words = replace(self.words, **words)
        self.roll = await self._workers.beat(self.words, self.desk.sites)
        self.desk.note_roll({one.worker for one in self.roll.words}, self.roll.lost_sites)
        await self.gate.renew()
        await self.frontier.refresh()

    async def inherited_lines(self) -> list[dict[str, Any]]:
        """Lines of workers that are gone which are in no feed: they go into one of this worker's."""
        packed = [line for gone in self.roll.gone for line in (await self._workers.inherit(gone)).values()]
        return [json.loads(zlib.decompress(line)) for line in packed]

    async def drop_lines(self, urls: list[str]) -> None:
        await self._workers.drop_lines(urls)

    def _hear(self, host: str, events: list[Mapping[str, Any]], window: float) -> None:
        self.on_news(host, events, window)

    def leave(self) -> None:
        """This worker ends: it asks no others, and a Redis that is away is not waited for long."""
        self.desk.leave()
        self.link.stop_waiting(_CLOSING_SECONDS)

    def check(self) -> None:
        """Raises StorageFailed where nothing can be acknowledged any more."""
        self.link.check()

    def _fail(self, failure: StorageFailed) -> None:
        self.desk.leave()  # no answer of another worker comes any more
        self._on_failure(failure)

    def others(self) -> list[Words]:
        return [one for one in self.roll.words if one.worker != self.worker]

    async def close(self, reason: str) -> None:
        """When all of this worker's urls have come back."""
        sites = await self.desk.close()
        await self.gate.close()
        await self._workers.leave(self.words, sites)
        if reason == "finished":
            await self.link.put("meta", {"state": "finished", "finished": str(time.time())})
        await self.frontier.close()


def check_crew(rules: CrewRules, wish: Wish) -> None:
    """Raises ConfigError where this worker could not join the crawl. Changes nothing."""
    check_redis(rules.url, rules.crawl_id)
    with redis.Redis.from_url(rules.url) as client:
        known = client.hget(f"{key_prefix(rules.crawl_id)}:meta", "wish")
    if isinstance(known, bytes):
        _check_wish(json.loads(known), wish, rules.crawl_id)


def _wish_text(wish: Wish) -> str:
    return json.dumps({"spider": wish.spider, "arguments": dict(wish.arguments)}, ensure_ascii=False)


def _check_wish(known: Mapping[str, Any], wish: Wish, crawl_id: str) -> None:
    if wish.any_arguments:
        return
    if known["spider"] != wish.spider:
        raise ConfigError(f"CRAWL_ID={crawl_id} belongs to the spider {known['spider']!r}, not {wish.spider!r}")
    differing = differing_arguments(known["arguments"], json.loads(_wish_text(wish))["arguments"])
    if differing:
        raise ConfigError(
            f"CRAWL_ID={crawl_id} was started with other arguments: {'; '.join(differing)}. Give those to join it, "
            "name another CRAWL_ID, or add --force (or -s JOBDIR_FORCE=1) to join with the new ones"
        )
