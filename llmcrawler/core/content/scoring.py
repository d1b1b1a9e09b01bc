"""Computes for each block the probability that it is main content, with boosted trees in two steps: the first judges a
block by itself, its containers and its neighbours, the second also by what the first said of the others.

The model is `main_text.npz`, which benchmarks/content_train.py has made; docs/main-text.md is its card.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_markdown import is_code
from llmcrawler.core.content.block_trees import BlockTrees
from llmcrawler.core.content.caching import cached_if_short
from llmcrawler.core.content.layout import Layout, Matrix, bit_rows, framed, numbered, row_sums_by
from llmcrawler.core.content.markup import H1, H6
from llmcrawler.core.content.part_names import PART_NAMES
from llmcrawler.core.content.segmenter import RawBlock, Segments

HEAD_CHARS: Final = 80
HEAD_WORDS: Final = 7
_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_NAMES: Final = re.compile(
    r" (?:class|id|role|item(?:prop|type)|aria-label|data-(?:test|component|section|type|block|module)[a-z-]*)"
    r'="([^"]*+)"'
)
_NAME: Final = re.compile(r"[A-Z]?[a-z]{3,}")
_ATTRIBUTES_CHARS: Final = 400
_MAX_NAMES: Final = 10

_NONE: Final = (0.0, 0.0, 0.0)
_WORD_SINGLES: Final = Struct("3f")
_SIGNS: Final = np.array([[1], [-1]], np.float32)
_NO_SINGLES: Final = _WORD_SINGLES.pack(*_NONE)

Words = Mapping[str, float]


def first_words(head: str) -> list[str]:
    """Return the first words of a text; every number is 0."""
    return ["0" if word[0].isdigit() else word for word in _WORD.findall(head.lower())[:HEAD_WORDS]]


def names_in(attributes: str) -> str:
    """Return the names that the attributes of a container give it."""
    attributes = attributes[:_ATTRIBUTES_CHARS]
    return " ".join(_NAMES.findall(attributes))


def name_words(names: str) -> set[str]:
    return {f".{name.lower()}" for name in _NAME.findall(names)[:_MAX_NAMES]}


def summary(words: Iterable[str], known: Words) -> tuple[float, float, float]:
    """Return the mean, the lowest and the highest value of the words that are known; zeros where none is."""
    values = [known[word] for word in words if word in known]
    return (sum(values) / len(values), min(values), max(values)) if values else _NONE


class WordValues:
    """Looks values up, and remembers those of texts and class names that it met: the pages of a site repeat them."""

    def __init__(self, known: Words) -> None:
        self._known = known
        self._of_text = lru_cache(maxsize=16384)(self._text)
        self._of_names = lru_cache(maxsize=16384)(lambda names: _WORD_SINGLES.pack(*summary(name_words(names), known)))
        self._of_part = lru_cache(maxsize=16384)(lambda attributes: self._of_names(names_in(attributes)))

    def _text(self, head: str, words: int) -> bytes:
        """Return what `summary` does of a text's first words, their pairs, and all of a short text, as singles."""
        found = first_words(head)
        known = self._known
        values = [known[word] for word in set(found) if word in known]
        values += [known[pair] for pair in {f"{one} {two}" for one, two in pairwise(found)} if pair in known]
        if words <= HEAD_WORDS and (whole := known.get("=" + " ".join(found))) is not None:
            values.append(whole)
        return _WORD_SINGLES.pack(sum(values) / len(values), min(values), max(values)) if values else _NO_SINGLES

    def of_page(self, page: Segments) -> tuple[Matrix, Matrix]:
        """Return three numbers per block of the page, and per container."""
        most = HEAD_WORDS + 1
        of_text, of_part = self._of_text, self._of_part
        texts = [of_text(block.text[:HEAD_CHARS], min(most, block.words)) for block in page.blocks]
        names = [
            of_part(attributes[:_ATTRIBUTES_CHARS]) if attributes else _NO_SINGLES for attributes in page.attributes
        ]
        of_texts, of_names = (np.frombuffer(b"".join(found), np.float32).reshape(-1, 3) for found in (texts, names))
        return of_texts, of_names


def word_columns(of_texts: Matrix, of_names: Matrix, layout: Layout, arrays: BlockArrays) -> Matrix:
    """Return a row per block."""
    last, levels = arrays.fixed.last_heading, arrays.fixed.levels
    above = of_texts.take(last, 0, mode="wrap")
    above[last < 0] = 0
    near = of_names.take(levels[:3], 0)
    extremes = _extremes(of_names, layout.parents).take(levels[0], 1)
    return rows_of([of_texts.T, above.T, near.transpose(0, 2, 1), extremes]).T


