"""Finds the known group that a page is most similar to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.understanding.templates.grouping_types import PageSample, SimilarityMetric

_ROWS = 64
_KEPT = 64
_CLOSE = 0.05
_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class GroupMatch:
    """The best group for a page, and other groups that are nearly as good."""

    template: str
    similarity: float
    rivals: tuple[str, ...] = ()


class Matcher:
    """Finds the group whose known pages a page is most similar to on average: the measure of the clustering itself.

    An inverted index (feature -> known pages that have it) makes it one small matrix product a page. `metric` is None
    before the first clustering. `floors` has, per group, the similarity below which a page is unlike all known ones.
    """

    def __init__(self, metric: SimilarityMetric | None = None) -> None:
        self.metric = metric
        self.floors: dict[str, float] = {}
        measure = metric or SimilarityMetric()
        self.threshold = measure.threshold
        self._url_share = measure.url_share
        self._dom = _Index(measure.weights, measure.unknown_weight, keeps_sets=True)
        self._url = _Index(measure.weights, measure.unknown_url_weight, keeps_sets=False)
        self._samples: list[PageSample] = []
        self._group: list[int] = []  # number of each sample's group
        self._counted: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # that, and how many each group has
        self._numbers: dict[str, int] = {}  # group -> 0, 1, ... in the order in which they came
        self._similarities: dict[frozenset[str], NDArray[np.float64]] = {}  # of the DOM, by a page's features

    def add(self, sample: PageSample, template: str) -> None:
        """Let the page stand for the group in later matches."""
        self._samples.append(sample)
        self._group.append(self._number(template))
        self._counted = None
        self._dom.add(sample.features)
        self._url.add(sample.tokens)
        self._similarities.clear()

    def is_loose(self, match: GroupMatch, template: str) -> bool:
        return match.similarity < self.floors.get(template, 0.0) - _TOLERANCE

    def match(self, sample: PageSample) -> GroupMatch | None:
        """Return the best group, the older one on a tie; None when there is none."""
        if not self._group:
            return None
        url = self._url.similarity(sample.tokens)
        similarity = (1 - self._url_share) * self._dom_similarity(sample.features) + self._url_share * url
        average = self._by_group(similarity)
        best = int(average.argmax())
        rivals = {self._group[int(similarity.argmax())]}
        rivals.update(np.flatnonzero(average > average[best] - _CLOSE).tolist())
        names = list(self._numbers)
        return GroupMatch(names[best], float(average[best]), tuple(names[rival] for rival in sorted(rivals - {best})))

    def _dom_similarity(self, features: frozenset[str]) -> NDArray[np.float64]:
        """Return the similarity of features to those of each known page: most pages of a site share theirs with another
        one."""
        known = self._similarities.get(features)
        if known is None:
            if len(self._similarities) >= _KEPT:
                self._similarities.clear()
            known = self._similarities[features] = self._dom.similarity(features)
        return known

    def _by_group(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._counted is None:
            numbers = np.asarray(self._group)
            self._counted = numbers, np.bincount(numbers, minlength=len(self._numbers))
        group, counts = self._counted
        sums = np.bincount(group, weights=similarity, minlength=len(counts))
        average: NDArray[np.float64] = np.where(counts > 0, sums / np.maximum(counts, 1), -1.0)
        return average

    def regroup(self, group_of: Mapping[str, str]) -> None:
        """Follow a split: `group_of` maps urls to the groups that their pages have now."""
        self._group = [self._number(group_of.get(sample.url, template)) for sample, template in self.rows()]
        self._counted = None

    def rows(self) -> list[tuple[PageSample, str]]:
        """Return the pages that stand for groups, in the order they came, each with its group."""
        names = list(self._numbers)
        return [(sample, names[number]) for sample, number in zip(self._samples, self._group, strict=True)]

    def _number(self, template: str) -> int:
        return self._numbers.setdefault(template, len(self._numbers))


class _Known(NamedTuple):
    """What an index knows of a set: the rows and weights of its members that it has, and the weight of all."""

    rows: NDArray[np.intp]
    weights: NDArray[np.float64]
    size: float


class _Index:
    """Computes the weighted Jaccard similarity of one set to each of many known sets. `keeps_sets`: most of these come
    more than once.
    """

    def __init__(self, weights: Mapping[str, float], unknown: float, *, keeps_sets: bool) -> None:
        self._keeps_sets = keeps_sets
        self._weights = weights
        self._unknown = unknown
        self._rows: dict[str, int] = {}
        self._matrix: NDArray[np.uint8] = np.zeros((_ROWS, _ROWS), dtype=np.uint8)
        self._count = 0
        self._sizes: NDArray[np.float64] = np.zeros(_ROWS)
        self._known: dict[frozenset[str], _Known] = {}  # sets that were added

    def add(self, features: frozenset[str]) -> None:
        found = self._known.get(features)
        if found is None:
            names = sorted(features)
            for name in names:
                self._rows.setdefault(name, len(self._rows))
            found = self._looked_up(names)
            if self._keeps_sets:
                self._known[features] = found
        column = self._count
        rows, columns = self._matrix.shape
        if column >= columns or len(self._rows) > rows:
            more_rows = 2 * len(self._rows) - rows if len(self._rows) > rows else 0
            more_columns = columns if column >= columns else 0
            self._matrix = np.pad(self._matrix, ((0, more_rows), (0, more_columns)))
            self._sizes = np.pad(self._sizes, (0, more_columns))
        self._matrix[found.rows, column] = 1
        self._sizes[column] = found.size
        self._count += 1

    def similarity(self, features: frozenset[str]) -> NDArray[np.float64]:
        found = self._known.get(features) or self._looked_up(sorted(features))
        sizes = self._sizes[: self._count]
        common = found.weights @ self._matrix[found.rows, : self._count]
        union = sizes + found.size - common
        similarity: NDArray[np.float64] = np.where(union > 1e-6, common / np.maximum(union, 1e-6), 1.0)
        return similarity

    def _looked_up(self, names: list[str]) -> _Known:
        """Return what is known of sorted names: a sum in the order of a set differs in its last bits from process to
        process.
        """
        weights = [self._weights.get(name, self._unknown) for name in names]
        rows = np.array([self._rows.get(name, -1) for name in names], np.intp)
        is_known = rows >= 0
        return _Known(rows[is_known], np.array(weights, np.float64)[is_known], sum(weights))
