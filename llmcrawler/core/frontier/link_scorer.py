"""Scores links for focused crawls: learns while crawling which links lead to pages of the wanted types.

For each group of links with equal features it counts how often their pages were wanted, and which
new links those pages had. A group that was seen too seldom borrows from groups that share a shape or a place with it.
From these counts comes a value, and from that the priority of the group in the frontier.

Every page is worth something and leads to further ones: fetching costs 1, a page of class i pays `reward` on average
and brings `offspring[j]` new urls of each class j. That is a branching bandit: the best order fetches by an index of
the classes, the highest pay per fetch that can be had from a url and what it leads to (G. Weiss, "Branching bandit
processes", 1988). A list that leads to twenty wanted pages has an index of 20/21, a wanted page 1, and a page that
leads nowhere what it pays itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from llmcrawler.core.urls import url_pattern
from llmcrawler.items import Link

_JOINT: Final = "\t"
_MAX_GROUPS: Final = 400


class LinkFeatures(NamedTuple):
    """Features that similar links share. Links of equal features form a group of the frontier, called `name`.

    `shape` is the url pattern without its last word, so that /breads/rye and /breads/hot-cross-bun are alike.
    """

    shape: str
    place: str

    @property
    def name(self) -> str:
        return _JOINT.join(self)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return names of place and shape, which links of other groups share."""
        return (f"place {self.place}", f"shape {self.shape}")


@lru_cache(maxsize=4096)
def shape_of(url: str) -> str:
    """Return the shape of a normalised url, see LinkFeatures."""
    host = urlsplit(url).netloc
    path, mark, query = url_pattern(url).partition("?")
    end = "/" if path.endswith("/") and path != "/" else ""
    segments = path.strip("/").split("/")
    if segments != [""] and not mark:
        segments[-1] = _folded(segments[-1])
    return f"{host}/{'/'.join(segments)}{end}{mark}{query}"


def _folded(segment: str) -> str:
    stem, dot, extension = segment.rpartition(".")
    if not dot:
        stem, extension = segment, ""
    return f"*{dot}{extension}" if stem == "{slug}" or "{" not in stem else segment


_ROUNDS: Final = 4  # a page that leads to a list of lists gets its index in the third one


@dataclass(frozen=True, slots=True)
class Branch:
    """Averages of the pages of one class: the reward, in 0..1, and the number of new urls by their class."""

    reward: float
    offspring: Mapping[str, float]


def branch_values(kinds: Mapping[str, Branch]) -> dict[str, float]:
    """Return the index of each class, in 0..1. Offspring of a class that is not in the table counts for nothing.

    Each round goes from the best class to the worst: following a page's links pays for as long as they are better than
    the page itself.
    """
    found = {name: kind.reward for name, kind in kinds.items()}
    for _ in range(_ROUNDS):
        before, found = found, {}
        worth: dict[str, tuple[float, float]] = {}  # pay and fetches of a url and all better ones that it leads to
        for name in sorted(kinds, key=lambda name: (-before[name], name)):
            pay, fetches = kinds[name].reward, 1.0
            below = [(*worth[child], count) for child, count in kinds[name].offspring.items() if child in worth]
            for more, cost, count in sorted(below, key=lambda one: -one[0] / one[1]):
                if more * fetches <= pay * cost:
                    break
                pay += count * more
                fetches += count * cost
            worth[name] = pay, fetches
            found[name] = pay / fetches
    return found


LEVELS: Final = 50  # priorities go from 0, the best, to this
_FIRST_GUESS: Final = 0.3  # at the share of wanted pages, before any page is known
_TRUST: Final = 2.0  # as many pages of a group's own count as much as what it borrows
# Bonus of groups that were never tried: it puts them before what is known to be half as good, and fades at once.
_CURIOSITY: Final = 0.25
_NEWS: Final = 0.2  # bonus of pages that led to groups of links that were never seen
_FEWEST: Final = 0.02
_ALL: Final = "all"


@dataclass(slots=True)
class _Tally:
    """Counts of pages: those judged and wanted, those read, the links on these by group, and those with a new group."""

    judged: int = 0
    wanted: int = 0
    read: int = 0
    found: Counter[str] = field(default_factory=Counter)
    novel: int = 0


