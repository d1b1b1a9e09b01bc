"""Weighs the words of a page: rare ones more, each group of words by itself; a linear model adds them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from .kind_evidence import Floats, Integers


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # what stands in JSON may be no character


def weigh_tokens(
    tokens: Mapping[str, Sequence[str]], keys: NDArray[np.uint32], rarity: NDArray[np.float32]
) -> tuple[Integers, Floats]:
    """Return the rows of the known tokens in `keys`, which is sorted, and their weights: (1 + log count) * rarity,
    of length 1 over each group (sublinear tf-idf).
    """
    found: list[int] = []
    counts: list[int] = []
    sizes = []
    for group, members in tokens.items():
        counted = Counter(members)
        start = crc32(_bytes(f"{group} "))
        found += [crc32(token.encode("utf-8", "replace"), start) for token in counted]
        counts += counted.values()
        sizes.append(len(counted))
    wanted = np.array(found, np.uint32)
    at = np.searchsorted(keys, wanted)
    known = keys.take(at, mode="clip") == wanted
    rows, groups = at[known], np.repeat(np.arange(len(sizes)), sizes)[known]
    weights = (1 + np.log(np.array(counts, np.float64)[known])) * rarity[rows]
    lengths = np.sqrt(np.bincount(groups, weights * weights, len(sizes)))
    return rows, weights / lengths[groups]


class TokenModel:
    """A linear model from arrays by name: sorted `keys`, their `rarity`, `weights` (a row per key, a column per kind,
    whole numbers), `scale` of these and `intercept` per kind.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._keys = arrays["keys"].astype(np.uint32)
        self._rarity = arrays["rarity"].astype(np.float32)
        self._weights = arrays["weights"].astype(np.int8)
        self._scale = arrays["scale"].astype(np.float64)
        self._intercept = arrays["intercept"].astype(np.float64)

    def log_odds(self, tokens: Mapping[str, Sequence[str]]) -> Floats:
        """Return a sum per kind."""
        rows, weights = weigh_tokens(tokens, self._keys, self._rarity)
        total: Floats = weights @ self._weights[rows] * self._scale + self._intercept
        return total
