"""Gathers what sites say of the use of their pages, by host, for the report: bounded, however many pages there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from llmcrawler.core.reporting.html.learned_sites import FeedItem
from llmcrawler.core.reporting.rights_words import rights_words
from llmcrawler.core.reporting.text import plain
from llmcrawler.core.storage import RightsCounts, marks_of
from llmcrawler.core.storage.rights_marks import said_in, signals_of

_MAX_PER_HOST = 30  # statements; their pages may each say something else
_MAX_HOSTS = 100
_MAX_CONFLICTS = 50
_TEXT_CHARS = 300
_OF_ROBOTS_TXT: Final = {"robots": "forbids the url", "robots_unreachable": "could not be had: nothing is fetched"}

Statement = tuple[str, str, str, str]  # what says it, where, literally, and what that means for each use


@dataclass(slots=True)
class Concerned:
    """The pages that something is said of, and the url of one."""

    example: str
    pages: int = 0


class RightsDigest:
    """Each statement with the pages that it is about; `left_out` counts what is beyond the bounds."""

    def __init__(self) -> None:
        self.hosts: dict[str, dict[Statement, Concerned]] = {}
        self.conflicts: dict[tuple[str, str], Concerned] = {}
        self.left_out = 0
        self._marks: Counter[str] = Counter()

    @property
    def words(self) -> str:
        return rights_words(RightsCounts.of(self._marks))

    @property
    def rows(self) -> list[tuple[str, list[tuple[Statement, Concerned]]]]:
        """Return the statements by host, those about most pages first."""
        by_host = ((host, sorted(said.items(), key=_by_pages)) for host, said in self.hosts.items())
        return sorted(by_host, key=lambda pair: (-pair[1][0][1].pages, pair[0]))

    def add(self, item: FeedItem, url: str, origin: str) -> None:
        self._marks.update(marks_of(item))
        host = origin.partition("://")[2]
        for statement in set(_statements(item, origin)):
            self._add_statement(host, statement, url)
        conflicts = said_in(item).get("conflicts")
        for text in map(_shown, conflicts if isinstance(conflicts, list) else ()):
            if (host, text) in self.conflicts or len(self.conflicts) < _MAX_CONFLICTS:
                self.conflicts.setdefault((host, text), Concerned(url)).pages += 1

    def _add_statement(self, host: str, statement: Statement, url: str) -> None:
        if host not in self.hosts and len(self.hosts) >= _MAX_HOSTS:
            self.left_out += 1
            return
        said = self.hosts.setdefault(host, {})
        if statement in said or len(said) < _MAX_PER_HOST:
            said.setdefault(statement, Concerned(url)).pages += 1
        else:
            self.left_out += 1


def _statements(item: FeedItem, origin: str) -> Iterator[Statement]:
    for one in signals_of(item):
        uses = one.get("uses")
        means = ", ".join(f"{use}: {answer}" for use, answer in uses.items()) if isinstance(uses, dict) else ""
        yield _shown(one.get("name")), _shown(one.get("where")), _shown(one.get("value")), _shown(means)
    robots, error = item.get("robots"), item.get("error")
    if isinstance(robots, list) and robots:
        yield "robots", "header or meta", _shown(", ".join(map(str, robots))), ""
    kind = str(error.get("kind")) if isinstance(error, dict) else ""
    if kind in _OF_ROBOTS_TXT:
        yield "robots.txt", f"{origin}/robots.txt", "", _OF_ROBOTS_TXT[kind]


def _by_pages(pair: tuple[Statement, Concerned]) -> Any:
    return -pair[1].pages, pair[0]


def _shown(value: Any) -> str:
    return plain("" if value is None else value)[:_TEXT_CHARS]
