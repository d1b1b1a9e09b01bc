"""Trains the model of page kinds and says how good it is on sites that it has not seen:

    python -m tests.benchmarks.page_kind_train DATASET_DIR [--cache FILE] [--seeds 1] [--write MODEL.npz]

Needs lightgbm. Prints, for raw and for stripped pages, the accuracy, macro F1, calibration error and share of sure
pages, out of five folds by host; then writes a model of all pages.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.content.page_kind.kind_model import blend, pack_model, softmax
from llmcrawler.content.page_kind.token_weights import TokenModel
from tests.benchmarks.page_kind_data import BUILT, FORMS, KINDS, OTHER_KINDS, KindExample, cached_examples, matrix_of
from tests.benchmarks.page_kind_fit import best_names, fit_linear, fit_trees, of_wcxb_kinds, tree_arrays, vocabulary

FOLDS: Final = 5
SURE: Final = 0.8
LINEAR_SHARE: Final = 0.5

Table = NDArray[np.float64]


def blended(trees: Table, linear: Table) -> Table:
    """Return the logarithms of the blend as it is before calibration."""
    return np.log(blend(trees, linear, LINEAR_SHARE, 1.0))


def loss(logs: Table, kinds: NDArray[np.int64], factor: float) -> float:
    return float(-np.log(softmax(factor * logs)[np.arange(len(kinds)), kinds]).mean())


def best_factor(logs: Table, kinds: NDArray[np.int64]) -> float:
    return float(min(np.arange(0.4, 1.61, 0.01), key=lambda factor: loss(logs, kinds, factor)))


def report(name: str, probabilities: Table, kinds: NDArray[np.int64]) -> None:
    found, sure = probabilities.argmax(1), probabilities.max(1)
    right = found == kinds
    f1 = [
        2 * (right & (kinds == one)).sum() / max(1, (kinds == one).sum() + (found == one).sum())
        for one in range(len(KINDS))
    ]
    bins = (sure * 10).astype(int)
    error = sum(abs((sure - right)[bins == one].sum()) for one in range(11)) / len(kinds)
    is_sure = sure >= SURE
    print(
        f"{name:24} accuracy {right.mean():.3f}  macro F1 {np.mean(f1):.3f}  calibration error {error:.3f}  "
        f"sure {is_sure.mean():.3f}, of these right {right[is_sure].mean():.3f}"
    )
    print("    " + "  ".join(f"{kind} {value:.2f}" for kind, value in zip(KINDS, f1, strict=True)), flush=True)


@dataclass(frozen=True, slots=True)
class Judged:
    """What models without a page's host say of it: probabilities by the trees and by words, and logarithms for
    OTHER_KINDS and none of them, before calibration.
    """

    trees: Table
    linear: Table
    others: Table


def out_of_fold(data: list[KindExample], seeds: int) -> Judged:
    """Judge each example by models without its host; without its family, if it is built."""
    trees, words = np.zeros((len(data), len(KINDS))), np.zeros((len(data), len(KINDS) + len(OTHER_KINDS) + 1))
    for fold in range(FOLDS):
        held = [index for index, one in enumerate(data) if one.fold == fold]
        train = [one for one in data if one.fold != fold]
        test = [data[index] for index in held]
        names = best_names(train)
        for seed in range(1, seeds + 1):
            model = fit_trees(of_wcxb_kinds(train), names, seed)
            trees[held] += np.asarray(model.predict(matrix_of(test, names), raw_score=True)) / seeds
        tokens = TokenModel(fit_linear(train, vocabulary(train)))
        words[held] = [tokens.log_odds(one.tokens) for one in test]
        print(f"fold {fold + 1} of {FOLDS}", flush=True)
    return Judged(softmax(trees), softmax(words[:, : len(KINDS)]), words[:, len(KINDS) :])


def evaluate(data: list[KindExample], judged: Judged) -> tuple[float, float]:
    """Print the figures; return the factors that make the probabilities right on all pages, of KINDS and the others."""
    kinds = np.array([one.kind for one in data])
    logs = blended(judged.trees, judged.linear)
    real = np.array([one.form != BUILT for one in data])
    folds = np.array([one.fold for one in data])
    wanted = np.where(real | (kinds < len(KINDS)), len(OTHER_KINDS), kinds - len(KINDS))
    other_factor = best_factor(judged.others, wanted)
    others = softmax(other_factor * judged.others)
    calibrated = np.zeros_like(logs)
    for fold in range(FOLDS):
        fitted = real & (folds != fold)
        calibrated[folds == fold] = softmax(best_factor(logs[fitted], kinds[fitted]) * logs[folds == fold])
    whole = np.hstack([calibrated * others[:, -1:], others[:, :-1]])
    for form in FORMS:
        rows = np.array([one.form == form for one in data])
        for name, found in (("trees", judged.trees), ("linear", judged.linear), ("blend", calibrated), ("all", whole)):
            report(f"{form} {name}", found[rows], kinds[rows])
    report_built(whole[~real], kinds[~real])
    factor = best_factor(logs[real], kinds[real])
    print(f"factors {factor:.2f} {other_factor:.2f}")
    return factor, other_factor


def report_built(probabilities: Table, kinds: NDArray[np.int64]) -> None:
    """Print for each kind of the built pages how many are found, and how often it is right where it is sure."""
    found, sure = probabilities.argmax(1), probabilities.max(1) >= SURE
    for kind in np.unique(kinds):
        said = sure & (found == kind)
        print(
            f"    built {(*KINDS, *OTHER_KINDS)[kind]:14} found {(found[kinds == kind] == kind).mean():.2f}, "
            f"sure {said.sum()}, of these right {(kinds[said] == kind).mean():.2f}"
        )


def write(data: list[KindExample], seeds: int, factors: tuple[float, float], path: Path) -> None:
    names = best_names(data)
    trees = tree_arrays([fit_trees(of_wcxb_kinds(data), names, seed) for seed in range(1, seeds + 1)])
    tokens = fit_linear(data, vocabulary(data))
    of_both = {
        "kinds": KINDS, "other kinds": OTHER_KINDS, "names": names, "linear share": LINEAR_SHARE, "factor": factors[0],
        "other factor": factors[1],
    }  # fmt: skip
    np.savez_compressed(path, allow_pickle=False, **pack_model(of_both, trees, tokens))
    print(f"{path}: {path.stat().st_size / 1000:.0f} KB, {len(trees['feature'])} nodes, {len(tokens['keys'])} tokens")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    dataset = cached_examples(arguments.folder, FOLDS, arguments.cache)
    chosen = evaluate(dataset, out_of_fold(dataset, arguments.seeds))
    if arguments.write:
        write(dataset, arguments.seeds, chosen, arguments.write)
