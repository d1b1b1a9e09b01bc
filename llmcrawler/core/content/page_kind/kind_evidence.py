"""Holds what one parse has found of a page, as arrays with a value per block, for the numbers that tell its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.elements import H1, H6
from llmcrawler.core.content.layout import Layout
from llmcrawler.core.content.segments import RawBlock, Segments
from llmcrawler.items import Link

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SENTENCE_END: Final = (".", "!", "?", '"', "”", "…", "。")
_PROSE_WORDS: Final = 10
_PROSE_DENSITY: Final = 0.34
_NO_BLOCK: Final = RawBlock("", "", 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class BlockNumbers:
    """Arrays with a value per block; what tells yes or no is 1 or 0. A page without text has one empty block."""

    texts: list[str]
    words: Floats
    link_words: Floats
    tags: Integers
    containers: Integers
    ends: Floats  # ends like a sentence
    emphasis: Floats
    prose: Floats  # many words, few of them in links
    linked: Floats  # all words are in links
    headings: Floats
    scores: Floats  # how probably it is main content
    main: Floats
    prices: Floats  # a price stands in it

    @property
    def total_words(self) -> float:
        return max(1.0, float(self.words.sum()))


@dataclass(frozen=True)
class KindEvidence:
    """A page as it was read: `metas` has contents of meta elements by name, `metadata` what was chosen of them;
    `scores` and `prices` are per block how probably it is main content, and how many prices it has.
    """

    url: str
    page: Segments
    layout: Layout
    title: str
    links: Sequence[Link]
    metas: dict[str, str]
    metadata: dict[str, str]
    structured_data: Sequence[dict[str, Any]]
    cues: dict[str, float]
    scores: Sequence[float]
    prices: Sequence[int]

    @cached_property
    def blocks(self) -> BlockNumbers:
        return block_numbers(self.page, self.layout, self.scores, self.prices)


def block_numbers(page: Segments, layout: Layout, scores: Sequence[float], prices: Sequence[int]) -> BlockNumbers:
    """Return the arrays for the blocks of a page, with their scores and counts of prices."""
    blocks = page.blocks or [_NO_BLOCK]
    texts = [block.text for block in blocks]
    words, link_words, emphasis, ends, tags = np.array(
        [
            (block.words, block.link_words, block.emphasis, text.endswith(_SENTENCE_END), block.tag)
            for block, text in zip(blocks, texts, strict=True)
        ],
        np.float64,
    ).T
    score = np.array(scores or [0.0], np.float64)
    return BlockNumbers(
        texts=texts,
        words=words,
        link_words=link_words,
        tags=tags.astype(np.int64),
        containers=layout.containers,
        ends=ends,
        emphasis=emphasis,
        prose=((words >= _PROSE_WORDS) & (link_words < _PROSE_DENSITY * words)).astype(np.float64),
        linked=(link_words >= words).astype(np.float64),
        headings=((tags >= H1) & (tags <= H6)).astype(np.float64),
        scores=score,
        prices=(np.array(prices or [0]) > 0).astype(np.float64),
        main=(score >= 0.5).astype(np.float64),
    )
