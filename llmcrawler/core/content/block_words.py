"""Tells from words whether a block is main content: those that its text begins with, those of the heading above it, and
the class names of its containers. Each word has a value: how often blocks with it were main content, on many sites.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_columns import BlockArrays, rows_of
from llmcrawler.core.content.layout import Layout, Matrix
from llmcrawler.core.content.segments import Segments

HEAD_CHARS: Final = 80
HEAD_WORDS: Final = 7
_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_NAMES: Final = re.compile(
    r" (?:class|id|role|item(?:prop|type)|aria-label|data-(?:test|component|section|type|block|module)[a-z-]*)"
    r'="([^"]*+)"'
)
_CLASS_ONLY: Final = ' class="'
_NAME: Final = re.compile(r"[A-Z]?[a-z]{3,}")
_ATTRIBUTES_CHARS: Final = 400
_MAX_NAMES: Final = 10

_NONE: Final = (0.0, 0.0, 0.0)
_SINGLES: Final = Struct("3f")
_SIGNS: Final = np.array([[1], [-1]], np.float32)
_NO_SINGLES: Final = _SINGLES.pack(*_NONE)

Words = Mapping[str, float]


def first_words(head: str) -> list[str]:
    """Return the first words of a text; every number is 0."""
    return ["0" if word[0].isdigit() else word for word in _WORD.findall(head.lower())[:HEAD_WORDS]]


def names_in(attributes: str) -> str:
    """Return the names that the attributes of a container give it."""
    attributes = attributes[:_ATTRIBUTES_CHARS]
    if attributes.startswith(_CLASS_ONLY) and attributes.find('"', len(_CLASS_ONLY)) == len(attributes) - 1:
        return attributes[len(_CLASS_ONLY) : -1]
    return " ".join(_NAMES.findall(attributes))


def name_words(names: str) -> set[str]:
    """Return the words in names."""
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
        self._of_names = lru_cache(maxsize=16384)(lambda names: _SINGLES.pack(*summary(name_words(names), known)))
        self._of_part = lru_cache(maxsize=16384)(lambda attributes: self._of_names(names_in(attributes)))

    def _text(self, head: str, words: int) -> bytes:
        """Return what `summary` does of a text's first words, their pairs, and all of a short text, as singles."""
        found = first_words(head)
        known = self._known
        values = [known[word] for word in set(found) if word in known]
        values += [known[pair] for pair in {f"{one} {two}" for one, two in pairwise(found)} if pair in known]
        if words <= HEAD_WORDS and (whole := known.get("=" + " ".join(found))) is not None:
            values.append(whole)
        return _SINGLES.pack(sum(values) / len(values), min(values), max(values)) if values else _NO_SINGLES

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
    last, levels = arrays.last_heading, arrays.levels
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


def read_words(source: bytes, values: Sequence[float]) -> dict[str, float]:
    """Return the values by word; the words stand one in a line."""
    return dict(zip(source.decode().split("\n"), values, strict=True))
