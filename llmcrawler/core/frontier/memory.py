"""Frontier of a crawl without a job directory: everything is in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf

from llmcrawler.core.frontier.host_turns import HostTurns
from llmcrawler.core.frontier.protocol import Counts, Lease, UrlTask
from llmcrawler.core.storage import Outcome, url_key
from llmcrawler.items import UrlSource

_Entry = tuple[int, int, UrlTask]  # priority, arrival, task


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
        self._found: dict[int, UrlSource] = {}  # by key, for unfinished urls of a map
        self._queues: dict[tuple[str, str], list[_Entry]] = {}  # by host and group
        self._turns: HostTurns[str, str] = HostTurns()
        self._leased: dict[str, tuple[_Entry, float]] = {}  # url -> its entry, and the deadline of the lease
        self._first_deadline = inf  # or before it
        self._attempts: dict[str, int] = {}  # of unfinished urls that were started
        self._arrival = count()
        self._queued = self._done = self._dead = self._duplicates = 0

    async def open(self) -> None:
        return

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        new = 0
        for task in tasks:
            key = url_key(task.url)
            if key not in self._seen:
                self._seen.add(key)
                self._push((task.priority, next(self._arrival), task))
                new += 1
                if task.found is not None:
                    self._found[key] = task.found
            elif task.found is not None and (known := self._found.get(key)) is not None:
                self._found[key] = known.merged(task.found)
        return new

    async def set_priorities(self, priorities: Mapping[str, int]) -> None:
        self._turns.set_priorities(priorities)

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        self._expire()
        leases: list[Lease] = []
        deadline = self._clock() + self._lease_seconds
        self._turns.look(lambda host: per_host - held.get(host, 0), worst)
        while len(leases) < limit and (turn := self._turns.next()) is not None:
            host, group, _room = turn
            heap = self._queues[host, group]
            priority, arrival, task = heappop(heap)
            if not heap:
                del self._queues[host, group]
            self._turns.put(host, group, heap[0][:2] if heap else None)
            self._turns.took(host)
            self._queued -= 1
            if task.found is not None:
                task = replace(task, found=self._found.get(url_key(task.url), task.found))
            self._first_deadline = min(self._first_deadline, deadline)
            self._leased[task.url] = (priority, arrival, task), deadline
            leases.append(Lease(task, self._attempts.get(task.url, 0) + 1))
        return leases

    async def start(self, url: str) -> None:
        if url in self._leased:
            self._attempts[url] = self._attempts.get(url, 0) + 1

    def mark_survived(self, url: str) -> None:
        if url in self._leased:
            self._attempts.pop(url, None)

    async def renew(self, urls: Iterable[str]) -> None:
        deadline = self._clock() + self._lease_seconds
        self._leased |= {url: (self._leased[url][0], deadline) for url in urls if url in self._leased}

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        if self._leased.pop(url, None) is None:
            return False
        self._attempts.pop(url, None)
        if self._found:
            self._found.pop(url_key(url), None)
        is_dead = outcome is not None and outcome.is_dead
        self._dead += is_dead
        self._done += not is_dead
        self._duplicates += outcome is not None and outcome.is_duplicate
        return True

    async def release(self, url: str) -> bool:
        leased = self._leased.pop(url, None)
        if leased is not None:
            self._push(leased[0])
        return leased is not None

    async def reserve_target(self, url: str, by: str) -> bool:
        key = url_key(url)
        if key not in self._seen:
            self._seen.add(key)
            self._redirect_targets[url] = by
        return self._redirect_targets.get(url) == by

    def counts(self) -> Counts:
        return Counts(self._queued, len(self._leased), self._done, self._dead, self._duplicates)

    def queued_hosts(self) -> list[str]:
        return self._turns.hosts()

    def _expire(self) -> None:
        now = self._clock()
        if now < self._first_deadline:
            return
        for url in [url for url, (_entry, deadline) in self._leased.items() if deadline <= now]:
            entry, _deadline = self._leased.pop(url)
            if self._attempts.get(url, 0) < self._max_leases:
                self._push(entry)
            else:
                self._dead += 1
        self._first_deadline = min((deadline for _entry, deadline in self._leased.values()), default=inf)

    def _push(self, entry: _Entry) -> None:
        priority, arrival, task = entry
        heappush(self._queues.setdefault((task.host, task.group), []), entry)
        self._turns.note(task.host, task.group, (priority, arrival))
        self._queued += 1
