"""Pauses, resumes and deletes a crawl that workers share, from outside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from redis import exceptions as faults

from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.urls import site_of
from llmcrawler.errors import ConfigError
from llmcrawler.fleet.connection import (
    CRAWLS,
    check_format,
    check_redis,
    key_prefix,
    lua,
    redis_address,
    said_by,
    shown,
)
from llmcrawler.fleet.session import WorkerReport

SILENT_SECONDS: Final = 10.0  # workers say each second that they are there

_TIMEOUT_SECONDS: Final = 30.0  # a script of another crawl may take a while
_REFUSALS: Final = (faults.ConnectionError, faults.TimeoutError, faults.NoPermissionError, faults.ReadOnlyError)
_AT_ONCE: Final = 500  # keys in one command, so that none holds up the other crawls in the same Redis


@dataclass(frozen=True, slots=True)
class DeletedCrawl:
    """Counts of a deleted crawl. `workers` were still running and end."""

    workers: tuple[str, ...]
    done: int
    queued: int
    sites: int
    keys: int


def pause(url: str, crawl_id: str) -> bool:
    """Have the workers lease nothing more; False where it is so already. Raises ConfigError for no running crawl."""
    return _switch(url, crawl_id, "running", "paused")


def resume(url: str, crawl_id: str) -> bool:
    """Let the workers lease urls again; return and raise as `pause` does."""
    return _switch(url, crawl_id, "paused", "running")


def delete(url: str, crawl_id: str, *, is_forced: bool) -> DeletedCrawl:
    """Delete all that Redis has of a crawl, or go on with that. Raises ConfigError where the crawl is not there, or it
    is not forced and the crawl has workers, or keys of another format.
    """
    prefix = key_prefix(crawl_id)
    with _crawl(url, crawl_id) as (client, found):
        if not is_forced:
            check_format(crawl_id, found)
        workers = client.eval(lua("begin_to_delete"), 1, prefix, int(is_forced), SILENT_SECONDS)
        if workers and not is_forced:
            named = ", ".join(workers[:5])
            raise ConfigError(f"{crawl_id}: it has workers ({named}): stop them first, or add --force to end them")
        done, queued = (int(count or 0) for count in client.hmget(f"{prefix}:counts", "done", "queued"))
        sites = client.hlen(f"{prefix}:learned")
        keys = _delete_keys(client, prefix)
        client.srem(CRAWLS, crawl_id)
        return DeletedCrawl(tuple(workers), done, queued, sites, keys)


@contextmanager
def opened(url: str, crawl_id: str = "any") -> Iterator[Any]:
    """Give a client of redis-py. Raises ConfigError where no Redis answers, or it does not let us do something."""
    check_redis(url, crawl_id, to_write=False)
    with closing(redis_address(url).client(_TIMEOUT_SECONDS, decode_responses=True)) as client:
        try:
            yield client
        except _REFUSALS as error:
            raise ConfigError(f"REDIS_URL={shown(url)}: the command failed there ({said_by(error)})") from error


@contextmanager
def _crawl(url: str, crawl_id: str) -> Iterator[tuple[Any, str | None]]:
    with opened(url, crawl_id) as client:
        spec, found = client.hmget(f"{key_prefix(crawl_id)}:meta", "spec", "format")
        if spec is None:
            raise ConfigError(f"there is no crawl {crawl_id} in {shown(url)}")
        yield client, found


def _switch(url: str, crawl_id: str, before: str, after: str) -> bool:
    with _crawl(url, crawl_id) as (client, found):
        check_format(crawl_id, found)
        state = client.eval(lua("switch_state"), 1, key_prefix(crawl_id), before, after)
    if state not in (before, after):
        raise ConfigError(f"{crawl_id}: it is {state}, so it can be neither paused nor resumed")
    return bool(state == before)


def _delete_keys(client: Any, prefix: str) -> int:
    meta, keys, cursor = f"{prefix}:meta", 0, None
    while cursor != 0:
        cursor, found = client.scan(cursor or 0, f"{prefix}:*", _AT_ONCE)
        names = [name for name in found if name != meta]
        keys += client.unlink(*names) if names else 0
    return keys + int(client.unlink(meta))  # the last one: until then it can be gone on with


_MAX_HOSTS: Final = 100
_LETTERS: Final = 20
_MAX_SITES: Final = 100
_SCANNED: Final = 1000  # fields in one command
_COUNTED: Final = ("queued", "done", "dead", "duplicates")


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """`state`: here, silent, left or lost; `ended`: when it left; `sites`: the first of `site_count` with urls left."""

    report: WorkerReport
    state: str
    ended: float | None
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
    """`state`: running, paused, finished, deleting or not at its end; `expired` counts leases of lost workers,
    `waiting` sites with urls and no owner; `dead_letters` are the latest, as (error, url).
    """

    crawl_id: str
    url: str
    state: str
    spider: str
    arguments: Mapping[str, Any]
    started: float
    urls: Mapping[str, int]
    expired: int
    pages_a_minute: float
    waiting: int
    waiting_sites: tuple[str, ...]
    told_apart_by: str
    workers: tuple[WorkerStatus, ...]
    hosts: tuple[HostStatus, ...]
    host_count: int
    errors: Mapping[str, int]
    rights: RightsCounts
    dead_letters: tuple[tuple[str, str], ...]
    memory_bytes: int


def distributed_status(url: str, crawl_id: str) -> DistributedStatus:
    """Read the status of a crawl. Raises ConfigError where there is no such crawl."""
    with opened(url, crawl_id) as client:
        crawl = _CrawlReader(client, crawl_id)
        if "spec" not in crawl.meta:
            known = ", ".join(sorted(client.smembers(CRAWLS))[:10]) or "none"
            raise ConfigError(f"there is no crawl {crawl_id} in {shown(url)}; there are: {known}")
        check_format(crawl_id, crawl.meta.get("format"))
        spec, workers, (hosts, host_count) = json.loads(crawl.meta["spec"]), crawl.workers(), crawl.hosts()
        letters = [text.partition(" ") for text in client.lrange(crawl.key("dead_letters"), 0, _LETTERS - 1)]
        return DistributedStatus(
            crawl_id=crawl_id,
            url=shown(url),
            state=_state(crawl.meta, workers),
            spider=spec["spider"],
            arguments=spec["arguments"],
            started=float(crawl.meta["started"]),
            urls=crawl.urls(),
            expired=crawl.numbers("counts").get("expired", 0),
            pages_a_minute=round(sum(one.report.pages_a_minute for one in workers if one.state == "here"), 1),
            waiting=client.zcard(crawl.key("waiting")),
            waiting_sites=tuple(client.zrevrange(crawl.key("waiting"), 0, _MAX_SITES - 1)),
            told_apart_by=crawl.meta.get("filter", "set"),
            workers=tuple(workers),
            hosts=tuple(hosts),
            host_count=host_count,
            errors=dict(Counter(crawl.numbers("errors")).most_common()),
            rights=RightsCounts.of(sum((Counter(one.report.rights) for one in workers), Counter())),
            dead_letters=tuple((error, address) for error, _, address in letters),
            memory_bytes=client.info("memory")["used_memory"],
        )


def crawl_names(url: str) -> list[str]:
    """Return the names of the crawls that there are. Raises ConfigError where no Redis answers."""
    with opened(url) as client:
        return sorted(client.smembers(CRAWLS))


class _CrawlReader:
    def __init__(self, client: Any, crawl_id: str) -> None:
        self._client = client
        self._prefix = key_prefix(crawl_id)
        self._now = float(client.time()[0])
        self.meta = self._hash("meta")

    def key(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def numbers(self, name: str) -> dict[str, int]:
        return {key: int(value) for key, value in self._hash(name).items()}

    def urls(self) -> dict[str, int]:
        counts = self.numbers("counts")
        leased = counts.get("arrival", 0) - sum(counts.get(name, 0) for name in ("queued", "done", "dead"))
        return {"leased": leased, **{name: counts.get(name, 0) for name in _COUNTED}}

    def workers(self) -> list[WorkerStatus]:
        """Return those that are there, then the others, the latest first."""
        beats = dict(self._client.zrange(self.key("workers"), 0, -1, withscores=True))
        ended, found = self._hash("ended"), []
        for name in ("heartbeats", "left", "lost"):
            for report in map(WorkerReport.read, self._hash(name).values()):
                state, end = name, float(ended[report.worker]) if report.worker in ended else None
                if name == "heartbeats":
                    beat = beats.get(report.worker, 0.0)
                    is_silent = self._now - beat > SILENT_SECONDS
                    state, end = ("silent", beat) if is_silent else ("here", None)
                own = self.key(f"own:{report.worker}")
                sites = self._client.zrange(own, "+inf", 1, byscore=True, desc=True, offset=0, num=_MAX_SITES)
                found.append(WorkerStatus(report, state, end, tuple(sites), self._client.zcount(own, 1, "+inf")))
        return sorted(found, key=lambda one: (one.ended is not None, -(one.ended or 0), one.report.started))

    def hosts(self) -> tuple[list[HostStatus], int]:
        """Return the busiest hosts, and how many there are."""
        counts: dict[str, dict[str, int]] = {}
        for name, count in self._client.hscan_iter(self.key("hosts"), count=_SCANNED):
            kind, _, host = name.partition(" ")
            counts.setdefault(host, {})[kind] = int(count)
        busiest = sorted(counts, key=lambda host: (-counts[host].get("queued", 0), host))
        found = []
        for host in busiest[:_MAX_HOSTS]:
            site = site_of(host)
            at, _, kept = (self._client.hget(self.key("throttle"), site) or "0 {}").partition(" ")
            throttle = json.loads(kept).get(host, {})
            status = HostStatus(
                host=host,
                **{kind: counts[host].get(kind, 0) for kind in ("queued", "done", "dead")},
                owner=self._client.hget(self.key("owners"), site) or "",
                window=throttle.get("window"),
                rest_seconds=max(0.0, round(float(at) + throttle.get("cooldown", 0.0) - self._now, 1)),
            )
            found.append(status)
        return found, len(busiest)

    def _hash(self, name: str) -> dict[str, str]:
        return dict(self._client.hgetall(self.key(name)))


def _state(meta: Mapping[str, str], workers: Iterable[WorkerStatus]) -> str:
    state = meta.get("state", "")
    is_left = state == "running" and all(one.state != "here" for one in workers)
    return "not at its end" if is_left else state
