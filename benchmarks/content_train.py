"""Trains the main-text model:

    python -m benchmarks.content_train DATASET_DIR [--scores FILE] [--write llmcrawler/core/content/main_text.npz]

Needs lightgbm. Prints the word F1 of each page by a model that has seen no page of its site (five folds by site), and
writes the scores of its blocks to FILE for content_quality.py; then writes a model of all pages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from benchmarks.content_data import labels, pages, word_f1, words
from benchmarks.content_words import WordCounts, summaries
from benchmarks.model_arrays import pack_main_text, pack_trees
from llmcrawler.core.content.layout import layout_of
from llmcrawler.core.content.markup import parse, tokens
from llmcrawler.core.content.page import price_counts
from llmcrawler.core.content.scoring import MainTextModel, PageColumns
from llmcrawler.core.content.segmenter import segment
from llmcrawler.core.content.selection import TRUST, limit_score, unit_scores

FOLDS, INNER = 5, 3
TREES = (80, 120)
RATES = (0.1, 0.07)
PARAMETERS = {
    "objective": "cross_entropy", "num_leaves": 16, "max_depth": 6, "min_data_in_leaf": 40, "feature_fraction": 0.3,
    "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5, "verbose": -1, "num_threads": 1, "max_bin": 63,
}  # fmt: skip
# Pages of rare types count for more; collections in the first step only, as their truths contradict each other.
WEIGHTS = {"product": 2.5, "collection": 2.5, "listing": 2.0, "forum": 2.0}
# What a page counts in the second step whose truth agrees with nothing that other sites have taught the first one: the
# truth of many pages has only a part of what is main.
DOUBTED = 0.2
# A block that weighs less than this is taken with so much less chance, and weighs this.
LEAST_WEIGHT = 0.01

Data = list[dict[str, Any]]


def read(folder: Path) -> tuple[Data, WordCounts]:
    data: Data = []
    counts, sites = WordCounts(), dict[str, int]()
    for row, html in pages(folder):
        page = segment(tokens(parse(html)))
        blocks = [words(block.text) for block in page.blocks]
        gold = words(row["fields"]["main_content"] or "")
        lengths = np.array([len(block) for block in blocks], float)
        one = {
            "file": row["file"], "type": row["page_type"], "site": sites.setdefault(row["site"], len(sites)),
            "fold": int(hashlib.md5(row["site"].encode()).hexdigest(), 16) % FOLDS, "gold": gold, "blocks": blocks,
            "weight": (lengths + 0.5) / max(100, len(gold), 0.5 * lengths.sum()) * WEIGHTS.get(row["page_type"], 1),
        }  # fmt: skip
        data.append(one)
        if blocks:
            layout, prices = layout_of(page), price_counts(page)
            one |= {"page": page, "layout": layout, "prices": prices, "y": labels(blocks, gold)}
            one["columns"] = PageColumns(page, layout, prices)
            one["words"] = counts.add(one["site"], page, layout, one["y"])
    counts.close()
    return data, counts


def fit(data: Data, rows: list[NDArray[Any]], step: int, seed: int) -> lightgbm.Booster:
    chance = np.random.default_rng(seed)
    x, y, weight = [], [], []
    for page, columns in zip(data, rows, strict=True):
        share = np.minimum(1, page["weight"] / LEAST_WEIGHT)
        kept = chance.random(len(share)) < share
        x.append(columns[kept])
        y.append(page["y"][kept])
        weight.append((page["weight"] / share)[kept])
    weights = np.concatenate(weight)
    dataset = lightgbm.Dataset(
        np.concatenate(x), np.concatenate(y), weight=weights / weights.mean(), params={"max_bin": 63, "verbose": -1}
    )
    return lightgbm.train({**PARAMETERS, "learning_rate": RATES[step], "seed": seed}, dataset, TREES[step])


def chosen(page: dict[str, Any], scores: list[float]) -> NDArray[np.bool_]:
    """Tell which blocks of the page are main by these scores."""
    lengths = [block.words for block in page["page"].blocks]
    of_units = unit_scores(scores, lengths, [block.unit for block in page["page"].blocks])
    return np.array(of_units) >= limit_score([score**TRUST for score in of_units], lengths)


def trust(page: dict[str, Any], scores: NDArray[Any]) -> float:
    """Return what the page counts in the second step, by its word F1 with the first step's scores."""
    lengths = np.array([block.words for block in page["page"].blocks], float)
    taken, wanted = lengths * chosen(page, scores.tolist()), lengths * page["y"]
    agreement = float(2 * (taken * page["y"]).sum() / max(1, taken.sum() + wanted.sum()))
    return (DOUBTED + agreement) / (WEIGHTS["collection"] if page["type"] == "collection" else 1)