def _extremes(of_names: Matrix, parents: NDArray[np.int64]) -> Matrix:
    """Return the lowest and the highest value of each container's names and those of all above it, in two rows."""
    found = of_names[:, 1:].T * _SIGNS
    while True:  # each round asks twice as many of those above
        np.minimum(found, found.take(parents, 1), out=found)
        if not parents.any():
            return found * _SIGNS
        parents = parents.take(parents)


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


@cached_if_short(_HEAD_CHARS)
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


@dataclass(frozen=True, eq=False)
class FixedColumns:
    """Columns that depend on the layout alone. The page has at least one block."""

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
    levels = np.empty((STEPS, count), np.int64)
    levels[0] = own
    for step in range(1, STEPS):
        layout.parents.take(levels[step - 1], out=levels[step], mode="clip")
    repeats = layout.group_sizes.take(layout.groups).astype(np.float32)
    of_containers = rows_of([repeats, tags_of])
    repeats[0] = 1
    seen_h1, singles = (tags == H1).cumsum(), index.astype(np.float32)
    near_parts = np.bitwise_or.reduce(layout.own_parts.take(levels[:3]), 0)
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
        names=rows_of([layout.block_parts.T, bit_rows(near_parts, len(PART_NAMES)), layout.block_above.T]),
    )


class BlockArrays:
    """Has what of the blocks of a page is asked for by many columns; a page has at least one."""

    def __init__(self, page: Segments, layout: Layout) -> None:
        blocks = page.blocks
        self.count = len(blocks)
        self.fixed = layout.once(fixed_columns)
        self.texts = texts = [block.text for block in blocks]
        numbers = b"".join(map(_text_numbers, texts))
        self.of_texts = np.frombuffer(numbers, np.float32).reshape(self.count, -1).T
        counts = [(block.words, block.link_words, block.emphasis) for block in blocks]
        self.words, self.links, self.emphasis = np.ascontiguousarray(np.array(counts, np.float32).T)


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
    ranks = rank.take(arrays.fixed.levels)
    first = (ranks > 0).argmax(0)
    inside_top = ranks[first, arrays.fixed.index]
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
    before, behind = places_around(arrays.count, _RADII)
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
    words, links, tags = arrays.words, arrays.links, arrays.fixed.tags
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
            of_container.take(arrays.fixed.levels[:LEVELS], 1).transpose(1, 0, 2),
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


_CARDS: Final = 3  # so many siblings that look the same are cards or rows
_MANY: Final = 6


@dataclass(frozen=True, eq=False)
class _Cards:
    """The card or row that each block stands in: the nearest container above it with siblings that look the same."""

    nearest: NDArray[np.int64]  # how many levels up; 0 where there is none
    groups: NDArray[np.int64]
    is_none: NDArray[np.bool_]
    many: float  # the share of containers with many of their like beside them


def _cards_of(layout: Layout) -> _Cards:
    fixed = layout.once(fixed_columns)
    levels, in_group = fixed.levels[:LEVELS], layout.group_sizes.take(layout.groups)
    is_card = (in_group.take(levels) >= _CARDS) & (levels > 0)
    nearest = is_card.argmax(0)
    return _Cards(
        nearest=nearest,
        groups=layout.groups.take(levels[nearest, fixed.index]),
        is_none=~is_card[nearest, fixed.index],
        many=float((in_group >= _MANY).mean()),
    )


def repeat_columns(page: Segments, layout: Layout, arrays: BlockArrays, prices: Sequence[int]) -> Matrix:
    """Return a row per block; `prices` are how many each has."""
    count, cards = arrays.count, layout.once(_cards_of)
    prices_of = np.array(prices)
    priced, (dated, colons) = prices_of > 0, arrays.of_texts[8:]
    per = row_sums_by(
        layout.containers, len(layout.parents), np.array([arrays.words, priced, dated, arrays.links], np.float64)
    )
    of_group = row_sums_by(layout.groups, len(layout.group_sizes), layout.row_sums_below(per))
    log_words, linked = np.log1p(of_group[0]), of_group[3] / np.maximum(1, of_group[0])
    means = of_group[:3] / layout.group_sizes
    of_card = np.concatenate([layout.group_sizes, log_words, means.reshape(-1), linked]).reshape(6, -1)
    of_card = of_card.take(cards.groups, 1)
    of_card[:, cards.is_none] = 0
    prices_before = priced.cumsum()
    seen: Counter[str] = Counter()
    times_before = []
    for text in arrays.texts:
        times_before.append(seen[text])
        seen[text] += 1
    metas = (found for tag, found in page.metas if tag == "meta" and found.get("property") == "og:type")
    page_type = next(metas, {}).get("content", "")
    whole = [
        *(float(name in page_type) for name in ("product", "article", "website")),
        prices_before[-1], prices_before[-1] / count, dated.sum(), dated.mean(), cards.many, len(page.links) / count,
    ]  # fmt: skip
    return rows_of(
        [
            np.array(times_before), prices_of, dated, colons,
            prices_before, prices_before[-1] - prices_before, of_card[0], cards.nearest, of_card[1:],
            constant_rows(whole, count),
        ]
    ).T  # fmt: skip


