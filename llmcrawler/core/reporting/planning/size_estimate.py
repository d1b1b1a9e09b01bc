"""Estimates how many pages a site has from a sample of them: an unseen-species problem, solved by kinds of urls.

Urls of one shape are a stratum. Pages of a stratum are the sampling units, the urls that they link to are the species.
From S, the urls of a stratum that any sampled page links to, and Q1, those of them that one page alone links to, which
is of the same or another stratum with T sampled pages:

- The rate of discovery is Q1 / T urls a page now (I. J. Good, "The population frequencies of species and the estimation
  of population parameters", Biometrika 40, 1953); twice that of the later half of the T pages, where that is less: deep
  in a tree are mostly leaves.
- It falls by a power law: t more pages add S (1 + t / T)^b - S with b = Q1 / S (H. S. Heaps, "Information Retrieval:
  Computational and Theoretical Aspects", 1978). Where each page has a page of its own, as a product its form for
  reviews, b is 1, and one page more is one url more.

How many pages a stratum has depends on the others, so all are solved together. The low figure is what was heard of; the
high one adds the standard error of Q1. What a sitemap lists is known without.

A series is not like that: page 7 leads to page 8, and nothing says how many come. Where pages of a stratum still lead
to new ones of their own, what is left is taken to be as much as was seen, or three times that at most: by the
Copernican principle (J. R. Gott, Nature 363, 1993) it is no more than x times as much with chance x / (1 + x).
The same bounds what pages add that only an estimate says are there.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample

_ROUNDS = 60
# Of a series without an end in sight so many times what was seen may be left: half, and three in four, have no more.
_REST_LIKELY, _REST_HIGH = 1.0, 3.0
# A sample can show at most so many times the urls that were heard of, not counting the rest of a series.
_MOST_TIMES = 4
# A series is open when so many of its later pages led to a new one; one by one, so that few of them wait.
_OPEN_SHARE, _OPEN_PAGES, _WAITING_SHARE = 0.5, 3, 0.5

_Links = Mapping[tuple[str, str], "_Discovery"]  # by the stratum of the pages and that of the urls that they link to


class Range(NamedTuple):
    low: float
    likely: float
    high: float

    def rounded(self, digits: int = 0) -> dict[str, float]:
        """Return the range as JSON; counts (no digits) are rounded outward, so that it still holds them."""
        if digits:
            return {name: round(value, digits) for name, value in self._asdict().items()}
        return {"low": math.floor(self.low), "likely": math.floor(self.likely + 0.5), "high": math.ceil(self.high)}


@dataclass(frozen=True, slots=True)
class Stratum:
    """Urls of one shape: `known` of them were heard of, `pages` were fetched, `size` is how many there may be."""

    pattern: str
    known: int
    pages: tuple[SampledPage, ...]
    size: Range

    @property
    def failed_share(self) -> float:
        return sum(page.error is not None for page in self.pages) / len(self.pages) if self.pages else 0.0

    @property
    def fine(self) -> Range:
        """The size without pages that fail."""
        return Range(*(count * (1 - self.failed_share) for count in self.size))


def site_size(sample: SiteSample) -> list[Stratum]:
    """Return each kind of url with its size, largest first."""
    counts, pages = Counter(sample.known.values()), defaultdict[str, list[SampledPage]](list)
    for page in sample.pages:
        pages[page.pattern].append(page)
    known = {name: max(counts[name], len(pages[name])) for name in {*counts, *pages}}
    likely, high = dict[str, float](known), dict[str, float](known)
    if not sample.is_whole:
        series = _open_series(sample, known)
        found = _discoveries(sample, series)
        likely = _solve(known, found, series, _REST_LIKELY, error_count=0)
        high = _solve(known, found, series, _REST_HIGH, error_count=1)
    strata = []
    for name, low in known.items():
        size = Range(low, likely[name], max(high[name], low + _REST_HIGH * (likely[name] - low)))
        strata.append(Stratum(name, low, tuple(pages[name]), size))
    return sorted(strata, key=lambda one: (-one.size.likely, one.pattern))


class _Discovery(NamedTuple):
    """Counts of what pages of one stratum showed of another: T, Q1 and S as above."""

    sampled: int
    once: int
    seen: int

    def added(self, pages: float, error_count: int) -> float:
        """Return how many urls so many more pages would add, with so many standard errors of the count `once`."""
        added = self.seen * ((1 + pages / self.sampled) ** (self.once / self.seen) - 1)
        return float(added * (1 + error_count / math.sqrt(self.once)))


def _solve(
    known: Mapping[str, int], found: _Links, series: Mapping[str, int], rest: float, error_count: int
) -> dict[str, float]:
    """Return the sizes at which what is still unfetched of each stratum adds just what is missing of the others."""
    heard = {name: count + rest * series.get(name, 0) for name, count in known.items()}
    sizes, most = heard, {name: _MOST_TIMES * count for name, count in heard.items()}
    for round_number in range(_ROUNDS):
        grown = dict(heard)
        for (source, target), discovery in found.items():
            grown[target] += discovery.added(max(0.0, sizes[source] - discovery.sampled), error_count)
        sizes = {name: min(size, most[name]) for name, size in grown.items()}
        if round_number == 0:
            most = {name: (1 + rest) * size for name, size in sizes.items()}
    return sizes


def _open_series(sample: SiteSample, known: Mapping[str, int]) -> dict[str, int]:
    """Return the strata whose later pages still led to new ones of their own, with the number of pages fetched."""
    seen = set(sample.listed)
    leads: defaultdict[str, list[bool]] = defaultdict(list)
    for page in sample.pages:
        leads[page.pattern].append(any(sample.known[url] == page.pattern for url in page.links - seen))
        seen |= page.links
    return {
        name: count
        for name, pages in leads.items()
        if (count := len(pages)) >= _OPEN_PAGES
        and sum(pages[count // 2 :]) >= _OPEN_SHARE * (count - count // 2)
        and 0 < known[name] - count <= _WAITING_SHARE * count
    }


def _discoveries(sample: SiteSample, series: Mapping[str, int]) -> dict[tuple[str, str], _Discovery]:
    """Count what the pages of each stratum showed of each other, without what an open series adds to itself."""
    linked_from: defaultdict[str, list[tuple[str, bool]]] = defaultdict(list)
    sampled, came = Counter(page.pattern for page in sample.pages), Counter[str]()
    for page in sample.pages:
        came[page.pattern] += 1
        is_late = 2 * came[page.pattern] > sampled[page.pattern]
        for url in page.links - sample.listed:
            linked_from[url].append((page.pattern, is_late))
    seen = Counter(sample.known[url] for url in linked_from)
    once, late = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for url, pages in linked_from.items():
        if len(pages) == 1:
            ((source, is_late),) = pages
            once[source, sample.known[url]] += 1
            late[source, sample.known[url]] += is_late
    return {
        (source, target): _Discovery(sampled[source], min(once[source, target], 2 * count), seen[target])
        for (source, target), count in late.items()
        if count and not (source == target and source in series)
    }
