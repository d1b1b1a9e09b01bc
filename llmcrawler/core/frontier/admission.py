"""Decides which of a page's links get a place in the frontier, and with what priority.

This runs for every link of every page, so known strings are sorted out before anything is built of them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.frontier.site_views import SiteViews
from llmcrawler.core.urls import (
    AddressGuard,
    Scope,
    TrapGuard,
    UrlRefusal,
    UrlRefusalKind,
    coarse_pattern,
    dedup_key,
    normalise_with_route,
    origin_of,
)

_BITS = 2**63 - 1
_SLOTS_PER_HASH = 2


class RecentStrings:
    """Holds at least the last `most` strings that were added, and at most twice as many, as hashes.

    Two generations of open-addressed tables, of which the older one is dropped as a whole: 32 bytes a string, where a
    Python set takes three times that.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._slots = 1 << (most * _SLOTS_PER_HASH - 1).bit_length()
        self._recent = self._before = array("q", bytes(8))  # an empty one; the first page makes a real one
        self._mask = 0
        self._count = most

    def __contains__(self, text: str) -> bool:
        key = hash(text) & _BITS or 1
        return _has(self._recent, key) or _has(self._before, key)

    def add(self, text: str) -> None:
        if self._count >= self._most:
            self._before, self._recent = self._recent, array("q", bytes(8 * self._slots))
            self._mask, self._count = self._slots - 1, 0
        key, table, mask = hash(text) & _BITS or 1, self._recent, self._mask
        at = key & mask
        while table[at] and table[at] != key:
            at = (at + 1) & mask
        self._count += not table[at]
        table[at] = key


def _has(table: array[int], key: int) -> bool:
    mask = len(table) - 1
    at = key & mask
    while found := table[at]:
        if found == key:
            return True
        at = (at + 1) & mask
    return False


_MAX_RECENT_LINKS = 200_000
_MAX_FAMILIES = 50_000
# A shorter way to the same url may be found later, or one that is not from outside.
_MAY_CHANGE = frozenset({UrlRefusalKind.TOO_DEEP, UrlRefusalKind.PRIVATE_HOST})


def ungrouped(_link: str, _url: str) -> str:
    """Put every url into the group without a name."""
    return ""


class Admission:
    """Normalises links, filters them and gives them priorities. Refused ones are counted by reason in `refused`.
    `views` groups urls where a crawl has no goal.

    The n-th url of a family gets the priority bit_length(n - 1): 0, 1, 2, 2, 3, 3, 3, 3, ... Lower ones go out first,
    so a new family's first url comes before the hundredth of a known one, however many of those were found earlier.
    """

    def __init__(self, scope: Scope, traps: TrapGuard, addresses: AddressGuard | None = None) -> None:
        self.scope = scope
        self.refused: Counter[str] = Counter()
        self.views = SiteViews()
        self._traps = traps
        self._addresses = addresses if addresses is not None and addresses.admits_any else None
        self._family_counts: dict[str, int] = {}
        self._recent = RecentStrings(_MAX_RECENT_LINKS)

    def admit(
        self,
        links: Iterable[str],
        depth: int,
        referer: str | None,
        group_of: Callable[[str, str], str] = ungrouped,
    ) -> list[UrlTask]:
        """Return the links worth fetching, in document order. Strings that were met lately are skipped. `group_of` gets
        the link as it was given and its normalised url.
        """
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
                if reason is None and referer is not None and not url.startswith(home):
                    reason = self._reason_by_address(url, referer)
                if reason is None or reason.kind not in _MAY_CHANGE:
                    self._recent.add(link)
                    self._recent.add(key)
                if reason is None:
                    tasks.append(self._task(url, depth, referer, group_of(link, url)))
                else:
                    self.refused[reason.kind] += 1
        return tasks

    def restore(self, urls: Iterable[str]) -> None:
        """Count links that earlier runs of the crawl have admitted, for the priorities and caps of those to come."""
        for url in urls:
            self._reason_to_refuse(url, 0)
            self._task(url, 0, None)

    def given(self, urls: Iterable[str]) -> list[UrlTask]:
        """Return tasks for the user's own urls, which pass without a check and go out in their order, before all
        links.
        """
        return [UrlTask(url, urlsplit(url).netloc) for url in urls]

    def _reason_to_refuse(self, url: str, depth: int) -> UrlRefusal | None:
        refusal = self.scope.reason_to_refuse(url, depth)
        if refusal is None and (trap := self._traps.reason_to_refuse(url)) is not None:
            refusal = UrlRefusal(UrlRefusalKind.TRAP, trap.removeprefix("trap: "))
        return refusal

    def _reason_by_address(self, url: str, referer: str | None) -> UrlRefusal | None:
        """Refuse a private start that another place leads to; the scope keeps out all other private hosts."""
        return None if self._addresses is None else self._addresses.reason_to_refuse(url, referer)

    def _task(self, url: str, depth: int, referer: str | None, group: str = "") -> UrlTask:
        host = urlsplit(url).netloc
        family = coarse_pattern(url)
        if family not in self._family_counts and len(self._family_counts) >= _MAX_FAMILIES:
            del self._family_counts[next(iter(self._family_counts))]
        earlier = self._family_counts.get(family, 0)
        self._family_counts[family] = earlier + 1
        return UrlTask(url, host, depth, referer, earlier.bit_length(), group)
