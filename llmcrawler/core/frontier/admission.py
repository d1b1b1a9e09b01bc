"""Decides which of a page's links get a place in the frontier, and with what priority.

This runs for every link of every page, so known strings are sorted out before anything is built of them.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from llmcrawler.core.frontier.list_patterns import ListPatterns
from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.urls import (
    AddressGuard,
    Listed,
    Scope,
    TrapGuard,
    UrlRefusal,
    UrlRefusalKind,
    coarse_pattern,
    dedup_key,
    normalise,
    normalise_with_route,
    origin_of,
)
from llmcrawler.items import UrlSource


class RecentStrings:
    """Holds at least the last `most` strings, at most twice as many, as hashes: 70 bytes each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent, self._before = set[int](), set[int]()

    def __contains__(self, text: str) -> bool:
        key = hash(text)
        return key in self._recent or key in self._before

    def add(self, text: str) -> None:
        if len(self._recent) >= self._most:
            self._before, self._recent = self._recent, set()
        self._recent.add(hash(text))


_MAX_RECENT_LINKS = 100_000
_MAX_PATTERNS = 50_000
GroupOf = Callable[[str, str], str]
# A shorter way to the same url may be found later, or one that is not from outside.
_MAY_CHANGE = frozenset({UrlRefusalKind.TOO_DEEP, UrlRefusalKind.PRIVATE_HOST})


class Admission:
    """Normalises and filters links, and gives them priorities. `refused` counts the others by reason.

    The n-th url of a pattern gets the priority bit_length(n - 1): 0, 1, 2, 2, 3, 3, 3, 3, ... A new pattern's first url
    comes before the hundredth of a known one. `list_patterns` groups urls where a crawl has no goal.
    """

    def __init__(self, scope: Scope, traps: TrapGuard, addresses: AddressGuard | None = None) -> None:
        self.scope = scope
        self.refused: Counter[str] = Counter()
        self.files: Counter[str] = Counter()  # links to files that hold no page, by their ending
        self.list_patterns = ListPatterns()
        self._traps = traps
        self._addresses = addresses if addresses is not None and addresses.admits_any else None
        self._pattern_counts: dict[str, int] = {}
        self._recent = RecentStrings(_MAX_RECENT_LINKS)

    def admit(
        self, links: Iterable[str], depth: int, referer: str | None, group_of: GroupOf | None = None
    ) -> list[UrlTask]:
        """Return the links worth fetching, in document order, but for strings that were met lately."""
        tasks = []
        home = "" if referer is None else f"{origin_of(referer)}/"
        for link in links:
            if link in self._recent:
                continue
            url = normalise_with_route(link)
            if url is None:
                self._recent.add(link)
                self.refused[UrlRefusalKind.MALFORMED] += 1
            elif (key := dedup_key(url)) not in self._recent or key == link:
                reason = self._reason_to_refuse(url, depth)
                if reason is None and self._addresses is not None and not url.startswith(home):
                    reason = self._addresses.reason_to_refuse(url, referer)
                if reason is None or reason.kind not in _MAY_CHANGE:
                    self._recent.add(link)
                    self._recent.add(key)
                if reason is None:
                    tasks.append(self._task(url, depth, referer, "" if group_of is None else group_of(link, url)))
                else:
                    self.refused[reason.kind] += 1
                    if reason.kind is UrlRefusalKind.NO_PAGE:
                        self.files[reason.rpartition(" ")[2]] += 1
        return tasks

    def restore(self, urls: Iterable[str]) -> None:
        """Count links that earlier runs of the crawl have admitted, for the priorities and caps of those to come."""
        for url in urls:
            self._reason_to_refuse(url, 0)
            self._task(url, 0, None)

    def given(self, urls: Iterable[str]) -> list[UrlTask]:
        """Return tasks for the user's own urls, which pass without a check, in their order and before all links."""
        return [UrlTask(url, urlsplit(url).netloc) for url in urls]

    def _reason_to_refuse(self, url: str, depth: int) -> UrlRefusal | None:
        refusal = self.scope.reason_to_refuse(url, depth)
        if refusal is None and (trap := self._traps.reason_to_refuse(url)) is not None:
            refusal = UrlRefusal(UrlRefusalKind.TRAP, trap.removeprefix("trap: "))
        return refusal

    def _task(self, url: str, depth: int, referer: str | None, group: str = "") -> UrlTask:
        pattern = coarse_pattern(url)
        if pattern not in self._pattern_counts and len(self._pattern_counts) >= _MAX_PATTERNS:
            del self._pattern_counts[next(iter(self._pattern_counts))]
        earlier = self._pattern_counts.get(pattern, 0)
        self._pattern_counts[pattern] = earlier + 1
        return UrlTask(url, urlsplit(url).netloc, depth, referer, earlier.bit_length(), group)


# Priorities. Pages that no list has come breadth first, and within a depth new shapes of urls first. Pages that a list
# has only test the lists, and come after all others; urls that are not read at all come last.
_PRIORITIES_OF_DEPTH = 64
TEST_PRIORITY = 1_000_000
LISTED_ONLY_PRIORITY = 2_000_000
_AT_ONCE = 500

