"""The frontier of a crawl without a job directory: everything in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from llmcrawler.frontier.protocol import FIRST, Counts, Lease, UrlTask
from llmcrawler.storage import Outcome
from llmcrawler.storage.keys import url_key


@dataclass(slots=True)
class _Held:
    entry: _Entry
    deadline: float


_Entry = tuple[int, int, UrlTask, int]  # rank, arrival, task, attempts so far
_Queue = tuple[str, str]  # host, group


class MemoryFrontier:
    """A heap of (rank, arrival) per host and group, and the keys of all urls ever seen."""

    def __init__(
        self, *, lease_seconds: float = 3600.0, max_leases: int = 5, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease_seconds = lease_seconds
        self._max_leases = max_leases
        self._clock = clock
        self._seen: set[int] = set()
        self._claimed: dict[str, str] = {}
        self._queues: dict[_Queue, list[_Entry]] = {}
        self._ranks: dict[str, int] = {}
        self._held: dict[str, _Held] = {}
        self._arrival = count()
        self._queued = self._done = self._dead = 0

    async def open(self) -> None:
        return

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = 0
        for task in tasks:
            if self._see(task.url):
                self._push((task.rank, next(self._arrival), task, 0))
                new += 1
        return new

    async def prefer(self, ranks: Mapping[str, int]) -> None:
        self._ranks.update(ranks)

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        self._expire()
        leases: list[Lease] = []
        room = {host: per_host - held.get(host, 0) for host, _group in self._queues}
        turns = [(self._place(queue), queue) for queue in self._queues if room[queue[0]] > 0]
        heapify(turns)
        while turns and len(leases) < limit:
            place, queue = heappop(turns)
            if worst is not None and place[0] > worst:
                break
            if room[queue[0]] <= 0:
                continue
            room[queue[0]] -= 1
            leases.append(self._pop(queue))
            if queue in self._queues:
                heappush(turns, (self._place(queue), queue))
        return leases

    async def start(self, url: str) -> None:
        if url in self._held:
            rank, arrival, task, attempts = self._held[url].entry
            self._held[url].entry = (rank, arrival, task, attempts + 1)

    def survive(self, url: str) -> None:
        if url in self._held:
            rank, arrival, task, _attempts = self._held[url].entry
            self._held[url].entry = (rank, arrival, task, 0)

    async def renew(self, urls: Iterable[str]) -> None:
        for url in urls:
            if url in self._held:
                self._held[url].deadline = self._clock() + self._lease_seconds

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        if self._held.pop(url, None) is None:
            return False
        is_dead = outcome is not None and outcome.is_dead
        self._dead += is_dead
        self._done += not is_dead
        return True

    async def release(self, url: str) -> bool:
        held = self._held.pop(url, None)
        if held is None:
            return False
        self._push(held.entry)
        return True

    async def claim(self, url: str, by: str) -> bool:
        is_new = self._see(url)
        if is_new:
            self._claimed[url] = by
        return is_new or self._claimed.get(url) == by

    def counts(self) -> Counts:
        return Counts(queued=self._queued, leased=len(self._held), done=self._done, dead=self._dead)

    def _see(self, url: str) -> bool:
        key = url_key(url)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _expire(self) -> None:
        now = self._clock()
        for url in [url for url, held in self._held.items() if held.deadline <= now]:
            held = self._held.pop(url)
            if held.entry[3] < self._max_leases:
                self._push(held.entry)
            else:
                self._dead += 1

    def _push(self, entry: _Entry) -> None:
        heappush(self._queues.setdefault((entry[2].host, entry[2].group), []), entry)
        self._queued += 1

    def _place(self, queue: _Queue) -> tuple[int, int, int]:
        rank, arrival, _task, _attempts = self._queues[queue][0]
        return FIRST if rank <= FIRST else self._ranks.get(queue[1], 0), rank, arrival

    def _pop(self, queue: _Queue) -> Lease:
        heap = self._queues[queue]
        entry = heappop(heap)
        if not heap:
            del self._queues[queue]
        self._queued -= 1
        self._held[entry[2].url] = _Held(entry, self._clock() + self._lease_seconds)
        return Lease(entry[2], entry[3] + 1)
