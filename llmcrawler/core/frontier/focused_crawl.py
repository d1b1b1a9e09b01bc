"""Decides how far a crawl with a goal may run ahead of the verdicts on its pages.

Pages are fetched faster than they are judged. Meanwhile only urls that are known to be good are fetched; where none
are, a few pages have to do until they are judged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from llmcrawler.core.frontier.link_scorer import LEVELS, LinkScorer
from llmcrawler.core.frontier.protocol import FIRST, UrlTask
from llmcrawler.core.storage import JobConnection, line_of_row
from llmcrawler.items import Page

_MAX_UNJUDGED: Final = 10
_GOOD: Final = 0.7  # urls of this value are fetched however many pages are still to be judged
_NEARLY: Final = 0.7  # while a page is on its way, urls of less than this share of its value wait for its links
_PATIENCE_SECONDS: Final = 20.0  # more than most answers take: a host in cooldown must not hold up the others


@dataclass(slots=True)
class _PageUnderWay:
    group: str
    index: float
    since: float
    is_read: bool = False
    is_judged: bool = False
    is_wanted: bool = False


class FocusedCrawl:
    """Follows every url that is leased, read, judged and ended, up to `max_records` pages of wanted types with a
    record. A page of a type that is not among `record_types` is its own record.
    """

    def __init__(
        self,
        scorer: LinkScorer,
        *,
        max_records: int | None,
        clock: Callable[[], float],
        record_types: Container[str] = (),
    ) -> None:
        self.scorer = scorer
        self.records = 0
        # Set when `reach` or the priorities may have changed; whoever waits for it clears it.
        self.news = asyncio.Event()
        self._record_types = record_types
        self._max_records = max_records
        self._clock = clock
        self._held: dict[str, _PageUnderWay] = {}

    @property
    def is_done(self) -> bool:
        return self._max_records is not None and self.records >= self._max_records

    @property
    def is_waiting(self) -> bool:
        """Tell whether a page is on its way that may change `reach`."""
        return bool(self._held)

    def note_lease(self, task: UrlTask) -> None:
        self._held[task.url] = _PageUnderWay(task.group, self.scorer.value_of(task.group), self._clock())

    def note_links(self, url: str, found: Iterable[UrlTask]) -> None:
        """Note the links that were new on the page."""
        held = self._held.get(url)
        if held is not None:
            held.is_read = True
            self.scorer.note_links(held.group, [task.group for task in found])
            self.news.set()

    def note_verdict(self, url: str, page_type: str | None) -> None:
        held = self._held.get(url)
        if held is not None and not held.is_judged:
            held.is_judged, held.is_wanted = True, page_type in self.scorer.page_types
            self.scorer.note_verdict(held.group, page_type)
            self.news.set()

    def note_end(self, url: str, page_type: str | None, *, has_record: bool) -> None:
        self.note_verdict(url, page_type)
        self._held.pop(url, None)
        self.records += has_record and page_type in self.scorer.page_types
        self.news.set()

    def end_page(self, page: Page) -> bool:
        """Count a page that is through. False: it was the last that is wanted, and nothing more is to be fetched."""
        self.note_end(page.url, page.page_type, has_record=self.is_record(page.as_line()))
        return not self.is_done

    def is_record(self, line: Mapping[str, Any]) -> bool:
        """Return whether the line of a wanted page counts as a record."""
        return line["error"] is None and (line["record"] is not None or line["page_type"] not in self._record_types)

    def note_return(self, url: str) -> None:
        """Forget a url that was not fetched after all."""
        self._held.pop(url, None)

    def reach(self) -> int | None:
        """Return the worst priority that may be leased now; None: any."""
        expected = sum(page.is_wanted if page.is_judged else page.index >= _GOOD for page in self._held.values())
        if self._max_records is not None and self.records + expected >= self._max_records:
            return FIRST
        least = self._clock() - _PATIENCE_SECONDS
        young = [held for held in self._held.values() if held.since > least]
        floor = max((_NEARLY * held.index for held in young if not held.is_read), default=0.0)
        if sum(not held.is_judged for held in young) >= _MAX_UNJUDGED:
            floor = max(floor, _GOOD)
        return None if floor <= 0 else round((1 - floor) * LEVELS)


_FETCHED = 'u."group" != 0 AND p.seq IS NOT NULL'


def restore_link_scorer(connection: JobConnection, focused_crawl: FocusedCrawl) -> None:
    """Train the link scorer on the pages of earlier runs, and count their records, without pages that run again."""
    scorer = focused_crawl.scorer
    for (name,) in connection.execute("SELECT name FROM groups ORDER BY id"):
        scorer.restore(name)
    verdicts = connection.execute(
        "SELECT g.name, p.page_type FROM pages p JOIN urls u ON u.id = p.url"  # noqa: S608 - a constant is put in
        f' JOIN groups g ON g.id = u."group" WHERE {_FETCHED} ORDER BY p.seq'
    )
    for group, page_type in verdicts:
        scorer.note_verdict(group, page_type)
    # The new links of each page that was read. A redirect's target has no entry of its own, so its links are left out.
    links = connection.execute(
        "SELECT p.seq, g.name, h.name FROM pages p JOIN urls u ON u.id = p.url"  # noqa: S608 - a constant is put in
        ' JOIN groups g ON g.id = u."group" LEFT JOIN referers r ON r.url = u.url'
        ' LEFT JOIN urls c ON c.referer = r.id LEFT JOIN groups h ON h.id = c."group"'
        f" WHERE {_FETCHED} AND p.error_stage IS NULL ORDER BY p.seq"
    )
    for (_seq, group), rows in groupby(links, lambda row: row[:2]):
        scorer.note_links(group, [child for _seq, _group, child in rows if child is not None])
    lines = connection.execute(
        "SELECT url, line, crc FROM pages WHERE seq IS NOT NULL AND line IS NOT NULL"
        " AND page_type IN (SELECT value FROM json_each(?))",
        (json.dumps(sorted(scorer.page_types)),),
    )
    focused_crawl.records = sum(focused_crawl.is_record(line_of_row(connection, *row)) for row in lines)
