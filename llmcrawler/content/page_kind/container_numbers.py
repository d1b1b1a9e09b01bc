"""Numbers from the elements that blocks of text stand in: their names, tags and depth."""

from __future__ import annotations

from math import log1p
from typing import Final

import numpy as np

from llmcrawler.content.hints import HINTS
from llmcrawler.content.layout import ABOVE, Layout, bit_columns
from llmcrawler.content.segments import Segments

from .kind_evidence import BlockNumbers

# A name for each of HINTS.
_HINT_NAMES: Final = tuple(
    "nav foot header comment side share related cookie ad meta content post product card review filter hero faq".split()
)


def container_numbers(page: Segments, layout: Layout, blocks: BlockNumbers) -> dict[str, float]:
    """Return the share of blocks, words and prose under each hint and each tag of ABOVE."""
    count, total = len(blocks.words), blocks.total_words
    prose = blocks.words * blocks.prose
    shares = np.stack([np.full(count, 1 / count), blocks.words / total, prose / max(1.0, float(prose.sum()))])
    found: dict[str, float] = {}
    for prefix, names, columns in (("hint", _HINT_NAMES, layout.block_hints), ("within", ABOVE, layout.block_above)):
        for part, row in zip(("blocks", "words", "prose"), (shares @ columns).tolist(), strict=True):
            for name, share in zip(names, row, strict=True):
                found[f"{prefix} {name} {part}"] = share
    values, times = np.unique(layout.own_hints, return_counts=True)
    own = times @ bit_columns(values, len(HINTS))
    for name, number in zip(_HINT_NAMES, own.tolist(), strict=True):
        found[f"hint {name} elements"] = log1p(number)
    found["depth mean"] = float(layout.depth[layout.containers].mean())
    found["depth greatest"] = float(layout.depth.max())
    found["containers a block"] = len(page.parents) / count
    return found
