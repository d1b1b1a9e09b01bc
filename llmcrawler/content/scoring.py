"""Computes for each block the probability that it is main content, with boosted trees over the block's features.

The trees stand in `main_text_trees.npz`, which tests/benchmarks/content_train.py has made of the development pages of
WCXB, a web content extraction benchmark (CC-BY-4.0, its authors).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .features import Matrix, block_features
from .segments import Segments

_DEPTH: Final = 6  # of the deepest tree; a leaf points at itself
# A page with more blocks than this is scored in parts of this size, so that memory stays bounded.
_PART: Final = 4096
_MODE: Final = "wrap"  # all indices are in range: NumPy is quickest in this mode


@lru_cache(maxsize=1)
def _trees() -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32], NDArray[np.intp], NDArray[np.float32]]:
    """Return the roots, and for each node its feature, its threshold, its two children (right, left) and its value."""
    with np.load(BytesIO(files(__package__).joinpath("main_text_trees.npz").read_bytes())) as nodes:
        children = np.stack([nodes["right"], nodes["left"]], 1).astype(np.intp).ravel()
        return (
            nodes["roots"].astype(np.intp),
            nodes["feature"].astype(np.intp),
            nodes["threshold"],
            children,
            nodes["value"],
        )


def _sum_of_trees(matrix: Matrix) -> NDArray[np.float32]:
    roots, feature, threshold, children, value = _trees()
    flat = np.ascontiguousarray(matrix).ravel()
    rows = (np.arange(len(matrix)) * matrix.shape[1])[:, None]
    at = np.broadcast_to(roots, (len(matrix), len(roots)))
    for _ in range(_DEPTH):
        goes_left = flat.take(rows + feature.take(at, mode=_MODE), mode=_MODE) <= threshold.take(at, mode=_MODE)
        at = children.take(2 * at + goes_left, mode=_MODE)
    return np.asarray(value.take(at, mode=_MODE).sum(1), np.float32)


def score_blocks(page: Segments) -> list[float]:
    """Return a probability per block, in document order."""
    if not page.blocks:
        return []
    matrix = block_features(page)
    raw = np.concatenate([_sum_of_trees(matrix[start : start + _PART]) for start in range(0, len(matrix), _PART)])
    return [round(value, 4) for value in (1 / (1 + np.exp(-raw))).tolist()]