def train(data: Data, counts: WordCounts) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model of these pages. The second step learns from first scores of sites not seen."""
    data = [page for page in data if page["blocks"]]
    sites = sorted({page["site"] for page in data})
    of_site = counts.without_own(sites)
    matrices_of = [
        page["columns"].first(*(summaries(of_site[page["site"]], *found) for found in page["words"])) for page in data
    ]
    rows = [np.concatenate(matrices, 1) for matrices in matrices_of]
    further: list[NDArray[Any]] = [np.zeros(0)] * len(data)
    trusted: Data = [{}] * len(data)
    for part in range(INNER):
        seen = [index for index, page in enumerate(data) if page["site"] % INNER != part]
        model = fit([data[index] for index in seen], [rows[index] for index in seen], 0, 2 + part)
        for index, page in enumerate(data):
            if page["site"] % INNER == part:
                scores = np.asarray(model.predict(rows[index]))
                further[index] = np.concatenate(page["columns"].second([rows[index]], scores), 1)
                trusted[index] = page | {"weight": page["weight"] * trust(page, scores)}
    models = fit(data, rows, 0, 1), fit(trusted, further, 1, 9)
    first, second = (
        pack_trees([tree["tree_structure"] for tree in model.dump_model()["tree_info"]]) for model in models
    )
    return pack_main_text(first, second, counts.table(sites))


DATA: Data = []
COUNTS = WordCounts()


def scores_of_fold(fold: int) -> dict[str, list[float]]:
    model = MainTextModel(train([page for page in DATA if page["fold"] != fold], COUNTS))
    return {
        page["file"]: model.scores(page["page"], page["layout"], page["prices"]).round(4).tolist()
        if page["blocks"]
        else []
        for page in DATA
        if page["fold"] == fold
    }


def show(scores: dict[str, list[float]]) -> None:
    by_type: dict[str, list[float]] = {}
    for page in DATA:
        found: list[str] = []
        if page["blocks"]:
            is_main = chosen(page, scores[page["file"]])
            found = [word for block, take in zip(page["blocks"], is_main, strict=True) if take for word in block]
        by_type.setdefault(page["type"] if page["gold"] else "(no content)", []).append(word_f1(found, page["gold"]))
    for kind, values in sorted(by_type.items()):
        print(f"{kind:15} {len(values):4} {np.mean(values):.4f}")
    with_content = [value for kind, values in by_type.items() if kind != "(no content)" for value in values]
    everything = [value for values in by_type.values() for value in values]
    print(f"out of fold, pages with content {np.mean(with_content):.4f}, all {np.mean(everything):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only-write", action="store_true", help="make the model, without the folds")
    options = parser.parse_args()
    global DATA, COUNTS
    DATA, COUNTS = read(options.folder)
    if not options.only_write:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(scores_of_fold, range(FOLDS), 1)
        scores = {file: values for of_fold in found for file, values in of_fold.items()}
        show(scores)
        if options.scores:
            options.scores.write_text(json.dumps(scores))
    if options.write:
        np.savez_compressed(options.write, **train(DATA, COUNTS))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
