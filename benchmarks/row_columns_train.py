"""Trains the trees that tell which columns of repeated rows are which fields of a group, and says how good they are:

    python -m benchmarks.row_columns_train [EXAMPLES] [--make [FOLDER ...]] [--write row_columns.npz]

EXAMPLES is row_columns_examples.npz beside this, or made here of the templates of templates.jsonl.xz, of the generated
sites, and of what `theme_sites --build` has saved in FOLDER's folders; those beside this are also of templates of real
packages, whose pages are not kept. Needs lightgbm. Each group of a template's truth is looked for in the rows of 20
pages, and of 6 others. Prints for templates of whose family the model has seen none how right the chosen columns are,
at several thresholds; then writes a model of all. The same examples give the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.candidate_train import sites_in
from benchmarks.page_kind_data import fold_of
from benchmarks.records_quality import training_page
from benchmarks.theme_scoring import columns_of, count, day_of, requested_of
from benchmarks.two_steps import Floats, TrainingRows
from llmcrawler.core.understanding.extraction.field_names import affinity
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.repeated_parts import row_tables
from llmcrawler.core.understanding.extraction.row_columns import RowColumn, chosen_columns, compared, feature_tables
from tests.servers.record_sites import Site
from tests.servers.record_sites.scoring import FieldScore

FOLDS: Final = 4
# (pages, the first of them, weight)
_SHOWN: Final = ((20, 0, 1.0), (6, 20, 0.5))
_RIGHT_F1, _RIGHT_PRECISION, _AS_GOOD, _WRONG_F1 = 0.5, 0.6, 0.15, 0.25
_THRESHOLDS: Final = (0.2, 0.3, 0.4, 0.5, 0.6)
_ROUNDS: Final = 250
_PARAMETERS: Final = {
    "objective": "binary", "num_leaves": 12, "learning_rate": 0.04, "min_data_in_leaf": 20, "feature_fraction": 0.5,
    "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 3, "seed": 1, "deterministic": True,
    "force_row_wise": True, "verbose": -1, "num_threads": 1,
}  # fmt: skip

# Groups that some are asked for who do not have them.
_ABSENT: Final = {
    "reviews": "author rating date text", "comments": "author date text", "tracks": "title duration",
    "work": "company position start_date end_date", "education": "institution degree start_date end_date",
    "variants": "name price", "speakers": "name role company", "ingredients": "amount name", "chapters": "title pages",
    "downloads": "file size date", "sessions": "date time location", "cast": "name role", "awards": "name year",
    "offers": "seller price delivery", "questions": "question answer", "contacts": "name phone email",
    "versions": "version date",
}  # fmt: skip
_ABSENT_GROUPS: Final = 1
_LEAST_AFFINITY: Final = 0.3


@dataclass(frozen=True, slots=True)
class Example:
    """A group that is looked for on a template's pages. For each kind of rows there are `numbers`: fields, columns and
    features; and `scores`: fields, columns, F1 and precision."""

    family: str
    pages: int
    weight: float
    numbers: list[NDArray[np.float32]]
    scores: list[Floats]


def examples_of(site: Site) -> Iterator[Example]:
    asked = sorted((one for one in requested_of(site).fields if one.group), key=lambda one: one.group)
    groups = {name: list(fields) for name, fields in groupby(asked, lambda one: one.group)}
    groups |= _absent_groups(site, groups)
    for pages, first, weight in _SHOWN:
        shown = site.records[first : first + pages]
        if len(shown) < pages:
            continue
        read = [training_page(page) for page in shown]
        truth = [columns_of(page.fields) for page in shown]
        tables = row_tables([page.blocks() for page in read], site.page_type)
        for name, fields in groups.items() if tables else ():
            numbers = [np.array(feature_tables(table, name, fields)) for table in tables]
            scores = [
                np.array(
                    [
                        [_score(column, [row.get(one.key, []) for row in truth], [page.lang for page in read])
                         for column in table.columns]
                        for one in fields
                    ]
                )
                for table in tables
            ]  # fmt: skip
            yield Example(site.name.partition("_")[0], pages, weight, numbers, scores)


def _absent_groups(site: Site, groups: Mapping[str, Sequence[Field]]) -> dict[str, list[Field]]:
    """Return some that a user may ask for where the pages do not have them."""
    known = {name for page in site.records for name in page.fields} | groups.keys()
    free = [
        name
        for name, fields in _ABSENT.items()
        if not any(max(affinity(Field(name), one), affinity(Field(one), name)) > _LEAST_AFFINITY for one in known)
        and not any(len({one.name for one in own} & set(fields.split())) > 1 for own in groups.values())
    ]
    order = sorted(free, key=lambda name: crc32(f"{site.name} {name}".encode()))
    return {name: [Field(one, group=name) for one in _ABSENT[name].split()] for name in order[:_ABSENT_GROUPS]}


def _score(column: RowColumn, truth: Sequence[list[Any]], lang: Sequence[str]) -> tuple[float, float]:
    """Return F1 and precision of a column. A date is right in whatever form it is written."""
    found: list[list[str]] = [[] for _ in truth]
    for (at, _), spots in column.cells.items():
        found[at].append(" ".join(text for _, text in spots))
    days = [
        [[day_of(str(one), where) for one in some] for some, where in zip(all_, lang, strict=True)]
        for all_ in (truth, found)
    ]
    best = (0.0, 0.0)
    for wanted, given in ((truth, found), days):
        score = FieldScore()
        for want, have in zip(wanted, given, strict=True):
            count(score, want, have)
        best = max(best, (2 * score.right / max(1, score.given + score.wanted), score.right / max(1, score.given)))
    return best


def save(data: Sequence[Example], file: Path) -> None:
    tables = [one for example in data for one in zip(example.numbers, example.scores, strict=True)]
    np.savez_compressed(
        file,
        allow_pickle=False,
        families=np.array([one.family for one in data]),
        groups=np.array([(one.pages, one.weight, len(one.numbers)) for one in data], np.float32),
        shapes=np.array([numbers.shape[:2] for numbers, _ in tables], np.int32),
        columns=np.concatenate([numbers.reshape(-1, numbers.shape[2]).T for numbers, _ in tables], 1).astype(
            np.float16
        ),
        scores=np.concatenate([scores.reshape(-1, 2) for _, scores in tables]).astype(np.float16),
    )


def load(file: Path) -> list[Example]:
    with np.load(file) as arrays:
        rows, scores = arrays["columns"].T.astype(np.float32), arrays["scores"].astype(float)
        shapes = arrays["shapes"]
        ends = np.cumsum([0, *shapes.prod(1)])
        tables = [
            (rows[at:end].reshape(*shape, -1), scores[at:end].reshape(*shape, 2))
            for shape, (at, end) in zip(shapes, pairwise(ends), strict=True)
        ]
        last = np.cumsum([0, *arrays["groups"][:, 2].astype(int)])
        return [
            Example(str(family), int(pages), float(weight), *map(list, zip(*tables[at:end], strict=True)))
            for family, (pages, weight, _), (at, end) in zip(
                arrays["families"], arrays["groups"], pairwise(last), strict=True
            )
        ]


# -- training --


@dataclass(frozen=True, slots=True)
class GroupRows(TrainingRows):
    """`shapes` has for each example the fields and columns of each of its tables."""

    PARAMETERS = _PARAMETERS
    ROUNDS = _ROUNDS

    shapes: list[list[tuple[int, int]]]

    def compared(self, odds: Floats) -> NDArray[np.float32]:
        tables = self.by_table(odds)
        return np.concatenate([columns for some in tables for fields in compared(some) for columns in fields])

    def by_table(self, numbers: NDArray[Any]) -> Iterator[list[NDArray[Any]]]:
        """Yield for each example what `numbers` has for each of its tables: a row per field."""
        at = 0
        for shapes in self.shapes:
            found = []
            for fields, columns in shapes:
                found.append(numbers[at : at + fields * columns].reshape(fields, columns))
                at += fields * columns
            yield found


def rows_of(data: Sequence[Example]) -> GroupRows:
    table, right, weight, fold = [], [], [], []
    for example in data:
        best = np.max([scores[:, :, 0].max(1) for scores in example.scores], 0)
        for numbers, scores in zip(example.numbers, example.scores, strict=True):
            f1, precision = scores[:, :, 0], scores[:, :, 1]
            is_right = (f1 >= np.maximum(_RIGHT_F1, best - _AS_GOOD)[:, None]) & (precision >= _RIGHT_PRECISION)
            table.append(numbers.reshape(-1, numbers.shape[2]))
            right.append(is_right.ravel())
            weight.append((example.weight * (is_right | (f1 <= _WRONG_F1))).ravel())
            fold.append(np.full(f1.size, fold_of(example.family, FOLDS)))
    shapes = [[scores.shape[:2] for scores in example.scores] for example in data]
    all_right = np.concatenate(right).astype(float)
    return GroupRows(np.concatenate(table), all_right, np.concatenate(weight), np.concatenate(fold), shapes)


def evaluate(data: Sequence[Example], rows: GroupRows) -> None:
    chances = list(rows.by_table(1 / (1 + np.exp(-rows.held_out()))))
    for pages, *_ in _SHOWN:
        shown = [(example, some) for example, some in zip(data, chances, strict=True) if example.pages == pages]
        best = [np.max([scores[:, :, 0].max(1) for scores in example.scores], 0) for example, _ in shown]
        there = np.concatenate([[one.any()] * len(one) for one in best])
        print(f"{pages} pages: {there.sum()} fields, F1 of the best columns {np.concatenate(best)[there].mean():.3f}")
        for least in _THRESHOLDS:
            found = []
            for example, some in shown:
                number, chosen = chosen_columns(some, least)
                scores = example.scores[number]
                found += [(*scores[one, chosen[one]], 1) if one in chosen else (0, 0, 0) for one in range(len(scores))]
            f1, precision, given = np.array(found, float).T
            print(
                f"    above {least}: F1 {f1[there].mean():.3f}, precision {precision[there & (given > 0)].mean():.3f};"
                f" {int(given[~there].sum())} of {(~there).sum()} that are not there"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path, nargs="?", default=Path(__file__).with_name("row_columns_examples.npz"))
    parser.add_argument("--make", type=Path, nargs="*", metavar="FOLDER", help="make the examples, of these sites too")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    if args.make is not None:
        save([one for site, _ in sites_in(args.make) for one in examples_of(site)], args.examples)
    data = load(args.examples)
    rows = rows_of(data)
    print(f"{len(rows.table)} rows, {(rows.weight > 0).sum()} to learn from, {int(rows.right.sum())} right", flush=True)
    evaluate(data, rows)
    if args.write:
        np.savez_compressed(args.write, allow_pickle=False, **rows.fit_both(np.ones(len(rows.table), bool)).arrays())


if __name__ == "__main__":
    main()