Floats = NDArray[np.float64]

_NO_BLOCK: Final = -0.1  # in place of a score
_BESIDE: Final = (1, 2, 3, 4, -1, -2, -3, -4)
_WINDOWS: Final = (2, 6, 15)


def _mean(sums: Floats) -> Floats:
    """Return the mean score of words, from the sum of their scores and their number; where there are hardly any it
    tends to .2.
    """
    return np.asarray((sums[0] + 0.02) / (sums[1] + 0.1))


def context_columns(layout: Layout, arrays: BlockArrays, scores: Floats) -> Matrix:
    """Return a row per block."""
    words = arrays.words.astype(np.float64)
    both = np.array([scores * words, words])  # of each block its score, as often as it has words, and its words
    last, section = arrays.fixed.last_heading, arrays.fixed.headings.cumsum()
    of_sections = row_sums_by(section, int(section[-1]) + 1, both)
    before = np.where(last >= 0, scores.take(last, mode="wrap"), _NO_BLOCK)
    return rows_of(
        [
            *_beside(arrays, scores, both),
            *_in_parts(layout, arrays, both),
            before, _mean(of_sections).take(section), of_sections[1].take(section),
            *_on_page(arrays, scores, both),
        ]
    ).T  # fmt: skip


def _beside(arrays: BlockArrays, scores: Floats, both: Floats) -> list[NDArray[Any]]:
    count = arrays.count
    padded = np.empty(count + 8)
    padded[:4] = padded[-4:] = _NO_BLOCK
    padded[4:-4] = scores
    until = np.zeros((2, count + 1))
    both.cumsum(1, out=until[:, 1:])
    first, behind = places_around(arrays.count, _WINDOWS)
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
    of_levels: NDArray[np.int64]  # as `FixedColumns.levels`
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
        _mean(below).take(arrays.fixed.levels[:6]), of_groups.take(kinds.groups_of_levels),
        of_kinds.take(kinds.of_levels), kinds.blocks,
    ]  # fmt: skip


def _on_page(arrays: BlockArrays, scores: Floats, both: Floats) -> list[NDArray[Any]]:
    count, index, words = arrays.count, arrays.fixed.index, both[1]
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


_UNIT_LEVELS: Final = 4  # from a row to what the table stands in
_INTRODUCED: Final = 0.7
_ENOUGH_WORDS: Final = 100
_PRIOR: Final = 0.5
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
        self._words = WordValues(dict(zip(arrays["words"].tobytes().decode().split("\n"), values, strict=True)))

    def scores(self, page: Segments, layout: Layout, prices: Sequence[int]) -> NDArray[np.float64]:
        """Return a probability per block."""
        columns = PageColumns(page, layout, prices)
        first = columns.first(*self._words.of_page(page))
        scores = _probabilities(self._first.log_odds(first))
        return _probabilities(self._second.log_odds(columns.second(first, scores)))


def _probabilities(log_odds: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-log_odds.astype(np.float64))))


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
    found = []
    for block, score, is_framed in zip(page.blocks, scores, layout.once(framed), strict=True):
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
            floor = 0.0
            before = page.blocks[index - 1]
            if (block.unit or code) and index and not before.unit and _is_beside(page, before, block):
                floor = found[-1] * (1 if was_code else _INTRODUCED)
            unit, was_code = block.unit, code
        found.append(max(score, floor))
    return found


def _is_beside(page: Segments, before: RawBlock, block: RawBlock) -> bool:
    """Tell whether the container of the block before, or the one around it, holds the other a few levels down."""
    above, inside = {before.container, page.parents[before.container]}, block.container
    for _ in range(_UNIT_LEVELS):
        inside = page.parents[inside]
        if inside in above:
            return True
    return False
