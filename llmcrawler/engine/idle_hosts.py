"""Tells which hosts have nothing under way or waiting that would keep them busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from time import monotonic

from llmcrawler.engine.downloader import PoliteDownloader


def idle_hosts(downloader: PoliteDownloader, waiting: Collection[str]) -> tuple[Counter[str], float | None]:
    """Return how many requests of each host count as held when at most CONCURRENT_REQUESTS_PER_DOMAIN are: all of them
    where one waits for the host's next gap, all but one where that gap is over. Return also after how many seconds the
    next gap is over, None where there is none to wait for.
    """
    most = downloader.domain_concurrency
    held, gaps = downloader.fetching.copy(), []
    for host, slot in downloader.slots.items():
        if host in waiting or held[host] > len(slot.transferring) or slot.free_transfer_slots() <= 0:
            held[host] = most
        elif (gap := slot.lastseen + slot.download_delay() - monotonic()) > 0:
            held[host] = most
            gaps.append(gap)
        elif slot.delay:
            held[host] = most - 1
    return held, min(gaps, default=None)
