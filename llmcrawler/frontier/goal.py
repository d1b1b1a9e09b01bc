"""Which links lead to the wanted pages, learned while crawling.

Of each kind of link (kinds.py) it is counted how often its page was wanted, and which new links that page had; what was
seen too seldom borrows from kinds that share a shape, a place or a region with it. From that comes a rank for each kind
(branching.py), which is the rank of its group in the frontier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, log
from typing import Final

from llmcrawler.frontier.branching import Kind, rates
from llmcrawler.frontier.kinds import LinkKind, LinkKinds
from llmcrawler.items import Link

LEVELS: Final = 50  # ranks from 0, the best, to this
_FIRST_GUESS: Final = 0.3  # of the share of wanted pages, before any page is known
_TRUST: Final = 2.0  # pages of its own that count as much as what a kind borrows
# What has been tried twice has shown what it is; what was never tried comes before what is known to be half as good.
_CURIOSITY: Final = 0.25
_NEWS: Final = 0.2  # what leads to kinds of links that were never seen comes next
_MEMORY: Final = 0.95  # of link counts, for each page: lists run dry of what is new
_FEWEST: Final = 0.02
_ALL: Final = "all"


@dataclass(slots=True)
class _Tried:
    """Pages of one feature. `judged` and `wanted` count verdicts; `read`, `found` and `novel` (those of them that had a
    link of a new kind) fade.
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


class Goal:
    """Not asked before the first link: without any `page_types` there is no goal."""

    def __init__(self, page_types: Collection[str]) -> None:
        self.page_types = frozenset(page_types)
        self._kinds = LinkKinds()
        self._known: dict[str, LinkKind] = {}
        self._tried: dict[str, _Tried] = {_ALL: _Tried()}
        self._ranks: dict[str, int] = {}
        self._met: set[str] = set()
        self._news = 0
        self._due = 1

    def group_of(self, url: str, link: Link) -> str:
        """The frontier's group for a link to `url`, which is normalised."""
        kind = self._kinds.kind_of(url, link)
        self._known[kind.name] = kind
        return kind.name

    def grouping(self, links: Mapping[str, Link]) -> Callable[[str, str], str]:
        """For Admission.admit: of these links, by the url that they were given with."""
        return lambda given, url: self.group_of(url, links[given])

    def recall(self, group: str) -> None:
        """A group of an earlier run."""
        if group and group not in self._known:
            self._known[group] = self._kinds.know(group)

    def note_links(self, group: str, found: Iterable[str]) -> None:
        """The groups of the links that were new on a page."""
        counts = Counter(found)
        self._news += 1
        is_novel = not self._met.issuperset(counts)
        self._met.update(counts)
        for tried in self._levels_of(group):
            tried.note_links(counts, is_novel=is_novel)

    def note_verdict(self, group: str, page_type: str | None) -> None:
        """What a page of the group was; None where there was none."""
        self._news += 1
        for tried in self._levels_of(group):
            tried.judged += 1
            tried.wanted += page_type in self.page_types

    def changed_ranks(self) -> dict[str, int]:
        """The groups whose rank is another than at the last call: new ones, and at times all."""
        if self._news >= self._due:
            # Soon at first; later the averages move slowly, and the table is long.
            self._due = self._news + 1 + min(self._news // 10, 20)
            ranks = self._all_ranks()
        else:
            fresh = [name for name in self._known if name not in self._ranks]
            ranks = self._all_ranks(fresh) if fresh else {}
        changed = {name: rank for name, rank in ranks.items() if self._ranks.get(name) != rank}
        self._ranks.update(changed)
        return changed

    def rank_of(self, group: str) -> int:
        return self._ranks.get(group, 0)

    def index_of(self, group: str) -> float:
        """How good it is to go on from a url of the group: 1 is a wanted page, and 0 a dead end."""
        return 1 - self.rank_of(group) / LEVELS

    def _all_ranks(self, only: Collection[str] | None = None) -> dict[str, int]:
        everyone = self._offspring(self._tried[_ALL], {})
        kinds = {name: self._expected(kind, everyone) for name, kind in self._known.items()}
        found = rates(kinds)
        names = found if only is None else only
        return {name: self._rank(name, found[name]) for name in names}

    def _rank(self, name: str, index: float) -> int:
        tried = self._tried.get(name)
        times = 0.0 if tried is None else max(tried.judged, tried.read)
        news = _NEWS * tried.novel / tried.read if tried is not None and tried.read else 0.0
        return round((1 - (index + (1 - index) * max(_CURIOSITY / (1 + times) ** 2, news))) * LEVELS)

    def _expected(self, kind: LinkKind, everyone: Mapping[str, float]) -> Kind:
        base = self._share(self._tried[_ALL], _FIRST_GUESS)
        region, place, shape = (self._tried.get(feature) for feature in kind.features)
        # The region of the url and the place of the link are two witnesses; the shape is more of the region.
        odds = _odds(self._share(region, base)) + _odds(self._share(place, base)) - _odds(base)
        reward = self._share(self._tried.get(kind.name), self._share(shape, 1 / (1 + exp(-odds))))
        offspring = everyone
        for tried in (region, place, shape, self._tried.get(kind.name)):
            if tried is not None and tried.read:
                offspring = self._offspring(tried, offspring)
        return Kind(reward, offspring)

    def _share(self, tried: _Tried | None, guess: float) -> float:
        if tried is None:
            return guess
        return (tried.wanted + _TRUST * guess) / (tried.judged + _TRUST)

    def _offspring(self, tried: _Tried, guess: Mapping[str, float]) -> dict[str, float]:
        weight = 1 / (tried.read + _TRUST)
        mixed = {name: count * _TRUST * weight for name, count in guess.items() if count > _FEWEST}
        for name, count in tried.found.items():
            mixed[name] = mixed.get(name, 0.0) + count * weight
        return mixed

    def _levels_of(self, group: str) -> list[_Tried]:
        kind = self._known.get(group)
        names = (_ALL,) if kind is None else (_ALL, kind.name, *kind.features)
        return [self._tried.setdefault(name, _Tried()) for name in names]


def _odds(share: float) -> float:
    bounded = min(0.99, max(0.01, share))
    return log(bounded / (1 - bounded))
