"""Applies boosted trees of at most 16 leaves to all blocks of a page, or to a page, at once.

Each inner node has a mask of the leaves that stay possible where its number is above its threshold; of those that stay
after all nodes of a tree the first is where the tree ends (after QuickScorer, Lucchese et al. 2015, whose masks clear
the leaves on the left). So all nodes are asked in a few calls of NumPy, and none by following children.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.layout import Matrix

LEAVES: Final = 16
NODES: Final = LEAVES - 1
# So many blocks are asked at a time: what lies between fits a processor's cache, and memory stays bounded.
_PART: Final = 192
ALL: Final = np.uint16((1 << LEAVES) - 1)


class BlockTrees:
    """Holds arrays: `feature`, `threshold` and `mask` of NODES rows with a column per tree, `value` of a row per tree
    and LEAVES columns. A node that a tree lacks has the mask of all leaves.
    """

    ARRAYS: Final = ("feature", "threshold", "mask", "value")

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._feature = arrays["feature"].astype(np.intp).ravel()
        self._threshold = arrays["threshold"].astype(np.float32).reshape(-1, 1)
        self._cleared = (~arrays["mask"].astype(np.uint16)).reshape(-1, 1)
        self._value = arrays["value"].astype(np.float32).ravel()
        self._starts = np.arange(len(arrays["value"]), dtype=np.intp)[:, None] * LEAVES

    def log_odds(self, matrices: Sequence[Matrix]) -> NDArray[np.float32]:
        """Return the sum of the trees' values per block, for matrices with a row per block: their columns are numbered
        through.
        """
        return np.concatenate(
            [
                self.values(np.concatenate([matrix[at : at + _PART].T for matrix in matrices])).sum(0)
                for at in range(0, len(matrices[0]), _PART)
            ]
        )

    def values(self, columns: Matrix) -> NDArray[np.float32]:
        """Return where each tree ends: a row per tree, for numbers with a column per block or page."""
        above = columns.take(self._feature, 0) > self._threshold
        gone = (above * self._cleared).reshape(NODES, -1, columns.shape[1])
        left = ~np.bitwise_or.reduce(gone, 0)
        leaf = _FIRST_BIT.take(left)
        return np.asarray(self._value.take(self._starts + leaf))


_FIRST_BIT: Final = np.zeros(1 << LEAVES, np.uint8)
for _bit in range(LEAVES):
    _FIRST_BIT[1 << _bit :: 1 << (_bit + 1)] = _bit
