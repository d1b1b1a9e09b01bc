"""Numbers of a page's text blocks that tell main content from boilerplate, for the model in scoring.py."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from llmcrawler.content.walk import RawBlock

_KINDS = ("p", "li", "heading", "td", "pre", "blockquote", "dt", "div")
_AREAS = ("nav", "header", "footer", "aside", "form", "main")
_ENDS = (".", "!", "?", "\u2026", "\u3002", '."', ".\u201d", ":")
_DIGIT = re.compile(r"\d")
_NOTICE = re.compile(
    r"\u00a9|copyright|all rights reserved|privacy|cookie|terms of|sign in|log ?in|subscribe|newsletter|share|"
    r"follow us|read more|learn more|click here|powered by|add to cart|view all|back to",
    re.IGNORECASE,
)

_OWN = 16 + len(_KINDS) + len(_AREAS)
_NEAR = 4  # of each neighbour
FEATURE_COUNT = _OWN + 4 * _NEAR + 14


def block_features(blocks: list[RawBlock], containers: list[int]) -> NDArray[np.float32]:
    """One row a block, in document order; shape (blocks, FEATURE_COUNT). `containers` gives each container's parent."""
    own = np.array([_own_features(block) for block in blocks], dtype=np.float32)
    words = own[:, 0]
    link_density = own[:, 1]
    near = _neighbours(np.stack([np.log1p(words), link_density, own[:, 2], own[:, 3]], axis=1))
    around = _surroundings(blocks, containers, words, link_density)
    own[:, 0] = np.log1p(words)
    return np.hstack([own, near, around]).astype(np.float32)


def _own_features(block: RawBlock) -> list[float]:
    text = block.text
    size = len(text)
    words = text.count(" ") + 1
    kind = "heading" if block.heading else block.tag
    return [
        words,
        min(1.0, block.link_chars / size),
        float(text.endswith(_ENDS)),
        min(10.0, float(text.count(", ") + text.count(". "))),
        size / words,
        len(_DIGIT.findall(text)) / size if size < 400 else 0.0,
        float(text.isupper()),
        float(text[:1].isupper()),
        float(bool(_NOTICE.search(text))) if size < 400 else 0.0,
        float(block.heading),
        min(float(block.depth), 40.0),
        min(float(block.away), 8.0),
        min(float(block.here), 8.0),
        float(block.away_near),
        float(block.here_near),
        float(block.list_depth),
        *(float(kind == name) for name in _KINDS),
        *(float(area in block.areas) for area in _AREAS),
    ]


def _neighbours(columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """The columns of the two blocks before and the two after; zeros past the ends."""
    shifted = []
    for offset in (-2, -1, 1, 2):
        moved = np.zeros_like(columns)
        if offset < 0:
            moved[-offset:] = columns[:offset]
        else:
            moved[:-offset] = columns[offset:]
        shifted.append(moved)
    return np.hstack(shifted)


def _surroundings(
    blocks: list[RawBlock], containers: list[int], words: NDArray[np.float32], link_density: NDArray[np.float32]
) -> NDArray[np.float32]:
    """What stands around: the block's container and that one's parent, the place in the page, the page."""
    count, total = len(blocks), max(1.0, float(words.sum()))
    position = np.arange(count, dtype=np.float32)
    before = (np.cumsum(words) - words) / total
    unlinked = words * (1 - link_density)
    own_container = np.array([block.container for block in blocks])
    parent = np.array([block.parent_container for block in blocks])
    grand = np.array([containers[index] for index in parent])
    columns = [position / count, before, np.full(count, np.log1p(total)), np.full(count, np.log1p(count))]
    columns.append(np.full(count, float((words * link_density).sum()) / total))
    for group in (own_container, parent, grand):
        members = np.bincount(group, minlength=len(containers))[group]
        text = np.bincount(group, weights=words, minlength=len(containers))[group]
        free = np.bincount(group, weights=unlinked, minlength=len(containers))[group]
        columns += [np.log1p(members), text / total, free / np.maximum(text, 1)]
    return np.stack(columns, axis=1).astype(np.float32)
