"""Tells which hosts have nothing under way or waiting that would keep them busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from time import monotonic

from llmcrawler.engine.downloader import PoliteDownloader

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
