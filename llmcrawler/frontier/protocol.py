"""What every frontier backend does, and the values that go in and come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UrlTask:
    """A url to fetch. `url` is normalised: it is the identity. A lower `rank` goes out earlier."""

    url: str
    host: str
    depth: int = 0
    referer: str | None = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """A url that was handed out and must come back: acknowledged, released or dead."""

    task: UrlTask
    attempts: int = 1

    @property
    def url(self) -> str:
        return self.task.url


@dataclass(frozen=True, slots=True)
class Counts:
    queued: int = 0
    leased: int = 0
    done: int = 0


class Frontier(Protocol):
    """A queue of urls, each known once for the whole crawl.

    The methods are coroutines because a backend may keep its urls on disk or on another machine.
    """

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        """Queue the urls that were never seen. Returns how many were new."""
        ...

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int) -> list[Lease]:
        """Hand out up to `limit` urls, best rank first, so that no host gets more than `per_host` with those `held`."""
        ...

    async def ack(self, url: str) -> bool:
        """The url is finished. False when it was not leased."""
        ...

    async def release(self, url: str) -> bool:
        """Back to the queue, at its old rank. False when it was not leased."""
        ...

    async def claim(self, url: str) -> bool:
        """Mark a url as seen without queueing it (a redirect's target). False when it was seen before."""
        ...

    def counts(self) -> Counts: ...
