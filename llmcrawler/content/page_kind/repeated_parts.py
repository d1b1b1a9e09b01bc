"""Numbers from parts of a page that repeat: three or more siblings of the same tag and class, like cards or posts."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p, sqrt
from typing import Final

import numpy as np

from llmcrawler.content.cues import holds_price, present_currencies
from llmcrawler.content.segments import Segments

from .kind_evidence import BlockNumbers, Floats

_LEAST_SIBLINGS: Final = 3
# Bits of `hints.HINTS` for navigation, footer and cookie banner: what repeats there is no list of the page.
_FRAME: Final = 1 << 0 | 1 << 1 | 1 << 7
_NUMBERS: Final = ("count", "words", "variation", "linked", "prose", "headings", "prices", "blocks")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A group of siblings. `words` to `blocks` are means of one of them, `linked` and `prose` shares of its words."""

    count: int
    words: float
    variation: float  # of words: deviation by mean
    linked: float
    prose: float
    headings: float
    prices: float
    blocks: float
    total_words: float
    tag: int
    hints: int

    @property
    def is_card(self) -> bool:
        return self.blocks >= 1.8 and self.linked > 0.05 and self.words >= 4

    @property
    def is_post(self) -> bool:
        return self.prose > 0.5 and self.words >= 20


def priced_blocks(texts: list[str]) -> Floats:
    """Return for each text 1 where a price stands near its beginning, else 0."""
    currencies = present_currencies(texts)
    return np.array([bool(currencies) and holds_price(text, currencies) for text in texts], np.float64)


def _subtree_sums(page: Segments, blocks: BlockNumbers, prices: Floats) -> Floats:
    """Return a row per container: words, linked words, blocks, words of prose, headings and prices in it and below."""
    size = len(page.parents)
    behind = list(range(1, size + 1))  # the first container after all that are below one
    for index in range(size - 1, 0, -1):
        above = page.parents[index]
        behind[above] = max(behind[above], behind[index])
    columns = (
        blocks.words, blocks.link_words, np.ones(len(blocks.words)), blocks.words * blocks.prose, blocks.headings,
        prices,
    )  # fmt: skip
    own = np.stack([np.bincount(blocks.containers, column, size) for column in columns], 1)
    until = np.concatenate([np.zeros((1, len(columns))), np.cumsum(own, 0)])
    return np.asarray(until[behind] - until[:-1])


def find_repeats(page: Segments, blocks: BlockNumbers, hints: list[int], prices: Floats) -> list[Repeat]:
    """Return the groups that have words; `hints` are those of each container with all above it."""
    sums = _subtree_sums(page, blocks, prices)
    with_text = (np.flatnonzero(sums[1:, 2]) + 1).tolist()
    numbers: dict[tuple[int, str], int] = {}
    first: list[int] = []
    groups = []
    for index in with_text:
        key = page.parents[index], page.signatures[index]
        group = numbers.get(key)
        if group is None:
            group = numbers[key] = len(first)
            first.append(index)
        groups.append(group)
    counts = np.bincount(groups, minlength=1)
    kept = np.flatnonzero(counts >= _LEAST_SIBLINGS)
    members = sums[with_text]
    columns = [*members.T, members[:, 0] ** 2]
    totals = np.stack([np.bincount(groups, column, len(counts))[kept] for column in columns], 1).tolist()
    found = []
    for group, count, row in zip(kept.tolist(), counts[kept].tolist(), totals, strict=True):
        words, linked, of_blocks, prose, headings, priced, squares = row
        mean = words / count
        deviation = sqrt(max(0.0, squares / count - mean * mean))
        found.append(
            Repeat(
                count, mean, deviation / max(1.0, mean), linked / words, prose / words, headings / count,
                priced / count, of_blocks / count, words, page.tags[first[group]], hints[first[group]],
            )
        )  # fmt: skip
    return found


def repeat_numbers(repeats: list[Repeat], blocks: BlockNumbers, prices: Floats) -> dict[str, float]:
    """Return counts of cards, posts and prices, and the numbers of the largest group and of the likeliest list."""
    total = blocks.total_words
    cards = [one for one in repeats if one.is_card]
    posts = [one for one in repeats if one.is_post]
    priced = [one.count for one in repeats if one.prices >= 0.5]
    headed = [one for one in repeats if one.headings >= 0.5 and one.blocks >= 1.5]
    found: dict[str, float] = {
        "repeats": log1p(len(repeats)),
        "repeats members": log1p(sum(one.count for one in repeats)),
        "repeats most": log1p(max((one.count for one in repeats), default=0)),
        "cards": log1p(sum(one.count for one in cards)),
        "cards words": sum(one.total_words for one in cards) / total,
        "posts": log1p(sum(one.count for one in posts)),
        "posts words": sum(one.total_words for one in posts) / total,
        "posts variation": _largest(posts).variation if posts else -1,
        "priced most": log1p(max(priced, default=0)),
        "priced": log1p(sum(priced)),
        "headed most": log1p(max((one.count for one in headed), default=0)),
        "headed linked": _largest(headed).linked if headed else -1,
        "prices": log1p(prices.sum()),
        "prices a block": float(prices.mean()),
        "prices in main": log1p(prices @ blocks.main),
        "prices a heading": float(prices.sum()) / (1 + float(blocks.headings.sum())),
    }
    lists = [one for one in cards if not one.hints & _FRAME]
    likeliest = max(lists, key=lambda one: one.count * min(one.words, 30), default=None)
    for prefix, group in (("largest", _largest(repeats) if repeats else None), ("list", likeliest)):
        for name in _NUMBERS:
            value = getattr(group, name) if group else -1
            found[f"{prefix} {name}"] = log1p(value) if group and name in ("count", "words") else value
        found[f"{prefix} share"] = group.total_words / total if group else 0
        found[f"{prefix} tag"] = group.tag if group else -1
    return found


def _largest(repeats: list[Repeat]) -> Repeat:
    return max(repeats, key=lambda one: one.total_words)
