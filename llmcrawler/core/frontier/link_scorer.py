"""Scores links for focused crawls: learns while crawling which links lead to pages of the wanted types.

For each group of links with equal features it counts how often their pages were wanted, and which
new links those pages had. A group that was seen too seldom borrows from groups that share a shape, a place or a region
with it. From these counts comes a value, and from that the priority of the group in the frontier.

Every page is worth something and leads to further ones: fetching costs 1, a page of class i pays `reward` on average
and brings `offspring[j]` new urls of each class j. That is a branching bandit: the best order fetches by an index of
the classes, the highest pay per fetch that can be had from a url and what it leads to (G. Weiss, "Branching bandit
processes", 1988). A list that leads to twenty wanted pages has an index of 20/21, a wanted page 1, and a page that
leads nowhere what it pays itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from llmcrawler.core.urls import url_pattern
from llmcrawler.items import Link

_JOINT: Final = "\t"
_MAX_GROUPS: Final = 400
_MAX_TEXTS: Final = 10_000
_MAX_TEXT_CHARS: Final = 30
_STOCK_TIMES: Final = 3
_NUMBERS: Final = re.compile(r"\d+")


class LinkFeatures(NamedTuple):
    """Features that similar links share. Links of equal features form a group of the frontier, called `name`.

    `shape` is the url pattern without its last word, so that /breads/rye and /breads/hot-cross-bun are alike. `region`
    is coarser: the first word of the path, and the number and form of the others.
    """

    shape: str
    region: str
    place: str
    phrase: str

    @property
    def name(self) -> str:
        return _JOINT.join(self)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return names of region, place and shape, which links of other groups share."""
        return (f"region {self.region}", f"place {self.place} {self.phrase}", f"shape {self.shape}")


@lru_cache(maxsize=4096)
def shape_of(url: str) -> tuple[str, str]:
    """Return (shape, region) of a normalised url, see LinkFeatures."""
    host = urlsplit(url).netloc
    path, mark, query = url_pattern(url).partition("?")
    end = "/" if path.endswith("/") and path != "/" else ""
    segments = path.strip("/").split("/")
    last = _folded(segments[-1])
    if segments != [""] and not mark:
        segments[-1] = last
    keys = ",".join(sorted({part.partition("=")[0] for part in query.split("&")})) if mark else ""
    first = segments[0] if len(segments) > 1 or mark else "*"
    return f"{host}/{'/'.join(segments)}{end}{mark}{query}", f"{host}/{first} {len(segments)} {last} {keys}"


def _folded(segment: str) -> str:
    stem, dot, extension = segment.rpartition(".")
    if not dot:
        stem, extension = segment, ""
    return f"*{dot}{extension}" if stem == "{slug}" or "{" not in stem else segment


# A page that leads to a list of lists gets its index in the third round; more than ten levels are rare.
_ROUNDS: Final = 10


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
        if all(abs(found[name] - before[name]) < 0.005 for name in found):
            break
    return found


LEVELS: Final = 50  # priorities go from 0, the best, to this
_FIRST_GUESS: Final = 0.3  # at the share of wanted pages, before any page is known
_TRUST: Final = 2.0  # as many pages of a group's own count as much as what it borrows
# Bonus of groups that were never tried: it puts them before what is known to be half as good, and fades at once.
_CURIOSITY: Final = 0.25
_NEWS: Final = 0.2  # bonus of pages that led to groups of links that were never seen
_MEMORY: Final = 0.95  # factor of link counts for each page, as lists run out of new links
_FEWEST: Final = 0.02
_ALL: Final = "all"


@dataclass(slots=True)
class _Tally:
    """Counts of pages. `judged` and `wanted` stay; `read`, `found` (links by group) and `novel` (with a new group)
    fade.
    """

    judged: int = 0
    wanted: int = 0
    read: float = 0.0
    found: dict[str, float] = field(default_factory=dict)
    novel: float = 0.0

    def note_links(self, found: Mapping[str, int], *, is_novel: bool) -> None:
        self.read = self.read * _MEMORY + 1
        self.novel = self.novel * _MEMORY + is_novel
        faded = {name: count * _MEMORY for name, count in self.found.items() if count > _FEWEST}
        for name, count in found.items():
            faded[name] = faded.get(name, 0.0) + count
        self.found = faded


class LinkScorer:
    """Scores some hundred groups of links by how well they lead to pages of the wanted types."""

    def __init__(self, page_types: Collection[str]) -> None:
        self.page_types = frozenset(page_types)
        self._groups: dict[str, LinkFeatures] = {}
        self._texts: Counter[str] = Counter()
        self._tallies: dict[str, _Tally] = {_ALL: _Tally()}
        self._priorities: dict[str, int] = {}
        self._met: set[str] = set()
        self._news = 0
        self._due = 1

    def group_of(self, url: str, link: Link) -> str:
        """Return the group for a link to a normalised url. A text that many links have is a stock phrase ("next")."""
        phrase = _NUMBERS.sub("0", _clean(link.text).lower())
        if len(phrase) > _MAX_TEXT_CHARS:
            phrase = ""
        if phrase:
            if len(self._texts) >= _MAX_TEXTS:
                self._texts = Counter({text: times for text, times in self._texts.items() if times >= _STOCK_TIMES})
            self._texts[phrase] += 1
            phrase = phrase if self._texts[phrase] >= _STOCK_TIMES else ""
        shape, region = shape_of(url)
        features = LinkFeatures(shape, region, _clean(link.place), phrase)
        if features.name not in self._groups and len(self._groups) >= _MAX_GROUPS:
            features = LinkFeatures(region, region, "", "")
        self._groups.setdefault(features.name, features)
        return features.name

    def grouping(self, links: Mapping[str, Link]) -> Callable[[str, str], str]:
        """Return the `group_of` that Admission.admit takes, for links by the url that they were given with."""
        return lambda given, url: self.group_of(url, links[given])

    def restore(self, group: str) -> None:
        """Restore a group of an earlier run. That of a run without a goal (list_patterns.py) says nothing of links."""
        if _JOINT in group:
            self._groups.setdefault(group, LinkFeatures(*group.split(_JOINT)))

    def note_links(self, group: str, found: Iterable[str]) -> None:
        """Note the groups of the links that were new on a page of this group."""
        counts = Counter(found)
        self._news += 1
        is_novel = not self._met.issuperset(counts)
        self._met.update(counts)
        for tried in self._levels_of(group):
            tried.note_links(counts, is_novel=is_novel)

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
        region, place, shape = (self._tallies.get(level) for level in features.levels)
        # The region of the url and the place of the link are independent evidence; the shape refines the region.
        odds = _odds(self._share(region, base)) + _odds(self._share(place, base)) - _odds(base)
        reward = self._share(self._tallies.get(features.name), self._share(shape, 1 / (1 + exp(-odds))))
        offspring = everyone
        for tried in (region, place, shape, self._tallies.get(features.name)):
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


def _odds(share: float) -> float:
    bounded = min(0.99, max(0.01, share))
    return log(bounded / (1 - bounded))


def _clean(text: str) -> str:
    return " ".join(text.split())
