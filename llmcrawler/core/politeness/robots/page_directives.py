"""Reads what a page says to robots, in X-Robots-Tag headers and robots meta elements, as Google documents them
(developers.google.com/search/docs/crawling-indexing/robots-meta-tag).

What is said to all robots and to ours adds up, and of what contradicts itself the more restrictive holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from llmcrawler.core.politeness.robots.parser import product_token
from llmcrawler.core.politeness.throttling import http_date

NOINDEX: Final = "noindex"
NOFOLLOW: Final = "nofollow"
_OBEYED: Final = frozenset((NOINDEX, NOFOLLOW))
_UNTIL: Final = "unavailable_after"
_MAX_CHARS: Final = 10_000  # of all that is said of a page
_MAX_DIRECTIVES: Final = 40
_EVERYBODY: Final = frozenset(("", "*", "robots"))
# What stands between commas; a date may have some too: "Friday, 25-Jun-10", "Jun 25, 2010".
_PIECE: Final = re.compile(
    rf"[^,;]*?\b{_UNTIL}\s*+:[^,;]*+(?:[,;]\s*+(?:\d++\b|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*+\.?\s*+\d)"
    r"[^,;]*+){0,2}|[^,;]++"
)
_HAS_VALUE: Final = re.compile(rf"(?:^|\s)(?:max-[\w-]+|{_UNTIL})\s*$")  # what a ":" may stand behind
_DIRECTIVE: Final = re.compile(rf"\s*(?:no[a-z]|all\b|index|follow\b|max-|{_UNTIL})")
_WELL_FORMED: Final = re.compile(r"[a-z][a-z0-9_-]{1,39}(?:: [!-~][ -~]{0,99})?")


@dataclass(frozen=True, slots=True)
class PageRobots:
    """Reads what pages say to the crawler of this `product_token`. With `obeys` a crawl does what they say."""

    token: str
    obeys: bool = True

    def directives(
        self, now: datetime, headers: Iterable[str], metas: Mapping[str, str] = MappingProxyType({})
    ) -> list[str] | None:
        """Return what holds for us, in lower case and sorted; None where nothing is said.

        `metas` are the contents of meta elements by their names. "none" becomes what it stands for, and a date of
        unavailable_after that is over is a noindex too. What this has returned can be given as headers again.
        """
        found: set[str] = set()
        left = _MAX_CHARS
        for agent, text in (*(("", header) for header in headers), *metas.items()):
            for one in self._said(agent, text[:left].lower()):
                new = _holding(one, now)
                found |= new if len(found - _OBEYED) < _MAX_DIRECTIVES else new & _OBEYED
            left = max(0, left - len(text))
        found -= {"index", "all"} if NOINDEX in found else set()
        found -= {"follow", "all"} if NOFOLLOW in found else set()
        return sorted(found) or None

    def withholds(self, directives: Iterable[str] | None) -> bool:
        """Return whether a page's content is not to be taken."""
        return self.obeys and NOINDEX in (directives or ())

    def follows(self, directives: Iterable[str] | None) -> bool:
        """Return whether the links of a page may be followed."""
        return not self.obeys or NOFOLLOW not in (directives or ())

    def _said(self, agent: str, text: str) -> Iterator[str]:
        """Yield directives for us. `agent` names whom the text is for; so may any part of it, for what follows."""
        is_for_us = self._is_us(agent)
        for piece in _PIECE.findall(text):
            before, colon, value = piece.partition(":")
            while colon and not _HAS_VALUE.search(before) and _DIRECTIVE.match(value):
                is_for_us = self._is_us(before)
                before, colon, value = value.partition(":")
            if is_for_us:
                *words, name = before.split() or [""]
                yield from words
                yield f"{name}: {' '.join(value.split())}" if colon else name

    def _is_us(self, agent: str) -> bool:
        name = agent.strip()
        return name in _EVERYBODY or (bool(self.token) and product_token(name) == self.token)


def _holding(directive: str, now: datetime) -> set[str]:
    """Return what a directive stands for; nothing for what is none."""
    if directive == "none":
        return {NOINDEX, NOFOLLOW}
    if not _WELL_FORMED.fullmatch(directive):
        return set()
    name, _, value = directive.partition(": ")
    end = _time_of(value) if name == _UNTIL else None
    return {directive} if end is None or end > now else {directive, NOINDEX}


def _time_of(text: str) -> datetime | None:
    """Return a date as RFC 822, RFC 850 or ISO 8601 write it, without a time or a zone too; None for what is none."""
    if date := http_date(text) or http_date(f"{text} 00:00:00 gmt"):
        return date
    try:
        date = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date
