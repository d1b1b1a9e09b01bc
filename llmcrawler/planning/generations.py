"""Where pages lead to ever fewer of their own kind the deeper one goes: trees.

What is left of a tree are mostly leaves, while the pages that were fetched first are its thick boughs: what one of
those leads to says little of the rest. So the depths of such a stratum are strata of their own (P. C. Chen, "Heuristic
sampling: a method for predicting the performance of tree searching programs", SIAM Journal on Computing 21, 1992). The
deepest of them, of which few pages came, are one.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from llmcrawler.planning.sample import SiteSample

# So many pages show a trend; so many each above and below a depth; so many standard errors apart.
_ENOUGH_PAGES = 10
_ENOUGH_ABOVE, _ENOUGH_BELOW = 3, 5
_CLEARLY = 2.0
# Counts vary by one at least, also where those that came are all alike.
_LEAST_VARIANCE = 0.1


@dataclass(frozen=True, slots=True)
class Apart:
    """`sample` with the depths apart, and by stratum the `names` that it has there."""

    sample: SiteSample
    names: Mapping[str, Sequence[str]]


def apart(sample: SiteSample) -> Apart | None:
    """None where no stratum is like a tree, or all pages are known."""
    deepest = {} if sample.is_whole else _trees(sample)
    if not deepest:
        return None

    def name(url: str, pattern: str) -> str:
        depth = sample.depths.get(url, 0)
        return f"{pattern} at depth {min(depth, deepest[pattern])}" if pattern in deepest else pattern

    known = {url: name(url, pattern) for url, pattern in sample.known.items()}
    pages = [replace(page, pattern=name(page.url, page.pattern)) for page in sample.pages]
    names: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for url, pattern in sample.known.items():
        names[pattern][known[url]] = None
    for before, after in zip(sample.pages, pages, strict=True):
        names[before.pattern][after.pattern] = None
    return Apart(
        SiteSample(pages, known, sample.listed, sample.depths), {key: list(some) for key, some in names.items()}
    )


def _trees(sample: SiteSample) -> dict[str, int]:
    """Strata that are like a tree, each with the depth from which on all are one."""
    times = Counter(url for page in sample.pages for url in page.links - sample.listed)
    led: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for page in sample.pages:
        own = sum(times[url] == 1 and sample.known[url] == page.pattern for url in page.links - sample.listed)
        led[page.pattern].append((sample.depths.get(page.url, 0), own))
    return {
        pattern: sorted(depth for depth, _own in pages)[-_ENOUGH_BELOW]
        for pattern, pages in led.items()
        if len(pages) >= _ENOUGH_PAGES and _thins_out(pages)
    }


def _thins_out(pages: Sequence[tuple[int, int]]) -> bool:
    """Of (depth, how many pages it alone leads to): whether those below some depth lead to clearly fewer."""
    for cut in sorted({depth for depth, _own in pages})[1:]:
        above = [own for depth, own in pages if depth < cut]
        below = [own for depth, own in pages if depth >= cut]
        if len(above) < _ENOUGH_ABOVE or len(below) < _ENOUGH_BELOW:
            continue
        error = statistics.variance(above) / len(above)
        error += (statistics.variance(below) + _LEAST_VARIANCE) / len(below)
        if statistics.fmean(above) - statistics.fmean(below) > _CLEARLY * error**0.5:
            return True
    return False
