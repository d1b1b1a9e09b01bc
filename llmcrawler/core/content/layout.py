"""Tells where the blocks of a page stand: under which names and tags, how deep, and which containers repeat."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from operator import or_
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.elements import TAGS
from llmcrawler.core.content.hints import HINTS
from llmcrawler.core.content.segments import Segments

Matrix = NDArray[np.float32]
T = TypeVar("T")

# A bit for each of these tags says whether it stands anywhere above the block.
ABOVE: Final = tuple("nav header footer aside main article form li table dl figure blockquote section".split())
# Per number of a tag, its bit, which stands above those of HINTS; above all of them the depth is counted.
_ABOVE_BITS: Final = [1 << len(HINTS) + ABOVE.index(tag) if tag in ABOVE else 0 for tag in TAGS]
_BITS: Final = len(HINTS) + len(ABOVE)
_ONE_DEEPER: Final = 1 << _BITS


@dataclass(frozen=True, eq=False)
class Layout:
    """Arrays with a value per container, or per block where it says so. Pages of the same containers share it."""

    tags: tuple[int, ...]
    signatures: tuple[str, ...]
    parents: NDArray[np.int64]
    containers: NDArray[np.int64]  # per block, the container that it stands in
    depth: NDArray[np.float32]
    hints: list[int]  # the bits of HINTS of a container and of all above it
    own_hints: NDArray[np.int64]  # the bits of HINTS of a container alone
    block_hints: Matrix  # per block, a column for each of HINTS that its container or one above it matches
    block_above: Matrix  # per block, a column for each tag of ABOVE
    is_empty: bool  # there are no blocks
    groups: NDArray[np.int64]  # the number of its group: siblings that look the same (tag and class)
    group_sizes: NDArray[np.int64]  # per group
    behind: NDArray[np.int64]  # the first container that is not below it
    _known: dict[Callable[[Layout], Any], Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, work_out: Callable[[Layout], T]) -> T:
        """Return what a function tells of this layout, which is called for the first page that has it."""
        if work_out not in self._known:
            self._known[work_out] = work_out(self)
        found: T = self._known[work_out]
        return found

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
    is_kept = len(page.parents) + len(page.blocks) <= _KEPT_SIZE
    return (_kept_layout if is_kept else _layout)(
        tuple(page.parents),
        tuple(page.tags),
        tuple(page.hints),
        tuple(page.signatures),
        tuple([block.container for block in page.blocks]),
    )


def _layout(
    parents: tuple[int, ...],
    tags: tuple[int, ...],
    hints: tuple[int, ...],
    signatures: tuple[str, ...],
    containers: tuple[int, ...],
) -> Layout:
    size = len(parents)
    known = [0]
    own = map(or_, hints, map(_ABOVE_BITS.__getitem__, tags))
    next(own)
    for parent, bits in zip(islice(parents, 1, None), own, strict=True):
        known.append((known[parent] | bits) + _ONE_DEEPER)
    sizes = [1] * size  # of a container and all below it, which come right behind it
    for index in range(size - 1, 0, -1):
        sizes[parents[index]] += sizes[index]
    groups = np.array(numbered(zip(parents, signatures, strict=True)), np.int64)
    of_blocks = np.array(containers or [0], np.int64)
    of_all = np.array(known, np.int64)
    bits_of_blocks = bit_rows(of_all.take(of_blocks), _BITS)
    return Layout(
        tags=tags,
        signatures=signatures,
        parents=np.array(parents, np.int64),
        containers=of_blocks,
        depth=(of_all >> _BITS).astype(np.float32),
        hints=(of_all & ((1 << len(HINTS)) - 1)).tolist(),
        own_hints=np.array(hints, np.int64),
        block_hints=bits_of_blocks[: len(HINTS)].T,
        block_above=bits_of_blocks[len(HINTS) :].T,
        is_empty=not containers,
        groups=groups,
        group_sizes=np.bincount(groups),
        behind=np.arange(size) + sizes,
    )


# The pages of a template mostly have the same containers. What is larger than they usually are is not kept: together
# these take some 10 MB at most.
_KEPT_SIZE: Final = 600
_kept_layout: Final = lru_cache(maxsize=64)(_layout)


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
