"""The progress of a long download, as lines of the log: it goes on beside the crawl, which has the display."""

from __future__ import annotations

import logging
from threading import Lock

logger = logging.getLogger(__name__)

_BAR_CHARS = 20


class FetchProgress:
    """Called with (bytes done, bytes total) from any thread; says so at every twentieth of the way."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._told = -1
        self._lock = Lock()

    def __call__(self, bytes_done: int, bytes_total: int) -> None:
        step = _BAR_CHARS * bytes_done // max(1, bytes_total)
        with self._lock:
            if step <= self._told:
                return
            self._told = step
        bar = ("#" * step).ljust(_BAR_CHARS, ".")
        logger.info(
            "Fetching %s [%s] %d%% of %.2f GB",
            self._what,
            bar,
            100 * bytes_done // max(1, bytes_total),
            bytes_total / 1e9,
        )
