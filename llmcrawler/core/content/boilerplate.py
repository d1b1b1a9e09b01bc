"""Learns over the pages of a site which blocks repeat and in which region the main content stands, and judges blocks by
that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import Final

from llmcrawler.items import TextBlock

_MIN_PAGES: Final = 3
_SHARE: Final = 0.3
_MAX_OBSERVED: Final = 1_000  # at each end of a page

# By how much the log-odds of a block change: in the main region, where it repeats on every page, and where all of its
# region repeats (a form's labels, a notice: less a sign than words that repeat among others). From a logistic
# regression over sites whose software marks the main content; benchmarks/content_by_template.py measures it.
_IN_MAIN_REGION: Final = 2.1
_REPEATS: Final = -2.6
_REGION_REPEATS: Final = 1.5
# After so many other pages what they show counts for half.
_HALF_TRUSTED: Final = 3
_TRUSTED: Final = 0.4  # three pages
# So much less a block that is on all pages counts for its region: of two regions that read alike the rail is the other.
_REPEATED_LESS: Final = 0.15
# A region that explains the pages so much worse than all of them is none of the main content.
_NEAR_WHOLE: Final = 0.8


def _trust(pages: int) -> float:
    """Return how far what `pages` pages have shown is believed, 0 (a single one) to 1."""
    return max(0, pages - 1) / (max(0, pages - 1) + _HALF_TRUSTED)


class Boilerplate:
    """Counts for one site the pages that show each block, and how well each region holds the main content.

    A region is a path of containers (see `TextBlock.region`). The main one of a page is that which, on the pages that
    show it, comes nearest to what the blocks' own scores say, by the expected word F1 of taking all that is in it. So
    regions that only one template has are judged by its pages, and those that templates share by all of theirs.

    Memory is bounded: of more than `max_keys` blocks or regions the one not seen for longest goes first.
    """

    def __init__(self, max_keys: int = 20_000) -> None:
        self._max_keys = max_keys
        self._pages = 0
        # key -> pages that show it, number of pages seen before the first of them
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()
        # region -> pages with text in it, sum of its expected F1; pages with blocks of its own, sum of the shares of
        # their words that repeat
        self._regions: OrderedDict[int, tuple[int, float, int, float]] = OrderedDict()

    def observe(self, blocks: Sequence[TextBlock]) -> None:
        """Count the blocks of one page, each key once. Of a very long page those at its ends, where a site repeats
        itself: else a single page would make the others be forgotten.
        """
        keys = _keys(blocks)
        observed = keys
        if len(keys) > 2 * _MAX_OBSERVED:
            observed = [*keys[:_MAX_OBSERVED], *keys[-_MAX_OBSERVED:]]
        for key in set(observed):
            count, first = self._seen.pop(key, (0, self._pages))
            self._seen[key] = (count + 1, first)
        self._pages += 1
        self._observe_regions(blocks, keys)
        for known in (self._seen, self._regions):
            while len(known) > self._max_keys:
                known.popitem(last=False)

    def is_repeated(self, key: int) -> bool:
        """Tell whether the block of this key is on enough pages to be the site's and not the page's: at least three,
        and 30% of those seen since it first came up, so that a section's block counts within the section's run.
        """
        count, first = self._seen.get(key, (0, 0))
        return count >= _MIN_PAGES and count >= _SHARE * (self._pages - first)

    def repeated(self, blocks: Sequence[TextBlock]) -> list[bool]:
        """Tell of each block whether it is repeated; of a unit only the whole is counted, not its parts: tables of
        many pages share their header and some rows.
        """
        return [self.is_repeated(key) for key in _keys(blocks)]

    def judge(self, blocks: Sequence[TextBlock]) -> tuple[list[float], list[bool]]:
        """Return for each block the probability that it is main content, by its page and all that were observed, and
        whether it is of the site's frame: repeated, and outside of the page's main region, which is known.
        """
        main, trust = self._main_region(blocks)
        of_regions: dict[tuple[int, ...], float] = {}
        is_known = trust >= _TRUSTED
        scores, frame = [], []
        region, evidence = None, 0.0
        keys = _keys(blocks)
        for block, key, repetition in zip(blocks, keys, self._repetitions(keys), strict=True):
            score = block.score
            if block.region is not region:
                region = block.region
                known = of_regions.get(region)
                evidence = of_regions[region] = self._evidence(region, main, trust) if known is None else known
            if not repetition and not evidence:
                scores.append(score)
                frame.append(False)
                continue
            odds = exp(evidence + _REPEATS * repetition) * score
            scores.append(odds / (1 - score + odds))
            frame.append(repetition > 0 and is_known and main not in region and self.is_repeated(key))
        return scores, frame

    def _evidence(self, region: tuple[int, ...], main: int, trust: float) -> float:
        _, _, pages, share = self._regions.get(region[-1], _UNSEEN) if region else _UNSEEN
        found = _IN_MAIN_REGION * trust if main in region else 0.0
        return found + (_REGION_REPEATS * _trust(pages) * share / pages if pages else 0.0)

    def _repetitions(self, keys: Sequence[int]) -> list[float]:
        """Return for each block the share of the other pages since the first that show it, less where only a few do."""
        seen, all_pages = self._seen.get, self._pages
        found = []
        for key in keys:
            count, first = seen(key, _NEW)
            others = count - 1
            found.append(others * others / ((others + _HALF_TRUSTED) * (all_pages - first)) if others > 0 else 0.0)
        return found

    def _observe_regions(self, blocks: Sequence[TextBlock], keys: Sequence[int]) -> None:
        own: dict[tuple[int, ...], list[float]] = {}  # words, expected main words, words that repeat
        before, sums = None, [0.0, 0.0, 0.0]  # a path is long to look up, and mostly the same as that before it
        for block, repetition in zip(blocks, self._repetitions(keys), strict=True):
            if block.region is not before:
                before = block.region
                sums = own.setdefault(before, [0.0, 0.0, 0.0])
            words = block.word_count
            sums[0] += words
            sums[1] += words * block.score * (1 - _REPEATED_LESS * repetition)
            if repetition:
                sums[2] += words
        total = sum(sums[1] for sums in own.values())
        for one, (all_words, main) in _sums_below(own).items():
            pages, quality, own_pages, repeated = self._regions.pop(one, _UNSEEN)
            found = 2 * main / (all_words + total) if all_words else 0.0
            self._regions[one] = (pages + 1, quality + found, own_pages, repeated)
        for region, (count, _, again) in own.items():
            if region and count:
                pages, quality, own_pages, repeated = self._regions[region[-1]]
                self._regions[region[-1]] = (pages, quality, own_pages + 1, repeated + again / count)

    def _main_region(self, blocks: Sequence[TextBlock]) -> tuple[int, float]:
        """Return the region of the page's main content, and how far that is to be trusted: 0 where there is none that
        comes near to what the whole page is.
        """
        paths = {block.region for block in blocks}
        if not paths:
            return 0, 0.0
        shared = set(next(iter(paths))).intersection(*paths)  # these hold the whole page, and tell nothing
        best, main = max(self._qualities(set[int]().union(*paths) - shared), default=(0.0, 0))
        if best <= _NEAR_WHOLE * max(self._qualities(shared), default=(0.0, 0))[0]:
            return 0, 0.0
        return main, _trust(self._regions.get(main, _UNSEEN)[0])

    def _qualities(self, regions: Iterable[int]) -> list[tuple[float, int]]:
        """Return how well each region holds the main content, and the region."""
        found = []
        for one in regions:
            pages, quality, _, _ = self._regions.get(one, _UNSEEN)
            found.append((quality / (pages + _HALF_TRUSTED), one))
        return found


_NEW: Final = (0, 0)
_UNSEEN: Final = (0, 0.0, 0, 0.0)


def _sums_below(own: Mapping[tuple[int, ...], Sequence[float]]) -> dict[int, tuple[float, float]]:
    """Return the first two sums of each region and all within it."""
    levels: list[dict[int, list[float]]] = [{} for _ in range(max(map(len, own), default=0))]
    around: dict[int, int] = {}
    for path, (words, main, _) in own.items():
        for depth in range(len(path) - 1, -1, -1):
            one = path[depth]
            if one in around:
                break
            around[one] = path[depth - 1] if depth else 0
            levels[depth][one] = [0.0, 0.0]
        if path:
            sums = levels[len(path) - 1][path[-1]]
            sums[0] += words
            sums[1] += main
    for depth in range(len(levels) - 1, 0, -1):
        for one, (words, main) in levels[depth].items():
            sums = levels[depth - 1][around[one]]
            sums[0] += words
            sums[1] += main
    return {one: (sums[0], sums[1]) for level in levels for one, sums in level.items()}


def _keys(blocks: Sequence[TextBlock]) -> list[int]:
    """Return the key of each block, and for those of a unit the one that stands for all of it."""
    members: dict[int, list[int]] = {}
    for block in blocks:
        if block.unit:
            members.setdefault(block.unit, []).append(block.key)
    if not members:
        return [block.key for block in blocks]
    of_units = {unit: hash(tuple(keys)) for unit, keys in members.items()}
    return [of_units[block.unit] if block.unit else block.key for block in blocks]
