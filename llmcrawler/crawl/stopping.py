"""Holds how far the stopping of a crawl is, for the parts that must not go on as long as they would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class CrawlStop:
    """State of the stopping. `has_begun`: nothing new is asked of a site or a model. `is_over`: what was under way then
    has had its time. `goes_on_later`: pages that are cut off stay in the queue, for the next run or for other workers;
    otherwise they get their lines with what is known.
    """

    goes_on_later: bool = False
    has_begun: bool = False
    is_over: bool = False
    _timeouts: set[asyncio.Timeout] = field(default_factory=set)

    @contextmanager
    def cuts_off(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Let this timeout, which has been entered, expire when the time is over."""
        self._timeouts.add(timeout)
        if self.is_over:
            self._expire(timeout)
        try:
            yield
        finally:
            self._timeouts.discard(timeout)

    def end(self) -> None:
        """Cut off what is still under way."""
        self.has_begun = self.is_over = True
        for timeout in self._timeouts:
            self._expire(timeout)

    @staticmethod
    def _expire(timeout: asyncio.Timeout) -> None:
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())
