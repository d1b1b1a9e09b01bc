"""Reads the status of the crawls in a Redis: their urls, hosts and workers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.urls import site_of
from llmcrawler.errors import ConfigError
from llmcrawler.fleet.crawl_control import CRAWLS, SILENT_SECONDS, OpenShard, opened
from llmcrawler.fleet.membership import WorkerReport
from llmcrawler.fleet.queue_structure import FORMAT
from llmcrawler.fleet.redis_address import shown
from llmcrawler.fleet.redis_checks import check_format, info

_MAX_HOSTS: Final = 100
_LETTERS: Final = 20
_MAX_SITES: Final = 100
_SCANNED: Final = 1000  # fields in one command
_STATES: Final = ("here", "silent", "left", "lost")  # what of a worker is true where shards differ
_COUNTED: Final = ("queued", "done", "dead", "duplicates")


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's last heartbeat. `state`: here, silent (no heartbeat for a while), left or lost; `ended`: when it left,
    or its last heartbeat. `sites`: the first of those `site_count` that it owns and that have urls left.
    """

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
    """The status of a crawl. `state`: running, paused, finished, deleting or, with no worker there, not at its end;
    `expired` counts leases whose holders were gone, `waiting` sites with urls and no owner, the first of which are
    `waiting_sites`; `rights`: what sites said of the pages of all workers; `dead_letters` are the latest, as (error,
    url).
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """One of several crawls; `workers` are there. `state` as that of DistributedStatus, or "of another version"."""

    crawl_id: str
    state: str
    started: float
    workers: int
    pages_a_minute: float
    urls: Mapping[str, int]
    waiting: int


def distributed_status(url: str, crawl_id: str) -> DistributedStatus:
    """Read the status of a crawl. Raises ConfigError where there is no such crawl."""
    with opened(url, crawl_id) as shards:
        readers = [_ShardReader(shard) for shard in shards]
        first = readers[0]
        if "spec" not in first.meta:
            known = ", ".join(sorted(shards[0].client.smembers(CRAWLS))[:10]) or "none"
            raise ConfigError(f"there is no crawl {crawl_id} in {shown(url)}; there are: {known}")
        check_format(crawl_id, first.meta.get("format"))
        spec, workers = json.loads(first.meta["spec"]), _joined([reader.workers() for reader in readers])
        hosts = sorted((host for reader in readers for host in reader.hosts()), key=lambda one: (-one.queued, one.host))
        return DistributedStatus(
            crawl_id=crawl_id,
            url=shown(url),
            state=_state(first.meta, workers),
            spider=spec["spider"],
            arguments=spec["arguments"],
            started=float(first.meta["started"]),
            urls=_added([reader.urls() for reader in readers]),
            expired=sum(reader.number("counts", "expired") for reader in readers),
            pages_a_minute=_pages_a_minute(workers),
            waiting=sum(reader.waiting() for reader in readers),
            waiting_sites=tuple(site for reader in readers for site in reader.waiting_sites())[:_MAX_SITES],
            told_apart_by=first.meta.get("filter", "set"),
            workers=tuple(workers),
            hosts=tuple(hosts[:_MAX_HOSTS]),
            host_count=sum(reader.host_count for reader in readers),
            errors=dict(sum((Counter(reader.numbers("errors")) for reader in readers), Counter()).most_common()),
            rights=RightsCounts.of(sum((Counter(one.report.rights) for one in workers), Counter())),
            dead_letters=tuple(letter for reader in readers for letter in reader.dead_letters())[:_LETTERS],
            memory_bytes=_memory_bytes(shards),
        )


def crawl_summaries(url: str) -> tuple[CrawlSummary, ...]:
    """Read what crawls there are. Raises ConfigError where no Redis answers."""
    with opened(url) as shards:
        names = sorted(shards[0].client.smembers(CRAWLS))
    return tuple(summary for name in names if (summary := _summary(url, name)) is not None)


def _summary(url: str, crawl_id: str) -> CrawlSummary | None:
    with opened(url, crawl_id) as shards:
        readers = [_ShardReader(shard) for shard in shards]
        meta = readers[0].meta
        if "spec" not in meta:
            return None
        is_ours = meta.get("format") == str(FORMAT)
        workers = _joined([reader.workers() for reader in readers]) if is_ours else []
        return CrawlSummary(
            crawl_id=crawl_id,
            state=_state(meta, workers) if is_ours else "of another version",
            started=float(meta["started"]),
            workers=len([one for one in workers if one.state == "here"]),
            pages_a_minute=_pages_a_minute(workers),
            urls=_added([reader.urls() for reader in readers]),
            waiting=sum(reader.waiting() for reader in readers),
        )


class _ShardReader:
    def __init__(self, shard: OpenShard) -> None:
        self._client = shard.client
        self._prefix = shard.prefix
        self._now = float(shard.client.eval("return redis.call('TIME')", 1, shard.prefix)[0])
        self.meta = self._hash("meta")
        self.host_count = 0

    def urls(self) -> dict[str, int]:
        counts = self.numbers("counts")
        leased = self._client.hlen(self._name("leases"))
        return {"leased": leased, **{name: counts.get(name, 0) for name in _COUNTED}}

    def waiting(self) -> int:
        return int(self._client.zcard(self._name("waiting")))

    def waiting_sites(self) -> list[str]:
        return list(self._client.zrevrange(self._name("waiting"), 0, _MAX_SITES - 1))

    def dead_letters(self) -> list[tuple[str, str]]:
        return [_letter(text) for text in self._client.lrange(self._name("dead_letters"), 0, _LETTERS - 1)]

    def number(self, name: str, field: str) -> int:
        return int(self._client.hget(self._name(name), field) or 0)

    def numbers(self, name: str) -> dict[str, int]:
        return {key: int(value) for key, value in self._hash(name).items()}

    def workers(self) -> list[WorkerStatus]:
        return [one for name in ("heartbeats", "left", "lost") for one in self._workers_of(name)]

    def _workers_of(self, name: str) -> list[WorkerStatus]:
        """Return the workers whose reports are in a hash: heartbeats, left or lost, oldest first."""
        beats = dict(self._client.zrange(self._name("workers"), 0, -1, withscores=True))
        reports = [WorkerReport.read(text) for text in self._hash(name).values()]
        ended = self._hash("ended") if name != "heartbeats" else {}
        found = []
        for report in sorted(reports, key=lambda one: one.started):
            beat, state = beats.get(report.worker, 0.0), name
            if name == "heartbeats":
                state = "silent" if self._now - beat > SILENT_SECONDS else "here"
            own = self._name(f"own:{report.worker}")
            status = WorkerStatus(
                report,
                state,
                beat if state == "silent" else float(ended[report.worker]) if report.worker in ended else None,
                tuple(self._client.zrange(own, "+inf", 1, byscore=True, desc=True, offset=0, num=_MAX_SITES)),
                self._client.zcount(own, 1, "+inf"),
            )
            found.append(status)
        return found

    def hosts(self) -> list[HostStatus]:
        """Return the busiest hosts; `host_count` is how many there are."""
        counts: dict[str, dict[str, int]] = {}
        for name, count in self._client.hscan_iter(self._name("hosts"), count=_SCANNED):
            kind, _, host = name.partition(" ")
            counts.setdefault(host, {})[kind] = int(count)
        busiest = sorted(counts, key=lambda host: (-counts[host].get("queued", 0), host))
        self.host_count = len(busiest)
        return [self._host(host, counts[host]) for host in busiest[:_MAX_HOSTS]]

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

    def _name(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def _hash(self, name: str) -> dict[str, str]:
        return dict(self._client.hgetall(self._name(name)))


def _letter(text: str) -> tuple[str, str]:
    error, _, url = text.partition(" ")
    return error, url


def _pages_a_minute(workers: Iterable[WorkerStatus]) -> float:
    return round(sum(one.report.pages_a_minute for one in workers if one.state == "here"), 1)


def _state(meta: Mapping[str, str], workers: Iterable[WorkerStatus]) -> str:
    state = meta.get("state", "")
    if state != "running":
        return state
    return state if any(one.state == "here" for one in workers) else "not at its end"


def _joined(shards: Sequence[Sequence[WorkerStatus]]) -> list[WorkerStatus]:
    """Return the workers of all shards, each once: those that are there, then the others, the latest first."""
    found: dict[str, WorkerStatus] = {}
    for one in (worker for workers in shards for worker in workers):
        known = found.get(one.report.worker)
        if known is None:
            found[one.report.worker] = one
            continue
        latest = min(one, known, key=lambda status: _STATES.index(status.state))
        sites, count = (*known.sites, *one.sites), known.site_count + one.site_count
        found[one.report.worker] = replace(latest, sites=sites[:_MAX_SITES], site_count=count)
    return sorted(found.values(), key=lambda one: (one.ended is not None, -(one.ended or 0), one.report.started))


def _added(shards: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(counts[name] for counts in shards) for name in shards[0]}


def _memory_bytes(shards: Sequence[OpenShard]) -> int:
    servers = {shard.address.url: shard for shard in shards}.values()
    return sum(said["used_memory"] for one in servers for said in info(one.client, one.address, "memory"))
