"""Works out the values of words for the main-text model: how often blocks that have them are main content, where each
site counts once. A page that is trained on gets values that its own site has no part in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.model_arrays import block_words, part_words
from llmcrawler.core.content.layout import Layout, Matrix
from llmcrawler.core.content.segmenter import Segments

MIN_SITES = 5
_PARTS = 10
_STEP = 32


class WordCounts:
    """Counts, for each site and word, the mean label of the blocks or containers that have the word."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._found: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._pairs: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None = None

    def add(self, site: int, page: Segments, layout: Layout, labels: NDArray[Any]) -> list[tuple[Any, Any]]:
        """Count a page; return for its blocks and its containers the numbers of their words, and how many each has."""
        words = np.array([block.words for block in page.blocks], float)
        per = np.zeros((len(layout.parents), 2))
        np.add.at(per, layout.containers, np.stack([labels * words, words], 1))
        below = layout.row_sums_below(per.T).T
        of_containers = np.where(below[:, 1] > 0, below[:, 0] / np.maximum(1, below[:, 1]), np.nan)
        found = []
        texts, parts = block_words(page), [part_words(attributes) for attributes in page.attributes]
        for some, values in ((texts, labels), (parts, of_containers)):
            numbers = [self._numbers.setdefault(word, len(self._numbers)) for one in some for word in sorted(one)]
            flat = np.array(numbers, int)
            sizes = np.array([len(one) for one in some])
            repeated = np.repeat(values, sizes)
            known = ~np.isnan(repeated)
            self._found.append((np.full(known.sum(), site), flat[known], repeated[known]))
            found.append((flat, sizes))
        return found

    def close(self) -> None:
        sites, words, labels = (np.concatenate(arrays) for arrays in zip(*self._found, strict=True))
        pairs, inverse = np.unique(sites.astype(np.int64) * len(self._numbers) + words, return_inverse=True)
        means = np.bincount(inverse, labels) / np.bincount(inverse)
        self._pairs, self._found = (pairs // len(self._numbers), pairs % len(self._numbers), means), []

    def values(self, sites: Sequence[int]) -> NDArray[Any]:
        """Return a value per word by what these sites say, NaN where fewer than MIN_SITES have it."""
        assert self._pairs is not None
        of_site, word, mean = self._pairs
        kept = np.isin(of_site, sites)
        count = np.bincount(word[kept], minlength=len(self._numbers))
        total = np.bincount(word[kept], mean[kept], minlength=len(self._numbers))
        value = np.clip(np.round((np.log((total + 0.6) / (count - total + 1.4)) + 0.85) * _STEP), -127, 127) / _STEP
        value[count < MIN_SITES] = np.nan
        return value

    def without_own(self, sites: Sequence[int]) -> dict[int, NDArray[Any]]:
        """Return the values for the pages of each site, by what others of the sites say."""
        found: dict[int, NDArray[Any]] = {}
        for part in range(_PARTS):
            own = [site for site in sites if site * 7 % _PARTS == part]
            found.update(dict.fromkeys(own, self.values([site for site in sites if site * 7 % _PARTS != part])))
        return found

    def table(self, sites: Sequence[int]) -> dict[str, float]:
        values = self.values(sites)
        return {word: values[number] for word, number in self._numbers.items() if not np.isnan(values[number])}


def summaries(values: NDArray[Any], flat: NDArray[Any], sizes: NDArray[Any]) -> Matrix:
    """Return what `block_words.summary` does, for all blocks or containers of a page."""
    of_word = values[flat]
    known = ~np.isnan(of_word)
    row, of_word = np.repeat(np.arange(len(sizes)), sizes)[known], of_word[known]
    count = np.bincount(row, minlength=len(sizes))
    lowest, highest = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(lowest, row, of_word)
    np.maximum.at(highest, row, of_word)
    mean = np.bincount(row, of_word, minlength=len(sizes)) / np.maximum(1, count)
    return np.where(count[:, None] > 0, np.stack([mean, lowest, highest], 1), 0).astype(np.float32)
