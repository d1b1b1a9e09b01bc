"""Trains the scorer of values that the annotator without a model uses, and says how good it is on unseen sites:

    python -m benchmarks.annotator_train WCXB_DIR --recipes DIR --products DIR --articles DIR [--cache DIR]
        [--write value_scorer.npz]

WCXB_DIR has index.jsonl and pages, as the development pages of WCXB; the other folders are checkouts of public
repositories with saved pages (hhursev/recipe-scrapers, scrapinghub/product-extraction-benchmark, adbar/trafilatura).
What a page states of itself, and what is known of it, is looked for in the page without its structured data: the blocks
that say it are the examples. Needs scipy.

Prints for each field the share of WCXB's pages with a visible value on which the best block is right, by models that
have seen no page of the host; then writes a model of all pages. The same pages give the same bytes.
"""

from __future__ import annotations

import argparse
import re
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
    folder_pages,
    product_pages,
    recipe_pages,
)
from benchmarks.page_kind_data import fold_of
from llmcrawler.core.understanding.extraction.value_scorer import FIELDS

FOLDS: Final = 4
# Pages of this source fill up what the others lack: they are all of one kind.
_MORE: Final = "recipes"
_ANY_TYPE: Final = "articles"  # the source whose pages may be of any type
_ENOUGH_PAGES: Final = 250
_LEAST_SITES: Final = 4  # that a feature occurs on
_PENALTY: Final = 0.3
_LEAST_PAGES: Final = 8
_MOST_PAGES: Final = 2000  # that a field is learned from
_MOST_WRONG: Final = 100  # blocks of a page that are shown beside the right ones,
_HARD: Final = 40  # those among them, in the second pass, that were nearest to be taken
_STEPS: Final = (40, 30)
# Of a field, the types of pages that may have it though they do not state it.
_OTHER_TYPES: Final = {
    **dict.fromkeys(
        "price list_price availability sku gtin mpn brand rating review_count".split(),
        ("product", "collection", "listing", "recipe"),
    ),
    **dict.fromkeys("ingredients instructions prep_time cook_time total_time servings".split(), ("recipe",)),
}
# Fields that too few pages state: weights of features, on which their values mostly can be told.
_CRAFTED_TEXT: Final = """
    list_price = -4 | in del = 4 | in s = 4 | c0 old = 2 | c0 was = 3 | c0 regular = 1.5 | c0 rrp = 3 | c0
        strike = 3 | is list_price = 5 | own list_price = 4 | above price = 1 | above related = -4 | above card
        = -2 | above recommend = -4 | in nav = -3 | in footer = -3
    start_date = -4 | is start_date = 6 | is date = 4 | is time = 2 | own start_date = 5 | own date = 3.5 | c0
        start = 3 | c1 start = 2 | c0 event = 1.5 | c1 event = 1.5 | c0 when = 3 | c1 when = 2 | c0 date = 1.5 |
        c1 date = 1 | in time = 1.5 | in footer = -4 | in nav = -4 | above comment = -4 | above related = -3 |
        date# True 0 of 1 = 1 | date# True 0 of 2 = 1 | date# True 0 of 3 = 0.5
    end_date = -5 | is end_date = 7 | own end_date = 6 | c0 end = 4 | c1 end = 3 | c0 until = 4 | in time = 1 |
        in footer = -4 | in nav = -4
    location = -5 | is location = 6.5 | own location = 5 | c0 location = 4.5 | c1 location = 2.5 | c0 venue =
        4.5 | c1 venue = 3 | c0 place = 3 | c0 where = 3 | c1 where = 2 | c0 city = 2 | in footer = -4 | in nav
        = -4 | above related = -3 | above card = -2 | h1 True True = -6 | h1 True False = -6 | in button = -4 |
        kind place = 2.5 | sure place = 1 | kind street = 1 | kind person = -1 | kind role = -3
    city = -5 | is city = 6.5 | own city = 5 | is location = 4 | c0 city = 4.5 | c1 city = 2.5 | c0 locality = 4.5
        | c0 location = 3 | c1 location = 1.5 | in footer = -4 | in nav = -4 | above related = -3 | above card
        = -2 | h1 True True = -6 | h1 True False = -6 | in button = -4 | kind place = 2.5 | sure place = 1 | kind
        street = -2 | kind person = -1 | kind role = -4 | kind company = -3
    company = -5 | is company = 6.5 | own company = 5 | c0 company = 5 | c1 company = 3 | c0 employer = 5 | c1
        employer = 3 | c0 organization = 3 | in footer = -4 | in nav = -4 | above related = -3 | above card = -2
        | h1 True True = -6 | h1 True False = -6 | kind company = 2.5 | sure company = 1 | kind role = -3 | kind
        place = -1
    salary = -3.5 | is salary = 5 | own salary = 5 | c0 salary = 5 | c1 salary = 3 | c0 compensation = 4 | c0
        pay = 3 | in footer = -4 | in nav = -4 | above card = -2 | above related = -3
    employment_type = -1 | is employment_type = 4 | own employment_type = 4 | c0 type = 1.5 | c0 employment = 3
        | c1 employment = 2 | c1 job = 1 | in footer = -4 | in nav = -4 | in form = -2 | above card = -2 | above
        related = -3 | h1 True True = -4 | in button = -2 | l: = 1
    address = -4.5 | in address = 4 | t0 address = 1.5 | is address = 5.5 | own address = 5 | c0 address = 4.5 |
        c1 address = 2.5 | c0 adr = 4 | c1 adr = 3 | c0 street = 3.5 | in footer = -2.5 | in nav = -4 | above
        card = -1.5 | kind street = 2 | sure street = 1.5 | kind role = -2 | kind company = -1
    telephone = -2 | scheme tel = 5 | is telephone = 4 | own telephone = 4 | c0 phone = 3 | c1 phone = 2 | c0
        tel = 3 | c1 tel = 2 | c0 telephone = 3 | shape phone = 0.5 | is fax = -6 | own fax = -6 | has date = -4
        | has price = -1 | in footer = -2.5 | in nav = -2 | in header = -1.5 | in time = -5
    email = -1.5 | scheme mailto = 3 | shape mail = 2 | is email = 3 | own email = 3 | c0 email = 1.5 | in
        footer = -2.5 | in nav = -2 | in header = -1.5
    opening_hours = -3 | is opening_hours = 5 | own opening_hours = 4 | c0 hours = 3.5 | c1 hours = 3.5 | d1
        opening_hours = 2 | c0 opening = 3 | c1 opening = 3 | in footer = -2 | in nav = -4 | has date = -2
    job_title = -5 | is job_title = 6.5 | own job_title = 5 | d0 job_title = 6 | d1 job_title = 4 | c0 role = 4
        | c0 position = 4 | c0 jobtitle = 6 | c0 designation = 4 | c1 role = 2.5 | in footer = -4 | in nav = -4
        | h1 True True = -6 | h1 True False = -6 | above card = -1.5 | kind role = 3 | sure role = 1.5 | kind place
        = -3 | kind person = -3 | kind company = -3 | gap 1 1 = 1.5 | gap 1 2 = 1.5 | gap 1 3 = 0.5
"""


