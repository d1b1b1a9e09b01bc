"""Numbers from the elements that blocks of text stand in: their names, tags and depth."""

from __future__ import annotations

from math import log1p
from typing import Final

import numpy as np

from llmcrawler.content.hints import HINTS
from llmcrawler.content.scoring import ABOVE
from llmcrawler.content.segments import Segments

from .kind_evidence import BlockNumbers, Floats, Integers

# A name for each of HINTS.
_HINT_NAMES: Final = tuple(
    "nav foot header comment side share related cookie ad meta content post product card review filter hero faq".split()
)


def container_numbers(
    page: Segments, blocks: BlockNumbers, hints: list[int], above: list[int], depth: list[int]
) -> dict[str, float]:
    """Return the share of blocks, words and prose under each hint and each tag of ABOVE; the three lists have, per
    container, the bits of these and its depth, as `inherited` gives them.
    """
    count, total = len(blocks.words), blocks.total_words
    prose = blocks.words * blocks.prose
    total_prose = max(1.0, float(prose.sum()))
    found: dict[str, float] = {}
    own = _bits(np.array(page.hints), len(HINTS)).sum(0)
    for prefix, names, bits in (
        ("hint", _HINT_NAMES, _bits(np.array(hints)[blocks.containers], len(HINTS))),
        ("within", ABOVE, _bits(np.array(above)[blocks.containers], len(ABOVE))),
    ):
        shares = zip(
            names,
            (bits.sum(0) / count).tolist(),
            (blocks.words @ bits / total).tolist(),
            (prose @ bits / total_prose).tolist(),
            strict=True,
        )
        for name, of_blocks, of_words, of_prose in shares:
            found[f"{prefix} {name} blocks"] = of_blocks
            found[f"{prefix} {name} words"] = of_words
            found[f"{prefix} {name} prose"] = of_prose
    for name, number in zip(_HINT_NAMES, own.tolist(), strict=True):
        found[f"hint {name} elements"] = log1p(number)
    depths = np.array(depth, np.float64)[blocks.containers]
    found["depth mean"] = float(depths.mean())
    found["depth greatest"] = max(depth)
    found["depth of words"] = float(depths @ blocks.words) / total
    found["containers"] = log1p(len(depth))
    found["containers a block"] = len(depth) / count
    return found


def _bits(values: Integers, count: int) -> Floats:
    return ((values[:, None] >> np.arange(count)) & 1).astype(np.float64)
