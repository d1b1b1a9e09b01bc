"""Reads the status of a crawl in Redis, of all its shards together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from llmcrawler.distributed.crawl_status import (
    LETTERS,
    MAX_HOSTS,
    DistributedStatus,
    WorkerStatus,
    status_of_shard,
)
from llmcrawler.distributed.redis_address import shown
from llmcrawler.distributed.redis_checks import check_redis
from llmcrawler.distributed.shards import shards_of
from llmcrawler.storage import RightsCounts

_STATES: Final = ("paused", "running", "not at its end", "finished")  # of several the first one holds
_WORKER_STATES: Final = ("here", "silent", "left", "lost")


def distributed_status(url: str, crawl_id: str) -> DistributedStatus:
    """Read the status of a crawl. Raises ConfigError where there is no such crawl."""
    check_redis(url, crawl_id, to_write=False)
    found = [status_of_shard(shard, crawl_id) for shard in shards_of(url, crawl_id)]
    return found[0] if len(found) == 1 else replace(_together(found), url=shown(url))


def _together(found: Sequence[DistributedStatus]) -> DistributedStatus:
    workers = _workers(chain.from_iterable(status.workers for status in found))
    hosts = sorted(chain.from_iterable(status.hosts for status in found), key=lambda host: (-host.queued, host.host))
    return replace(
        found[0],
        state=min((status.state for status in found), key=_STATES.index),
        urls=_sum(status.urls for status in found),
        expired=sum(status.expired for status in found),
        waiting=sum(status.waiting for status in found),
        workers=workers,
        hosts=tuple(hosts[:MAX_HOSTS]),
        host_count=sum(status.host_count for status in found),
        errors=dict(sorted(_sum(status.errors for status in found).items(), key=lambda pair: -pair[1])),
        rights=RightsCounts.of(Counter(_sum(worker.report.rights for worker in workers))),
        dead_letters=tuple(chain.from_iterable(status.dead_letters for status in found))[:LETTERS],
        memory_bytes=sum(status.memory_bytes for status in found),
    )


def _workers(found: Iterable[WorkerStatus]) -> tuple[WorkerStatus, ...]:
    by_name: dict[str, list[WorkerStatus]] = {}
    for worker in found:
        by_name.setdefault(worker.report.worker, []).append(worker)
    return tuple(_of_one_worker(parts) for parts in by_name.values())


def _of_one_worker(parts: Sequence[WorkerStatus]) -> WorkerStatus:
    """Return the status of a worker, who tells each shard the same of itself."""
    latest = max(parts, key=lambda part: (part.ended is None, part.report.pages))
    return replace(
        latest,
        state=min((part.state for part in parts), key=_WORKER_STATES.index),
        leases=sum(part.leases for part in parts),
        sites=tuple(chain.from_iterable(part.sites for part in parts)),
        site_count=sum(part.site_count for part in parts),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total
