"""Tells where the blocks of a page stand: under which names and tags, how deep, which containers repeat, and in which
regions, whose numbers are the same on all pages of a template.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from operator import or_
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.markup import TAG_IDS, TAGS
from llmcrawler.core.content.part_names import PART_NAMES
from llmcrawler.core.content.segmenter import Segments

Matrix = NDArray[np.float32]
T = TypeVar("T")

# A bit for each of these tags says whether it stands anywhere above the block.
ABOVE: Final = tuple("nav header footer aside main article form li table dl figure blockquote section".split())
_FRAME: Final = [ABOVE.index(tag) for tag in ("nav", "footer", "aside")]
# Per number of a tag, its bit, which stands above those of PART_NAMES; above all of them the depth is counted.
_ABOVE_BITS: Final = [1 << len(PART_NAMES) + ABOVE.index(tag) if tag in ABOVE else 0 for tag in TAGS]
_BITS: Final = len(PART_NAMES) + len(ABOVE)
_ONE_DEEPER: Final = 1 << _BITS


@dataclass(frozen=True, eq=False)
class Layout:
    """Arrays with a value per container, or per block where it says so. Pages of the same containers share it."""

    tags: tuple[int, ...]
    signatures: tuple[str, ...]
    parents: NDArray[np.int64]
    containers: NDArray[np.int64]  # per block, the container that it stands in
    depth: NDArray[np.float32]
    parts: list[int]  # the bits of PART_NAMES of a container and of all above it
    own_parts: NDArray[np.int64]  # the bits of PART_NAMES of a container alone
    block_parts: Matrix  # per block, a column for each of PART_NAMES that its container or one above it matches
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

    def row_sums_below(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for a column per container, the sums over that and all containers below it."""
        until = np.zeros((len(own), own.shape[1] + 1))
        own.cumsum(1, out=until[:, 1:])
        return until.take(self.behind, 1) - until[:, :-1]


def layout_of(page: Segments) -> Layout:
    """Return the layout; a page without blocks has an empty one in its first container."""
    is_kept = len(page.parents) + len(page.blocks) <= _KEPT_SIZE
    return (_kept_layout if is_kept else _layout)(
        tuple(page.parents),
        tuple(page.tags),
        tuple(page.part_bits),
        tuple(page.signatures),
        tuple([block.container for block in page.blocks]),
    )


def _layout(
    parents: tuple[int, ...],
    tags: tuple[int, ...],
    part_bits: tuple[int, ...],
    signatures: tuple[str, ...],
    containers: tuple[int, ...],
) -> Layout:
    size = len(parents)
    known = [0]
    own = map(or_, part_bits, map(_ABOVE_BITS.__getitem__, tags))
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
        parts=(of_all & ((1 << len(PART_NAMES)) - 1)).tolist(),
        own_parts=np.array(part_bits, np.int64),
        block_parts=bits_of_blocks[: len(PART_NAMES)].T,
        block_above=bits_of_blocks[len(PART_NAMES) :].T,
        is_empty=not containers,
        groups=groups,
        group_sizes=np.bincount(groups),
        behind=np.arange(size) + sizes,
    )


def framed(layout: Layout) -> list[bool]:
    """Tell of each block whether it stands in a menu, a footer or an aside."""
    found: list[bool] = np.any(layout.block_above[:, _FRAME], 1).tolist()
    return found


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
    return ((values >> np.arange(count)[:, None]) & 1).astype(np.float32)


def row_sums_by(numbers: NDArray[Any], size: int, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row, and each number below `size`, the sum of the row's values that have it."""
    places = numbers + np.arange(0, len(rows) * size, size)[:, None]
    found: NDArray[Any] = np.bincount(places.ravel(), rows.ravel(), len(rows) * size)
    return found.reshape(-1, size)


# Containers deeper than this are one region with what is around them: content and frame part above.
_MAX_DEPTH: Final = 24
_MAX_COLUMN: Final = 3
_CELL: Final = TAG_IDS["td"]


@lru_cache(maxsize=16384)
def _name(signature: str) -> str:
    """Return a container's tag and its first class that holds no digit, as a class with a number is often of one page
    or one build of the site.
    """
    tag, _, classes = signature.partition(' class="')
    for one in classes.partition('"')[0].split():
        if one.isalpha() or not any(map(str.isdigit, one)):
            return f"{tag}.{one}"
    return f"{tag}."


class _Region:
    """A path of containers; those within it are found by their signatures and columns."""

    __slots__ = ("inner", "path")

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path = path
        self.inner: dict[tuple[str, int], _Region] = {}


class Regions:
    """Remembers the paths of containers, which the pages of a site share; of more than `most` it forgets all."""

    def __init__(self, most: int = 8_192) -> None:
        self._most = most
        self.count = 0
        self.root = _Region(())

    def inside(self, outer: _Region, signature: str, column: int) -> _Region:
        """Return the region of a container within another one."""
        found = outer.inner.get((signature, column))
        if found is None:
            if self.count >= self._most:
                self.count, self.root = 0, _Region(())
            self.count += 1
            path = outer.path
            if len(path) < _MAX_DEPTH:
                text = f"{path[-1] if path else 0} {_name(signature)} {column}".encode("utf-8", "replace")
                path = (*path, int.from_bytes(blake2b(text, digest_size=8).digest(), "big"))
            found = outer.inner[signature, column] = _Region(path)
        return found


_REGIONS: Final = Regions()


def _columns(layout: Layout) -> dict[int, int]:
    """Return the column of each cell that is a container: in a table that lays out the page."""
    if _CELL not in layout.tags:
        return {}
    counts: dict[int, int] = {}
    columns = {}
    for container, (tag, row) in enumerate(zip(layout.tags, layout.parents.tolist(), strict=True)):
        if tag == _CELL:
            columns[container] = counts[row] = min(counts.get(row, 0) + 1, _MAX_COLUMN)
    return columns


def block_regions(layout: Layout) -> list[tuple[int, ...]]:
    """Return for each block the regions that it stands in, the outermost first, the same tuple for a container's."""
    if layout.is_empty:
        return []
    parents, signatures, columns = layout.parents.tolist(), layout.signatures, _columns(layout)
    found: list[_Region | None] = [None] * len(parents)
    found[0] = _REGIONS.root
    regions = []
    for container in layout.containers.tolist():
        region, waiting = found[container], []
        while region is None:
            waiting.append(container)
            container = parents[container]  # noqa: PLW2901 - up to the next one that is known
            region = found[container]
        for one in reversed(waiting):
            region = found[one] = _REGIONS.inside(region, signatures[one], columns.get(one, 0))
        regions.append(region.path)
    return regions
