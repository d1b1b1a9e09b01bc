"""How far a crawl with a goal runs ahead of what it knows.

Pages are fetched faster than they are judged. What is fetched meanwhile had better be what is known to be good; where
nothing is, a few pages have to do until they are judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from llmcrawler.frontier.goal import LEVELS, Goal
from llmcrawler.frontier.protocol import FIRST, UrlTask

_MAX_UNJUDGED: Final = 10
_GOOD: Final = 0.7  # the index of what is fetched however many pages are still to be judged
_NEARLY: Final = 0.7  # while a page is on its way, what is less than this good beside it waits for its links
_PATIENCE_SECONDS: Final = 20.0  # longer than most pages and answers take: a host that rests must not hold the others


@dataclass(slots=True)
class _Held:
    group: str
    index: float
    since: float
    is_read: bool = False
    is_judged: bool = False
    is_wanted: bool = False


class Pursuit:
    """Told of every url that is leased, read, judged and ended. `max_records`: when so many pages of wanted types had
    their record, the crawl is at its end.
    """

    def __init__(self, goal: Goal, *, max_records: int | None, clock: Callable[[], float]) -> None:
        self.goal = goal
        self.records = 0
        self.news = asyncio.Event()  # set when `reach` or the ranks may have changed; whoever waits for it clears it
        self._max_records = max_records
        self._clock = clock
        self._held: dict[str, _Held] = {}

    @property
    def is_done(self) -> bool:
        return self._max_records is not None and self.records >= self._max_records

    @property
    def is_waiting(self) -> bool:
        """Whether a page is on its way that may change what `reach` says."""
        return bool(self._held)

    def note_lease(self, task: UrlTask) -> None:
        self._held[task.url] = _Held(task.group, self.goal.index_of(task.group), self._clock())

    def note_links(self, url: str, found: Iterable[UrlTask]) -> None:
        """The links that were new on the page."""
        held = self._held.get(url)
        if held is not None:
            held.is_read = True
            self.goal.note_links(held.group, [task.group for task in found])
            self.news.set()

    def note_verdict(self, url: str, page_type: str | None) -> None:
        held = self._held.get(url)
        if held is not None and not held.is_judged:
            held.is_judged, held.is_wanted = True, page_type in self.goal.page_types
            self.goal.note_verdict(held.group, page_type)
            self.news.set()

    def note_end(self, url: str, page_type: str | None, *, has_record: bool) -> None:
        self.note_verdict(url, page_type)
        self._held.pop(url, None)
        self.records += has_record and page_type in self.goal.page_types
        self.news.set()

    def note_return(self, url: str) -> None:
        """It was not fetched after all."""
        self._held.pop(url, None)

    def reach(self) -> int | None:
        """The worst rank that may be leased now; None: whatever there is."""
        if self._max_records is not None and self.records + self._expected() >= self._max_records:
            return FIRST
        least = self._clock() - _PATIENCE_SECONDS
        young = [held for held in self._held.values() if held.since > least]
        floor = max((_NEARLY * held.index for held in young if not held.is_read), default=0.0)
        if sum(not held.is_judged for held in young) >= _MAX_UNJUDGED:
            floor = max(floor, _GOOD)
        return None if floor <= 0 else round((1 - floor) * LEVELS)

    def _expected(self) -> int:
        """How many of the pages on their way will count, as far as one can tell."""
        return sum(held.is_wanted if held.is_judged else held.index >= _GOOD for held in self._held.values())
