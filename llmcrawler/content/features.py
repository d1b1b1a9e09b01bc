"""What a block's text, its containers and its neighbours say about whether it is main content, as numbers."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .segmenter import HINTS, TAG_IDS, Segments

Matrix = NDArray[np.float32]

_LEVELS: Final = 6
_SENTENCE_END: Final = tuple('.!?:;…。！？"”')
_DIGIT: Final = re.compile(r"\d")
_UPPER: Final = re.compile(r"(?<!\S)[A-Z]")
_STOP: Final = re.compile(
    r"(?<!\w)(?:the|a|of|to|and|in|is|that|for|it|you|was|with|on|as|are|this|be|we|i|de|la|und|der|die)(?!\w)",
    re.IGNORECASE,
)
# Tags whose mere presence above a block tells: each becomes an inherited bit.
_ABOVE: Final = (
    "nav",
    "header",
    "footer",
    "aside",
    "main",
    "article",
    "form",
    "li",
    "table",
    "dl",
    "figure",
    "blockquote",
    "section",
)


def _inherited(page: Segments) -> tuple[list[int], list[int], list[int]]:
    """Per container: hint bits of it and of all above it, tag bits above, depth."""
    above_bit = {TAG_IDS[tag]: 1 << index for index, tag in enumerate(_ABOVE)}
    hints, above, depth = [0], [0], [0]
    for index in range(1, len(page.parents)):
        parent = page.parents[index]
        hints.append(hints[parent] | page.hints[index])
        above.append(above[parent] | above_bit.get(page.tags[index], 0))
        depth.append(depth[parent] + 1)
    return hints, above, depth


def _repeats(page: Segments) -> NDArray[np.float32]:
    """Per container: how many siblings look the same (tag and class)."""
    keys = list(zip(page.parents, page.signatures, strict=True))
    counted = Counter(keys)
    return np.fromiter((counted[key] for key in keys), np.float32, len(keys))


def _sums(parents: list[int], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over subtrees; values has one column a quantity. Children come after their parents."""
    rows = values.tolist()
    for index in range(len(parents) - 1, 0, -1):
        above, row = rows[parents[index]], rows[index]
        for column, value in enumerate(row):
            if value:
                above[column] += value
    return np.array(rows)


