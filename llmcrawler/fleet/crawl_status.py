"""Reads the status of the crawls in a Redis: their urls, hosts and workers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from llmcrawler.core.storage import RightsCounts
from llmcrawler.core.urls import site_of
from llmcrawler.errors import ConfigError
from llmcrawler.fleet.connection import key_prefix
from llmcrawler.fleet.crawl_control import CRAWLS, SILENT_SECONDS, opened
from llmcrawler.fleet.membership import WorkerReport
from llmcrawler.fleet.queue_structure import FORMAT
from llmcrawler.fleet.redis_address import shown
from llmcrawler.fleet.redis_checks import check_format

_MAX_HOSTS: Final = 100
_LETTERS: Final = 20
_MAX_SITES: Final = 100
_SCANNED: Final = 1000  # fields in one command
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
    with opened(url, crawl_id) as client:
        reader = _CrawlReader(client, crawl_id)
        if "spec" not in reader.meta:
            known = ", ".join(sorted(client.smembers(CRAWLS))[:10]) or "none"
            raise ConfigError(f"there is no crawl {crawl_id} in {shown(url)}; there are: {known}")
        check_format(crawl_id, reader.meta.get("format"))
        spec, workers, hosts = json.loads(reader.meta["spec"]), reader.workers(), reader.hosts()
        return DistributedStatus(
            crawl_id=crawl_id,
            url=shown(url),
            state=_state(reader.meta, workers),
            spider=spec["spider"],
            arguments=spec["arguments"],
            started=float(reader.meta["started"]),
            urls=reader.urls(),
            expired=reader.numbers("counts").get("expired", 0),
            pages_a_minute=_pages_a_minute(workers),
            waiting=reader.waiting(),
            waiting_sites=reader.waiting_sites(),
            told_apart_by=reader.meta.get("filter", "set"),
            workers=tuple(workers),
            hosts=tuple(hosts),
            host_count=reader.host_count,
            errors=dict(Counter(reader.numbers("errors")).most_common()),
            rights=RightsCounts.of(sum((Counter(one.report.rights) for one in workers), Counter())),
            dead_letters=reader.dead_letters(),
            memory_bytes=client.info("memory")["used_memory"],
        )


def crawl_summaries(url: str) -> tuple[CrawlSummary, ...]:
    """Read what crawls there are. Raises ConfigError where no Redis answers."""
    with opened(url) as client:
        readers = [_CrawlReader(client, name) for name in sorted(client.smembers(CRAWLS))]
        return tuple(_summary(reader) for reader in readers if "spec" in reader.meta)


def _summary(reader: _CrawlReader) -> CrawlSummary:
    is_ours = reader.meta.get("format") == str(FORMAT)
    workers = reader.workers() if is_ours else []
    return CrawlSummary(
        crawl_id=reader.crawl_id,
        state=_state(reader.meta, workers) if is_ours else "of another version",
        started=float(reader.meta["started"]),
        workers=len([one for one in workers if one.state == "here"]),
        pages_a_minute=_pages_a_minute(workers),
        urls=reader.urls(),
        waiting=reader.waiting(),
    )


class _CrawlReader:
    def __init__(self, client: Any, crawl_id: str) -> None:
        self.crawl_id = crawl_id
        self._client = client
        self._prefix = key_prefix(crawl_id)
        self._now = float(client.time()[0])
        self.meta = self._hash("meta")
        self.host_count = 0

    def urls(self) -> dict[str, int]:
        counts = self.numbers("counts")
        leased = self._client.hlen(self._name("leases"))
        return {"leased": leased, **{name: counts.get(name, 0) for name in _COUNTED}}

    def waiting(self) -> int:
        return int(self._client.zcard(self._name("waiting")))

    def waiting_sites(self) -> tuple[str, ...]:
        return tuple(self._client.zrevrange(self._name("waiting"), 0, _MAX_SITES - 1))

    def dead_letters(self) -> tuple[tuple[str, str], ...]:
        return tuple(_letter(text) for text in self._client.lrange(self._name("dead_letters"), 0, _LETTERS - 1))

    def numbers(self, name: str) -> dict[str, int]:
        return {key: int(value) for key, value in self._hash(name).items()}

    def workers(self) -> list[WorkerStatus]:
        """Return those that are there, then the others, the latest first."""
        found = [one for name in ("heartbeats", "left", "lost") for one in self._workers_of(name)]
        return sorted(found, key=lambda one: (one.ended is not None, -(one.ended or 0), one.report.started))

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
