"""Clusters the pages that are kept of a site anew, so that each cluster is one template's, by DOM features and by
tokens of what the site calls its pages (url, title, body classes).

Nothing here is tuned to a kind of site. A feature counts as far as a page's nearest neighbours predict it, those by DOM
and those by name. The names' share and the threshold come from how far the two agree on this site: where pages of like
names differ much in their DOM, authors fill templates freely, and a template's pages are less alike.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.understanding.templates.page_sample import Names, PageSample

Floats = NDArray[np.float32]

# Of a site's mean similarity between neighbours, where names and DOM agree. Stricter while few pages are known: two
# groups that were one are merged for nothing later, but a group that was two has given wrong verdicts.
THRESHOLD_SHARE = 0.63
EARLY_STRICTNESS = 0.2
EARLY_PAGES = 40
SINGLE_FLOOR_SHARE = 0.85
MAX_URL_SHARE = 0.5
_ROUNDS = 2
_APART = -8.0  # a similarity that no average can make good


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The reservoir at one moment, in a fixed order, with the group of each page. `apart`: pairs of groups that labels
    have shown to be different, which are never merged again.
    """

    samples: tuple[PageSample, ...]
    groups: tuple[str, ...]
    apart: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class SimilarityMetric:
    """Measure of the similarity of two pages; the defaults hold until the first clustering. Names without a weight
    weigh `unknown_weight` or `unknown_url_weight`. `url_share` in 0..1 is the url's part. Pages above `threshold`
    belong together.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    unknown_weight: float = 1.0
    unknown_url_weight: float = 1.0
    url_share: float = 0.5
    threshold: float = 0.0

    def to_json(self) -> dict[str, Any]:
        weights = sorted(self.weights.items())
        numbers = np.array([weight for _, weight in weights], dtype="<f4")  # as they were measured: nothing is rounded
        return {
            "names": [name for name, _ in weights],
            "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
            "unknown_weight": self.unknown_weight,
            "unknown_url_weight": self.unknown_url_weight,
            "url_share": self.url_share,
            "threshold": self.threshold,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        weights = np.frombuffer(base64.b64decode(value["weights"]), dtype="<f4").tolist()
        scalars = ("unknown_weight", "unknown_url_weight", "url_share", "threshold")
        return cls(dict(zip(as_texts(value["names"]), weights, strict=True)), *(float(value[name]) for name in scalars))


def as_texts(values: Iterable[Any]) -> list[str]:
    """Return values out of a file, which are texts. Raises TypeError for others."""
    found = list(values)
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"not texts: {found!r:.100}")
    return found


@dataclass(frozen=True, slots=True)
class Clustering:
    """A cluster number for each sample of the snapshot, the metric it was made with and, per cluster, the similarity of
    its least typical page to the others.
    """

    snapshot: Snapshot
    clusters: tuple[int, ...]
    metric: SimilarityMetric
    floors: tuple[float, ...]


def recluster(snapshot: Snapshot) -> Clustering:
    """Cluster the snapshot's pages anew. Pure and deterministic; some 30 ms of one core for 256 pages."""
    samples = snapshot.samples
    early = min(1.0, EARLY_PAGES / max(1, len(samples)))
    dom = _Space([sample.features for sample in samples])
    url = _Space([sample.tokens for sample in samples], lone_share=early)
    neighbours = _nearest(dom.similarity(dom.rarity()))
    for _ in range(_ROUNDS):
        dom.weigh(neighbours)
        dom_similarity = dom.similarity(dom.weights)
        neighbours = _nearest(dom_similarity)
    url.weigh(neighbours)
    named_alike = _nearest(url.similarity(url.weights))
    # What neighbours by DOM share may be content that a few pages have in common; neighbours by name tell it apart.
    dom.weigh(named_alike, _agreement(dom_similarity, named_alike))
    dom_similarity = dom.similarity(dom.weights)
    neighbours = _nearest(dom_similarity)
    url.weigh(neighbours)
    url_similarity = url.similarity(url.weights)
    agreement = _agreement(dom_similarity, _nearest(url_similarity))
    url_share = MAX_URL_SHARE * agreement
    similarity = (1 - url_share) * dom_similarity + url_share * url_similarity
    # Pages of like names that differ in their DOM lower the threshold as far as neighbours by DOM bear like names: else
    # the names tell nothing.
    freedom = _agreement(url_similarity, neighbours) * (1 - agreement) * (1 - early)
    share = THRESHOLD_SHARE * (1 - freedom) + EARLY_STRICTNESS * early
    threshold = share * _predictability(similarity, _nearest(similarity))
    apart, groups = similarity.copy(), np.array(snapshot.groups)
    for one, other in sorted(snapshot.apart):
        apart[np.ix_(groups == one, groups == other)] = _APART
        apart[np.ix_(groups == other, groups == one)] = _APART
    clusters = part_by_declared_kind(samples, _average_linkage(apart, threshold))
    return Clustering(
        snapshot=snapshot,
        clusters=tuple(clusters),
        metric=SimilarityMetric(
            weights={**dom.weight_by_name(), **url.weight_by_name()},
            unknown_weight=dom.rare_weight,
            unknown_url_weight=url.rare_weight,
            url_share=url_share,
            threshold=threshold,
        ),
        floors=_floors(similarity, clusters, SINGLE_FLOOR_SHARE * (threshold / share)),
    )


