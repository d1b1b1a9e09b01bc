"""Tells how many urls of each host the scheduler should hold, so that the host is kept busy and others do not wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.engine.host_queues import HostQueues
from llmcrawler.frontier import Lease


def held_by_host(
    downloader: PoliteDownloader,
    queues: Sequence[HostQueues[Any]],
    leases: Iterable[Lease],
    wanted: Callable[[str], int],
) -> Counter[str]:
    """Count what is held of each host: handed to the downloader, in one of the queues, or just leased. A host that
    wants more or less than a new one (`wanted("")`) has so many less or more: a frontier is told one number for all.
    """
    usual, fetching = wanted(""), downloader.fetching
    held = Counter({host: count + usual - wanted(host) for host, count in fetching.items()})
    for one in queues:
        for host in one:
            if host not in held:
                held[host] = usual - wanted(host)
            held[host] += one.count(host)
    held.update(lease.task.host for lease in leases)
    return held
