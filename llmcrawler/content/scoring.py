"""Computes for each block the probability that it is main content, with boosted trees over numbers from its text, its
containers and its neighbours.

The trees stand in `main_text_trees.npz`, which tests/benchmarks/content_train.py has made of the development pages of
WCXB, a web content extraction benchmark (CC-BY-4.0, its authors).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .hints import HINTS
from .layout import Layout, Matrix, bit_columns
from .segments import Segments

# So many containers above a block have columns of their own; so many are searched for the top one.
_LEVELS: Final = 6
_STEPS: Final = 12
_SENTENCE_END: Final = tuple('.!?:;…。！？"”')
_STOPS: Final = frozenset(
    "the a of to and in is that for it you was with on as are this be we i de la und der die".split()
)
_HEAD_CHARS: Final = 600


@lru_cache(maxsize=16384)
def _head_counts(head: str) -> tuple[int, int, int, int]:
    """Count commas, digits, words in capitals and stop words; cached, as the pages of one site repeat their blocks."""
    return (
        head.count(","),
        sum(map(head.count, "0123456789")),
        len([word for word in head.split() if "A" <= word < "["]),
        sum(map(_STOPS.__contains__, head.lower().split())),
    )


def _text_columns(page: Segments) -> tuple[Matrix, Matrix]:
    """Return two matrices with a row per block: columns of the model, and (words, linked words, ends a sentence, tag,
    in title), from which further columns are worked out.
    """
    blocks = page.blocks
    texts = [block.text for block in blocks]
    title = page.title.lower()
    counted = Counter(texts)
    words, links, chars, tags, emphasis, ends, twice, in_title, commas, digits, upper, stops = np.array(
        [
            (
                block.words, block.link_words, len(text), block.tag, block.emphasis, text.endswith(_SENTENCE_END),
                counted[text], len(text) > 3 and text[:200].lower() in title, *_head_counts(text[:_HEAD_CHARS]),
            )
            for block, text in zip(blocks, texts, strict=True)
        ],
        np.float32,
    ).T  # fmt: skip
    head_chars, head_words = np.minimum(chars, _HEAD_CHARS), np.minimum(words, 100)
    columns = np.stack(
        [
            np.log1p(words), links / words, chars / words, ends, commas / words, digits / head_chars,
            upper / head_words, stops / head_words, np.minimum(emphasis, 5), tags, np.minimum(twice, 9), in_title,
        ],
        1,
    )  # fmt: skip
    return columns, np.stack([words, links, ends, tags, in_title], 1)


def _levels(parents: NDArray[np.int64], own: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the containers of each block, nearest first: a row per level, 0 (the page) above the outermost."""
    levels = [own]
    while len(levels) < count:
        levels.append(parents[levels[-1]])
    return np.stack(levels)


def _top(parents: NDArray[np.int64], prose: NDArray[np.float64]) -> int:
    """Return the container with most prose: it counts for its container and the parent, half for the grandparent
    (after Mozilla's Readability).
    """
    votes = prose.copy()
    np.add.at(votes, parents, prose)
    np.add.at(votes, parents[parents], prose / 2)
    votes[0] = 0
    return int(votes.argmax())


def _beside_top(levels: NDArray[np.int64], parents: NDArray[np.int64], top: int) -> list[NDArray[Any]]:
    """Return how near each block is to the top container (4: in it, 3 to 1: in one of the three above it, 0: in none),
    and how many steps up that is.
    """
    rank = np.zeros(len(parents), np.float32)
    for inside in (4, 3, 2, 1):
        if top:
            rank[top] = inside
        top = int(parents[top])
    ranks = rank[levels]
    first = (ranks > 0).argmax(0)
    inside_top = ranks[first, np.arange(levels.shape[1])]
    return [inside_top, np.where(inside_top > 0, first, _STEPS)]


