"""Trains the block model:

    python -m tests.benchmarks.content_train DATASET_DIR [--write llmcrawler/content/main_text_trees.npz]

Needs lightgbm. Prints the out-of-fold word F1 (five folds by host), then writes a model of all pages.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from llmcrawler.content.layout import layout_of
from llmcrawler.content.markup import parse, tokens
from llmcrawler.content.scoring import block_features
from llmcrawler.content.segmenter import segment
from llmcrawler.content.selection import limit_score
from tests.benchmarks.content_data import pages, word_f1, words

TREES, DEPTH = 80, 6
PARAMETERS = {
    "objective": "cross_entropy", "num_leaves": 16, "max_depth": DEPTH, "learning_rate": 0.1, "min_data_in_leaf": 60,
    "feature_fraction": 0.4, "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5, "verbose": -1,
    "num_threads": 2, "seed": 1,
}  # fmt: skip


def labels(blocks: list[list[str]], gold: list[str]) -> list[float]:
    """Per block the share of its word trigrams in the main content; a short one needs a neighbour's words beside it."""
    joined = " " + " ".join(gold) + " "
    grams = set(zip(gold, gold[1:], gold[2:], strict=False))
    found = []
    for index, block in enumerate(blocks):
        text = " ".join(block)
        if len(block) >= 4:
            found.append(float(np.mean([gram in grams for gram in zip(block, block[1:], block[2:], strict=False)])))
        elif not block or f" {text} " not in joined:
            found.append(0.0)
        else:
            before = " ".join(blocks[index - 1][-3:]) if index else ""
            after = " ".join(blocks[index + 1][:3]) if index + 1 < len(blocks) else ""
            beside = (before and f" {before} {text} " in joined) or (after and f" {text} {after} " in joined)
            found.append(1.0 if beside else 0.3)
    return found


def read(folder: Path) -> list[dict[str, Any]]:
    data = []
    for row, html in pages(folder):
        page = segment(tokens(parse(html)))
        blocks = [words(block.text) for block in page.blocks]
        gold = words(row["fields"]["main_content"] or "")
        count = np.array([len(block) for block in blocks], float)
        data.append({
            "fold": int(hashlib.md5(row["site"].encode()).hexdigest(), 16) % 5, "type": row["page_type"], "gold": gold,
            "blocks": blocks, "x": block_features(page, layout_of(page)) if blocks else None,
            "y": np.array(labels(blocks, gold)),
            "words": count, "weight": (count + 0.5) / max(100, len(gold), 0.5 * count.sum()),
        })  # fmt: skip
    return data


def fit(data: list[dict[str, Any]]) -> lightgbm.Booster:
    data = [page for page in data if page["x"] is not None]
    x, y, weight = (np.concatenate([page[name] for page in data]) for name in ("x", "y", "weight"))
    return lightgbm.train(PARAMETERS, lightgbm.Dataset(x, y, weight=weight / weight.mean()), TREES)


def out_of_fold(data: list[dict[str, Any]]) -> None:
    by_type: dict[str, list[float]] = {}
    for fold in range(5):
        model = fit([page for page in data if page["fold"] != fold])
        for page in data:
            if page["fold"] != fold:
                continue
            found: list[str] = []
            if page["x"] is not None:
                scores = model.predict(page["x"]).tolist()
                limit = limit_score(scores, page["words"].tolist())
                found = [
                    word
                    for block, score in zip(page["blocks"], scores, strict=True)
                    if score >= limit
                    for word in block
                ]
            by_type.setdefault(page["type"] if page["gold"] else "(no content)", []).append(
                word_f1(found, page["gold"])
            )
    for kind, values in sorted(by_type.items()):
        print(f"{kind:15} {len(values):4} {np.mean(values):.4f}")
    with_content = [value for kind, values in by_type.items() if kind != "(no content)" for value in values]
    everything = [value for values in by_type.values() for value in values]
    print(f"out of fold, pages with content {np.mean(with_content):.4f}, all {np.mean(everything):.4f}")


def write(model: lightgbm.Booster, path: Path) -> None:
    rows: list[tuple[float, ...]] = []

    def add(tree: dict[str, Any]) -> int:
        at = len(rows)
        rows.append((0, 0, at, at, tree.get("leaf_value", 0)))
        if "split_feature" in tree:
            left, right = add(tree["left_child"]), add(tree["right_child"])
            rows[at] = (tree["split_feature"], tree["threshold"], left, right, 0)
        return at

    roots = [add(tree["tree_structure"]) for tree in model.dump_model()["tree_info"]]
    feature, threshold, left, right, value = zip(*rows, strict=True)
    np.savez_compressed(
        path,
        roots=np.array(roots, "<i2"),
        feature=np.array(feature, "<i2"),
        threshold=np.array(threshold, "<f4"),
        left=np.array(left, "<i2"),
        right=np.array(right, "<i2"),
        value=np.array(value, "<f4"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    dataset = read(arguments.folder)
    out_of_fold(dataset)
    if arguments.write:
        write(fit(dataset), arguments.write)
