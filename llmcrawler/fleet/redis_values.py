"""What the frontier in Redis sends there, and what it remembers of that: tasks, ended leases, additions."""

from __future__ import annotations

import json
import time
import zlib
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.storage import Outcome
from llmcrawler.items import UrlSource

_SCHEMES = ("https", "http")
_DEFAULTS: tuple[Any, ...] = ("", 0, None, None, None)


def pack(task: UrlTask) -> str:
    """Return a task as JSON, without host, group and priority, which its queue has. New fields go to the end."""
    found = None if task.found is None else [task.found.source, task.found.lastmod, task.found.title]
    fields = [_short(task.url, task.host), task.depth, _short(task.referer, task.host), task.payload, found]
    while fields[-1] in (None, 0):
        fields.pop()
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def unpack(text: str, host: str, group: str, priority: int) -> UrlTask:
    given: list[Any] = json.loads(text)
    url, depth, referer, payload, found = [*given, *_DEFAULTS[len(given) :]]
    return UrlTask(
        _long(url, host),
        host,
        depth,
        None if referer is None else _long(referer, host),
        priority,
        group,
        payload,
        None if found is None else UrlSource(*found),
    )


def _short(url: str | None, host: str) -> str | None:
    """Cut off the host: most urls of a queue are on it."""
    for scheme in _SCHEMES:
        start = f"{scheme}://{host}/"
        if url is not None and url.startswith(start):
            return f"{scheme[4:]}/{url[len(start) :]}"
    return url


def _long(url: str, host: str) -> str:
    if url.startswith("s/"):
        return f"https://{host}{url[1:]}"
    return f"http://{host}{url}" if url.startswith("/") else url


@dataclass(frozen=True, slots=True)
class EndedLease:
    """A lease that waits to be acknowledged. `lease` is its name in Redis; `losses` are those of its worker when it
    ended.
    """

    lease: str
    url: str
    outcome: Outcome | None
    losses: int
    was_held: Future[bool]

    def parts(self, *, with_line: bool) -> tuple[str | int | bytes, ...]:
        """Return what the script that acknowledges it wants to know (fleet/redis_scripts.py)."""
        outcome = self.outcome
        line = None if outcome is None else outcome.line
        error = (line or {}).get("error")
        return (
            self.lease,
            0 if outcome is None else 1 if outcome.is_dead else 2 * outcome.is_duplicate,
            f"{error['stage']}/{error.get('kind', '')}" if error else "",
            zlib.compress(json.dumps(line).encode(), 1) if with_line and line is not None else "",
            self.url,
        )


_KEPT_SECONDS: Final = 60.0  # replicas are behind by less than one
_MAX_PARTS: Final = 100_000  # five of a url: some 6 MB

Parts = Sequence[str | int]


class RecentAdditions:
    """Remembers the latest additions of this worker, to repeat those that a failover has lost.

    Numbers additions. Redis keeps the `number` of the last one beside it, so that both are lost together."""

    def __init__(self) -> None:
        self.number = 0
        self._added: deque[tuple[int, float, Parts]] = deque()  # number, moment, parts
        self._part_count = 0

    def note(self, parts: Parts) -> None:
        """Note what Redis has confirmed."""
        self.number += 1
        self._added.append((self.number, time.monotonic(), parts))
        self._part_count += len(parts)
        while self._part_count > _MAX_PARTS or self._added[0][1] < time.monotonic() - _KEPT_SECONDS:
            self._part_count -= len(self._added.popleft()[2])

    def since(self, number: int) -> list[Parts]:
        """Return the additions after that number, as far as they are kept."""
        return [parts for added, _at, parts in self._added if added > number]