def _neighbours(near: Matrix, sums: Matrix) -> list[Matrix]:
    """Return the columns of the three blocks before and after each, -1 past the page's ends, and sums over windows of
    three sizes.
    """
    count = len(near)
    padded = np.full((count + 6, near.shape[1]), -1, np.float32)
    padded[3:-3] = near
    padded[:3, 0] = padded[-3:, 0] = 0
    found = [padded[3 - by : 3 - by + count] for by in (1, 2, 3, -1, -2, -3)]
    total = np.concatenate([np.zeros((1, 3)), np.cumsum(sums, 0)])
    index = np.arange(count)
    for radius in (2, 5, 12):
        prose, links, words = (
            (total[np.minimum(count, index + radius + 1)] - total[np.maximum(0, index - radius)]).astype(np.float32).T
        )
        found.append(np.stack([prose, links / np.maximum(1, words), words], 1))
    return found


def block_features(page: Segments, layout: Layout) -> Matrix:
    """Return a row per block of the page, which has at least one; the model was trained on this order of columns."""
    count, counts = len(page.blocks), page.counts
    texts, numbers = _text_columns(page)
    words, links, ends, tags, in_title = numbers.T
    density = texts[:, 1]
    own, parents = layout.containers, layout.parents
    prose = np.where((words >= 10) & (density < 0.34), words - links, 0).astype(np.float32)
    per = np.zeros((len(parents), 5))
    np.add.at(per, own, np.stack([words, links, np.ones(count), prose, ends], 1))
    top = _top(parents, per[:, 3])
    sums = layout.sums_below(per)
    total, total_prose = max(1.0, float(words.sum())), max(1.0, float(prose.sum()))
    index = np.arange(count, dtype=np.float32)
    place: list[NDArray[Any]] = [
        index / count, index, np.cumsum(words) / total, np.cumsum(prose) / total_prose,
        layout.depth[own],
    ]  # fmt: skip

    repeats = layout.group_sizes[layout.groups].astype(np.float32)
    size = np.maximum(sums[:, 0], 1)
    of_container = np.stack(
        [
            np.log1p(sums[:, 0]), sums[:, 1] / size, sums[:, 3] / total_prose, sums[:, 2] / size, repeats,
            np.array(page.tags, np.float32),
        ],
        1,
    ).astype(np.float32)  # fmt: skip
    levels = _levels(parents, own, _STEPS)
    of_levels = of_container[levels[:_LEVELS]].transpose(1, 0, 2).reshape(count, -1)
    repeats[0] = 1
    is_heading = ((tags >= 3) & (tags <= 8)).astype(np.float32)
    seen_h1 = np.cumsum(tags == 3)
    since = index - np.maximum.accumulate(np.where(is_heading > 0, index, -1))
    chain: list[NDArray[Any]] = [
        *_beside_top(levels, parents, top), repeats[levels[:_LEVELS]].max(0),
        is_heading, seen_h1, seen_h1[-1] - seen_h1, since, np.cumsum(in_title),
    ]  # fmt: skip
    near = _neighbours(np.stack([np.log1p(words + 1), density, tags, ends], 1), np.stack([prose, links, words], 1))
    whole = [
        np.log1p(total), float(links.sum()) / total, total_prose / total, count, counts.get("article", 0),
        counts.get("main", 0), counts.get("h1", 0), counts.get("pre", 0), counts.get("form", 0), float(ends.mean()),
        float(sums[top][0]) / total, counts.get("img", 0) / count, counts.get("table", 0),
    ]  # fmt: skip
    own_hints = np.array(page.hints, np.int64)
    near_hints = np.bitwise_or.reduce(own_hints[levels[:3]], 0)
    return np.concatenate(
        [
            texts, np.stack(place, 1), of_levels, np.stack(chain, 1), *near,
            np.broadcast_to(np.array(whole, np.float32), (count, len(whole))),
            layout.block_hints, bit_columns(near_hints, len(HINTS)), layout.block_above,
        ],
        1,
        dtype=np.float32,
    )  # fmt: skip


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


def score_blocks(page: Segments, layout: Layout) -> list[float]:
    """Return a probability per block, in document order."""
    if not page.blocks:
        return []
    matrix = block_features(page, layout)
    raw = np.concatenate([_sum_of_trees(matrix[start : start + _PART]) for start in range(0, len(matrix), _PART)])
    return [round(value, 4) for value in (1 / (1 + np.exp(-raw))).tolist()]