def _crafted() -> dict[str, dict[str, float]]:
    """Return the weights of features by field; that of no feature is what all blocks have."""
    found: dict[str, dict[str, float]] = {}
    for line in re.sub(r"\n {8,}", " ", _CRAFTED_TEXT).strip().splitlines():
        first, *others = (part.rpartition(" = ") for part in line.strip().split(" | "))
        found[first[0]] = {"": float(first[2])} | {name: float(weight) for name, _, weight in others}
    return found


_CRAFTED: Final = _crafted()
_ABSENT_WEIGHT: Final = 0.5  # of a page that lacks a field, beside one that has it
_LEAST_WEIGHT: Final = 0.04  # of a feature that is kept, for any field

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
    known = {name for name, found in sites.items() if len(found) >= _LEAST_SITES}
    names = ["", *sorted(known.union(*_CRAFTED.values()) - {""})]
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
    others = _OTHER_TYPES.get(field)
    return others is not None and field not in one.known and one.page_type not in others and one.source != _ANY_TYPE


def fit(pages: list[Page], field: str, size: int) -> Floats | None:
    """Return the weights by which a page's right blocks win against its others and against none: a softmax over the
    candidates of a page and a null of score 0. At first some of a page's wrong blocks are shown, then its best."""
    used = _some([page for page in pages if page.example.hits[field] and page.example.source != _MORE], _MOST_PAGES)
    more = [page for page in pages if page.example.hits[field] and page.example.source == _MORE]
    used += _some(more, max(0, _ENOUGH_PAGES - len(used)))
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
    """Return factor and summand that make the scores of best blocks logarithms of odds of being right. All pages that
    lack the field weigh half of those that have it: a reader mostly knows what type of page it reads."""
    known = [top for top in found if np.isfinite(top.score)]
    scores = np.array([max(top.score, -12.0) for top in known])
    right = np.array([float(top.is_right) for top in known])
    visible = np.array([top.is_visible for top in known])
    share = np.where(visible, 1.0, min(1.0, 0.5 * visible.sum() / max(1, (~visible).sum())))

    def loss(two: Floats) -> float:
        odds = two[0] * scores + two[1]
        wrong = (share * (np.logaddexp(0, odds) - odds * right)).sum()
        return float(wrong + 2 * (two[0] - 1) ** 2 + 0.2 * two[1] ** 2)

    factor, summand = minimize(loss, np.array([1.0, 0.0])).x
    return max(float(factor), 0.05), float(summand)


