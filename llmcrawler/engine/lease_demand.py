"""Tells how many urls of each host the scheduler should hold, so that the host is kept busy and others do not wait,
and which hosts are idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from typing import Any

from llmcrawler.core.frontier import Lease
from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.engine.host_queues import HostQueues

_SOON_SECONDS = 0.1  # what was handed in and waits for no gap is under way by then, unless it waits for a robots.txt


def idle_hosts(downloader: PoliteDownloader, waiting: Collection[str]) -> tuple[Counter[str], float | None]:
    """Return how many requests of each host count as held when at most CONCURRENT_REQUESTS_PER_DOMAIN are: all of them
    where one waits to go out, all but one where the gap after the last one is over. Return also after how many seconds
    to look again, None where only an answer can change anything.
    """
    most = downloader.domain_concurrency
    held, gaps = downloader.fetching.copy(), []
    for host, slot in downloader.slots.items():
        gap = slot.lastseen + slot.download_delay() - monotonic()
        if slot.free_transfer_slots() <= 0:
            held[host] = most
        elif host in waiting or held[host] > len(slot.transferring):
            held[host] = most
            gaps.append(max(gap, _SOON_SECONDS))
        elif gap > 0:
            held[host] = most
            gaps.append(gap)
        elif slot.delay:
            held[host] = most - 1
    return held, min(gaps, default=None)


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
