"""Parts clusters whose pages the site itself declares to be of several kinds: by a class of the body or html element
that goes with a word of the url."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.understanding.templates.grouping_types import PageSample

Counts = NDArray[np.float32]

# A class and a word that so many pages of a cluster have, and as many have not, do not go together by chance.
_LEAST_PAGES = 5
_LEAST_SHARE = 0.08
_MOST_ODD = 0.05  # of the smaller side
_DECLARING = ("body.", "html.")
_NAMING = ("at", "from_end", "shape", "ext:", "key:", "name ")


def part_by_declared_kind(samples: Sequence[PageSample], clusters: Sequence[int]) -> list[int]:
    """Return the clusters parted, numbered by first page. What a class says counts only where the url says it, too:
    a class alone may name the author, the season or the experiment that a page is in."""
    classes = _matrix([_of(sample.features, _DECLARING) for sample in samples])
    found = np.asarray(clusters)
    if not _varies(classes):
        return _numbered(found)
    words = _matrix([_of(sample.tokens, _NAMING) for sample in samples])
    unchecked = list(range(max(clusters, default=-1) + 1))
    new = len(unchecked)
    while unchecked:
        cluster = unchecked.pop()
        inside = np.flatnonzero(found == cluster)
        with_word = _side(words[inside], classes[inside])
        if with_word is not None:
            found[inside[with_word]] = new
            unchecked += [cluster, new]
            new += 1
    return _numbered(found)


def _numbered(clusters: NDArray[np.int_]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(one), len(numbers)) for one in clusters]


def _varies(classes: Counts) -> bool:
    """Tell whether some pages have a class that others have not: one that all have goes with no word."""
    return bool((classes != classes[:1]).any())


def _side(words: Counts, classes: Counts) -> NDArray[np.bool_] | None:
    """Return which pages have the word that goes best with a class; None where none goes with any."""
    pages = len(words)
    with_word, with_class = words.sum(axis=0), classes.sum(axis=0)
    smaller = np.minimum(with_word, pages - with_word)
    usable = smaller >= max(_LEAST_PAGES, _LEAST_SHARE * pages)
    if not usable.any() or not classes.shape[1]:
        return None
    apart = with_word[:, None] + with_class[None, :] - 2 * (words.T @ classes)
    odd = np.minimum(apart, pages - apart).min(axis=1) / np.maximum(smaller, 1)
    odd[~usable] = 1.0
    best = int(np.lexsort((-smaller, odd))[0])
    return words[:, best] > 0 if odd[best] <= _MOST_ODD else None


def _matrix(rows: Sequence[list[str]]) -> Counts:
    index = {name: number for number, name in enumerate(sorted({name for row in rows for name in row}))}
    matrix: Counts = np.zeros((len(rows), len(index)), dtype=np.float32)
    for row, names in enumerate(rows):
        matrix[row, [index[name] for name in names]] = 1.0
    return matrix


def _of(names: Iterable[str], places: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(places)]
