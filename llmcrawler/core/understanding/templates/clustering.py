"""Clusters the pages that are kept of a site anew, so that each cluster is one template's, by DOM features and by
tokens of what the site calls its pages (url, title, body classes).

Nothing here is tuned to a kind of site. A feature counts as far as a page's nearest neighbours predict it, those by DOM
and those by name. The names' share and the threshold come from how far the two agree on this site: where pages of like
names differ much in their DOM, authors fill templates freely, and a template's pages are less alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.understanding.templates.declared_kinds import part_by_declared_kind
from llmcrawler.core.understanding.templates.grouping_types import Clustering, SimilarityMetric, Snapshot

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


def recluster(snapshot: Snapshot) -> Clustering:
    """Cluster the snapshot's pages anew. Pure and deterministic; some 30 ms of one core for 256 pages."""
    dom = _Space([sample.features for sample in snapshot.samples])
    url = _Space([sample.tokens for sample in snapshot.samples], lone_share=_earliness(len(snapshot.samples)))
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
    share = _threshold_share(len(snapshot.samples), agreement, _agreement(url_similarity, neighbours))
    threshold = share * _predictability(similarity, _nearest(similarity))
    clusters = _average_linkage(_kept_apart(similarity, snapshot), threshold)
    clusters = part_by_declared_kind(snapshot.samples, clusters)
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

    def __init__(self, rows: Sequence[frozenset[str]], *, lone_share: float = 1.0) -> None:
        self._lone_share = lone_share
        self.names = sorted(frozenset().union(*rows))
        index = {name: number for number, name in enumerate(self.names)}
        self.matrix: Floats = np.zeros((len(rows), len(self.names)), dtype=np.float32)
        for row, features in enumerate(rows):
            self.matrix[row, [index[name] for name in features]] = 1.0
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


def _nearest(similarity: Floats) -> NDArray[np.intp]:
    """Return the numbers of the few most similar other pages of each page, ties by order."""
    pages = len(similarity)
    near = max(0, min(3 if pages >= 16 else 2 if pages >= 8 else 1, pages - 1))
    others = similarity.copy()
    np.fill_diagonal(others, -np.inf)
    return np.argsort(-others, axis=1, kind="stable")[:, :near]


def _predictability(similarity: Floats, neighbours: NDArray[np.intp]) -> float:
    return float(np.take_along_axis(similarity, neighbours, axis=1).mean()) if neighbours.size else 1.0


def _floors(similarity: Floats, clusters: list[int], for_single: float) -> tuple[float, ...]:
    """Return, per cluster, how similar its least typical page is to the others in it."""
    members = np.asarray(clusters)
    floors = []
    for cluster in range(max(clusters, default=-1) + 1):
        inside = np.flatnonzero(members == cluster)
        block = similarity[np.ix_(inside, inside)]
        others = max(1, len(inside) - 1)
        means = (block.sum(axis=1) - block.diagonal()) / others
        floors.append(float(means.min()) if len(inside) > 1 else for_single)
    return tuple(floors)


def _threshold_share(pages: int, dom_by_name: float, name_by_dom: float) -> float:
    """Return the share of the neighbours' similarity that pages of one template have, by how far names and DOM agree.

    Pages of like names that differ in their DOM lower it as far as neighbours by DOM bear like names: else the
    names tell nothing.
    """
    early = _earliness(pages)
    freedom = name_by_dom * (1 - dom_by_name) * (1 - early)
    return THRESHOLD_SHARE * (1 - freedom) + EARLY_STRICTNESS * early


def _earliness(pages: int) -> float:
    return min(1.0, EARLY_PAGES / max(1, pages))


def _agreement(similarity: Floats, neighbours: NDArray[np.intp]) -> float:
    """Measure how far neighbours by another measure are neighbours by this one: 0 no better than chance, 1 as good."""
    pages = len(similarity)
    if pages < 3:
        return 0.0
    best = _predictability(similarity, _nearest(similarity))
    by_other = _predictability(similarity, neighbours)
    chance = float((similarity.sum() - np.trace(similarity)) / (pages * (pages - 1)))
    return min(1.0, max(0.0, (by_other - chance) / (best - chance))) if best - chance > 1e-3 else 0.0


def _kept_apart(similarity: Floats, snapshot: Snapshot) -> Floats:
    """Make pages of groups that labels have parted so dissimilar that they never share a cluster."""
    kept = similarity.copy()
    groups = np.array(snapshot.groups)
    for one, other in sorted(snapshot.apart):
        kept[np.ix_(groups == one, groups == other)] = _APART
        kept[np.ix_(groups == other, groups == one)] = _APART
    return kept


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
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(c), len(numbers)) for c in cluster]
