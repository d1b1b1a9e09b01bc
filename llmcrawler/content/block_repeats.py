"""Works out numbers per block from what repeats: its text, prices and dates, and cards or rows that look the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .block_columns import LEVELS, BlockArrays, constant_rows, rows_of
from .layout import Layout, Matrix, row_sums_by
from .segments import Segments

_CARDS: Final = 3  # so many siblings that look the same are cards or rows
_MANY: Final = 6


def repeat_columns(page: Segments, layout: Layout, arrays: BlockArrays, prices: Sequence[int]) -> Matrix:
    """Return a row per block; `prices` are how many each has."""
    count, texts, levels = arrays.count, arrays.texts, arrays.levels[:LEVELS]
    prices_of = np.array(prices)
    priced, (dated, colons) = prices_of > 0, arrays.of_texts[8:]
    groups, in_group = layout.groups, layout.group_sizes.take(layout.groups)
    per = row_sums_by(
        layout.containers, len(layout.parents), np.array([arrays.words, priced, dated, arrays.links], np.float64)
    )
    of_group = row_sums_by(groups, len(layout.group_sizes), layout.row_sums_below(per))
    log_words, linked = np.log1p(of_group[0]), of_group[3] / np.maximum(1, of_group[0])
    means = of_group[:3] / layout.group_sizes
    is_card = (in_group.take(levels) >= _CARDS) & (levels > 0)
    nearest = is_card.argmax(0)
    none = ~is_card[nearest, arrays.index]
    card = levels[nearest, arrays.index]
    of_card = np.concatenate([layout.group_sizes, log_words, means.reshape(-1), linked]).reshape(6, -1)
    of_card = of_card.take(groups.take(card), 1)
    of_card[:, none] = 0
    prices_before = priced.cumsum()
    whole = [
        *_page_type(page), prices_before[-1], prices_before[-1] / count, dated.sum(), dated.mean(),
        (in_group >= _MANY).mean(), len(page.links) / count,
    ]  # fmt: skip
    return rows_of(
        [
            np.array(_times_before(texts)), prices_of, dated, colons,
            prices_before, prices_before[-1] - prices_before, of_card[0], nearest, of_card[1:],
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
