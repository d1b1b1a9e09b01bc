"""Numbers from parts of a page that repeat: three or more siblings of the same tag and class, like cards or posts."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p, sqrt
from typing import Final

import numpy as np

from llmcrawler.core.content.layout import Layout
from llmcrawler.core.content.page_kind.kind_evidence import BlockNumbers, Floats
from llmcrawler.core.content.segments import Segments

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


def find_repeats(page: Segments, layout: Layout, blocks: BlockNumbers) -> list[Repeat]:
    """Return the groups that have words."""
    size = len(page.parents)
    columns = (
        blocks.words, blocks.link_words, np.ones(len(blocks.words)), blocks.words * blocks.prose, blocks.headings,
        blocks.prices,
    )  # fmt: skip
    own: Floats = np.stack([np.bincount(blocks.containers, column, size) for column in columns], 1)
    sums = layout.sums_below(own)
    many = layout.group_sizes >= _LEAST_SIBLINGS
    members = np.flatnonzero(many[layout.groups] & (sums[:, 2] > 0))
    groups, rows, size = layout.groups[members], sums[members], len(layout.group_sizes)
    counts = np.bincount(groups, minlength=size)
    kept = np.flatnonzero(counts >= _LEAST_SIBLINGS)
    totals = np.stack([np.bincount(groups, column, size)[kept] for column in (*rows.T, rows[:, 0] ** 2)], 1)
    first = np.zeros(size, np.int64)
    first[groups[::-1]] = members[::-1]
    found = []
    for index, count, row in zip(first[kept].tolist(), counts[kept].tolist(), totals.tolist(), strict=True):
        words, linked, of_blocks, prose, headings, priced, squares = row
        mean = words / count
        deviation = sqrt(max(0.0, squares / count - mean * mean))
        found.append(
            Repeat(
                count, mean, deviation / max(1.0, mean), linked / words, prose / words, headings / count,
                priced / count, of_blocks / count, words, page.tags[index], layout.hints[index],
            )
        )  # fmt: skip
    return found


def repeat_numbers(repeats: list[Repeat], blocks: BlockNumbers) -> dict[str, float]:
    """Return counts of cards, posts and prices, and the numbers of the largest group and of the likeliest list."""
    total, prices = blocks.total_words, blocks.prices
    cards = [one for one in repeats if one.is_card]
    posts = [one for one in repeats if one.is_post]
    priced = [one.count for one in repeats if one.prices >= 0.5]
    headed = [one for one in repeats if one.headings >= 0.5 and one.blocks >= 1.5]
    found: dict[str, float] = {
        "repeats": log1p(len(repeats)),
        "repeats most": log1p(max((one.count for one in repeats), default=0)),
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
