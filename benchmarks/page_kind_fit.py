"""Fits the two models of page kinds, trees and a linear one over words, and gives them as arrays for the package."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from benchmarks.model_arrays import pack_trees, token_key
from benchmarks.page_kind_data import BUILT, KINDS, KindExample, matrix_of
from llmcrawler.core.content.page_kinds import weigh_tokens

ROUNDS: Final = 250
BEST_NUMBERS: Final = 250
PARAMETERS: Final = {
    "objective": "multiclass", "num_class": len(KINDS), "extra_trees": True, "learning_rate": 0.06, "num_leaves": 12,
    "max_bin": 31, "feature_fraction": 0.25, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 3,
    "min_data_in_leaf": 16, "verbose": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True,
}  # fmt: skip
_LEAST_EXAMPLES: Final = 12  # a page is two examples
_MOST_TOKENS: Final = 25_000
_STRENGTH: Final = 20.0  # of the data against the penalty of the linear model
_BUILT_WEIGHT: Final = 0.05  # of a built page beside a page of WCXB

Arrays = dict[str, NDArray[Any]]


def _kinds(data: list[KindExample]) -> NDArray[np.int64]:
    return np.array([one.kind for one in data])


def best_names(data: list[KindExample]) -> list[str]:
    """Return the names of the numbers that trees over all of them gain most by; built pages have no say in it."""
    data = [one for one in data if one.form != BUILT]
    names = sorted(data[0].numbers)
    gains = fit_trees(data, names, 1, ROUNDS // 5).feature_importance("gain")
    return [names[index] for index in np.argsort(-gains)[:BEST_NUMBERS]]


def _weights(data: list[KindExample], balance: float) -> NDArray[np.float64]:
    """Return a weight per example: both forms of a page have 1 together. With a `balance` of 1 all kinds weigh alike,
    with 0 all pages.
    """
    kinds = _kinds(data)
    weights = np.array([_BUILT_WEIGHT if one.form == BUILT else 0.5 for one in data])
    total = weights.sum()
    weights *= np.bincount(kinds, weights, len(KINDS))[kinds] ** -balance
    return np.asarray(weights * total / weights.sum())


def fit_trees(data: list[KindExample], names: list[str], seed: int, rounds: int = ROUNDS) -> lightgbm.Booster:
    kinds, weights = _kinds(data), _weights(data, 0.5)
    table = lightgbm.Dataset(matrix_of(data, names), kinds, weight=weights)
    return lightgbm.train({**PARAMETERS, "seed": seed}, table, rounds)


def tree_arrays(models: list[lightgbm.Booster]) -> Arrays:
    """Return the arrays for the trees of all models; the values are those of the mean of the models."""
    trees = pack_trees([tree["tree_structure"] for model in models for tree in model.dump_model()["tree_info"]])
    return {**trees, "value": trees["value"] / np.float32(len(models))}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Sorted keys of tokens, and how rare each is."""

    keys: NDArray[np.uint32]
    rarity: NDArray[np.float32]

    def matrix(self, data: list[KindExample]) -> csr_matrix:
        found = [weigh_tokens(one.tokens, self.keys, self.rarity) for one in data]
        starts = np.cumsum([0, *(len(rows) for rows, _ in found)])
        rows = np.concatenate([rows for rows, _ in found])
        weights = np.concatenate([weights for _, weights in found])
        return csr_matrix((weights, rows, starts), (len(data), len(self.keys)))


def vocabulary(data: list[KindExample]) -> Vocabulary:
    seen: Counter[int] = Counter()
    for one in data:
        seen.update({token_key(group, token) for group, tokens in one.tokens.items() for token in tokens})
    kept = sorted(key for key, count in seen.most_common(_MOST_TOKENS) if count >= _LEAST_EXAMPLES)
    rarity = [np.log((1 + len(data)) / (1 + seen[key])) + 1 for key in kept]
    return Vocabulary(np.array(kept, np.uint32), np.array(rarity, np.float16).astype(np.float32))


def fit_linear(data: list[KindExample], words: Vocabulary) -> Arrays:
    """Return the arrays for `TokenModel`: a logistic regression in which all kinds weigh the same."""
    features, kinds = words.matrix(data), _kinds(data)
    count, size = len(KINDS), len(words.keys)
    weights = _weights(data, 1.0)
    wanted = np.eye(count)[kinds]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        table = flat.reshape(size + 1, count)
        logs = features @ table[:-1] + table[-1]
        logs -= logs.max(1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
        wrong = (np.exp(logs) - wanted) * weights[:, None] * _STRENGTH
        gradient = np.vstack([features.T @ wrong + table[:-1], wrong.sum(0)])
        value = 0.5 * (table[:-1] ** 2).sum() - _STRENGTH * (weights * logs[np.arange(len(kinds)), kinds]).sum()
        return float(value), gradient.ravel()

    found = minimize(loss, np.zeros((size + 1) * count), jac=True, method="L-BFGS-B", options={"maxiter": 150})
    table = found.x.reshape(size + 1, count)
    scale = np.abs(table[:-1]).max(0) / 127
    return {
        "keys": words.keys, "rarity": words.rarity.astype("<f2"), "weights": np.rint(table[:-1] / scale).astype("i1"),
        "scale": scale, "intercept": table[-1],
    }  # fmt: skip
