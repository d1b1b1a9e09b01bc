"""Logs which sites a worker takes, takes over and gives up, a few lines a minute however many they are."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

logger = logging.getLogger(__name__)

_SECONDS: Final = 10.0  # between two times that something is written
_NAMES: Final = 5  # of sites in a line


class OwnershipLog:
    """Gathers what becomes of sites until `write` is called and some seconds have passed since it wrote last.

    `counts` has how many sites were `taken`, how many of them were `taken_over` from another worker, and how many were
    `given_up`.
    """

    def __init__(self, worker: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter()
        self._worker = worker
        self._clock = clock
        self._written: float | None = None
        self._taken: list[str] = []
        self._taken_over: list[str] = []
        self._given_up: list[str] = []

    def note_taken(self, site: str, before: str, *, is_known: bool) -> None:
        """Note a site that is this worker's from now on; `before` names its last owner ("": none)."""
        self.counts["taken"] += 1
        if before in ("", self._worker):
            self._taken.append(site)
            return
        self.counts["taken_over"] += 1
        self._taken_over.append(f"{site} from {before}{' with what was learned of it' if is_known else ''}")

    def note_given_up(self, site: str) -> None:
        self.counts["given_up"] += 1
        self._given_up.append(site)

    def write(self, *, at_end: bool = False) -> None:
        """Log what was gathered; `at_end` whenever that was done last."""
        now = self._clock()
        if not at_end and self._written is not None and now < self._written + _SECONDS:
            return
        if self._taken:
            logger.info("This worker took %s", _listed(self._taken))
        if self._taken_over:
            logger.info("This worker took over %s", _listed(self._taken_over))
        if self._given_up:
            logger.info("This worker gave up %s: another one has less to do", _listed(self._given_up))
        if self._taken or self._taken_over or self._given_up:
            self._written = now
        self._taken, self._taken_over, self._given_up = [], [], []


def _listed(names: Sequence[str]) -> str:
    others = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {others:,} more" if others > 0 else "")
