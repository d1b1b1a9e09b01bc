"""Applies boosted trees: each tree asks for one number after another, and ends at a value for one kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .kind_evidence import Floats

_MODE: Final = "wrap"  # all indices are in range: NumPy is quickest in this mode


class TreeEnsemble:
    """Holds the nodes of all trees one behind the other, in arrays by name: `roots`, and for each node `feature`,
    `threshold`, `left` and `right` (so many nodes ahead; 0 at a leaf) and `value`. The trees of the kinds alternate.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], kinds: int) -> None:
        self._roots = arrays["roots"].astype(np.intp)
        self._feature = arrays["feature"].astype(np.intp)
        self._threshold = arrays["threshold"].astype(np.float32)
        nodes = np.arange(len(self._feature))
        self._children = np.stack([nodes + arrays["right"], nodes + arrays["left"]], 1).astype(np.intp).ravel()
        self._value = arrays["value"].astype(np.float64)
        self._kinds = kinds
        self._depth = _depth(self._roots, self._children)

    def log_odds(self, numbers: NDArray[np.float32]) -> Floats:
        """Return the sum of the trees' values per kind, for the numbers of one page."""
        at = self._roots
        for _ in range(self._depth):
            goes_left = numbers.take(self._feature.take(at, mode=_MODE)) <= self._threshold.take(at, mode=_MODE)
            at = self._children.take(2 * at + goes_left, mode=_MODE)
        total: Floats = self._value.take(at, mode=_MODE).reshape(-1, self._kinds).sum(0)
        return total


def _depth(roots: NDArray[np.intp], children: NDArray[np.intp]) -> int:
    """Return how many steps lead from a root to the deepest leaf."""
    pairs = children.reshape(-1, 2)
    depth, level = 0, roots
    while len(level := level[pairs[level, 0] != level]):
        level = pairs[level].ravel()
        depth += 1
    return depth
