"""The frontier of a crawl without a job directory: everything in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import count

from llmcrawler.frontier.protocol import Counts, Lease, UrlTask

_Entry = tuple[int, int, UrlTask, int]  # rank, arrival, task, attempts


class MemoryFrontier:
    """A heap of (rank, arrival) per host, and the set of all urls ever seen."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._hosts: dict[str, list[_Entry]] = {}
        self._leased: dict[str, tuple[Lease, int]] = {}
        self._arrival = count()
        self._queued = 0
        self._done = 0

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = 0
        for task in tasks:
            if task.url not in self._seen:
                self._seen.add(task.url)
                self._push(task, next(self._arrival), attempts=0)
                new += 1
        return new

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int) -> list[Lease]:
        leases: list[Lease] = []
        room = {host: per_host - held.get(host, 0) for host in self._hosts}
        while len(leases) < limit:
            best = min(
                (host for host, free in room.items() if free > 0 and host in self._hosts),
                key=lambda host: self._hosts[host][0][:2],
                default=None,
            )
            if best is None:
                break
            room[best] -= 1
            leases.append(self._pop(best))
        return leases

    async def ack(self, url: str) -> bool:
        if self._leased.pop(url, None) is None:
            return False
        self._done += 1
        return True

    async def release(self, url: str) -> bool:
        entry = self._leased.pop(url, None)
        if entry is None:
            return False
        lease, arrival = entry
        self._push(lease.task, arrival, lease.attempts)
        return True

    async def claim(self, url: str) -> bool:
        if url in self._seen:
            return False
        self._seen.add(url)
        return True

    def counts(self) -> Counts:
        return Counts(queued=self._queued, leased=len(self._leased), done=self._done)

    def _push(self, task: UrlTask, arrival: int, attempts: int) -> None:
        heappush(self._hosts.setdefault(task.host, []), (task.rank, arrival, task, attempts))
        self._queued += 1

    def _pop(self, host: str) -> Lease:
        heap = self._hosts[host]
        _rank, arrival, task, attempts = heappop(heap)
        if not heap:
            del self._hosts[host]
        self._queued -= 1
        lease = Lease(task, attempts + 1)
        self._leased[task.url] = (lease, arrival)
        return lease
