"""Trains the scorer of values that the annotator without a model uses, and says how good it is on unseen sites:

    python -m benchmarks.annotator_train WCXB_DIR [--recipes DIR] [--products DIR] [--dated DIR] [--articles DIR]
                                         [--cache DIR] [--write value_scorer.npz]

WCXB_DIR has index.jsonl and pages, as the development pages of WCXB; the other folders are checkouts of public
repositories with saved pages (hhursev/recipe-scrapers, scrapinghub/product-extraction-benchmark, adbar/htmldate,
postlight/parser). What a page states of itself, and what is known of it, is looked for in the page without its
structured data: the blocks that say it are the examples. Needs scipy.

Prints for each field the share of WCXB's pages with a visible value on which the best block is right, by models that
have seen no page of the host; then writes a model of all pages. The same pages give the same bytes.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from benchmarks.annotator_data import (
    Example,
    article_pages,
    cached_examples,
    dated_pages,
    folder_pages,
    product_pages,
    recipe_pages,
)
from benchmarks.page_kind_data import fold_of
from llmcrawler.core.understanding.extraction.value_scorer import FIELDS

FOLDS: Final = 4
_LEAST_SITES: Final = 3  # that a feature occurs on
_PENALTY: Final = 0.12
_LEAST_PAGES: Final = 8
_MOST_PAGES: Final = 600  # that a field is learned from
_MOST_WRONG: Final = 100  # blocks of a page that are shown beside the right ones,
_HARD: Final = 40  # those among them, in the second pass, that were nearest to be taken
_STEPS: Final = (40, 30)
_OF_PRODUCTS: Final = frozenset("price list_price availability sku gtin mpn brand rating review_count".split())
_ABSENT_WEIGHT: Final = 0.5  # of a page that lacks a field, beside one that has it
_MOST_BYTES: Final = 3_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Page:
    """An example with its features as numbers: `starts` and `rows` as in a sparse matrix."""

    example: Example
    fold: int
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def numbered(examples: list[Example]) -> tuple[list[Page], list[str]]:
    """Return the pages, and the names of the features that occur on several sites; the first is on each block."""
    sites: defaultdict[str, set[str]] = defaultdict(set)
    for one in examples:
        for name in one.names:
            if len(sites[name]) < _LEAST_SITES:
                sites[name].add(one.site)
    names = ["", *sorted(name for name, found in sites.items() if len(found) >= _LEAST_SITES)]
    numbers = {name: number for number, name in enumerate(names)}
    pages = []
    for one in examples:
        rows = np.array([numbers.get(name, -1) for name in one.names], np.int32)[one.rows]
        kept = np.concatenate([[0], np.cumsum(rows >= 0)])[one.starts]
        rows = np.insert(rows[rows >= 0], kept[:-1], 0)  # each block begins with what all have
        pages.append(Page(one, fold_of(one.site, FOLDS), rows, kept + np.arange(len(kept))))
    return pages, names


def _lacks(field: str, one: Example) -> bool:
    """Tell whether a page is one of those that surely have no value of the field."""
    return (
        field in _OF_PRODUCTS
        and field not in one.known
        and one.page_type not in ("product", "collection", "listing", "recipe")
    )


def fit(pages: list[Page], field: str, size: int) -> Floats | None:
    """Return the weights by which a page's right blocks win against its others and against none: a softmax over the
    candidates of a page and a null of score 0. At first some of a page's wrong blocks are shown, then its best."""
    used = _some([page for page in pages if page.example.hits[field]], _MOST_PAGES)
    lacking = _some([page for page in pages if _lacks(field, page.example)], len(used))
    if len(used) < _LEAST_PAGES:
        return None
    at = FIELDS.index(field)
    found = np.zeros(size)
    for steps in _STEPS:
        flat, sizes, owner, right = [], [], [], []
        for number, page in enumerate([*used, *lacking]):
            hits = page.example.hits[field]
            wrong = np.setdiff1d(np.flatnonzero(page.example.possible[:, at]), hits)
            if len(wrong) > _MOST_WRONG:
                order = np.random.default_rng(number).permutation(wrong)
                if steps is not _STEPS[0]:
                    order = np.concatenate([wrong[np.argsort(-scores_of(page, field, found)[wrong])][:_HARD], order])
                wrong = np.unique(order[:_MOST_WRONG])
            candidates = np.concatenate([np.array(hits, np.intp), wrong])
            flat += [page.rows[page.starts[block] : page.starts[block + 1]] for block in candidates.tolist()]
            sizes += (page.starts[candidates + 1] - page.starts[candidates]).tolist()
            owner += [number] * len(candidates)
            right += [True] * len(hits) + [False] * len(wrong)
        indices = np.concatenate(flat)
        matrix = csr_matrix((np.ones(len(indices)), indices, np.cumsum([0, *sizes])), (len(owner), size))
        has = np.arange(len(used) + len(lacking)) < len(used)
        found = softmax_weights(matrix, np.array(owner), np.array(right), has, (found, steps))
    return found


def _some(pages: list[Page], most: int) -> list[Page]:
    chosen = np.random.default_rng(1).permutation(len(pages))[:most]
    return [pages[number] for number in sorted(chosen.tolist())]


