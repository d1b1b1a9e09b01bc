"""Tells with what probability a page is of each kind: boosted trees over numbers and a linear model over words.

`page_kinds.npz` is made by benchmarks/page_kind_train.py of the development pages of WCXB, a web content
extraction benchmark (CC-BY-4.0, its authors); docs/page-kinds.md says how good it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_trees import BlockTrees
from llmcrawler.core.content.markup import H1
from llmcrawler.core.content.page_kind_numbers import (
    Floats,
    Integers,
    KindEvidence,
    kind_numbers,
    read_address,
    schema_types,
)
from llmcrawler.items import PageContent


class KindsOnDemand(Mapping[str, float]):
    """The probability of each kind, by name. `work_out` holds on to what was parsed of the page until somebody asks, or
    tells it to forget; from then on a page that was not asked has no kinds. It is pickled as what it gives.
    """

    def __init__(self, work_out: Callable[[], Mapping[str, float]]) -> None:
        self._work_out: Callable[[], Mapping[str, float]] | None = work_out
        self._kinds: Mapping[str, float] = {}

    def forget(self) -> None:
        self._work_out = None

    def _known(self) -> Mapping[str, float]:
        if self._work_out is not None:
            self._kinds = self._work_out()
            self._work_out = None
        return self._kinds

    def __getitem__(self, kind: str) -> float:
        return self._known()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self._known()),)


def forget_kinds(content: PageContent) -> None:
    """Let go of what was parsed of the page, where its kinds have not been asked for and no longer will be."""
    if isinstance(content.kinds, KindsOnDemand):
        content.kinds.forget()


_WORD: Final = re.compile(r"[^\W_]{1,24}")
_NUMBER: Final = re.compile(r"\d+")
_SHORT_WORDS: Final = 5
_MAX_SHORT_CHARS: Final = 100
_MAX_SHORT_BLOCKS: Final = 1500
_MAX_DESCRIPTION_CHARS: Final = 400
_MAX_METAS: Final = 200
_MAX_NAMES: Final = 12
_DESCRIBED: Final = ("description", "og:title", "keywords", "article:section", "generator", "og:type")


def _split(text: str) -> list[str]:
    return _WORD.findall(_NUMBER.sub("0", text.lower()))


@lru_cache(maxsize=16384)
def _short_tokens(text: str) -> list[str]:
    words = _split(text)
    return [f"={'_'.join(words)}", *words]


def _with_pairs(words: list[str]) -> list[str]:
    return words + [f"{first}_{second}" for first, second in pairwise(words)]


def kind_tokens(evidence: KindEvidence) -> dict[str, list[str]]:
    """Return the tokens of each group, a token as often as it occurs; digits are 0."""
    blocks = evidence.page.blocks
    heading = next((block.text for block in blocks if block.tag == H1), "")
    short = [block.text for block in blocks if block.words <= _SHORT_WORDS and len(block.text) <= _MAX_SHORT_CHARS]
    return {
        "address": _address_tokens(evidence.url),
        "title": _with_pairs(_split(evidence.title)),
        "heading": _with_pairs(_split(heading[:_MAX_DESCRIPTION_CHARS])),
        "short": [token for text in short[:_MAX_SHORT_BLOCKS] for token in _short_tokens(text)],
        "meta": _meta_tokens(evidence),
    }


def _address_tokens(url: str) -> list[str]:
    address = read_address(url)
    host = address.host.removeprefix("www.")
    folders = [_NUMBER.sub("0", segment)[:30] for segment in address.segments]
    found = [f"depth={min(6, len(folders))}", f"domain={host.rpartition('.')[2]}"]
    for folder in folders[:-1]:
        found += [f"folder={folder}", *(f"in={word}" for word in _split(folder))]
    if folders:
        last = folders[-1]
        suffix = last.rpartition(".")[2] if "." in last else ""
        found += [f"first={folders[0]}", f"last={last}", f"suffix={suffix[:5]}"]
        found += [f"word={word}" for word in _split(last)]
    found += [f"query={_NUMBER.sub('0', one.partition('=')[0])[:20]}" for one in address.query.split("&") if one]
    found += [f"label={label}" for label in re.split(r"[.-]", host)]
    return found + [f"host={host[start : start + 4]}" for start in range(len(host) - 3)]


def _meta_tokens(evidence: KindEvidence) -> list[str]:
    metas = evidence.metas
    found = [f"meta={name[:30]}" for name in list(metas)[:_MAX_METAS]]
    for tag, attributes in evidence.page.metas[:_MAX_METAS]:
        if tag == "link":
            found.append(f"rel={attributes.get('rel', '')[:20].lower()}")
    names = f"{evidence.page.html_attributes.get('id', '')} {evidence.page.html_attributes.get('class', '')}"
    found += [f"html={name[:20].lower()}" for name in names.split()[:_MAX_NAMES]]
    for name in _DESCRIBED:
        found += [f"{name}={word}" for word in _split(metas.get(name, "")[:_MAX_DESCRIPTION_CHARS])]
    return found + [f"schema={name[:40]}" for name, _ in schema_types(evidence.structured_data)]


def weigh_tokens(
    tokens: Mapping[str, Sequence[str]], keys: NDArray[np.uint32], rarity: NDArray[np.float32]
) -> tuple[Integers, Floats]:
    """Return the rows of the known tokens in `keys`, which is sorted, and their weights: (1 + log count) * rarity,
    of length 1 over each group (sublinear tf-idf).
    """
    found: list[int] = []
    counts: list[int] = []
    sizes = []
    for group, members in tokens.items():
        counted = Counter(members)
        start = crc32(f"{group} ".encode())
        found += [crc32(token.encode("utf-8", "replace"), start) for token in counted]  # JSON may hold surrogates
        counts += counted.values()
        sizes.append(len(counted))
    wanted = np.array(found, np.uint32)
    at = np.searchsorted(keys, wanted)
    known = keys.take(at, mode="clip") == wanted
    rows, groups = at[known], np.repeat(np.arange(len(sizes)), sizes)[known]
    weights = (1 + np.log(np.array(counts, np.float64)[known])) * rarity[rows]
    lengths = np.sqrt(np.bincount(groups, weights * weights, len(sizes)))
    return rows, weights / lengths[groups]


class TokenModel:
    """A linear model from arrays by name: sorted `keys`, their `rarity`, `weights` (a row per key, a column per kind,
    whole numbers), `scale` of these and `intercept` per kind.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._keys = arrays["keys"].astype(np.uint32)
        self._rarity = arrays["rarity"].astype(np.float32)
        self._weights = arrays["weights"].astype(np.int8)
        self._scale = arrays["scale"].astype(np.float64)
        self._intercept = arrays["intercept"].astype(np.float64)

    def log_odds(self, tokens: Mapping[str, Sequence[str]]) -> Floats:
        """Return a sum per kind."""
        rows, weights = weigh_tokens(tokens, self._keys, self._rarity)
        return np.asarray(weights @ self._weights[rows] * self._scale + self._intercept)


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
        trees, tokens = (
            {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
            for prefix in (TREES, TOKENS)
        )
        self._trees, self._tokens = BlockTrees(trees), TokenModel(tokens)
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


@lru_cache(maxsize=1)
def _model() -> KindModel:
    with np.load(BytesIO(files(__package__).joinpath("page_kinds.npz").read_bytes())) as arrays:
        return KindModel({name: arrays[name] for name in arrays})


def kind_probabilities(evidence: KindEvidence) -> dict[str, float]:
    """Return the probability of each kind that the package's model knows."""
    return _model().probabilities(evidence)
