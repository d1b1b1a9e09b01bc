"""Reads the status of one shard of a crawl in Redis: its urls, hosts and workers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Final

import redis

from llmcrawler.distributed.membership import WorkerReport
from llmcrawler.distributed.redis_address import shown
from llmcrawler.distributed.shards import Shard
from llmcrawler.errors import ConfigError
from llmcrawler.storage import RightsCounts
from llmcrawler.urls import site_of

MAX_HOSTS: Final = 100
_SILENT_SECONDS: Final = 10.0
LETTERS: Final = 20
_MAX_SITES: Final = 100
_COUNTED: Final = ("queued", "done", "dead", "duplicates")


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's last heartbeat. `state`: here, silent (no heartbeat for a while), left or lost, since when it `ended`;
    `leases`: urls it holds; `sites`: the first of those `site_count` that it owns and that have urls left.
    """

    report: WorkerReport
    state: str
    ended: float | None
    leases: int
    sites: tuple[str, ...]
    site_count: int


@dataclass(frozen=True, slots=True)
class HostStatus:
    host: str
    queued: int
    done: int
    dead: int
    owner: str
    window: float | None
    rest_seconds: float


@dataclass(frozen=True, slots=True)
class DistributedStatus:
    """The status of a crawl. `expired` counts leases whose holders were gone, `waiting` sites with urls and no owner;
    `rights`: what sites said of the pages of all workers; `dead_letters` are the latest, as (error, url).
    """

    crawl_id: str
    url: str
    state: str
    spider: str
    arguments: Mapping[str, Any]
    started: float
    urls: Mapping[str, int]
    expired: int
    waiting: int
    told_apart_by: str
    workers: tuple[WorkerStatus, ...]
    hosts: tuple[HostStatus, ...]
    host_count: int
    errors: Mapping[str, int]
    rights: RightsCounts
    dead_letters: tuple[tuple[str, str], ...]
    memory_bytes: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def status_of_shard(shard: Shard, crawl_id: str) -> DistributedStatus:
    """Read what one shard has of a crawl. Raises ConfigError where there is no such crawl."""
    with closing(shard.client(decode_responses=True)) as client:
        return _StatusReader(client, crawl_id, shard.prefix).status(shown(shard.url))


class _StatusReader:
    def __init__(self, client: Any, crawl_id: str, prefix: str) -> None:
        self._client = client
        self._crawl_id = crawl_id
        self._prefix = prefix
        self._now = float(client.eval("return redis.call('TIME')[1]", 1, prefix))

    def status(self, url: str) -> DistributedStatus:
        meta = self._hash("meta")
        if "spec" not in meta:
            raise ConfigError(f"there is no crawl {self._crawl_id} in {url}")
        spec, counts = json.loads(meta["spec"]), self._numbers("counts")
        holders = Counter(lease.partition("\x1f")[0] for lease in self._hash("leases").values())
        host_count, hosts = self._hosts()
        workers = self._workers(holders)
        is_worked_on = any(one.state == "here" for one in workers)
        state = "running" if is_worked_on else "finished" if meta.get("state") == "finished" else "not at its end"
        state = "paused" if meta.get("state") == "paused" else state
        return DistributedStatus(
            crawl_id=self._crawl_id,
            url=url,
            state=state,
            spider=spec["spider"],
            arguments=spec["arguments"],
            started=float(meta["started"]),
            urls={"leased": holders.total(), **{name: counts.get(name, 0) for name in _COUNTED}},
            expired=counts.get("expired", 0),
            waiting=self._client.zcard(self._name("waiting")),
            told_apart_by=meta.get("filter", "set"),
            workers=workers,
            hosts=hosts,
            host_count=host_count,
            errors=dict(sorted(self._numbers("errors").items(), key=lambda pair: -pair[1])),
            rights=RightsCounts.of(sum((Counter(one.report.rights) for one in workers), Counter())),
            dead_letters=tuple(
                _letter(text) for text in self._client.lrange(self._name("dead_letters"), 0, LETTERS - 1)
            ),
            memory_bytes=self._memory_bytes(),
        )

    def _workers(self, holders: Mapping[str, int]) -> tuple[WorkerStatus, ...]:
        beats = dict(self._client.zrange(self._name("workers"), 0, -1, withscores=True))
        ended, found = self._hash("ended"), []
        for where, state in (("heartbeats", "here"), ("left", "left"), ("lost", "lost")):
            for name, text in self._hash(where).items():
                silent = state == "here" and self._now - beats.get(name, 0.0) > _SILENT_SECONDS
                own = self._name(f"own:{name}")
                status = WorkerStatus(
                    WorkerReport.read(text),
                    "silent" if silent else state,
                    float(ended[name]) if name in ended and state != "here" else None,
                    holders.get(name, 0),
                    tuple(self._client.zrange(own, "+inf", 1, byscore=True, desc=True, offset=0, num=_MAX_SITES)),
                    self._client.zcount(own, 1, "+inf"),
                )
                found.append(status)
        return tuple(sorted(found, key=lambda one: (one.state != "here", one.report.started)))

    def _hosts(self) -> tuple[int, tuple[HostStatus, ...]]:
        counts: dict[str, dict[str, int]] = {}
        for name, count in self._numbers("hosts").items():
            kind, _, host = name.partition(" ")
            counts.setdefault(host, {})[kind] = count
        busiest = sorted(counts, key=lambda host: (-counts[host].get("queued", 0), host))
        shown = [self._host(host, counts[host]) for host in busiest[:MAX_HOSTS]]
        return len(busiest), tuple(shown)

    def _host(self, host: str, counts: Mapping[str, int]) -> HostStatus:
        site = site_of(host)
        at, _, kept = (self._client.hget(self._name("manners"), site) or "0 {}").partition(" ")
        manners = json.loads(kept).get(host, {})
        return HostStatus(
            host=host,
            queued=counts.get("queued", 0),
            done=counts.get("done", 0),
            dead=counts.get("dead", 0),
            owner=self._client.hget(self._name("owners"), site) or "",
            window=manners.get("window"),
            rest_seconds=max(0.0, round(float(at) + manners.get("cooldown", 0.0) - self._now, 1)),
        )

    def _memory_bytes(self) -> int:
        """Return the memory of the server, in a Cluster of the node that has the shard."""
        if not isinstance(self._client, redis.RedisCluster):
            return int(self._client.info("memory")["used_memory"])
        client: Any = self._client  # redis-py has no types for it
        node = client.get_node_from_key(self._prefix)
        return int(self._client.info("memory", target_nodes=node)["used_memory"])

    def _name(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def _hash(self, name: str) -> dict[str, str]:
        return dict(self._client.hgetall(self._name(name)))

    def _numbers(self, name: str) -> dict[str, int]:
        return {key: int(value) for key, value in self._hash(name).items()}


def _letter(text: str) -> tuple[str, str]:
    error, _, url = text.partition(" ")
    return error, url
