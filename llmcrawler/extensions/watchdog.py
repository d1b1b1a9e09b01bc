"""Logs which code held the event loop for longer than LOOP_WATCHDOG_MS, while the rest of the crawl stood still."""

from __future__ import annotations

import asyncio
import logging
from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from llmcrawler.crawl.monitoring import hold_limit_seconds
from llmcrawler.engine.loop_watchdog import LoopHold, LoopWatchdog, StackSample
from llmcrawler.extensions.connecting import connect_handlers

logger = logging.getLogger(__name__)

_PREFIX = "llmcrawler/loop"
_MAX_PLACES = 100  # that have stats and log lines of their own


class WatchdogExtension:
    """Watches from when the spider is opened, so that imports before do not count."""

    def __init__(self, crawler: Crawler, limit_seconds: float) -> None:
        assert crawler.stats is not None
        self._stats = crawler.stats
        self._watchdog = LoopWatchdog(limit_seconds, "llmcrawler", self._held, _log_hang)
        self._greatest: dict[str, float] = {}  # hold of each place

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        limit_seconds = hold_limit_seconds(crawler.settings)
        if not limit_seconds:
            raise NotConfigured
        extension = cls(crawler, limit_seconds)
        connect_handlers(crawler, extension, "spider_opened", "spider_closed", "engine_stopped")
        return extension

    def spider_opened(self) -> None:
        self._stats.set_value(f"{_PREFIX}/holds", 0)
        self._watchdog.install(asyncio.get_running_loop())

    def spider_closed(self) -> None:
        """Write the stats. The feeds are still to be written; a hold in them has its log line."""
        self._stats.set_value(f"{_PREFIX}/turns", self._watchdog.turns)
        self._stats.set_value(f"{_PREFIX}/max_hold_seconds", round(self._watchdog.max_seconds, 4))
        self._stats.set_value(f"{_PREFIX}/max_hold_cpu_seconds", round(self._watchdog.max_cpu_seconds, 4))
        self._stats.set_value(f"{_PREFIX}/p99_hold_ms", self._watchdog.share_within(0.99))
        for bound, count in sorted(self._watchdog.durations.items()):
            self._stats.set_value(f"{_PREFIX}/turns_from_ms/{bound}", count)

    def engine_stopped(self) -> None:
        self._watchdog.remove()

    def _held(self, hold: LoopHold) -> None:
        self._stats.inc_value(f"{_PREFIX}/holds")
        self._stats.max_value(f"{_PREFIX}/max_hold_seconds", round(hold.seconds, 4))
        place = hold.seen.place
        greatest = self._greatest.get(place)
        if greatest is None and len(self._greatest) >= _MAX_PLACES:
            return
        self._stats.inc_value(f"{_PREFIX}/holds/{place}")
        self._stats.max_value(f"{_PREFIX}/max_hold_seconds/{place}", round(hold.seconds, 4))
        if greatest is None or hold.seconds > 2 * greatest:  # so a place has a dozen lines in a crawl at most
            self._greatest[place] = hold.seconds
            logger.warning(
                "%(place)s held the event loop for %(milliseconds).0f ms (CPU %(cpu).0f, wall %(wall).0f%(beside)s): "
                "%(url)s",
                {
                    "milliseconds": hold.seconds * 1000,
                    "cpu": hold.cpu_seconds * 1000,
                    "wall": hold.wall_seconds * 1000,
                    **_words_of(hold.seen, was_kept=hold.cpu_seconds < hold.seconds / 2),
                },
            )


def _log_hang(seconds: float, seen: StackSample) -> None:
    """Log a hold before it ends, as it may never end."""
    text = "%(place)s has held the event loop for %(seconds).0f s so far%(beside)s: %(url)s"
    logger.warning(text, {"seconds": seconds, **_words_of(seen, was_kept=True)})


def _words_of(seen: StackSample, *, was_kept: bool) -> dict[str, str]:
    """Return the values of a log line. `was_kept`: the turn did not have the processor itself most of the time."""
    beside = f", beside {seen.beside} in another thread" if was_kept and seen.beside else ""
    return {"place": seen.place, "url": seen.url or "-", "beside": beside}
