"""Which known group a page is most similar to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmcrawler.templates.values import Clustering, Sample

_ROWS = 64
_CLOSE = 0.05
_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Match:
    template: str
    similarity: float
    rivals: tuple[str, ...] = ()


class Matcher:
    """Average similarity of a page to each group's known pages: the measure of the clustering itself.

    An inverted index (feature -> which known pages have it) makes it one small matrix product a page.
    Before the first clustering every feature weighs the same and the url counts half.
    """

    def __init__(self, clustering: Clustering | None = None) -> None:
        self.clustering = clustering
        self.clustered = clustering is not None
        self.threshold = clustering.threshold if clustering else 0.0
        url_share = clustering.url_share if clustering else 0.5
        weights = clustering.weights if clustering else {}
        self._url_share = url_share
        self._dom = _Index(weights, clustering.unknown_weight if clustering else 1.0)
        self._url = _Index(weights, clustering.unknown_url_weight if clustering else 1.0)
        self._samples: list[Sample] = []
        self._templates: list[str] = []
        self._numbers: dict[str, int] = {}
        self._group: list[int] = []
        self._floors: dict[str, float] = {}

    def add(self, sample: Sample, template: str) -> None:
        """Let the page stand for the group in later matches."""
        self._samples.append(sample)
        self._group.append(self._number(template))
        self._dom.add(sorted(sample.features))
        self._url.add(sorted(sample.tokens))

    def set_floor(self, template: str, floor: float) -> None:
        """Pages less similar to the group than this are unlike all that is known of it."""
        self._floors[template] = floor

    def is_loose(self, match: Match, template: str) -> bool:
        return match.similarity < self._floors.get(template, 0.0) - _TOLERANCE

    def match(self, sample: Sample) -> Match | None:
        """The best group, ties to the older; None when there is none."""
        if not self._group:
            return None
        # Sorted, because a sum in the order of a set differs in its last bits from process to process.
        dom, url = self._dom.similarity(sorted(sample.features)), self._url.similarity(sorted(sample.tokens))
        similarity = (1 - self._url_share) * dom + self._url_share * url
        average = self._by_group(similarity)
        best = int(average.argmax())
        rivals = {self._group[int(similarity.argmax())]}
        rivals.update(np.flatnonzero(average > average[best] - _CLOSE).tolist())
        names = tuple(self._templates[rival] for rival in sorted(rivals - {best}))
        return Match(self._templates[best], float(average[best]), names)

    def _by_group(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        group = np.asarray(self._group)
        sums = np.bincount(group, weights=similarity, minlength=len(self._templates))
        counts = np.bincount(group, minlength=len(self._templates))
        average: NDArray[np.float64] = np.where(counts > 0, sums / np.maximum(counts, 1), -1.0)
        return average

    def regroup(self, group_of: Mapping[str, str]) -> None:
        """Follow a split: url -> the group the page has now."""
        self._group = [
            self._number(group_of.get(sample.url, self._templates[number])) for sample, number in self._rows()
        ]

    def rows(self) -> list[tuple[Sample, str]]:
        """The pages that stand for groups, in the order they came, each with its group."""
        return [(sample, self._templates[number]) for sample, number in self._rows()]

    @property
    def floors(self) -> Mapping[str, float]:
        return self._floors

    def _rows(self) -> Iterable[tuple[Sample, int]]:
        return zip(self._samples, self._group, strict=True)

    def _number(self, template: str) -> int:
        if template not in self._numbers:
            self._numbers[template] = len(self._templates)
            self._templates.append(template)
        return self._numbers[template]


class _Index:
    """Weighted Jaccard of one set against many known sets."""

    def __init__(self, weights: Mapping[str, float], unknown: float) -> None:
        self._weights = weights
        self._unknown = unknown
        self._rows: dict[str, int] = {}
        self._row_weights: list[float] = []
        self._matrix: NDArray[np.uint8] = np.zeros((_ROWS, _ROWS), dtype=np.uint8)
        self._sizes: list[float] = []

    def add(self, features: Sequence[str]) -> None:
        column = len(self._sizes)
        for name in features:
            if name not in self._rows:
                self._rows[name] = len(self._row_weights)
                self._row_weights.append(self._weights.get(name, self._unknown))
        rows, columns = self._matrix.shape
        if column >= columns or len(self._rows) > rows:
            grown = np.zeros(
                (
                    max(rows, 2 * len(self._rows) if len(self._rows) > rows else 0),
                    2 * columns if column >= columns else columns,
                ),
                dtype=np.uint8,
            )
            grown[:rows, :columns] = self._matrix
            self._matrix = grown
        self._matrix[[self._rows[name] for name in features], column] = 1
        self._sizes.append(self._size(features))

    def similarity(self, features: Sequence[str]) -> NDArray[np.float64]:
        known = [row for name in features if (row := self._rows.get(name)) is not None]
        weights = np.asarray([self._row_weights[row] for row in known])
        sizes = np.asarray(self._sizes)
        common = weights @ self._matrix[known, : len(sizes)] if known else np.zeros(len(sizes))
        union = sizes + self._size(features) - common
        similarity: NDArray[np.float64] = np.where(union > 1e-6, common / np.maximum(union, 1e-6), 1.0)
        return similarity

    def _size(self, features: Sequence[str]) -> float:
        return sum(self._weights.get(name, self._unknown) for name in features)
