"""The protocol of frontier backends, and the values that go in and come out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Protocol, Self

from llmcrawler.core.storage import Outcome
from llmcrawler.items import FeedItem, Page, Url, UrlSource

FIRST: Final = -1  # groups of this priority, and urls of it in any group, go out before all others


@dataclass(frozen=True, slots=True)
class UrlTask:
    """A url to fetch. `url` is normalised and identifies the task. Within its `group` lower priorities go out first.

    `payload` is the rest of the request as JSON (crawl/task_lists.py); most tasks have none. One url may be asked for
    with several payloads: then `url` ends in a fragment that stands for the payload, and `address` is the url without
    it. `found` tells where a map has found the url.
    """

    url: str
    host: str
    depth: int = 0
    referer: str | None = None
    priority: int = 0
    group: str = ""
    payload: str | None = None
    found: UrlSource | None = None

    @classmethod
    def with_payload(cls, address: str, host: str, payload: str) -> Self:
        digest = blake2b(payload.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return cls(f"{address}#{digest}", host, payload=payload)

    @classmethod
    def of_fault(cls, given: str, fault: str, key: str | None = None) -> Self:
        """Make the task of an entry of a list that cannot be fetched; it gets its line like all others."""
        named = {} if key is None else {"key": key}
        return cls.with_payload("invalid:", "invalid", json.dumps({"given": given, "fault": fault, **named}))

    @property
    def fault(self) -> str:
        """The reason, in words, why the task cannot be fetched."""
        return "" if self.payload is None or self.host != "invalid" else str(self.details().get("fault", ""))

    @property
    def address(self) -> str:
        return self.url if self.payload is None else self.url.partition("#")[0]

    def details(self) -> dict[str, Any]:
        return {} if self.payload is None else json.loads(self.payload)

    def line(self) -> FeedItem:
        """Return the feed item of the task, before anything is known of it."""
        return self.page() if self.found is None else self.url_line()

    def url_line(self) -> Url:
        line = Url(self.details().get("given", self.url), depth=self.depth, referer=self.referer)
        line.id = self.url
        if self.found is not None:
            line.source, line.lastmod, line.title = self.found.source, self.found.lastmod, self.found.title
        return line

    def page(self) -> Page:
        page = Page(self.address, depth=self.depth, referer=self.referer)
        if self.payload is not None:
            details = self.details()
            page.id, page.key, page.meta = self.url, details.get("key"), details.get("meta")
            page.url = details.get("given", page.url)
        return page


@dataclass(frozen=True, slots=True)
class Lease:
    """A url that was handed out and must be acknowledged or released. `attempts` counts this one. `is_stored`: the
    response is in the ledger; `is_known`: at least the response or the line of an earlier run is. `is_lost`: it took
    its holders down too often, and is not to be fetched again.
    """

    task: UrlTask
    attempts: int = 1
    is_stored: bool = False
    is_known: bool = False
    is_lost: bool = False

    @property
    def url(self) -> str:
        return self.task.url


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of urls by their states; `duplicates` are those of `done` that repeat another page."""

    queued: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    duplicates: int = 0


class Frontier(Protocol):
    """A queue of urls, each known once for the whole crawl.

    A lease whose holder is gone goes back to the queue. A url whose holders were lost `max_leases` times after they had
    started on it becomes a dead letter.
    The methods are coroutines because a backend may keep its urls on disk or on another machine.
    """

    async def open(self) -> None:
        """Prepare the backend, before anything else. One that outlives the process goes on where it was."""

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        """Queue the urls that were never seen, and return how many were new. For one that waits, `found` is merged with
        that of the new task; not in Redis, as a map is made by one worker.
        """
        ...

    async def set_priorities(self, priorities: Mapping[str, int]) -> None:
        """Set the priorities of groups, for queued urls and those to come. Other groups have the priority 0."""

    async def lease(self, limit: int, held: Mapping[str, int], per_host: int, worst: int | None = None) -> list[Lease]:
        """Hand out up to `limit` urls, so that no host gets more than `per_host` with those `held` (urls by host).

        They go by the priorities of their groups, none with a higher number than `worst`, then by their own, then in
        the order in which they came.
        """
        ...

    async def start(self, url: str) -> None:
        """Count an attempt at a leased url, as what comes now may take the process down. `mark_survived` undoes it."""

    def mark_survived(self, url: str) -> None:
        """Mark a leased url as survived: it did not take the process down. Returns before this is written."""

    async def ack(self, url: str, outcome: Outcome | None = None) -> bool:
        """Finish a url and write its outcome, in one transaction where there is a ledger. False: it was not leased."""
        ...

    async def release(self, url: str) -> bool:
        """Put a url back into the queue, at its old place. Returns False when it was not leased."""
        ...

    async def reserve_target(self, url: str, by: str) -> bool:
        """Mark a redirect's target as seen, without queueing it. Returns False when it has a line of its own, or is the
        target of another url than `by`.
        """
        ...

    def counts(self) -> Counts: ...
