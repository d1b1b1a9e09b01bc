"""Frontier of a crawl without a job directory: everything is in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

from llmcrawler.core.frontier.host_turns import HostTurns
from llmcrawler.core.frontier.protocol import Counts, Lease, UrlTask
from llmcrawler.core.storage import Outcome, url_key
from llmcrawler.items import UrlSource

_Entry = tuple[int, int, UrlTask]  # priority, arrival, task


class MemoryFrontier:
    """Keeps a heap of (priority, arrival) per host and group, and the keys of all urls ever seen."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._redirect_targets: dict[str, str] = {}  # url -> the url that is redirected to it
        self._found: dict[int, UrlSource] = {}  # by key, for unfinished urls of a map
        self._queues: dict[tuple[str, str], list[_Entry]] = {}  # by host and group
        self._turns: HostTurns[str, str] = HostTurns()
        self._leased: dict[str, _Entry] = {}  # by url
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
        leases: list[Lease] = []
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
            self._leased[task.url] = (priority, arrival, task)
            leases.append(Lease(task))
        return leases

    async def start(self, url: str) -> None:
        """Count nothing: with the process all of this is gone."""

    def mark_survived(self, url: str) -> None:
        """Count nothing, as `start`."""

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        if self._leased.pop(url, None) is None:
            return False
        if self._found:
            self._found.pop(url_key(url), None)
        is_dead = outcome is not None and outcome.is_dead
        self._dead += is_dead
        self._done += not is_dead
        self._duplicates += outcome is not None and outcome.is_duplicate
        return True

    async def release(self, url: str) -> bool:
        entry = self._leased.pop(url, None)
        if entry is not None:
            self._push(entry)
        return entry is not None

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

    def _push(self, entry: _Entry) -> None:
        priority, arrival, task = entry
        heappush(self._queues.setdefault((task.host, task.group), []), entry)
        self._turns.note(task.host, task.group, (priority, arrival))
        self._queued += 1
