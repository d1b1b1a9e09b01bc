"""Tells where the blocks of a page stand: under which names and tags, how deep, and which containers repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .elements import TAG_IDS
from .hints import HINTS
from .segments import Segments

Matrix = NDArray[np.float32]

# A bit for each of these tags says whether it stands anywhere above the block.
ABOVE: Final = tuple("nav header footer aside main article form li table dl figure blockquote section".split())
_ABOVE_BITS: Final = {TAG_IDS[tag]: 1 << index for index, tag in enumerate(ABOVE)}


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
    behind: list[int]  # the first container that is not below it

    def sums_below(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for a row per container, the sums over that and all containers below it."""
        until = np.zeros((len(own) + 1, own.shape[1]))
        np.cumsum(own, 0, out=until[1:])
        return np.asarray(until[self.behind] - until[:-1])


def layout_of(page: Segments) -> Layout:
    """Return the layout; a page without blocks has an empty one in its first container."""
    hints, above, depth = [0], [0], [0]
    own_hints, tags, parents = page.hints, page.tags, page.parents
    size = len(parents)
    for index in range(1, size):
        parent = parents[index]
        hints.append(hints[parent] | own_hints[index])
        above.append(above[parent] | _ABOVE_BITS.get(tags[index], 0))
        depth.append(depth[parent] + 1)
    behind = list(range(1, size + 1))
    for index in range(size - 1, 0, -1):
        behind[parents[index]] = max(behind[parents[index]], behind[index])
    numbers: dict[tuple[int, str], int] = {}
    groups = np.array([numbers.setdefault(key, len(numbers)) for key in zip(parents, page.signatures, strict=True)])
    containers = np.array([block.container for block in page.blocks] or [0], np.int64)
    return Layout(
        parents=np.array(parents, np.int64),
        containers=containers,
        depth=np.array(depth, np.float32),
        hints=hints,
        block_hints=bit_columns(np.array(hints, np.int64)[containers], len(HINTS)),
        block_above=bit_columns(np.array(above, np.int64)[containers], len(ABOVE)),
        groups=groups,
        group_sizes=np.bincount(groups),
        behind=behind,
    )


def bit_columns(values: NDArray[Any], count: int) -> Matrix:
    """Return a row per value and a column per bit."""
    return ((values[:, None] >> np.arange(count)) & 1).astype(np.float32)
