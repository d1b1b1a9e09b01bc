"""Tells when waiting pages go on, when a crawl ends, and how far its stopping is, by a snapshot of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scrapy.crawler import Crawler


class Phase(StrEnum):
    """Phase of a crawl. In `WORKING` pages may wait for company; in each other phase they wait no longer."""

    WORKING = "working"  # more pages are on their way
    BACKING_OUT = "backing_out"  # waiting pages hold up the downloads
    IDLE = "idle"  # nothing is on its way but what waits
    FINISHED = "finished"  # nothing is left to do, at any worker
    CLOSING = "closing"  # requests that are left will not be handed out: to wait for them would be for ever
    STOPPED = "stopped"  # there is no engine that runs


@dataclass(frozen=True, slots=True)
class EngineState:
    """A snapshot, of a crawl of several workers where `is_shared`.

    `fetching` counts requests in the downloader; `has_pending` is what the scheduler says. `under_way` counts the pages
    that are being worked on. `is_left` says whether any worker holds a url or may still get one; `is_confirmed`,
    whether that was heard since this one ran dry.
    """

    is_running: bool = True
    is_closing: bool = False
    is_full: bool = False
    fetching: int = 0
    has_pending: bool = False
    under_way: int = 0
    is_shared: bool = False
    is_left: bool = True
    is_confirmed: bool = False


def phase_of(state: EngineState, waiting: int | None = None) -> Phase:
    """Return the phase. `waiting` pages of those under way wait for just this; None: the others do not matter."""
    if not state.is_running:
        return Phase.STOPPED
    if state.is_closing:
        return Phase.CLOSING
    if state.is_shared and state.is_confirmed and not state.is_left:
        return Phase.FINISHED
    if state.is_full:
        return Phase.BACKING_OUT
    if state.fetching or state.has_pending:
        return Phase.WORKING
    if waiting is not None and state.under_way > waiting:
        return Phase.WORKING
    return Phase.IDLE


class SpiderSwitch(Protocol):
    """Tells whether a crawl's spider is closing, and closes it."""

    def is_closing(self) -> bool: ...

    def close_soon(self, reason: str) -> None:
        """Begin to close the spider with this finish reason, unless it is closing already."""


@dataclass(frozen=True)
class EngineWatch:
    """Takes snapshots of a crawler's engine. `is_shared` by several workers, the crawl ends when all are done."""

    crawler: Crawler
    switch: SpiderSwitch
    is_shared: bool = False

    def reason_to_flush(self, waiting: int | None = None) -> str | None:
        """Say why pages must wait no longer; None where they may. `waiting` as in `phase_of`."""
        phase = phase_of(self.state(), waiting)
        return None if phase is Phase.WORKING else phase.value

    def is_ending(self) -> bool:
        """Tell whether all urls that are known are on their way: no others follow but for links on their pages."""
        state = self.state()
        return state.is_running and not state.has_pending

    def state(self) -> EngineState:
        engine = self.crawler.engine
        slot = None if engine is None else engine.scraper.slot
        if engine is None or slot is None or not engine.running:
            return EngineState(is_running=False)
        if self.switch.is_closing():
            return EngineState(is_closing=True)
        scheduler = engine.scheduler
        return EngineState(
            is_full=slot.needs_backout(),
            fetching=0 if scheduler is None else len(engine.downloader.active),
            has_pending=scheduler is not None and scheduler.has_pending_requests(),
            under_way=len(slot.active) + len(slot.queue),
            is_shared=self.is_shared,
        )


def active_bytes(crawler: Crawler) -> int:
    """Return how many bytes the bodies have whose pages are not through."""
    try:
        slot = None if crawler.engine is None else crawler.engine.scraper.slot
    except RuntimeError:  # the engine is being built
        return 0
    return 0 if slot is None else slot.active_size


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
