"""Works out numbers per block from its text, its containers and its neighbours, which tell main content."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.elements import H1, H6
from llmcrawler.core.content.hints import HINTS
from llmcrawler.core.content.layout import Layout, Matrix, bit_rows, row_sums_by
from llmcrawler.core.content.segments import Segments

# So many containers above a block have columns of their own; so many are searched for the top one.
LEVELS: Final = 6
STEPS: Final = 12
_SENTENCE_END: Final = frozenset('.!?:;…。！？"”')
_STOPS: Final = frozenset(
    "the a of to and in is that for it you was with on as are this be we i de la und der die".split()
)
_HEAD_CHARS: Final = 600
_TITLE_CHARS: Final = 200
_RADII: Final = (2, 5, 12)

_DIGITS: Final = b"0123456789"
_SINGLES: Final = struct.Struct("10f")
_DATE: Final = re.compile(  # 9:30, 2024, ago; begins with a class of characters, which makes the search fast
    r"[\da](?:(?<=\d):\d\d|(?<=\b1)9\d\d\b|(?<=\b2)0\d\d\b|(?<=\ba)go\b)"
)
_DATE_CHARS: Final = 80
_COLONS: Final = frozenset(":：")
_MAX_COUNT: Final = 512  # so many blocks a page has for which places are kept


def _text_numbers(text: str) -> bytes:
    """Return what a text tells by itself, as singles: its words (logarithms, of one more too), characters a word, the
    end of a sentence, of its head commas a word, the share of digits, of words in capitals and of stop words; whether
    it begins with a date, and ends with a colon.
    """
    head = text[:_HEAD_CHARS]
    source = head.encode("utf-8", "surrogatepass")
    words = text.count(" ") + 1
    head_words = min(words, 100)
    return _SINGLES.pack(
        _log1p(words),
        _log1p(words + 1),
        len(text) / words,
        text[-1:] in _SENTENCE_END,
        source.count(b",") / words,
        (len(source) - len(source.translate(None, _DIGITS))) / len(head),
        len([word for word in head.split() if "A" <= word < "["]) / head_words,
        sum(map(_STOPS.__contains__, head.lower().split())) / head_words,
        _DATE.search(text[:_DATE_CHARS]) is not None,
        text[-1:] in _COLONS,
    )


_cached_numbers: Final = lru_cache(maxsize=16384)(_text_numbers)  # as the pages of one site repeat their blocks


@lru_cache(maxsize=1024)
def _log1p(number: int) -> float:
    return float(np.log1p(np.float32(number)))


def rows_of(values: Sequence[NDArray[Any]]) -> Matrix:
    """Return a matrix with a row for each of the arrays, or as many as it has itself."""
    columns = values[0].shape[-1]
    return np.concatenate([one.reshape(-1) for one in values], dtype=np.float32).reshape(-1, columns)


def places_around(count: int, radii: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return per radius and block where the blocks around it begin, and the first that is behind them."""
    index, radius = np.arange(count), np.array(radii)[:, None]
    return np.maximum(0, index - radius), np.minimum(count, index + (radius + 1))


_cached_places: Final = lru_cache(maxsize=64)(places_around)


@dataclass(frozen=True, eq=False)
class FixedColumns:
    """What the layout alone tells of the blocks of a page, which has at least one."""

    index: NDArray[np.int64]
    tags: Matrix
    headings: NDArray[np.bool_]
    last_heading: NDArray[np.int64]  # the last heading up to the block, -1 where there is none
    levels: NDArray[np.int64]  # the containers of each block, nearest first: a row per level, 0 above the outermost
    of_containers: Matrix  # how often its like stands beside each container, and its tag
    places: Matrix
    repeats: Matrix
    under_headings: Matrix
    names: Matrix  # hints and tags


def fixed_columns(layout: Layout) -> FixedColumns:
    own, count = layout.containers, len(layout.containers)
    tags_of = np.array(layout.tags, np.float32)
    tags, index = tags_of.take(own), np.arange(count)
    headings = (tags >= H1) & (tags <= H6)
    last_heading = np.maximum.accumulate(np.where(headings, index, -1))
    levels = container_levels(layout)
    repeats = layout.group_sizes.take(layout.groups).astype(np.float32)
    of_containers = rows_of([repeats, tags_of])
    repeats[0] = 1
    seen_h1, singles = (tags == H1).cumsum(), index.astype(np.float32)
    near_hints = np.bitwise_or.reduce(layout.own_hints.take(levels[:3]), 0)
    return FixedColumns(
        index=index,
        tags=tags,
        headings=headings,
        last_heading=last_heading,
        levels=levels,
        of_containers=of_containers,
        places=rows_of([singles / count, singles]),
        repeats=repeats.take(levels[:LEVELS]).max(0),
        under_headings=rows_of([headings, seen_h1, seen_h1[-1] - seen_h1, index - last_heading]),
        names=rows_of([layout.block_hints.T, bit_rows(near_hints, len(HINTS)), layout.block_above.T]),
    )


