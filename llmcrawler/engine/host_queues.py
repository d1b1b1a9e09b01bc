"""Queues of several hosts that take turns."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class HostQueues(Generic[T]):
    """Queues, first in and first out for each host; iterates over hosts with entries, the next one first."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[T]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def put(self, host: str, entry: T) -> None:
        self._queues.setdefault(host, deque()).append(entry)
        self._count += 1

    def take(self, may_have: Callable[[str], bool]) -> T | None:
        """Return the next entry of the first host that may have one; the host goes to the end of the turns."""
        for host, queue in self._queues.items():
            if may_have(host):
                del self._queues[host]
                self._count -= 1
                entry = queue.popleft()
                if queue:
                    self._queues[host] = queue
                return entry
        return None

    def counts(self) -> Counter[str]:
        """Return the number of entries of each host."""
        return Counter({host: len(queue) for host, queue in self._queues.items()})

    def drain(self) -> list[T]:
        """Return all entries and keep none."""
        entries = [entry for queue in self._queues.values() for entry in queue]
        self._queues.clear()
        self._count = 0
        return entries
