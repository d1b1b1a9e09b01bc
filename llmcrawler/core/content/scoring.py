"""Computes for each block the probability that it is main content, with boosted trees in two steps: the first judges a
block by itself, its containers and its neighbours, the second also by what the first said of the others.

The model is `main_text.npz`, which benchmarks/content_train.py has made; docs/main-text.md is its card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_columns import BlockArrays, block_columns
from llmcrawler.core.content.block_repeats import repeat_columns
from llmcrawler.core.content.block_trees import BlockTrees
from llmcrawler.core.content.block_words import WordValues, read_words, word_columns
from llmcrawler.core.content.layout import ABOVE, Layout, Matrix
from llmcrawler.core.content.line_marks import is_code
from llmcrawler.core.content.score_context import context_columns
from llmcrawler.core.content.segments import Segments

_UNIT_LEVELS: Final = 4  # from a row to what the table stands in
_INTRODUCED: Final = 0.7
_ENOUGH_WORDS: Final = 100
_PRIOR: Final = 0.5
_FRAME: Final = [ABOVE.index(tag) for tag in ("nav", "footer", "aside")]
WORD_STEP: Final = 32  # values of words are stored as so many parts of 1


class PageColumns:
    """Has the columns of one page, which has at least one block."""

    def __init__(self, page: Segments, layout: Layout, prices: Sequence[int]) -> None:
        self._layout = layout
        self.arrays = arrays = BlockArrays(page, layout)
        self._plain = [block_columns(page, layout, arrays), repeat_columns(page, layout, arrays, prices)]

    def first(self, of_texts: Matrix, of_names: Matrix) -> list[Matrix]:
        """Return matrices with a row per block for the first step, from the values of words per block and container."""
        return [*self._plain, word_columns(of_texts, of_names, self._layout, self.arrays)]

    def second(self, first: list[Matrix], scores: NDArray[np.float64]) -> list[Matrix]:
        """Return matrices with a row per block for the second step, from those of the first and what came of them."""
        return [*first, context_columns(self._layout, self.arrays, scores)]


class MainTextModel:
    """Is made of the arrays that benchmarks/model_arrays.py packs."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        steps = [{name: arrays[f"{step} {name}"] for name in BlockTrees.ARRAYS} for step in ("first", "second")]
        self._first, self._second = map(BlockTrees, steps)
        values = (arrays["values"].astype(np.float64) / WORD_STEP).tolist()
        self._words = WordValues(read_words(arrays["words"].tobytes(), values))

    def scores(self, page: Segments, layout: Layout, prices: Sequence[int]) -> NDArray[np.float64]:
        """Return a probability per block."""
        columns = PageColumns(page, layout, prices)
        first = columns.first(*self._words.of_page(page))
        scores = _probabilities(self._first.log_odds(first))
        return _probabilities(self._second.log_odds(columns.second(first, scores)))


def _probabilities(log_odds: NDArray[np.float32]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = 1 / (1 + np.exp(-log_odds.astype(np.float64)))
    return found


@lru_cache(maxsize=1)
def _model() -> MainTextModel:
    with np.load(BytesIO(files(__package__).joinpath("main_text.npz").read_bytes())) as arrays:
        return MainTextModel({name: arrays[name] for name in arrays})


def score_blocks(page: Segments, layout: Layout, prices: Sequence[int]) -> list[float]:
    """Return a probability per block, in document order; `prices` are how many each has."""
    if not page.blocks:
        return []
    blocks = page.blocks
    scores = _without_doubt(page, layout, _model().scores(page, layout, prices).tolist())
    codes = [not block.unit and is_code(block.markdown) for block in blocks]
    if True in codes or any(block.unit for block in blocks):
        scores = _with_introduced(page, scores, codes)
    return [round(value, 4) for value in scores]


def _without_doubt(page: Segments, layout: Layout, scores: list[float]) -> list[float]:
    """Return the scores, on a page of few words mixed with what stands to reason: that all is main but menus, footers,
    and links where the page has more than these. The model has learned from few such pages, and finds no block of them
    likely.
    """
    words = sum(block.words for block in page.blocks)
    trust = words / _ENOUGH_WORDS
    if trust >= 1:
        return scores
    linked = sum(block.link_words for block in page.blocks) / words
    framed: list[bool] = np.any(layout.block_above[:, _FRAME], 1).tolist()
    found = []
    for block, score, is_framed in zip(page.blocks, scores, framed, strict=True):
        prior = 0.0 if is_framed else _PRIOR * min(1, 1 + linked - block.link_words / block.words)
        found.append(trust * score + (1 - trust) * max(score, prior))
    return found


def _with_introduced(page: Segments, scores: list[float], codes: list[bool]) -> list[float]:
    """Raise the score of a table or list of terms (a unit), or of code, to a share of that of the text or heading which
    stands right before it: cells and code are short, few pages that the model has learned from have data in tables, and
    the truth of some leaves out the code of tutorials.
    """
    floor = 0.0
    unit, was_code = 0, False
    found: list[float] = []
    for index, (block, score, code) in enumerate(zip(page.blocks, scores, codes, strict=True)):
        if code or was_code or block.unit != unit:
            before = page.blocks[index - 1] if index else None
            introduced = (block.unit or code) and before and not before.unit
            if introduced and before and _is_beside(page, before.container, block.container):
                floor = found[-1] * (1 if was_code else _INTRODUCED)
            else:
                floor = 0.0
            unit, was_code = block.unit, code
        found.append(max(score, floor))
    return found


def _is_beside(page: Segments, before: int, inside: int) -> bool:
    """Tell whether a container, or the one that it stands in, holds the other a few levels down."""
    above = {before, page.parents[before]}
    for _ in range(_UNIT_LEVELS):
        inside = page.parents[inside]
        if inside in above:
            return True
    return False