class LinkScorer:
    """Scores some hundred groups of links by how well they lead to pages of the wanted types."""

    def __init__(self, page_types: Collection[str]) -> None:
        self.page_types = frozenset(page_types)
        self._groups: dict[str, LinkFeatures] = {}
        self._tallies: dict[str, _Tally] = {_ALL: _Tally()}
        self._priorities: dict[str, int] = {}
        self._met: set[str] = set()
        self._news = 0
        self._due = 1

    def group_of(self, url: str, link: Link) -> str:
        """Return the group for a link to a normalised url."""
        features = LinkFeatures(shape_of(url), " ".join(link.place.split()))
        if features.name not in self._groups and len(self._groups) >= _MAX_GROUPS:
            features = LinkFeatures(urlsplit(url).netloc, "")
        self._groups.setdefault(features.name, features)
        return features.name

    def grouping(self, links: Mapping[str, Link]) -> Callable[[str, str], str]:
        """Return the `group_of` that Admission.admit takes, for links by the url that they were given with."""
        return lambda given, url: self.group_of(url, links[given])

    def restore(self, group: str) -> None:
        """Restore a group of an earlier run. That of a run without a goal (list_patterns.py) says nothing of links."""
        if group.count(_JOINT) == 1:
            self._groups.setdefault(group, LinkFeatures(*group.split(_JOINT)))

    def note_links(self, group: str, found: Iterable[str]) -> None:
        """Note the groups of the links that were new on a page of this group."""
        counts = Counter(found)
        self._news += 1
        is_novel = not self._met.issuperset(counts)
        self._met.update(counts)
        for tried in self._levels_of(group):
            tried.read += 1
            tried.novel += is_novel
            tried.found.update(counts)

    def note_verdict(self, group: str, page_type: str | None) -> None:
        """Note the type of a page of the group; None where it has no verdict."""
        self._news += 1
        for tried in self._levels_of(group):
            tried.judged += 1
            tried.wanted += page_type in self.page_types

    def changed_priorities(self) -> dict[str, int]:
        """Return the groups whose priority is another than at the last call: new ones, and at times all."""
        names = [name for name in self._groups if name not in self._priorities]
        if self._news >= self._due:
            # Soon at first; later the averages move slowly, and the table is long.
            self._due = self._news + 1 + min(self._news // 10, 20)
            names = list(self._groups)
        if not names:
            return {}
        everyone = self._offspring(self._tallies[_ALL], {})
        found = branch_values({name: self._expected(group, everyone) for name, group in self._groups.items()})
        changed = {}
        for name in names:
            tried = self._tallies.get(name, _Tally())
            curiosity = _CURIOSITY / (1 + max(tried.judged, tried.read)) ** 2
            news = _NEWS * tried.novel / tried.read if tried.read else 0.0
            priority = round((1 - (found[name] + (1 - found[name]) * max(curiosity, news))) * LEVELS)
            if self._priorities.get(name) != priority:
                changed[name] = self._priorities[name] = priority
        return changed

    def priority_of(self, group: str) -> int:
        return self._priorities.get(group, 0)

    def value_of(self, group: str) -> float:
        """Return the value of fetching a url of the group: 1 for a wanted page, 0 for a dead end."""
        return 1 - self.priority_of(group) / LEVELS

    def _expected(self, features: LinkFeatures, everyone: Mapping[str, float]) -> Branch:
        base = self._share(self._tallies[_ALL], _FIRST_GUESS)
        place, shape = (self._tallies.get(level) for level in features.levels)
        reward = self._share(self._tallies.get(features.name), self._share(shape, self._share(place, base)))
        offspring = everyone
        for tried in (place, shape, self._tallies.get(features.name)):
            if tried is not None and tried.read:
                offspring = self._offspring(tried, offspring)
        return Branch(reward, offspring)

    def _share(self, tried: _Tally | None, guess: float) -> float:
        return guess if tried is None else (tried.wanted + _TRUST * guess) / (tried.judged + _TRUST)

    def _offspring(self, tried: _Tally, guess: Mapping[str, float]) -> dict[str, float]:
        weight = 1 / (tried.read + _TRUST)
        mixed = {name: count * _TRUST * weight for name, count in guess.items() if count > _FEWEST}
        for name, count in tried.found.items():
            mixed[name] = mixed.get(name, 0.0) + count * weight
        return mixed

    def _levels_of(self, group: str) -> list[_Tally]:
        features = self._groups.get(group)
        names = (_ALL,) if features is None else (_ALL, features.name, *features.levels)
        return [self._tallies.setdefault(name, _Tally()) for name in names]
