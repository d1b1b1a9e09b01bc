"""Learns from a model's answers what pages of a site are, where one template makes several kinds of page: sections of
documentation differ in a part of the url, the breadcrumb, a word of the title, or in what their pages are made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.understanding.classification.question import Answer
from llmcrawler.core.understanding.templates.page_sample import Names

_TREES: Final = 16
_PURE: Final = 0.9  # the share of one label among answers that no question parts
_DRAWN: Final = 128  # pages of a tree
_MAX_DEPTH: Final = 8
_RAREST: Final = 64  # of so many pages one is too few to ask for
_MAX_NAMES: Final = 600
_TRIED, _LEAST_TRIED = 0.3, 8  # of the questions that would part the pages of a node

_Leaf = dict[str, float]  # label -> share of the pages
_Node = tuple[str, "_Node | _Leaf", "_Node | _Leaf"]  # a name; for pages that have it; for those that have not


class AnswerForest:
    """A random forest (Breiman, 2001) over the names of answered pages. The same answers give the same forest."""

    def __init__(self, answered: Sequence[tuple[Names, str]]) -> None:
        self._labels = sorted({label for _, label in answered})
        number = {label: at for at, label in enumerate(self._labels)}
        self._truth = np.eye(len(self._labels), dtype=np.float32)[[number[label] for _, label in answered]]
        self._chance = np.random.default_rng(len(answered))
        rarest = max(2, len(answered) // _RAREST)
        counts = Counter(chain.from_iterable(names for names, _ in answered))
        useful = sorted(name for name, n in counts.items() if rarest <= n <= len(answered) - rarest)
        if len(useful) > _MAX_NAMES:
            useful = sorted(self._chance.choice(useful, _MAX_NAMES, replace=False).tolist())
        # What the same pages have is one question, asked by different names: new pages need not have them all.
        questions = defaultdict[tuple[bool, ...], list[str]](list)
        for name in useful:
            questions[tuple(name in names for names, _ in answered)].append(name)
        self._names = list(questions.values())
        self._has = np.array(list(questions), dtype=np.float32).reshape(-1, len(answered)).T
        drawn = (self._chance.integers(len(answered), size=min(len(answered), _DRAWN)) for _ in range(_TREES))
        self._trees = [self._grow(pages, _MAX_DEPTH) for pages in drawn] if questions else []

    def guess(self, names: Names) -> Answer | None:
        """Return the label that most trees vote for, with its share of the trees; None where most cannot tell."""
        votes = Counter[str]()
        for tree in self._trees:
            node = tree
            while isinstance(node, tuple):
                node = node[1] if node[0] in names else node[2]
            votes.update({label: share for label, share in node.items() if share >= _PURE})
        label = max(self._labels, key=votes.__getitem__)
        return Answer(label, votes[label] / _TREES) if votes.total() >= _TREES / 2 else None

    def _grow(self, pages: NDArray[np.intp], depth: int) -> _Node | _Leaf:
        counts = self._truth[pages].sum(axis=0)
        leaf = {label: float(n) / len(pages) for label, n in zip(self._labels, counts, strict=True) if n}
        tried = np.flatnonzero(self._chance.random(len(self._names)) < max(_TRIED, _LEAST_TRIED / len(self._names)))
        if depth == 0 or len(leaf) < 2 or not len(tried):
            return leaf
        having = self._has[np.ix_(pages, tried)].T @ self._truth[pages]
        impurity = _impurity(having) + _impurity(counts - having)
        if impurity.min() > _impurity(counts[None])[0] - 1e-4:
            return leaf
        column = int(tried[self._chance.choice(np.flatnonzero(impurity <= impurity.min() + 1e-4))])
        name = str(self._chance.choice(self._names[column]))
        is_had = self._has[pages, column] > 0
        return name, self._grow(pages[is_had], depth - 1), self._grow(pages[~is_had], depth - 1)


def _impurity(counts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return Gini's impurity of each row, times its pages."""
    sizes = counts.sum(axis=1)
    impurity: NDArray[np.float32] = sizes - (counts**2).sum(axis=1) / np.maximum(sizes, 1.0)
    return impurity
