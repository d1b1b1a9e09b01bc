"""The frontier of a crawl without a job directory: everything is in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import count

from llmcrawler.frontier.protocol import FIRST, Counts, Lease, UrlTask
from llmcrawler.storage import Outcome
from llmcrawler.storage.keys import url_key


@dataclass(slots=True)
class _KnownUrl:
    task: UrlTask
    arrival: int
    attempts: int = 0
    deadline: float = 0.0  # of its lease


_Entry = tuple[int, int, _KnownUrl]  # priority, arrival, url
_Queue = tuple[str, str]  # host, group


class MemoryFrontier:
    """Keeps a heap of (priority, arrival) per host and group, and the keys of all urls ever seen."""

    def __init__(
        self, *, lease_seconds: float = 3600.0, max_leases: int = 5, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease_seconds = lease_seconds
        self._max_leases = max_leases
        self._clock = clock
        self._seen: set[int] = set()
        self._redirect_targets: dict[str, str] = {}  # url -> the url that is redirected to it
        self._with_sources: dict[int, _KnownUrl] = {}  # by key: unfinished urls of a map
        self._queues: dict[_Queue, list[_Entry]] = {}
        self._priorities: dict[str, int] = {}  # by group
        self._leased: dict[str, _KnownUrl] = {}
        self._arrival = count()
        self._queued = self._done = self._dead = 0

    async def open(self) -> None:
        return

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = 0
        for task in tasks:
            key = url_key(task.url)
            if key not in self._seen:
                self._seen.add(key)
                known = _KnownUrl(task, next(self._arrival))
                self._push(known)
                new += 1
                if task.found is not None:
                    self._with_sources[key] = known
            elif task.found is not None and (waiting := self._with_sources.get(key)) and waiting.task.found:
                waiting.task = replace(waiting.task, found=waiting.task.found.merged(task.found))
        return new

    async def prefer(self, priorities: Mapping[str, int]) -> None:
        self._priorities.update(priorities)

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
        if url in self._leased:
            self._leased[url].attempts += 1

    def survive(self, url: str) -> None:
        if url in self._leased:
            self._leased[url].attempts = 0

    async def renew(self, urls: Iterable[str]) -> None:
        for url in urls:
            if url in self._leased:
                self._leased[url].deadline = self._clock() + self._lease_seconds

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        if self._leased.pop(url, None) is None:
            return False
        if self._with_sources:
            self._with_sources.pop(url_key(url), None)
        is_dead = outcome is not None and outcome.is_dead
        self._dead += is_dead
        self._done += not is_dead
        return True

    async def release(self, url: str) -> bool:
        leased = self._leased.pop(url, None)
        if leased is not None:
            self._push(leased)
        return leased is not None

    async def claim(self, url: str, by: str) -> bool:
        key = url_key(url)
        if key not in self._seen:
            self._seen.add(key)
            self._redirect_targets[url] = by
        return self._redirect_targets.get(url) == by

    def counts(self) -> Counts:
        return Counts(queued=self._queued, leased=len(self._leased), done=self._done, dead=self._dead)

    def _expire(self) -> None:
        now = self._clock()
        for url in [url for url, leased in self._leased.items() if leased.deadline <= now]:
            leased = self._leased.pop(url)
            if leased.attempts < self._max_leases:
                self._push(leased)
            else:
                self._dead += 1

    def _push(self, known: _KnownUrl) -> None:
        task = known.task
        heappush(self._queues.setdefault((task.host, task.group), []), (task.rank, known.arrival, known))
        self._queued += 1

    def _place(self, queue: _Queue) -> tuple[int, int, int]:
        priority, arrival, _known = self._queues[queue][0]
        return FIRST if priority <= FIRST else self._priorities.get(queue[1], 0), priority, arrival

    def _pop(self, queue: _Queue) -> Lease:
        heap = self._queues[queue]
        known = heappop(heap)[2]
        if not heap:
            del self._queues[queue]
        self._queued -= 1
        known.deadline = self._clock() + self._lease_seconds
        self._leased[known.task.url] = known
        return Lease(known.task, known.attempts + 1)