def _bits(values: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    return ((values[:, None] >> np.arange(count)) & 1).astype(np.float32)


def _shifted(column: NDArray[np.float32], by: int) -> NDArray[np.float32]:
    out = np.full(len(column), -1, np.float32)
    if by > 0:
        out[by:] = column[:-by] if len(column) > by else out[by:]
    elif len(column) > -by:
        out[:by] = column[-by:]
    return out


def _windows(values: NDArray[np.float32], radius: int) -> NDArray[np.float32]:
    total = np.concatenate(([0.0], np.cumsum(values)))
    index = np.arange(len(values))
    return (total[np.minimum(len(values), index + radius + 1)] - total[np.maximum(0, index - radius)]).astype(
        np.float32
    )


def block_features(page: Segments) -> Matrix:  # noqa: PLR0915 - a list of columns, in the order the model knows
    """One row a block of the page (at least one block)."""
    blocks = page.blocks
    count = len(blocks)
    texts = [block.text for block in blocks]
    words = np.array([block.words for block in blocks], np.float32)
    links = np.array([block.link_words for block in blocks], np.float32)
    chars = np.array([len(text) for text in texts], np.float32)
    tags = np.array([block.tag for block in blocks], np.float32)
    own = np.array([block.container for block in blocks], np.int64)
    heads = [text[:600] for text in texts]
    ends = np.array([text.endswith(_SENTENCE_END) for text in texts], np.float32)
    commas = np.array([text.count(",") for text in heads], np.float32)
    digits = np.array([len(_DIGIT.findall(text)) for text in heads], np.float32) / np.minimum(chars, 600)
    upper = np.array([len(_UPPER.findall(text)) for text in heads], np.float32) / np.minimum(words, 100)
    stops = np.array([len(_STOP.findall(text)) for text in heads], np.float32) / np.minimum(words, 100)
    emphasis = np.array([block.emphasis for block in blocks], np.float32)
    counted = Counter(texts)
    twice = np.array([counted[text] for text in texts], np.float32)
    title = page.title.lower()
    in_title = np.array([len(text) > 3 and text[:200].lower() in title for text in texts], np.float32)
    density = links / words
    prose = np.where((words >= 10) & (density < 0.34), words - links, 0).astype(np.float32)
    hints, above, depth = _inherited(page)

    containers = len(page.parents)
    per = np.zeros((containers, 5))
    np.add.at(per, own, np.stack([words, links, np.ones(count), prose, ends], 1))
    direct = per[:, 3].copy()
    sums = _sums(page.parents, per)
    parents = np.array(page.parents, np.int64)
    # Readability's idea: prose votes for its container's parent, half as much for the grandparent.
    votes = direct.copy()
    np.add.at(votes, parents, direct)
    np.add.at(votes, parents[parents], direct / 2)
    votes[0] = 0
    top = int(votes.argmax())
    repeats = _repeats(page)
    total = max(1.0, float(words.sum()))
    total_prose = max(1.0, float(prose.sum()))

    columns: list[NDArray[Any]] = [
        np.log1p(words), density, chars / words, ends, commas / words, digits, upper, stops, np.minimum(emphasis, 5),
        tags,
        np.minimum(twice, 9), in_title,
        np.arange(count, dtype=np.float32) / count, np.arange(count, dtype=np.float32), np.cumsum(words) / total,
        np.cumsum(prose) / total_prose,
        np.array(depth, np.float32)[own],
    ]  # fmt: skip
    level, chain_repeat = own, np.ones(count, np.float32)
    ancestors_of_top = [top]
    while ancestors_of_top[-1] and len(ancestors_of_top) < 4:
        ancestors_of_top.append(int(parents[ancestors_of_top[-1]]))
    inside = np.zeros(count, np.float32)
    distance = np.full(count, 12, np.float32)
    for step in range(12):
        for rank, ancestor in enumerate(ancestors_of_top):
            hit = (level == ancestor) & (inside < 4 - rank) & (level > 0)
            inside[hit] = 4 - rank
            distance[hit] = np.minimum(distance[hit], step)
        if step < _LEVELS:
            at = sums[level]
            size = np.maximum(at[:, 0], 1)
            columns += [
                np.log1p(at[:, 0]), at[:, 1] / size, at[:, 3] / total_prose, at[:, 2] / size, repeats[level],
                page_tags(page)[level],
            ]  # fmt: skip
            chain_repeat = np.maximum(chain_repeat, np.where(level > 0, repeats[level], 1))
        level = parents[level]
    columns += [inside, distance, chain_repeat]
    is_heading = ((tags >= 3) & (tags <= 8)).astype(np.float32)
    h1 = (tags == 3).astype(np.float32)
    seen_h1 = np.cumsum(h1)
    since = np.arange(count) - np.maximum.accumulate(np.where(is_heading > 0, np.arange(count), -1))
    columns += [is_heading, seen_h1, (seen_h1.max() - seen_h1), since.astype(np.float32), np.cumsum(in_title)]
    for by in (1, 2, 3, -1, -2, -3):
        columns += [np.log1p(_shifted(words, by) + 1), _shifted(density, by), _shifted(tags, by), _shifted(ends, by)]
    for radius in (2, 5, 12):
        columns += [
            _windows(prose, radius),
            _windows(links, radius) / np.maximum(1, _windows(words, radius)),
            _windows(words, radius),
        ]
    counts = page.counts
    whole = [
        np.log1p(total), float(links.sum()) / total, total_prose / total, float(count), float(counts.get("article", 0)),
        float(counts.get("main", 0)), float(counts.get("h1", 0)), float(counts.get("pre", 0)),
        float(counts.get("form", 0)),
        float(ends.mean()), float(sums[top][0]) / total, float(counts.get("img", 0)) / count,
        float(counts.get("table", 0)),
    ]  # fmt: skip
    columns += [np.full(count, value, np.float32) for value in whole]
    matrix = np.stack(columns, 1).astype(np.float32)
    hint_array, above_array = np.array(hints, np.int64)[own], np.array(above, np.int64)[own]
    own_hints = np.array(page.hints, np.int64)
    near = own_hints[own] | own_hints[parents[own]] | own_hints[parents[parents[own]]]
    return np.concatenate(
        [matrix, _bits(hint_array, len(HINTS)), _bits(near, len(HINTS)), _bits(above_array, len(_ABOVE))], 1
    )


def page_tags(page: Segments) -> NDArray[np.float32]:
    return np.array(page.tags, np.float32)