def softmax_weights(
    matrix: csr_matrix, owners: NDArray[Any], right: NDArray[Any], has: NDArray[Any], start: tuple[Floats, int]
) -> Floats:
    """Fit the weights. `owners` has the page of each row, `has` tells which pages have a right row, `start` gives the
    first weights and the number of steps."""
    transposed = matrix.T.tocsr()
    share = np.where(has, 1.0, _ABSENT_WEIGHT)
    count = len(has)

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = matrix @ weights
        top = np.zeros(count)
        np.maximum.at(top, owners, scores)
        powers = np.exp(scores - top[owners])
        null = np.exp(-top)
        every = np.bincount(owners, powers, count) + null
        good = np.maximum(np.where(has, np.bincount(owners, powers * right, count), null), 1e-300)
        pull = powers / every[owners] - np.where(right, powers / good[owners], 0.0)
        gradient = transposed @ (pull * share[owners]) + _PENALTY * weights
        value = (share * (np.log(every) - np.log(good))).sum()
        return float(value + 0.5 * _PENALTY * (weights @ weights)), gradient

    found = minimize(loss, start[0], jac=True, method="L-BFGS-B", options={"maxiter": start[1]})
    return np.asarray(found.x)


def scores_of(page: Page, field: str, weights: Floats) -> Floats:
    sums = np.add.reduceat(weights[page.rows], page.starts[:-1])
    return np.where(page.example.possible[:, FIELDS.index(field)], sums, -np.inf)


@dataclass(frozen=True, slots=True)
class Top:
    """The best block of a page: its score, whether it is right, and whether any block is."""

    score: float
    is_right: bool
    is_visible: bool
    source: str


def tops(pages: list[Page], field: str, size: int) -> list[Top]:
    """Return the best blocks of pages that have the field or lack it surely, by models without their hosts."""
    found = []
    for fold in range(FOLDS):
        weights = fit([page for page in pages if page.fold != fold], field, size)
        for page in pages:
            hits = page.example.hits[field]
            if page.fold != fold or weights is None or not len(page.starts) > 1:
                continue
            if hits or _lacks(field, page.example):
                scores = scores_of(page, field, weights)
                best = int(scores.argmax())
                found.append(Top(float(scores[best]), best in hits, bool(hits), page.example.source))
    return found


def calibrated(found: list[Top]) -> tuple[float, float]:
    """Return factor and summand that make the scores of best blocks logarithms of odds of being right."""
    scores = np.array([max(top.score, -12.0) for top in found if np.isfinite(top.score)])
    right = np.array([float(top.is_right) for top in found if np.isfinite(top.score)])

    def loss(two: Floats) -> float:
        odds = two[0] * scores + two[1]
        return float(np.logaddexp(0, odds).sum() - (odds * right).sum() + 2 * (two[0] - 1) ** 2 + 0.2 * two[1] ** 2)

    factor, summand = minimize(loss, np.array([1.0, 0.0])).x
    return max(float(factor), 0.05), float(summand)


def report(field: str, found: list[Top], pages: list[Page]) -> None:
    factor, summand = calibrated(found) if found else (1.0, 0.0)
    parts = [f"{field:15}"]
    for source in dict.fromkeys(["wcxb", *(page.example.source for page in pages)]):
        mine = [top for top in found if top.source == source]
        visible = [top for top in mine if top.is_visible]
        if visible:
            parts.append(f"{source} {len(visible):4} top-1 {np.mean([top.is_right for top in visible]):.3f}")
            if source == "wcxb":
                kept = [top for top in mine if factor * top.score + summand > 0]
                precision = np.mean([top.is_right for top in kept]) if kept else 0.0
                parts.append(f"P {precision:.3f} R {sum(top.is_right for top in kept) / len(visible):.3f}")
    print("  ".join(parts), flush=True)


def packed(
    names: list[str], weights: dict[str, Floats], sizes: dict[str, tuple[float, float]]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ScoreModel. A field without a model is scored -20 everywhere."""
    table = np.zeros((len(names), len(FIELDS)))
    table[0] = -20.0
    for field, found in weights.items():
        factor, summand = sizes[field]
        table[:, FIELDS.index(field)] = factor * found
        table[0, FIELDS.index(field)] += summand
    scale = np.maximum(np.abs(table).max(0), 1e-6) / 127
    whole = np.rint(table / scale).astype(np.int8)
    kept = np.flatnonzero(np.abs(whole).max(1) > 0)
    kept = np.union1d([0], kept)
    return {
        "names": np.frombuffer("\n".join(names[row] for row in kept).encode(), np.uint8),
        "weights": whole[kept],
        "scale": scale.astype(np.float32),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    others = {"recipes": recipe_pages, "products": product_pages, "dated": dated_pages, "articles": article_pages}
    for name in others:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--fields", default=" ".join(FIELDS))
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    examples = cached_examples("wcxb", folder_pages(arguments.folder), arguments.cache)
    for name, read in others.items():
        folder = getattr(arguments, name)
        examples += cached_examples(name, read(folder), arguments.cache) if folder else []
    pages, names = numbered([one for one in examples if one.texts])
    print(f"{Counter(page.example.source for page in pages)}, {len(names)} features", flush=True)
    weights, sizes = {}, {}
    for field in arguments.fields.split():
        found = tops(pages, field, len(names))
        report(field, found, pages)
        if arguments.write and (fitted := fit(pages, field, len(names))) is not None:
            weights[field], sizes[field] = fitted, calibrated(found)
    if arguments.write:
        np.savez_compressed(arguments.write, allow_pickle=False, **packed(names, weights, sizes))
        print(f"{arguments.write}: {arguments.write.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
