"""How likely each block of a page is main content."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmcrawler.content.features import block_features
from llmcrawler.content.walk import RawBlock


def score_blocks(blocks: list[RawBlock], containers: list[int]) -> NDArray[np.float64]:
    if not blocks:
        return np.zeros(0)
    features = block_features(blocks, containers)
    scores: NDArray[np.float64] = 1 / (1 + np.exp(-(features[:, 0] - 2 * features[:, 1] - 1.0)))
    return scores