def report(field: str, found: list[Top], pages: list[Page]) -> None:
    """Print per source on how many pages a value is visible, the best block's share of right ones among them, and
    precision and recall of what is above the threshold; then how many pages without a value get one."""
    factor, summand = calibrated(found) if found else (1.0, 0.0)
    taken = [top for top in found if factor * top.score + summand > 0]
    parts = [f"{field:15}"]
    for source in dict.fromkeys(["wcxb", *(page.example.source for page in pages)]):
        visible = [top for top in found if top.is_visible and top.source == source]
        kept = [top for top in taken if top.is_visible and top.source == source]
        if visible:
            right = sum(top.is_right for top in kept)
            best = np.mean([top.is_right for top in visible])
            two = f"P {right / max(1, len(kept)):.3f} R {right / len(visible):.3f}"
            parts.append(f"{source} {len(visible):4} top-1 {best:.3f} {two}")
    without = sum(not top.is_visible for top in taken)
    lacking = sum(not top.is_visible for top in found)
    print("  ".join([*parts, f"without {without} of {lacking}"] if lacking else parts), flush=True)


def packed(
    names: list[str], weights: dict[str, Floats], sizes: dict[str, tuple[float, float]]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ScoreModel. A field without a model is scored -20 everywhere."""
    numbers = {name: row for row, name in enumerate(names)}
    table = np.zeros((len(names), len(FIELDS)))
    for at, field in enumerate(FIELDS):
        if field in weights:
            factor, summand = sizes[field]
            table[:, at] = factor * weights[field]
            table[0, at] += summand
        else:
            for name, weight in _CRAFTED.get(field, {"": -20.0}).items():
                if name in numbers:
                    table[numbers[name], at] = weight
    scale = np.maximum(np.abs(table).max(0), 1e-6) / 127
    whole = np.rint(table / scale).astype(np.int8)
    kept = np.flatnonzero(np.abs(table).max(1) > _LEAST_WEIGHT)
    kept = np.union1d([0], kept)
    return {
        "names": np.frombuffer("\n".join(names[row] for row in kept).encode(), np.uint8),
        "weights": whole[kept],
        "scale": scale.astype(np.float32),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    others = {"recipes": recipe_pages, "products": product_pages, "articles": article_pages}
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
