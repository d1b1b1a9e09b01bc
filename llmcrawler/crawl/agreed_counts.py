"""Tells what the shards of a crawl have all together, though each of them is asked at another moment."""

from __future__ import annotations

import time
from collections.abc import Callable

from llmcrawler.core.frontier import Counts, sum_of_counts


class AgreedCounts:
    """Takes the counts of shards round by round; a round begins when the last one has ended.

    What goes from one shard to another between two looks may be seen in neither: a worker adds a link there, and then
    acknowledges the page here. But an addition is counted for ever, as a url that is queued, leased, done or dead:
    where two rounds have the same sums, none came between them, and the sums were true when the first of them ended.
    """

    def __init__(self, shards: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._shards = shards
        self._clock = clock
        self._round: dict[int, Counts] = {}
        self._begun = clock()
        self._last: tuple[float, Counts] | None = None  # when it began
        self._agreed: tuple[float, Counts] | None = None

    def note(self, shard: int, asked_at: float, counts: Counts) -> None:
        """Note the counts that a shard gave, which was asked for them at that moment or later."""
        if self._shards == 1:
            self._agreed = asked_at, counts
        elif asked_at >= self._begun:
            self._round[shard] = counts
            if len(self._round) == self._shards:
                self._end_round(sum_of_counts(self._round.values()))

    def hold_since(self, moment: float, counts: Counts) -> bool:
        """Return whether all shards have together had just these counts at some moment after that one."""
        return self._agreed is not None and self._agreed[0] > moment and self._agreed[1] == counts

    def _end_round(self, counts: Counts) -> None:
        if self._last is not None and self._last[1] == counts:
            self._agreed = self._last
        self._last = self._begun, counts
        self._begun, self._round = self._clock(), {}
