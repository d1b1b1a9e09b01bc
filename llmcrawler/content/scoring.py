"""The probability of each block to be main content: boosted trees over the block's features."""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from . import weights
from .features import Matrix, block_features
from .segments import Segments

_NODE: Final = np.dtype([("feature", "<i2"), ("threshold", "<f4"), ("left", "<i2"), ("right", "<i2"), ("value", "<f4")])
# A page with more blocks than this is scored in parts of this size, so that memory stays bounded.
_PART: Final = 4096
_MODE: Final = "wrap"  # all indices are in range: NumPy is quickest in this mode


@lru_cache(maxsize=1)
def _trees() -> tuple[NDArray[np.int32], ...]:
    nodes = np.frombuffer(zlib.decompress(base64.b85decode("".join(weights.NODES))), _NODE)
    children = np.stack([nodes["right"], nodes["left"]], 1).astype(np.intp).ravel()
    return (
        np.array(weights.ROOTS, np.intp),
        nodes["feature"].astype(np.intp),
        nodes["threshold"].copy(),
        children,
        nodes["value"].copy(),
    )  # type: ignore[return-value]


def _sum_of_trees(matrix: Matrix) -> NDArray[np.float32]:
    roots, feature, threshold, children, value = _trees()
    flat = np.ascontiguousarray(matrix).ravel()
    rows = (np.arange(len(matrix)) * matrix.shape[1])[:, None]
    at = np.broadcast_to(roots, (len(matrix), len(roots)))
    for _ in range(weights.DEPTH):
        goes_left = flat.take(rows + feature.take(at, mode=_MODE), mode=_MODE) <= threshold.take(at, mode=_MODE)
        at = children.take(2 * at + goes_left, mode=_MODE)
    return np.asarray(value.take(at, mode=_MODE).sum(1), np.float32)


def score_blocks(page: Segments) -> list[float]:
    """One probability a block, in document order."""
    if not page.blocks:
        return []
    matrix = block_features(page)
    raw = np.concatenate([_sum_of_trees(matrix[start : start + _PART]) for start in range(0, len(matrix), _PART)])
    return [round(value, 4) for value in (1 / (1 + np.exp(-raw))).tolist()]
