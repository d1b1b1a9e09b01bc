"""Which of a page's links get a place in the frontier, and with what rank.

This runs for every link of every page, so strings are told apart before anything is built of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from llmcrawler.frontier.protocol import UrlTask
from llmcrawler.frontier.remembered import Remembered
from llmcrawler.urls import (
    AddressGuard,
    Scope,
    TrapGuard,
    UrlRefusal,
    UrlRefusalKind,
    dedup_key,
    normalise_with_route,
    origin_of,
    url_pattern,
)

_MAX_REMEMBERED_LINKS = 200_000
_MAX_PATTERNS = 50_000
# A shorter way to the same url may be found later, or one that is not from outside.
_MAY_CHANGE = frozenset({UrlRefusalKind.TOO_DEEP, UrlRefusalKind.PRIVATE_HOST})


def ungrouped(_link: str, _url: str) -> str:
    """Every url is in the group that has no name."""
    return ""


class Admission:
    """Normalises, filters and ranks links. What it refuses is counted by reason in `refused`.

    The n-th url of a pattern gets the rank bit_length(n - 1): 0, 1, 2, 2, 3, 3, 3, 3, ... Taken in the order of ranks,
    a new pattern's first url comes before the hundredth of a known one, however many of those were found earlier.
    """

    def __init__(self, scope: Scope, traps: TrapGuard, addresses: AddressGuard | None = None) -> None:
        self.scope = scope
        self.refused: Counter[str] = Counter()
        self._traps = traps
        self._addresses = addresses if addresses is not None and addresses.admits_any else None
        self._pattern_counts: dict[tuple[str, str], int] = {}
        self._remembered = Remembered(_MAX_REMEMBERED_LINKS)

    def admit(
        self,
        links: Iterable[str],
        depth: int,
        referer: str | None,
        group_of: Callable[[str, str], str] = ungrouped,
    ) -> list[UrlTask]:
        """The links worth fetching, in document order. A string that is remembered is not looked at again. `group_of`
        is asked with the link as it was given and its url.
        """
        tasks = []
        home = "" if referer is None else f"{origin_of(referer)}/"
        for link in links:
            if link in self._remembered:
                continue
            url = normalise_with_route(link)
            if url is None:
                self._remembered.add(link)
                self.refused[UrlRefusalKind.MALFORMED] += 1
            elif (key := dedup_key(url)) not in self._remembered or key == link:
                reason = self._reason_to_refuse(url, depth)
                if reason is None and referer is not None and not url.startswith(home):
                    reason = self._reason_by_address(url, referer)
                if reason is None or reason.kind not in _MAY_CHANGE:
                    self._remembered.add(link)
                    self._remembered.add(key)
                if reason is None:
                    tasks.append(self._task(url, depth, referer, group_of(link, url)))
                else:
                    self.refused[reason.kind] += 1
        return tasks

    def recall(self, urls: Iterable[str]) -> None:
        """The links that were admitted in earlier runs of the crawl: those to come are ranked and capped after them."""
        for url in urls:
            self._reason_to_refuse(url, 0)
            self._task(url, 0, None)

    def given(self, urls: Iterable[str]) -> list[UrlTask]:
        """The user's own urls: neither scope nor traps are asked, and they come before all links, in their order."""
        return [UrlTask(url, urlsplit(url).netloc) for url in urls]

    def _reason_to_refuse(self, url: str, depth: int) -> UrlRefusal | None:
        refusal = self.scope.reason_to_refuse(url, depth)
        if refusal is None and (trap := self._traps.reason_to_refuse(url)) is not None:
            refusal = UrlRefusal(UrlRefusalKind.TRAP, trap.removeprefix("trap: "))
        return refusal

    def _reason_by_address(self, url: str, referer: str) -> UrlRefusal | None:
        """Scope keeps out all private hosts but those that are starts. Those may be asked by their own pages alone."""
        return None if self._addresses is None else self._addresses.reason_to_refuse(url, referer)

    def _task(self, url: str, depth: int, referer: str | None, group: str = "") -> UrlTask:
        host = urlsplit(url).netloc
        pattern = (host, url_pattern(url))
        if pattern not in self._pattern_counts and len(self._pattern_counts) >= _MAX_PATTERNS:
            del self._pattern_counts[next(iter(self._pattern_counts))]
        earlier = self._pattern_counts.get(pattern, 0)
        self._pattern_counts[pattern] = earlier + 1
        return UrlTask(url, host, depth, referer, earlier.bit_length(), group)
