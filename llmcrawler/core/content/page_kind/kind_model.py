"""Tells with what probability a page is of each kind: boosted trees over numbers and a linear model over words.

`page_kinds.npz` is made by benchmarks/page_kind_train.py of the development pages of WCXB, a web content
extraction benchmark (CC-BY-4.0, its authors); docs/page-kinds.md says how good it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_trees import BlockTrees
from llmcrawler.core.content.page_kind.address_numbers import address_numbers
from llmcrawler.core.content.page_kind.head_numbers import metadata_numbers, schema_numbers, tag_numbers, title_numbers
from llmcrawler.core.content.page_kind.kind_evidence import Floats, KindEvidence
from llmcrawler.core.content.page_kind.kind_tokens import TokenModel, kind_tokens
from llmcrawler.core.content.page_kind.link_numbers import container_numbers, link_numbers
from llmcrawler.core.content.page_kind.phrases import phrase_numbers
from llmcrawler.core.content.page_kind.repeated_parts import find_repeats, repeat_numbers
from llmcrawler.core.content.page_kind.text_numbers import block_totals, heading_numbers, main_numbers


def kind_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return the numbers by name; the same names for every page."""
    page, blocks = evidence.page, evidence.blocks
    layout = evidence.layout
    repeats = find_repeats(page, layout, blocks)
    return {
        **address_numbers(evidence.url, evidence.title),
        **title_numbers(evidence),
        **metadata_numbers(evidence),
        **schema_numbers(evidence.structured_data),
        **tag_numbers(evidence),
        **block_totals(blocks),
        **main_numbers(blocks),
        **heading_numbers(blocks, evidence.title),
        **container_numbers(page, layout, blocks),
        **repeat_numbers(repeats, blocks),
        **link_numbers(evidence.url, evidence.links, blocks),
        **phrase_numbers(blocks),
    }


_LEAST: Final = 1e-4  # of a probability, before its logarithm is taken
TREES: Final = "trees "
TOKENS: Final = "tokens "


def softmax(logs: Floats) -> Floats:
    """Return probabilities for logarithms of them, which may lack any constant; over the last axis."""
    powers = np.exp(logs - logs.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def blend(trees: Floats, linear: Floats, linear_share: float, factor: float, bias: Floats | float = 0.0) -> Floats:
    """Return the probabilities that two models together give; `factor` says how far they may be relied on, `bias` how
    much each kind's logarithm lacks before that.
    """
    logs = np.log(np.maximum(trees, _LEAST)) + linear_share * np.log(np.maximum(linear, _LEAST))
    return softmax(factor * (logs + bias))


class KindModel:
    """Both models, from arrays by name; those of the trees and of the linear one have "trees " and "tokens " before
    their names. The trees of the kinds alternate.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.kinds = tuple(arrays["kinds"].tolist())
        self._names = arrays["names"].tolist()
        self._trees = BlockTrees(_part(arrays, TREES))
        self._tokens = TokenModel(_part(arrays, TOKENS))
        self._linear_share, self._factor = float(arrays["linear share"]), float(arrays["factor"])
        self._bias = arrays["bias"].astype(np.float64)

    def probabilities(self, evidence: KindEvidence) -> dict[str, float]:
        """Return the probability of each kind, in sum 1."""
        numbers = kind_numbers(evidence)
        column = np.array([[numbers[name]] for name in self._names], np.float32)
        trees = self._trees.values(column).astype(np.float64).reshape(-1, len(self.kinds)).sum(0)
        linear = self._tokens.log_odds(kind_tokens(evidence))
        found = blend(softmax(trees), softmax(linear), self._linear_share, self._factor, self._bias)
        return {kind: round(value, 4) for kind, value in zip(self.kinds, found.tolist(), strict=True)}


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


@lru_cache(maxsize=1)
def _model() -> KindModel:
    with np.load(BytesIO(files(__package__).joinpath("page_kinds.npz").read_bytes())) as arrays:
        return KindModel({name: arrays[name] for name in arrays})


def kind_probabilities(evidence: KindEvidence) -> dict[str, float]:
    """Return the probability of each kind that the package's model knows."""
    return _model().probabilities(evidence)