Add = Callable[[Sequence[UrlTask]], Awaitable[int]]  # a frontier's `add`


@dataclass(frozen=True, slots=True)
class MapRules:
    """Rules of a map. Up to `max_urls` that match are listed, not counting the start urls. The site's lists (sitemaps,
    feeds) are taken for complete when they lack no more than `lacking_share` of what they have, and `barren_pages` of
    their pages in a row led to nothing new.
    """

    max_urls: int = 30_000
    match: str | None = None
    max_depth: int | None = None
    barren_pages: int = 20
    lacking_share: float = 0.05


class MapAdmission(Admission):
    """Admits urls of lists and links, counts those that match, and tells when the map is complete."""

    def __init__(self, scope: Scope, traps: TrapGuard, rules: MapRules, addresses: AddressGuard | None = None) -> None:
        super().__init__(scope, traps, addresses)
        self._rules = rules
        self._match = re.compile(rules.match) if rules.match else None
        self._count = 0  # urls that match
        self._listed: set[int] = set()
        self._unlisted: set[int] = set()  # found by links, and in no list
        self._barren = 0
        self._adding = asyncio.Lock()

    def matches(self, url: str) -> bool:
        return self._match is None or self._match.search(url) is not None

    @property
    def room(self) -> int:
        return self._rules.max_urls - self._count

    @property
    def reason_to_end(self) -> str | None:
        """Return why no more pages need to be read; None while they do."""
        if self.room <= 0:
            return f"max_urls={self._rules.max_urls} reached"
        is_whole = self._listed and len(self._unlisted) <= self._rules.lacking_share * len(self._listed)
        if is_whole and self._barren >= self._rules.barren_pages:
            return f"the site's own lists are complete: {self._barren} pages in a row led to nothing new"
        return None

    def of_list(self, entries: Iterable[Listed], source: str, address: str) -> list[UrlTask]:
        """Return tasks for the entries of a list at `address`, without a check for traps: the site vouches for them.
        Files that are no pages are listed too.
        """
        tasks = []
        for entry in entries:
            url = normalise(entry.url) or normalise(entry.url, address)
            if url is None:
                self.refused[UrlRefusalKind.MALFORMED] += 1
                continue
            by_address = None if self._addresses is None else self._addresses.reason_to_refuse(url, address)
            reason = by_address or self.scope.reason_to_refuse(url, 1)
            if reason is not None and reason.kind is not UrlRefusalKind.NO_PAGE:
                self.refused[reason.kind] += 1
            elif self.matches(url):
                key = hash(dedup_key(url))
                self._listed.add(key)
                self._unlisted.discard(key)
                task = self._task(url, 1, address)
                is_page = reason is None and self._rules.max_depth != 1
                priority = TEST_PRIORITY + task.priority if is_page else LISTED_ONLY_PRIORITY
                found = UrlSource(source, entry.lastmod or None, entry.title or None)
                tasks.append(replace(task, priority=priority, found=found))
        return tasks

    def of_page(self, links: Iterable[str], depth: int, referer: str) -> list[UrlTask]:
        """Return tasks for a page's links, also for those that do not match but may lead to ones that do."""
        tasks, found = [], UrlSource("link")
        for task in self.admit(links, depth, referer):
            if self._rules.max_depth is not None and depth >= self._rules.max_depth:
                priority = LISTED_ONLY_PRIORITY
            elif hash(dedup_key(task.url)) in self._listed:
                priority = TEST_PRIORITY + task.priority
            else:
                priority = 1 + depth * _PRIORITIES_OF_DEPTH + task.priority
            tasks.append(replace(task, priority=priority, found=found))
        return tasks

    def of_start(self, urls: Iterable[str]) -> list[UrlTask]:
        return [replace(task, found=UrlSource("start")) for task in self.given(urls)]

    def note_links(self, page: UrlTask, tasks: Iterable[UrlTask] = ()) -> None:
        """Note the tasks that a page led to; none for a page that could not be read."""
        keys = {hash(dedup_key(task.url)) for task in tasks} - self._listed - self._unlisted
        self._unlisted |= keys
        if keys:
            self._barren = 0
        elif page.priority >= TEST_PRIORITY:
            self._barren += 1

    async def add(self, tasks: Sequence[UrlTask], add: Add) -> int:
        """Queue up to `max_urls` that match, in portions, as each holds the event loop. Return how many of these were
        new.
        """
        count = 0
        async with self._adding:
            waiting = [task for task in tasks if self.matches(task.url)]
            while waiting and self.room > 0:
                size = min(self.room, _AT_ONCE)
                new = await add(waiting[:size])
                del waiting[:size]
                self._count += new
                count += new
            ways = [task for task in tasks if not self.matches(task.url)] if self._match is not None else []
            if ways and self.room > 0:
                await add(ways)
        return count

    def restore(self, urls: Iterable[str]) -> None:
        def counted(urls: Iterable[str]) -> Iterable[str]:
            for url in urls:
                self.scope.widen(url)  # it was in scope then: a start url had led there
                self._count += self.matches(url)
                self._unlisted.add(hash(dedup_key(url)))
                yield url

        super().restore(counted(urls))
