"""What every frontier backend does, and the values that go in and come out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Protocol, Self

from llmcrawler.items import Found, Line, Page, Url
from llmcrawler.storage import Outcome

FIRST: Final = -1  # a group with this rank, and urls with it in any group, go out before all others


@dataclass(frozen=True, slots=True)
class UrlTask:
    """A url to fetch. `url` is normalised: it is the identity. Within its `group` a lower `rank` goes out earlier.

    `payload` is what else makes up the request (urls/tasks.py); most have none. One url may be asked for with several:
    those have a fragment that stands for the payload. `address` is the url without it. `found`: of a map.
    """

    url: str
    host: str
    depth: int = 0
    referer: str | None = None
    rank: int = 0
    group: str = ""
    payload: str | None = None
    found: Found | None = None

    @classmethod
    def with_payload(cls, address: str, host: str, payload: str) -> Self:
        digest = blake2b(payload.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return cls(f"{address}#{digest}", host, payload=payload)

    @property
    def address(self) -> str:
        return self.url if self.payload is None else self.url.partition("#")[0]

    def details(self) -> dict[str, Any]:
        return {} if self.payload is None else json.loads(self.payload)

    def line(self) -> Line:
        """Before anything is known of it."""
        return self.page() if self.found is None else self.url_line()

    def url_line(self) -> Url:
        line = Url(self.url, depth=self.depth, referer=self.referer)
        if self.found is not None:
            line.source, line.lastmod, line.title = self.found.source, self.found.lastmod, self.found.title
        return line

    def page(self) -> Page:
        page = Page(self.address, depth=self.depth, referer=self.referer)
        if self.payload is not None:
            details = self.details()
            page.id, page.key, page.meta = self.url, details.get("key"), details.get("meta")
        return page


@dataclass(frozen=True, slots=True)
class Lease:
    """A url that was handed out and must come back: acknowledged or released. `attempts` counts this one;
    `is_stored`: what the server sends for it is in the ledger; `is_known`: at least what it sent the last time is.
    """

    task: UrlTask
    attempts: int = 1
    is_stored: bool = False
    is_known: bool = False

    @property
    def url(self) -> str:
        return self.task.url


@dataclass(frozen=True, slots=True)
class Counts:
    queued: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0


class Frontier(Protocol):
    """A queue of urls, each known once for the whole crawl.

    A lease that is neither acknowledged nor renewed for `lease_seconds` goes back to the queue: its holder is gone. A
    url whose holders were lost `max_leases` times after they had started on it becomes a dead letter.
    The methods are coroutines because a backend may keep its urls on disk or on another machine.
    """

    async def open(self) -> None:
        """Before anything else. A backend that outlives the process goes on where it was."""

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        """Queue the urls that were never seen. Returns how many were new. Of one that waits, what `found` says of it is
        merged, but in Redis: a map is made by one worker.
        """
        ...

    async def prefer(self, ranks: Mapping[str, int]) -> None:
        """These groups have these ranks from now on, for the urls that are queued and those to come. A group that was
        never named has the rank 0, like the group "".
        """

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        """Hand out up to `limit` urls, so that no host gets more than `per_host` with those `held`: by the ranks of
        their groups, none with a higher one than `worst`, then by their own ranks, then as they came.
        """
        ...

    async def start(self, url: str) -> None:
        """What may take the process down begins now for a leased url: that counts, until `survive` is called."""

    def survive(self, url: str) -> None:
        """It did not. Nobody waits for this to be noted."""

    async def renew(self, urls: Iterable[str]) -> None:
        """These leases are still held."""

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        """The url is finished, or dead; a backend with a ledger writes the outcome in the same transaction. False when
        it was not leased.
        """
        ...

    async def release(self, url: str) -> bool:
        """Back to the queue, at its old rank. False when it was not leased."""
        ...

    async def claim(self, url: str, by: str) -> bool:
        """Mark a url as seen without queueing it: `by` is redirected to it. False when it has a line of its own, or is
        another one's target.
        """
        ...

    def counts(self) -> Counts: ...
