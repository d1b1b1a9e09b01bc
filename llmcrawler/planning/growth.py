"""How many pages a site has, from a sample of them: an unseen-species problem, solved by kinds of urls.

Urls of one shape (urls.url_pattern) are a stratum. Pages of a stratum are the sampling units, the urls that they link
to are the species. What t more pages of a stratum (T were sampled) would add to another is estimated in two ways from
Q1 and Q2, the urls that exactly one and exactly two pages of the sample link to, one of which is of the stratum; and
from S, all that any page links to. What a sitemap lists is known without.

- The rate of discovery is Q1 / T urls a page now (I. J. Good, "The population frequencies of species and the estimation
  of population parameters", Biometrika 40, 1953). Chao's estimate of what is not yet seen,
  Q0 = (T - 1) / T * Q1^2 / (2 Q2) (A. Chao, "Estimating the population size for capture-recapture data with unequal
  catchability", Biometrics 43, 1987), makes it fall: t pages add Q0 (1 - (1 - Q1 / (T Q0 + Q1))^t) (R. K. Colwell et
  al., "Models and estimators linking individual-based and sample-based rarefaction, extrapolation and comparison of
  assemblages", Journal of Plant Ecology 5, 2012, eq. 18). That is a lower bound. Without any Q2 nothing speaks for an
  end: the rate stays.
- A power law, S (1 + t / T)^b - S with b = Q1 / S, which has the same rate now and falls more slowly (H. S. Heaps,
  "Information Retrieval: Computational and Theoretical Aspects", 1978): where each page has a page of its own, as a
  product its form for reviews, b is 1, and one page more is one url more. It grows for ever: the upper estimate.

The likely figure is their geometric mean, the low one what was heard of. How many pages a stratum has depends on the
others: all are solved together.

Both take pages as they come, and a series is not like that: page 7 leads to page 8, and nothing says how many come.
Where pages of a stratum still lead to new ones of their own, what is left is taken to be as much as was seen, or three
times that for the upper estimate; by the Copernican principle (J. R. Gott, Nature 363, 1993) it is no more than x times
as much with probability x / (1 + x). The same bounds what pages add that only an estimate says are there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from llmcrawler.planning.generations import apart
from llmcrawler.planning.sample import SampledPage, SiteSample

_ROUNDS = 60
# So many times what was seen may be left of what shows no end: half of them, and three in four, have no more.
_REST_LIKELY, _REST_HIGH = 1.0, 3.0
# A series is open when so many of its later pages led to a new one; one by one, so that few of them wait.
_OPEN_SHARE = 0.5
_OPEN_PAGES = 3
_WAITING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    likely: float
    high: float

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.likely * factor, self.high * factor)

    def plus(self, other: Range) -> Range:
        return Range(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def rounded(self) -> dict[str, int]:
        return {"low": math.floor(self.low), "likely": math.floor(self.likely + 0.5), "high": math.ceil(self.high)}


@dataclass(frozen=True, slots=True)
class Stratum:
    """Urls of one shape: `known` of them were heard of, `pages` were fetched, of these `failed` in vain; `size` is how
    many there may be.
    """

    pattern: str
    known: int
    pages: tuple[SampledPage, ...]
    size: Range

    @property
    def failed_share(self) -> float:
        return sum(page.error is not None for page in self.pages) / len(self.pages) if self.pages else 0.0


@dataclass(frozen=True, slots=True)
class _Discovery:
    """What pages of one stratum showed of another; see above for T, S, Q1 and Q2. `is_steady`: what they add falls
    with none of them, as with pages of an open series.
    """

    sampled: int
    seen: int
    once: int
    twice: int
    is_steady: bool = False

    def chao(self, more: float) -> float:
        if self.is_steady or not self.twice or self.sampled < 2:
            return min(self.heaps(more), self.once / self.sampled * more)
        unseen = (self.sampled - 1) / self.sampled * self.once**2 / (2 * self.twice)
        left = (1 - self.once / (self.sampled * unseen + self.once)) ** more
        return float(unseen * (1 - left))

    def heaps(self, more: float) -> float:
        if self.is_steady:
            return self.once / self.sampled * more
        return float(self.seen * ((1 + more / self.sampled) ** (self.once / self.seen) - 1))

    def likely(self, more: float) -> float:
        return math.sqrt(self.chao(more) * self.heaps(more))

    @property
    def doubt(self) -> float:
        """The relative standard error of a count of `once` events."""
        return 1 / math.sqrt(self.once)

    def high(self, more: float) -> float:
        return self.heaps(more) * (1 + self.doubt)


def site_size(sample: SiteSample) -> list[Stratum]:
    """Each stratum with its size, largest first."""
    patterns = {*sample.known_counts, *sample.by_pattern}
    sizes = _sizes(sample)
    parts = apart(sample)
    if parts is not None:
        finer = _sizes(parts.sample)
        for name, depths in parts.names.items():
            whole = finer[depths[0]]
            for depth in depths[1:]:
                whole = whole.plus(finer[depth])
            sizes[name] = Range(whole.low, whole.likely, max(whole.high, sizes[name].high))
    strata = [
        Stratum(name, _known(sample, name), tuple(sample.by_pattern.get(name, ())), sizes[name]) for name in patterns
    ]
    return sorted(strata, key=lambda one: (-one.size.likely, one.pattern))


def _known(sample: SiteSample, name: str) -> int:
    return max(sample.known_counts.get(name, 0), len(sample.by_pattern.get(name, ())))


def _sizes(sample: SiteSample) -> dict[str, Range]:
    known = {name: _known(sample, name) for name in {*sample.known_counts, *sample.by_pattern}}
    if sample.is_whole:
        return {name: Range(count, count, count) for name, count in known.items()}
    series = _open_series(sample)
    found = _discoveries(sample, series)
    found = {edge: one for edge, one in found.items() if edge[0] != edge[1] or edge[0] not in series}
    likely = _solve(known, found, _Discovery.likely, series, _REST_LIKELY)
    high = _solve(known, found, _Discovery.high, series, _REST_HIGH)
    sizes = {}
    for name, low in known.items():
        more = max(0.0, likely[name] - low)
        sizes[name] = Range(low, low + more, max(low + _REST_HIGH * more, high[name]))
    return sizes


def _solve(
    known: Mapping[str, int],
    found: Mapping[tuple[str, str], _Discovery],
    how: Callable[[_Discovery, float], float],
    series: Mapping[str, int],
    rest: float,
) -> dict[str, float]:
    """The sizes at which what is still unfetched of each stratum adds just what is missing of the others."""
    heard = {name: count + rest * series.get(name, 0) for name, count in known.items()}
    sizes = _grown(heard, heard, found, how)
    most = {name: (1 + rest) * size for name, size in sizes.items()}
    for _ in range(_ROUNDS):
        grown = {name: min(size, most[name]) for name, size in _grown(heard, sizes, found, how).items()}
        if all(abs(grown[name] - sizes[name]) < 0.01 for name in sizes):
            break
        sizes = grown
    return sizes


def _grown(
    heard: Mapping[str, float],
    sizes: Mapping[str, float],
    found: Mapping[tuple[str, str], _Discovery],
    how: Callable[[_Discovery, float], float],
) -> dict[str, float]:
    grown = dict(heard)
    for (source, target), discovery in found.items():
        grown[target] += how(discovery, max(0.0, sizes[source] - discovery.sampled))
    return grown


def _open_series(sample: SiteSample) -> dict[str, int]:
    """The strata whose later pages still led to new ones of their own, with the pages that were fetched of them."""
    seen = set(sample.listed)
    leads: dict[str, list[bool]] = {}
    for page in sample.pages:
        own = {url for url in page.links - seen if sample.known[url] == page.pattern}
        leads.setdefault(page.pattern, []).append(bool(own))
        seen |= page.links
    later = {name: pages[len(pages) // 2 :] for name, pages in leads.items() if len(pages) >= _OPEN_PAGES}
    counts = {name: len(leads[name]) for name, pages in later.items() if sum(pages) >= _OPEN_SHARE * len(pages)}
    return {
        name: count
        for name, count in counts.items()
        if 0 < sample.known_counts.get(name, 0) - count <= _WAITING_SHARE * count
    }


def _discoveries(sample: SiteSample, series: Collection[str]) -> dict[tuple[str, str], _Discovery]:
    """By (stratum of the pages, stratum of the urls); only where something was seen once."""
    linked_from: dict[str, list[str]] = {}
    for page in sample.pages:
        for url in page.links - sample.listed:
            linked_from.setdefault(url, []).append(page.pattern)
    seen = Counter(sample.known[url] for url in linked_from)
    times: dict[tuple[str, str], Counter[int]] = {}
    for url, sources in linked_from.items():
        target = sample.known[url]
        lists = sum(source != target for source in sources)
        for source in set(sources):
            count = lists if source in series and source != target else len(sources)
            times.setdefault((source, target), Counter())[count] += 1
    return {
        (source, target): _Discovery(
            len(sample.by_pattern[source]), seen[target], counts[1], counts[2], is_steady=source in series
        )
        for (source, target), counts in times.items()
        if counts[1]
    }