class BlockArrays:
    """Has what of the blocks of a page is asked for by many columns; a page has at least one."""

    def __init__(self, page: Segments, layout: Layout) -> None:
        blocks = page.blocks
        self.count = len(blocks)
        self.fixed = fixed = layout.once(fixed_columns)
        self.index, self.tags, self.headings = fixed.index, fixed.tags, fixed.headings
        self.last_heading, self.levels = fixed.last_heading, fixed.levels
        self.texts = texts = [block.text for block in blocks]
        numbers = [_cached_numbers(text) if len(text) <= _HEAD_CHARS else _text_numbers(text) for text in texts]
        self.of_texts = np.frombuffer(b"".join(numbers), np.float32).reshape(self.count, -1).T
        self.words, self.links, self.emphasis = np.array(
            [
                [block.words for block in blocks],
                [block.link_words for block in blocks],
                [block.emphasis for block in blocks],
            ],
            np.float32,
        )

    def places_around(self, radii: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what the function of this name does, which pages of as many blocks share."""
        return (_cached_places if self.count <= _MAX_COUNT else places_around)(self.count, radii)


def container_levels(layout: Layout) -> NDArray[np.int64]:
    """Return the containers of each block, nearest first: a row per level, 0 (the page) above the outermost."""
    parents, own = layout.parents, layout.containers
    levels = np.empty((STEPS, len(own)), np.int64)
    levels[0] = own
    for step in range(1, STEPS):
        parents.take(levels[step - 1], out=levels[step], mode="clip")
    return levels


def _top(parents: NDArray[np.int64], prose: NDArray[np.float64]) -> int:
    """Return the container with most prose: it counts for its container and the parent, half for the grandparent
    (after Mozilla's Readability).
    """
    votes = prose + np.bincount(parents, prose, len(prose))
    votes += np.bincount(parents.take(parents), prose / 2, len(prose))
    votes[0] = 0
    return int(votes.argmax())


def _beside_top(arrays: BlockArrays, parents: NDArray[np.int64], top: int) -> list[NDArray[Any]]:
    """Return how near each block is to the top container (4: in it, 3 to 1: in one of the three above it, 0: in none),
    and how many steps up that is.
    """
    rank = np.zeros(len(parents), np.float32)
    for inside in (4, 3, 2, 1):
        if top:
            rank[top] = inside
        top = int(parents[top])
    ranks = rank.take(arrays.levels)
    first = (ranks > 0).argmax(0)
    inside_top = ranks[first, arrays.index]
    return [inside_top, np.where(inside_top > 0, first, STEPS)]


def _neighbours(arrays: BlockArrays, near: Matrix, sums: Matrix) -> list[Matrix]:
    """Return the rows of the three blocks before and after each, -1 past the page's ends, and sums over windows of
    three sizes.
    """
    size, count = near.shape
    padded = np.empty((size, count + 6), np.float32)
    padded.fill(-1)
    padded[:, 3:-3] = near
    padded[0, :3] = padded[0, -3:] = 0
    found = [padded[:, 3 - by : 3 - by + count] for by in (1, 2, 3, -1, -2, -3)]
    total = np.zeros((3, count + 1), np.float32)
    sums.cumsum(1, out=total[:, 1:])
    before, behind = arrays.places_around(_RADII)
    windows = total.take(behind, 1)  # sums by radius by block
    windows -= total.take(before, 1)
    windows[1] /= np.maximum(1, windows[2])
    return [*found, windows.transpose(1, 0, 2)]


def _in_title(title: str, texts: list[str]) -> list[bool]:
    """Tell which texts begin as the title has it somewhere."""
    title = title.lower()
    longest = len(title)  # in small letters no text is shorter
    return [
        len(text) > 3 and min(len(text), _TITLE_CHARS) <= longest and text[:_TITLE_CHARS].lower() in title
        for text in texts
    ]


def block_columns(page: Segments, layout: Layout, arrays: BlockArrays) -> Matrix:
    """Return a row per block of the page; the model was trained on this order of columns."""
    count, texts, counts, fixed = arrays.count, arrays.texts, page.counts, arrays.fixed
    words, links, tags = arrays.words, arrays.links, arrays.tags
    of_words, of_more, chars, ends, *of_head = arrays.of_texts[:8]
    counted = Counter(texts)
    in_title, twice = np.array([_in_title(page.title, texts), list(map(counted.__getitem__, texts))], np.float32)
    density = links / words

    own, parents = layout.containers, layout.parents
    prose = (words - links) * ((words >= 10) & (density < 0.34))
    per = row_sums_by(own, len(parents), np.array([words, links, np.ones(count), prose, ends], np.float64))
    top = _top(parents, per[3])
    sums = layout.row_sums_below(per)
    totals: list[float] = sums[:, 0].tolist()
    total, total_prose = max(1.0, totals[0]), max(1.0, totals[3])
    size = np.maximum(sums[0], 1)
    of_container = rows_of(
        [np.log1p(sums[0]), sums[1] / size, sums[3] / total_prose, sums[2] / size, fixed.of_containers]
    )
    whole = [
        np.log1p(total), totals[1] / total, total_prose / total, count, counts.get("article", 0),
        counts.get("main", 0), counts.get("h1", 0), counts.get("pre", 0), counts.get("form", 0), totals[4] / count,
        float(sums[0, top]) / total, counts.get("img", 0) / count, counts.get("table", 0),
    ]  # fmt: skip
    return rows_of(
        [
            of_words, density, chars, ends, *of_head, np.minimum(arrays.emphasis, 5), tags, np.minimum(twice, 9),
            in_title,
            fixed.places, words.cumsum() / total, prose.cumsum() / total_prose, layout.depth.take(own),
            of_container.take(arrays.levels[:LEVELS], 1).transpose(1, 0, 2),
            *_beside_top(arrays, parents, top), fixed.repeats,
            fixed.under_headings, in_title.cumsum(),
            *_neighbours(arrays, np.array([of_more, density, tags, ends]), np.array([prose, links, words])),
            constant_rows(whole, count),
            fixed.names,
        ]
    ).T  # fmt: skip


def constant_rows(values: Sequence[float], count: int) -> Matrix:
    """Return a row for each value, which stands in it so often."""
    return np.array(values, np.float32).repeat(count).reshape(-1, count)
