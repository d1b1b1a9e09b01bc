"""Works out numbers per block from the first scores of the others: those beside it, in its containers, in parts that
look the same, under the same heading, and on the whole page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_columns import BlockArrays, constant_rows, fixed_columns, rows_of
from llmcrawler.core.content.layout import Layout, Matrix, numbered, row_sums_by

Floats = NDArray[np.float64]

_NO_BLOCK: Final = -0.1  # in place of a score
_BESIDE: Final = (1, 2, 3, 4, -1, -2, -3, -4)
_WINDOWS: Final = (2, 6, 15)


def _mean(sums: Floats) -> Floats:
    """Return the mean score of words, from the sum of their scores and their number; where there are hardly any it
    tends to .2.
    """
    found: Floats = (sums[0] + 0.02) / (sums[1] + 0.1)
    return found


def context_columns(layout: Layout, arrays: BlockArrays, scores: Floats) -> Matrix:
    """Return a row per block."""
    words = arrays.words.astype(np.float64)
    both = np.array([scores * words, words])  # of each block its score, as often as it has words, and its words
    return rows_of(
        [
            *_beside(arrays, scores, both),
            *_in_parts(layout, arrays, both),
            *_under_headings(arrays, scores, both),
            *_on_page(arrays, scores, both),
        ]
    ).T


def _beside(arrays: BlockArrays, scores: Floats, both: Floats) -> list[NDArray[Any]]:
    count = arrays.count
    padded = np.empty(count + 8)
    padded[:4] = padded[-4:] = _NO_BLOCK
    padded[4:-4] = scores
    until = np.zeros((2, count + 1))
    both.cumsum(1, out=until[:, 1:])
    first, behind = arrays.places_around(_WINDOWS)
    windows = until.take(behind, 1)
    windows -= until.take(first, 1)
    windows -= both[:, None]
    return [
        scores, *(padded[4 - by : 4 - by + count] for by in _BESIDE), _mean(windows), _mean(until[:, :-1]),
        _mean(until[:, -1:] - until[:, 1:]), until[0, :-1] / max(1e-9, until[0, -1]),
    ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Kinds:
    """The number of each container's kind: those of a tag and class, in containers of a tag and class."""

    of_containers: NDArray[np.int64]
    count: int
    of_levels: NDArray[np.int64]  # as `BlockArrays.levels`
    groups_of_levels: NDArray[np.int64]
    blocks: NDArray[np.int64]  # per block, how many stand in containers of its kind


def _kinds_of(layout: Layout) -> _Kinds:
    names, levels = layout.signatures, layout.once(fixed_columns).levels
    kinds = np.array(numbered(zip(names, map(names.__getitem__, layout.parents.tolist()), strict=True)))
    own = kinds.take(layout.containers)
    return _Kinds(
        of_containers=kinds,
        count=int(kinds.max()) + 1,
        of_levels=kinds.take(levels[:3]),
        groups_of_levels=layout.groups.take(levels[:5]),
        blocks=np.bincount(own).take(own),
    )


def _in_parts(layout: Layout, arrays: BlockArrays, both: Floats) -> list[NDArray[Any]]:
    kinds = layout.once(_kinds_of)
    per = row_sums_by(layout.containers, len(layout.parents), both)
    below = layout.row_sums_below(per)
    of_groups = _mean(row_sums_by(layout.groups, len(layout.group_sizes), below))
    of_kinds = _mean(row_sums_by(kinds.of_containers, kinds.count, per))
    return [
        _mean(below).take(arrays.levels[:6]), of_groups.take(kinds.groups_of_levels),
        of_kinds.take(kinds.of_levels), kinds.blocks,
    ]  # fmt: skip


def _under_headings(arrays: BlockArrays, scores: Floats, both: Floats) -> list[NDArray[Any]]:
    last, section = arrays.last_heading, arrays.headings.cumsum()
    sums = row_sums_by(section, int(section[-1]) + 1, both)
    before = np.where(last >= 0, scores.take(last, mode="wrap"), _NO_BLOCK)
    return [before, _mean(sums).take(section), sums[1].take(section)]


def _on_page(arrays: BlockArrays, scores: Floats, both: Floats) -> list[NDArray[Any]]:
    count, index, words = arrays.count, arrays.index, both[1]
    order = (-scores).argsort(kind="stable")
    higher = np.empty(count)
    higher[order] = words.take(order).cumsum()
    expected, total = both.sum(1).tolist()
    total = max(1.0, total)
    best = scores.take(order)
    unsure = float(words[(scores > 0.2) & (scores < 0.8)].sum()) / total
    whole = [expected / total, np.log1p(expected), best[0], best[min(count - 1, 5)], (scores > 0.5).mean(), unsure]
    likely = (scores >= 0.5 * best[0]).nonzero()[0]
    return [
        higher / total, higher / max(1.0, expected), constant_rows(whole, count), index - likely[0], likely[-1] - index,
    ]  # fmt: skip
