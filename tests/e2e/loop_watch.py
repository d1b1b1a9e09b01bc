"""An extension that says which code held the event loop of a crawl for longer than LOOP_WATCH_MS.

A turn is one callback of the loop: a step of a task, a timer, a socket that became ready. Its wall time counts a
blocking look-up of a name too, and on a busy machine what other processes took: its CPU time, told beside it, does not.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections import Counter
from time import monotonic, sleep, thread_time
from types import FrameType
from typing import Final, Self

from scrapy import signals
from scrapy.crawler import Crawler

from llmcrawler.settings import EXTENSIONS

LOOP_WATCH: Final = {  # settings
    "EXTENSIONS": json.dumps({**EXTENSIONS, "tests.e2e.loop_watch.LoopWatch": 620}),
    "ASYNCIO_EVENT_LOOP": "asyncio.SelectorEventLoop",  # its turns are Python's; those of uvloop cannot be seen
}

logger = logging.getLogger(__name__)


class LoopWatch:
    """Watches from when the spider is opened, so that imports before do not count."""

    def __init__(self, crawler: Crawler, limit_seconds: float) -> None:
        assert crawler.stats is not None
        self._stats = crawler.stats
        self._limit_seconds = limit_seconds
        self._thread_id = 0
        self._began = 0.0  # of the turn that runs; 0: none does
        self._seen: tuple[float, Counter[str]] = (0.0, Counter())  # places in the turn that began then
        self._greatest: dict[str, float] = {}  # hold of each place, seconds
        crawler.signals.connect(self.spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawler.settings.getfloat("LOOP_WATCH_MS", 50) / 1000)

    def spider_opened(self) -> None:
        self._stats.set_value("llmcrawler/loop/holds", 0)
        self._thread_id = threading.get_ident()
        run = asyncio.Handle._run

        def run_and_measure(handle: asyncio.Handle) -> None:
            if threading.get_ident() != self._thread_id:
                run(handle)
                return
            cpu = thread_time()
            began = self._began = monotonic()
            run(handle)
            self._began = 0.0
            self._note(handle, began, monotonic() - began, thread_time() - cpu)

        asyncio.Handle._run = run_and_measure  # type: ignore[assignment, method-assign] # the process ends with the crawl
        threading.Thread(target=self._watch, daemon=True).start()

    def _note(self, handle: asyncio.Handle, began: float, wall: float, cpu: float) -> None:
        self._stats.max_value("llmcrawler/loop/max_hold_seconds", round(wall, 4))
        self._stats.max_value("llmcrawler/loop/max_hold_cpu_seconds", round(cpu, 4))
        if wall > self._limit_seconds:
            self._stats.inc_value("llmcrawler/loop/holds")
            turn, places = self._seen
            place = places.most_common(1)[0][0] if turn == began else repr(handle).replace(" ", "")
            if wall > 2 * self._greatest.get(place, 0.0):  # so a place has a dozen lines in a crawl at most
                self._greatest[place] = wall
                logger.warning("%s held the event loop for %.0f ms (CPU %.0f)", place, wall * 1000, cpu * 1000)

    def _watch(self) -> None:
        """Look at the loop's stack while a turn lasts. During a call that keeps Python's lock this thread waits for the
        lock, and gets it first: the stack is then the one of that call.
        """
        while True:
            sleep(self._limit_seconds / 4)
            began, frame = self._began, sys._current_frames().get(self._thread_id)
            if not began or monotonic() - began < self._limit_seconds / 2 or frame is None or self._began != began:
                continue
            if self._seen[0] != began:
                self._seen = (began, Counter())
            self._seen[1][_place_of(frame)] += 1


def _place_of(frame: FrameType) -> str:
    """The innermost function of this project, and the innermost of all."""
    innermost, one = _name_of(frame), frame
    while one.f_back is not None:
        if one.f_globals.get("__name__", "").partition(".")[0] == "llmcrawler":
            own = _name_of(one)
            return own if own == innermost else f"{own} in {innermost}"
        one = one.f_back
    return innermost


def _name_of(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"
