"""Tells where the blocks of a page stand: under which names and tags, how deep, and which containers repeat."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from operator import or_
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .elements import TAGS
from .hints import HINTS
from .segments import Segments

Matrix = NDArray[np.float32]

# A bit for each of these tags says whether it stands anywhere above the block.
ABOVE: Final = tuple("nav header footer aside main article form li table dl figure blockquote section".split())
# Per number of a tag, its bit, which stands above those of HINTS; above all of them the depth is counted.
_ABOVE_BITS: Final = [1 << len(HINTS) + ABOVE.index(tag) if tag in ABOVE else 0 for tag in TAGS]
_BITS: Final = len(HINTS) + len(ABOVE)
_ONE_DEEPER: Final = 1 << _BITS


@dataclass(frozen=True, slots=True)
class Layout:
    """Arrays with a value per container, or per block where it says so."""

    parents: NDArray[np.int64]
    containers: NDArray[np.int64]  # per block, the container that it stands in
    depth: NDArray[np.float32]
    hints: list[int]  # the bits of HINTS of a container and of all above it
    block_hints: Matrix  # per block, a column for each of HINTS that its container or one above it matches
    block_above: Matrix  # per block, a column for each tag of ABOVE
    groups: NDArray[np.int64]  # the number of its group: siblings that look the same (tag and class)
    group_sizes: NDArray[np.int64]  # per group
    behind: NDArray[np.int64]  # the first container that is not below it

    def sums_below(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for a row per container, the sums over that and all containers below it."""
        return self.row_sums_below(own.T).T

    def row_sums_below(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what `sums_below` does, for a column per container."""
        until = np.zeros((len(own), own.shape[1] + 1))
        own.cumsum(1, out=until[:, 1:])
        return until.take(self.behind, 1) - until[:, :-1]


def layout_of(page: Segments) -> Layout:
    """Return the layout; a page without blocks has an empty one in its first container."""
    parents, size = page.parents, len(page.parents)
    known = [0]
    own = map(or_, page.hints, map(_ABOVE_BITS.__getitem__, page.tags))
    next(own)
    for parent, bits in zip(islice(parents, 1, None), own, strict=True):
        known.append((known[parent] | bits) + _ONE_DEEPER)
    sizes = [1] * size  # of a container and all below it, which come right behind it
    for index in range(size - 1, 0, -1):
        sizes[parents[index]] += sizes[index]
    groups = np.array(numbered(zip(parents, page.signatures, strict=True)), np.int64)
    containers = np.array([block.container for block in page.blocks] or [0], np.int64)
    of_all = np.array(known, np.int64)
    of_blocks = bit_rows(of_all.take(containers), _BITS)
    return Layout(
        parents=np.array(parents, np.int64),
        containers=containers,
        depth=(of_all >> _BITS).astype(np.float32),
        hints=(of_all & ((1 << len(HINTS)) - 1)).tolist(),
        block_hints=of_blocks[: len(HINTS)].T,
        block_above=of_blocks[len(HINTS) :].T,
        groups=groups,
        group_sizes=np.bincount(groups),
        behind=np.arange(size) + sizes,
    )


def numbered(keys: Iterable[Hashable]) -> list[int]:
    """Return a number for each key, the same for those that are equal, from 0 in the order in which they come up."""
    keys = list(keys)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return list(map(numbers.__getitem__, keys))


def bit_rows(values: NDArray[Any], count: int) -> Matrix:
    """Return a row per bit and a column per value."""
    return ((values >> _PLACES[:count]) & 1).astype(np.float32)


def bit_columns(values: NDArray[Any], count: int) -> Matrix:
    """Return a row per value and a column per bit."""
    return bit_rows(values, count).T


def row_sums_by(numbers: NDArray[Any], size: int, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row, and each number below `size`, the sum of the row's values that have it."""
    places = numbers + np.arange(0, len(rows) * size, size)[:, None]
    found: NDArray[Any] = np.bincount(places.ravel(), rows.ravel(), len(rows) * size)
    return found.reshape(-1, size)


_PLACES: Final = np.arange(64)[:, None]
