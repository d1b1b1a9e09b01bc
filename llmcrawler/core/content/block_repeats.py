"""Works out numbers per block from what repeats: its text, prices and dates, and cards or rows that look the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_columns import LEVELS, BlockArrays, constant_rows, fixed_columns, rows_of
from llmcrawler.core.content.layout import Layout, Matrix, row_sums_by
from llmcrawler.core.content.segments import Segments

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
    whole = [
        *_page_type(page), prices_before[-1], prices_before[-1] / count, dated.sum(), dated.mean(),
        cards.many, len(page.links) / count,
    ]  # fmt: skip
    return rows_of(
        [
            np.array(_times_before(arrays.texts)), prices_of, dated, colons,
            prices_before, prices_before[-1] - prices_before, of_card[0], cards.nearest, of_card[1:],
            constant_rows(whole, count),
        ]
    ).T  # fmt: skip


def _times_before(texts: list[str]) -> list[int]:
    """Return how often each text stood there before."""
    seen: dict[str, int] = {}
    found = []
    for text in texts:
        times = seen.get(text, 0)
        seen[text] = times + 1
        found.append(times)
    return found


def _page_type(page: Segments) -> list[float]:
    """Tell whether Open Graph says product, article or website."""
    types = [
        found.get("content", "") for tag, found in page.metas if tag == "meta" and found.get("property") == "og:type"
    ]
    said = types[0] if types else ""
    return [float(name in said) for name in ("product", "article", "website")]