class _Space:
    """Pages as rows of a 0/1 matrix over one kind of feature. One that a single page has counts `lone_share`."""

    def __init__(self, rows: Sequence[Names], *, lone_share: float = 1.0) -> None:
        self._lone_share = lone_share
        self.names, self.matrix = _matrix(rows)
        self.counts = self.matrix.sum(axis=0)
        self.weights: Floats = np.ones(len(self.names), dtype=np.float32)
        self.rare_weight = 0.5

    def rarity(self) -> Floats:
        """Return inverse document frequencies: the first guess at weights, before neighbours are known."""
        weights: Floats = np.log((1 + len(self.matrix)) / (self.counts + 0.5)).astype(np.float32)
        return weights

    def similarity(self, weights: Floats) -> Floats:
        """Return the weighted Jaccard similarity of all pairs of pages; the diagonal means nothing."""
        # A feature of one page adds to no intersection. A product of a matrix with itself costs half (BLAS syrk).
        shared = np.flatnonzero((self.counts > 1) & (weights > 0))
        scaled = self.matrix[:, shared] * np.sqrt(weights[shared])
        common = scaled @ scaled.T
        sizes = self.matrix @ weights
        union = sizes[:, None] + sizes[None, :] - common
        similarity: Floats = np.where(union > 1e-6, common / np.maximum(union, 1e-6), 1.0).astype(np.float32)
        return similarity

    def weigh(self, neighbours: NDArray[np.intp], share: float = 1.0) -> None:
        """Weigh each feature by how much better than chance a page's neighbours predict it; the rest of the weight
        is the one that it had."""
        pages, near = neighbours.shape
        if not self.names:
            return
        predicted = self.matrix[neighbours].sum(axis=1)
        hit = (predicted * self.matrix).sum(axis=0) / (max(1, near) * np.maximum(self.counts, 1))
        base = (self.counts - 1) / max(1, pages - 1)
        weights = np.clip((hit - base) / np.maximum(1 - base, 1e-6), 0, 1)
        weights[self.counts >= pages] = 0
        # A feature that one page has could not be predicted; this site's other rare ones tell what it is worth.
        seldom = (self.counts >= 2) & (self.counts <= max(3, pages // 20))
        rare_weight = self._lone_share * (float(weights[seldom].mean()) if seldom.any() else 0.5)
        weights[self.counts == 1] = rare_weight
        self.rare_weight = (1 - share) * self.rare_weight + share * rare_weight
        self.weights = ((1 - share) * self.weights + share * weights).astype(np.float32)

    def weight_by_name(self) -> dict[str, float]:
        return dict(zip(self.names, self.weights.tolist(), strict=True))


def _matrix(rows: Sequence[Names], prefixes: str | tuple[str, ...] = "") -> tuple[list[str], Floats]:
    """Return the sorted names that begin with one of the prefixes, and a 0/1 matrix of them."""
    names = sorted(name for name in frozenset().union(*rows) if name.startswith(prefixes))
    index = {name: number for number, name in enumerate(names)}
    matrix: Floats = np.zeros((len(rows), len(names)), dtype=np.float32)
    columns = {features: [index[name] for name in features if name in index] for features in set(rows)}
    for row, features in enumerate(rows):
        matrix[row, columns[features]] = 1.0
    return names, matrix


def _nearest(similarity: Floats) -> NDArray[np.intp]:
    """Return the numbers of the few most similar other pages of each page, ties by order."""
    pages = len(similarity)
    near = max(0, min(3 if pages >= 16 else 2 if pages >= 8 else 1, pages - 1))
    others = similarity.copy()
    np.fill_diagonal(others, -np.inf)
    found = np.empty((pages, near), dtype=np.intp)
    for place in range(near):  # a sort of all the others takes ten times as long
        found[:, place] = others.argmax(axis=1)
        np.put_along_axis(others, found[:, place : place + 1], -np.inf, axis=1)
    return found


def _predictability(similarity: Floats, neighbours: NDArray[np.intp]) -> float:
    return float(np.take_along_axis(similarity, neighbours, axis=1).mean()) if neighbours.size else 1.0


def _floors(similarity: Floats, clusters: list[int], for_single: float) -> tuple[float, ...]:
    members = np.asarray(clusters)
    floors = []
    for cluster in range(max(clusters, default=-1) + 1):
        inside = np.flatnonzero(members == cluster)
        block = similarity[np.ix_(inside, inside)]
        others = max(1, len(inside) - 1)
        means = (block.sum(axis=1) - block.diagonal()) / others
        floors.append(float(means.min()) if len(inside) > 1 else for_single)
    return tuple(floors)


def _agreement(similarity: Floats, neighbours: NDArray[np.intp]) -> float:
    """Measure how far neighbours by another measure are neighbours by this one: 0 no better than chance, 1 as good."""
    pages = len(similarity)
    if pages < 3:
        return 0.0
    best = _predictability(similarity, _nearest(similarity))
    by_other = _predictability(similarity, neighbours)
    chance = float((similarity.sum() - np.trace(similarity)) / (pages * (pages - 1)))
    return min(1.0, max(0.0, (by_other - chance) / (best - chance))) if best - chance > 1e-3 else 0.0


def _average_linkage(similarity: Floats, threshold: float) -> list[int]:
    """Merge the two most similar clusters until none are as similar as the threshold (UPGMA); numbers by first page."""
    pages = len(similarity)
    sim = similarity.astype(np.float64)
    np.fill_diagonal(sim, -np.inf)
    size = np.ones(pages)
    cluster = np.arange(pages)
    for _ in range(pages - 1):
        i, j = divmod(int(sim.argmax()), pages)
        if sim[i, j] < threshold:
            break
        row = (sim[i] * size[i] + sim[j] * size[j]) / (size[i] + size[j])
        row[[i, j]] = -np.inf
        sim[i], sim[:, i] = row, row
        sim[j], sim[:, j] = -np.inf, -np.inf
        size[i] += size[j]
        cluster[cluster == j] = i
    return _numbered(cluster)


# A class and a word that so many pages of a cluster have, and as many have not, do not go together by chance.
_LEAST_PAGES = 5
_LEAST_SHARE = 0.08
_MOST_ODD = 0.05  # of the smaller side
_DECLARING = ("body.", "html.")
_NAMING = ("at", "from_end", "shape", "ext:", "key:", "name ")


def part_by_declared_kind(samples: Sequence[PageSample], clusters: Sequence[int]) -> list[int]:
    """Return the clusters parted, numbered by first page. A class counts only where the url says it, too: alone it may
    name the author, the season or an experiment.
    """
    classes = _matrix([sample.features for sample in samples], _DECLARING)[1]
    found = np.asarray(clusters)
    if (classes == classes[:1]).all():  # a class that all pages have goes with no word
        return _numbered(found)
    words = _matrix([sample.tokens for sample in samples], _NAMING)[1]
    unchecked = list(range(max(clusters, default=-1) + 1))
    new = len(unchecked)
    while unchecked:
        cluster = unchecked.pop()
        inside = np.flatnonzero(found == cluster)
        with_word = _side(words[inside], classes[inside])
        if with_word is not None:
            found[inside[with_word]] = new
            unchecked += [cluster, new]
            new += 1
    return _numbered(found)


def _numbered(clusters: NDArray[np.int_]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(one), len(numbers)) for one in clusters]


def _side(words: Floats, classes: Floats) -> NDArray[np.bool_] | None:
    """Return which pages have the word that goes best with a class; None where none goes with any."""
    pages = len(words)
    with_word, with_class = words.sum(axis=0), classes.sum(axis=0)
    smaller = np.minimum(with_word, pages - with_word)
    usable = smaller >= max(_LEAST_PAGES, _LEAST_SHARE * pages)
    if not usable.any() or not classes.shape[1]:
        return None
    apart = with_word[:, None] + with_class[None, :] - 2 * (words.T @ classes)
    odd = np.minimum(apart, pages - apart).min(axis=1) / np.maximum(smaller, 1)
    odd[~usable] = 1.0
    best = int(np.lexsort((-smaller, odd))[0])
    return words[:, best] > 0 if odd[best] <= _MOST_ODD else None


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
    `metric` is None before the first; below its group's floor a page is unlike all known ones.
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
        self._numbers: dict[str, int] = {}  # group -> 0, 1, ... in the order in which they came

    def add(self, sample: PageSample, template: str) -> None:
        self._samples.append(sample)
        self._group.append(self._number(template))
        self._dom.add(sample.features)
        self._url.add(sample.tokens)

    def is_loose(self, similarity: float, template: str) -> bool:
        return similarity < self.floors.get(template, 0.0) - _TOLERANCE

    def match(self, sample: PageSample) -> GroupMatch | None:
        """Return the best group, the older one on a tie; None when there is none."""
        if not self._group:
            return None
        dom, url = self._dom.similarity(sample.features), self._url.similarity(sample.tokens)
        similarity = (1 - self._url_share) * dom + self._url_share * url
        group = np.asarray(self._group)
        counts = np.bincount(group, minlength=len(self._numbers))
        sums = np.bincount(group, weights=similarity, minlength=len(counts))
        average = np.where(counts > 0, sums / np.maximum(counts, 1), -1.0)
        best = int(average.argmax())
        rivals = {self._group[int(similarity.argmax())]}
        rivals.update(np.flatnonzero(average > average[best] - _CLOSE).tolist())
        names = list(self._numbers)
        return GroupMatch(names[best], float(average[best]), tuple(names[rival] for rival in sorted(rivals - {best})))

    def regroup(self, group_of: Mapping[str, str]) -> None:
        """Follow a split: `group_of` maps urls to the groups that their pages have now."""
        self._group = [self._number(group_of.get(sample.url, template)) for sample, template in self.rows()]

    def rows(self) -> list[tuple[PageSample, str]]:
        names = list(self._numbers)
        return [(sample, names[number]) for sample, number in zip(self._samples, self._group, strict=True)]

    def _number(self, template: str) -> int:
        return self._numbers.setdefault(template, len(self._numbers))


_LookedUp = tuple[NDArray[np.intp], NDArray[np.float64], float]


class _Index:
    """Computes the weighted Jaccard similarity of one set to each of many known sets: an inverted index (name -> known
    sets that have it) makes it one small matrix product. `keeps_sets`: most of these come more than once.
    """

    def __init__(self, weights: Mapping[str, float], unknown: float, *, keeps_sets: bool) -> None:
        self._weights = weights
        self._unknown = unknown
        self._rows: dict[str, int] = {}
        self._matrix: NDArray[np.uint8] = np.zeros((_ROWS, _ROWS), dtype=np.uint8)
        self._count = 0
        self._sizes: NDArray[np.float64] = np.zeros(_ROWS)
        self._keeps_sets = keeps_sets
        self._added: dict[Names, _LookedUp] = {}
        self._found: dict[Names, NDArray[np.float64]] = {}

    def add(self, names: Names) -> None:
        if names not in self._added:
            for name in sorted(names):
                self._rows.setdefault(name, len(self._rows))
        rows, _, size = looked_up = self._added.get(names) or self._looked_up(names)
        if self._keeps_sets:
            self._added[names] = looked_up
        have_rows, columns = self._matrix.shape
        if self._count >= columns or len(self._rows) > have_rows:
            more_rows = 2 * len(self._rows) - have_rows if len(self._rows) > have_rows else 0
            more_columns = columns if self._count >= columns else 0
            self._matrix = np.pad(self._matrix, ((0, more_rows), (0, more_columns)))
            self._sizes = np.pad(self._sizes, (0, more_columns))
        self._matrix[rows, self._count] = 1
        self._sizes[self._count] = size
        self._count += 1
        self._found.clear()

    def similarity(self, names: Names) -> NDArray[np.float64]:
        found = self._found.get(names)
        if found is None:
            rows, weights, size = self._added.get(names) or self._looked_up(names)
            common = weights @ self._matrix[rows, : self._count]
            union = self._sizes[: self._count] + size - common
            found = np.where(union > 1e-6, common / np.maximum(union, 1e-6), 1.0)
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[names] = found
        return found

    def _looked_up(self, names: Names) -> _LookedUp:
        """Return the rows and weights of the names that have a row, and the weight of all: sorted, as a sum in the
        order of a set differs in its last bits from process to process.
        """
        ordered = sorted(names)
        weights = [self._weights.get(name, self._unknown) for name in ordered]
        rows = np.array([self._rows.get(name, -1) for name in ordered], np.intp)
        is_known = rows >= 0
        return rows[is_known], np.array(weights, np.float64)[is_known], sum(weights)
