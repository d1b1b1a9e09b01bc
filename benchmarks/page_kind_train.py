"""Trains the model of page kinds and says how good it is on sites that it has not seen:

    python -m benchmarks.page_kind_train DATASET_DIR [--cache FILE] [--seeds 1] [--splits 3] [--write MODEL.npz]

Needs lightgbm. Prints, for raw, stripped and built pages, the accuracy, macro F1, calibration error and share of sure
pages, out of five folds by host (of built ones, by family), for each of several splits into folds; then writes a model
of all pages.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.model_arrays import pack_kinds
from benchmarks.page_kind_data import BUILT, FORMS, KINDS, KindExample, cached_examples, fold_of, matrix_of
from benchmarks.page_kind_fit import best_names, fit_linear, fit_trees, tree_arrays, vocabulary
from llmcrawler.core.content.page_kinds import TokenModel, blend, softmax

FOLDS: Final = 5
SURE: Final = 0.8
LINEAR_SHARE: Final = 0.5

Table = NDArray[np.float64]


def blended(trees: Table, linear: Table) -> Table:
    """Return the logarithms of the blend as it is before calibration."""
    return np.log(blend(trees, linear, LINEAR_SHARE, 1.0))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What makes the probabilities of the blend right: a factor, and for each kind a bias that makes rare ones
    likelier. Both are chosen by the log loss on pages that the models have not seen.
    """

    factor: float
    bias: Table

    def apply(self, logs: Table) -> Table:
        return softmax(self.factor * (logs + self.bias))


def calibrated(logs: Table, kinds: NDArray[np.int64]) -> Calibration:
    rarity = -np.log(np.bincount(kinds, minlength=len(KINDS)) / len(kinds))
    tried = [
        Calibration(factor, power * rarity)
        for factor in np.arange(0.5, 1.21, 0.02)
        for power in np.arange(0, 0.81, 0.05)
    ]
    rows = np.arange(len(kinds))
    return min(tried, key=lambda one: -np.log(one.apply(logs)[rows, kinds]).mean())


def mean_of(found: list[Calibration]) -> Calibration:
    return Calibration(float(np.mean([one.factor for one in found])), np.mean([one.bias for one in found], 0))


def report(name: str, probabilities: Table, kinds: NDArray[np.int64]) -> None:
    found, sure = probabilities.argmax(1), probabilities.max(1)
    right = found == kinds
    f1 = {
        KINDS[one]: 2 * (right & (kinds == one)).sum() / max(1, (kinds == one).sum() + (found == one).sum())
        for one in np.unique(kinds)
    }
    bins = (sure * 10).astype(int)
    error = sum(abs((sure - right)[bins == one].sum()) for one in range(11)) / len(kinds)
    is_sure = sure >= SURE
    print(
        f"{name:24} accuracy {right.mean():.3f}  macro F1 {np.mean([*f1.values()]):.3f}  "
        f"calibration error {error:.3f}  "
        f"sure {is_sure.mean():.3f}, of these right {right[is_sure].mean():.3f}"
    )
    print("    " + "  ".join(f"{kind} {value:.2f}" for kind, value in f1.items()), flush=True)


def out_of_fold(data: list[KindExample], seeds: int) -> tuple[Table, Table]:
    """Return probabilities of the trees and of the linear model, for each example by models without its host."""
    trees, linear = np.zeros((len(data), len(KINDS))), np.zeros((len(data), len(KINDS)))
    for fold in range(FOLDS):
        held = [index for index, one in enumerate(data) if one.fold == fold]
        train = [one for one in data if one.fold != fold]
        test = [data[index] for index in held]
        names = best_names(train)
        for seed in range(1, seeds + 1):
            raw = fit_trees(train, names, seed).predict(matrix_of(test, names), raw_score=True)
            trees[held] += np.asarray(raw) / seeds
        model = TokenModel(fit_linear(train, vocabulary(train)))
        linear[held] = [model.log_odds(one.tokens) for one in test]
        kinds = np.array([one.kind for one in test])
        shares = [(table[held].argmax(1) == kinds).mean() for table in (trees, linear)]
        print(f"fold {fold + 1} of {FOLDS}: accuracy of trees {shares[0]:.3f}, linear {shares[1]:.3f}", flush=True)
    return softmax(trees), softmax(linear)


def in_split(data: list[KindExample], split: int) -> list[KindExample]:
    """Return the examples with the hosts in other folds, for each number of `split` but 0; built pages stay."""
    if not split:
        return data
    return [one if one.form == BUILT else replace(one, fold=fold_of(f"{split} {one.site}", FOLDS)) for one in data]


def evaluate(data: list[KindExample], seeds: int) -> Calibration:
    """Print the figures; return what makes the blend's probabilities right on all pages."""
    trees, linear = out_of_fold(data, seeds)
    kinds = np.array([one.kind for one in data])
    logs = blended(trees, linear)
    real, folds = np.array([one.form != BUILT for one in data]), np.array([one.fold for one in data])
    blend_of_both = np.zeros_like(trees)
    for fold in range(FOLDS):
        fitted, held = real & (folds != fold), folds == fold
        blend_of_both[held] = calibrated(logs[fitted], kinds[fitted]).apply(logs[held])
    for form in (*FORMS, BUILT):
        rows = np.array([one.form == form for one in data])
        for name, found in (("trees", trees), ("linear", linear), ("blend, calibrated", blend_of_both)):
            report(f"{form} {name}", found[rows], kinds[rows])
    return calibrated(logs[real], kinds[real])


def write(data: list[KindExample], seeds: int, calibration: Calibration, path: Path) -> None:
    names = best_names(data)
    trees = tree_arrays([fit_trees(data, names, seed) for seed in range(1, seeds + 1)])
    tokens = fit_linear(data, vocabulary(data))
    of_both = {
        "kinds": KINDS, "names": names, "linear share": LINEAR_SHARE, "factor": calibration.factor,
        "bias": calibration.bias,
    }  # fmt: skip
    np.savez_compressed(path, allow_pickle=False, **pack_kinds(of_both, trees, tokens))
    print(f"{path}: {path.stat().st_size / 1000:.0f} KB, {len(trees['value'])} trees, {len(tokens['keys'])} tokens")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    dataset = cached_examples(arguments.folder, FOLDS, arguments.cache)
    chosen = [evaluate(in_split(dataset, split), arguments.seeds) for split in range(arguments.splits)]
    if arguments.write:
        write(dataset, arguments.seeds, mean_of(chosen), arguments.write)
