"""Queues in which requests and leases wait: by host, whose turns come in order, and for a time."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import CallLaterResult, call_later

from llmcrawler.crawl.compat import wake_engine
from llmcrawler.engine.request_context import context_of, update_context

T = TypeVar("T")


class HostQueues(Generic[T]):
    """Queues, first in and first out for each host; iterates over hosts with entries. A host that has
    no room is looked at again when somebody says so, and not each time: there may be thousands.
    """

    def __init__(self) -> None:
        self.ready = 0  # entries of hosts that are not known to have no room
        self._queues: dict[str, deque[T]] = {}
        self._turns: OrderedDict[str, None] = OrderedDict()  # hosts of those entries, the next one first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def put(self, host: str, entry: T) -> None:
        queue = self._queues.get(host)
        if queue is None:
            queue = self._queues[host] = deque()
            self._turns[host] = None
        queue.append(entry)
        self._count += 1
        self.ready += host in self._turns

    def take(self, may_have: Callable[[str], bool]) -> T | None:
        """Return the next entry of the first host that may have one; the host goes to the end of the turns."""
        while self._turns:
            host, _ = self._turns.popitem(last=False)
            queue = self._queues[host]
            if not may_have(host):
                self.ready -= len(queue)
                continue
            entry = queue.popleft()
            self._count -= 1
            self.ready -= 1
            if queue:
                self._turns[host] = None
            else:
                del self._queues[host]
            return entry
        return None

    def look_again(self, host: str, may_have: Callable[[str], bool]) -> bool:
        """Let a host that had no room take turns again if it has room now. Return whether it does from now on."""
        queue = self._queues.get(host)
        if queue is None or host in self._turns or not may_have(host):
            return False
        self._turns[host] = None
        self.ready += len(queue)
        return True

    def count(self, host: str) -> int:
        queue = self._queues.get(host)
        return 0 if queue is None else len(queue)

    def drain(self, of: Callable[[str], bool] = lambda _host: True) -> list[T]:
        entries: list[T] = []
        for host in [one for one in self._queues if of(one)]:
            queue = self._queues.pop(host)
            entries += queue
            self._count -= len(queue)
            if host in self._turns:
                del self._turns[host]
                self.ready -= len(queue)
        return entries


class DelayedRequests:
    """Gives requests to `come_back` after the seconds that their contexts ask for, and lets the engine ask then."""

    def __init__(self, crawler: Crawler, come_back: Callable[[Request], object]) -> None:
        self._crawler = crawler
        self._come_back = come_back
        self._held: dict[Request, CallLaterResult] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, request: Request) -> bool:
        """Hold a request back if its context asks for that; return whether it does."""
        wait_seconds = context_of(request).wait_seconds
        if not wait_seconds:
            return False
        update_context(request, wait_seconds=0.0)
        self._held[request] = call_later(wait_seconds, self._let_go, request)
        return True

    def drain(self, of: Callable[[Request], bool] = lambda _request: True) -> list[Request]:
        requests = [request for request in self._held if of(request)]
        for request in requests:
            self._held.pop(request).cancel()
        return requests

    def _let_go(self, request: Request) -> None:
        del self._held[request]
        self._come_back(request)
        wake_engine(self._crawler)
