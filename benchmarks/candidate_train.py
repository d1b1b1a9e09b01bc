"""Trains the scorer that tells which candidate on a template's pages is which field, and says how good it is:

    python -m benchmarks.candidate_train [EXAMPLES] [--make [FOLDER ...]] [--write candidate_scorer.npz]

EXAMPLES is candidate_examples.npz beside this, or made here of the templates of templates.jsonl.xz, of the generated
sites, and of what `theme_sites --build` has saved in FOLDER's folders. Those beside this are also of templates of real
packages, whose pages are not kept. Needs lightgbm. Each template is asked for the fields of its truth by name, with
some that it lacks, and without a request; from 20 pages, from 6 others, and from one alone. The trees go in two steps:
the second sees what the first says of the other candidates and of the other fields. Prints for templates of whose
family the model has seen none how often the likeliest candidate is right, with F1 and precision at several thresholds;
then writes a model of all. The same examples give the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, product
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.page_kind_data import fold_of
from benchmarks.record_layouts import LAYOUTS, layout_site
from benchmarks.records_quality import training_page
from benchmarks.theme_scoring import NAMES, columns_of, count, requested_of
from benchmarks.theme_sites import stored, written
from benchmarks.two_steps import Floats, TrainingRows
from llmcrawler.core.understanding.extraction.candidate_scorer import FEATURES, FieldCandidate, compared, feature_tables
from llmcrawler.core.understanding.extraction.column_annotator import PagesToAnnotate
from llmcrawler.core.understanding.extraction.field_names import affinity, usual_type
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema
from llmcrawler.core.understanding.extraction.typed_values import read_date
from llmcrawler.core.understanding.extraction.value_scorer import FIELDS
from tests.servers.record_sites import SITES, Site, make_site
from tests.servers.record_sites.scoring import FieldScore

FOLDS: Final = 4
# (pages, the first of them, weight)
_SHOWN: Final = ((20, 0, 1.0), (6, 20, 0.5), (1, 26, 0.3))
_RIGHT_F1, _RIGHT_PRECISION = 0.6, 0.75
_THRESHOLDS: Final = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_UNSURE_F1, _UNSURE_PRECISION = 0.2, 0.6  # between, a candidate is no example
_AS_GOOD, _MUCH_WORSE = 0.1, 0.2  # than the best of the field
# Of the candidates that nobody would take most are left out.
_LEAST_NAME, _LEAST_RANK, _ONE_EASY_OF = 0.1, 3.5, 4
# Fields that some are asked for who do not have them.
_ABSENT: Final = (
    *set(FIELDS) - {"title", "description", "image"},
    *"color material isbn language duration pages mileage difficulty cuisine series reference department level".split(),
    *"venue doi license year rooms warranty capacity height subtitle tags version website priority".split(),
)
_ABSENT_FIELDS: Final = 8
_LEAST_AFFINITY: Final = 0.3
_ROUNDS: Final = 400
_PARAMETERS: Final = {
    "objective": "binary", "num_leaves": 16, "learning_rate": 0.03, "min_data_in_leaf": 20, "feature_fraction": 0.5,
    "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 3, "seed": 1, "deterministic": True,
    "force_row_wise": True, "verbose": -1, "num_threads": 1,
    # The better the name, the likelier.
    "monotone_constraints": [int(name in ("name", "name fits")) for name in FEATURES],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """A field that is looked for on a template's pages. `table` has a row per candidate, `f1` and `precision` say how
    right each is."""

    is_there: bool
    table: NDArray[np.float32]
    f1: Floats
    precision: Floats


@dataclass(frozen=True, slots=True)
class Examples:
    """The fields of one template, all with the same candidates."""

    family: str
    asked: bool
    pages: int
    weight: float
    fields: list[Example]


def sites_in(folders: Sequence[Path]) -> Iterator[tuple[Site, tuple[bool, ...]]]:
    """Yield each site, and in which ways it is asked: by name, or not. What the fields of the generated ones may be
    called where nobody asks is not known."""
    saved = (stored(index.parent) for folder in folders for index in sorted(folder.glob("**/index.jsonl")))
    yield from ((site, (True, False)) for site in chain(written(), saved))
    for site in (*map(layout_site, LAYOUTS), *map(make_site, SITES)):
        pages = [
            replace(page, fields={name: value for name, value in page.fields.items() if value not in (None, [], "")})
            for page in site.records
        ]
        yield Site(site.name, site.page_type, tuple(pages)), (True,)


def examples_of(site: Site, modes: Sequence[bool]) -> Iterator[Examples]:
    family = site.name.partition("_")[0]
    for asked, (pages, first, weight) in product(modes, _SHOWN):
        shown = site.records[first : first + pages]
        if len(shown) == pages:
            fields = list(_fields_of(Site(site.name, site.page_type, shown), asked=asked))
            yield Examples(family, asked, pages, weight, _without_easy(fields))


def save(data: Sequence[Examples], file: Path) -> None:
    fields = [one for template in data for one in template.fields]
    np.savez_compressed(
        file,
        allow_pickle=False,
        families=np.array([one.family for one in data]),
        templates=np.array([(one.asked, one.pages, one.weight, len(one.fields)) for one in data], np.float32),
        fields=np.array([(one.is_there, len(one.table)) for one in fields], np.int32),
        # Column by column: so it takes a third of the room.
        columns=np.ascontiguousarray(np.concatenate([one.table for one in fields]).T).astype(np.float16),
        scores=np.concatenate([np.column_stack([one.f1, one.precision]) for one in fields]).astype(np.float16),
    )


def load(file: Path) -> list[Examples]:
    with np.load(file) as arrays:
        table, scores = arrays["columns"].T.astype(np.float32), arrays["scores"].astype(float)
        ends = np.cumsum([0, *arrays["fields"][:, 1]])
        fields = iter(
            [
                Example(bool(is_there), table[at:end], *scores[at:end].T)
                for (is_there, _), (at, end) in zip(arrays["fields"], pairwise(ends), strict=True)
            ]
        )
        return [
            Examples(str(family), bool(asked), int(pages), float(weight), list(islice(fields, int(count))))
            for family, (asked, pages, weight, count) in zip(arrays["families"], arrays["templates"], strict=True)
        ]


def _without_easy(fields: list[Example]) -> list[Example]:
    """Return the fields without most of the candidates that nobody would take for any of them."""
    if not fields:
        return fields
    kept = ~(_easy(fields) & (np.arange(len(fields[0].table)) % _ONE_EASY_OF > 0))
    return [Example(one.is_there, one.table[kept], one.f1[kept], one.precision[kept]) for one in fields]


def _easy(fields: Sequence[Example]) -> NDArray[np.bool_]:
    """Tell which candidates are for each of the fields wrong, called otherwise, and look like it less than others."""
    return np.asarray(np.all([_is_easy(one) for one in fields], axis=0))


def _is_easy(one: Example) -> NDArray[np.bool_]:
    name, rank = (one.table[:, FEATURES.index(feature)] for feature in ("name", "rank"))
    return (one.precision < _UNSURE_PRECISION) & (name < _LEAST_NAME) & ((rank > _LEAST_RANK) | (rank < 0))


def _fields_of(site: Site, *, asked: bool) -> Iterator[Example]:
    pages = [training_page(page) for page in site.records]
    shown = PagesToAnnotate(pages, site.page_type, _with_absent(site) if asked else None)
    truth = [columns_of(page.fields) for page in site.records]
    known = {name for row in truth for name in row}
    if not shown.candidates:
        return
    for one, table in zip(shown.wanted, feature_tables(shown.template, shown.candidates, shown.wanted), strict=True):
        if one in shown.others:  # what the truth calls it is not known
            names = _best_names(shown, one, truth, known)
        else:
            names = {key for key in known if one.name in (key, *("" if asked else NAMES.get(key, "")).split())}
        rights = [[row.get(name, []) for row in truth] for name in names]
        scores = [_score(shown, one, candidate, rights) for candidate in shown.candidates]
        yield Example(bool(names), table, np.array([f1 for f1, _ in scores]), np.array([right for _, right in scores]))


def _best_names(shown: PagesToAnnotate, one: Field, truth: Sequence[dict[str, list[Any]]], known: set[str]) -> set[str]:
    """Return the field of the truth that what is called as `one` fits best, if it is right at all."""
    f1, _, name = max(
        (*_score(shown, one, shown.others[one], [[row.get(name, []) for row in truth]]), name) for name in sorted(known)
    )
    return {name} if f1 >= _RIGHT_F1 else set()


def _with_absent(site: Site) -> RequestedSchema:
    """Return what a user would ask for who wants some fields too that the pages do not have."""
    asked = requested_of(site)
    absent = [
        Field(name, usual_type(name))
        for name in sorted(_ABSENT, key=lambda name: crc32(f"{site.name} {name}".encode()))
        if not any(max(affinity(one, name), affinity(Field(name), one.name)) > _LEAST_AFFINITY for one in asked.fields)
        and not any(name in NAMES.get(one.name, "").split() for one in asked.fields)
    ]
    return RequestedSchema(asked.schema, (*asked.fields, *absent[:_ABSENT_FIELDS]))


def _score(
    shown: PagesToAnnotate, one: Field, candidate: FieldCandidate, rights: Sequence[list[list[Any]]]
) -> tuple[float, float]:
    """Return F1 and precision of what a candidate gives, by the truth that it fits best."""
    if not rights:
        return 0.0, 0.0
    spots = shown.without_frame(shown.values(one, candidate))
    found: list[list[str]] = []
    for place in range(shown.total):
        wheres = spots.get(place, [])
        if one.many:
            wheres = [((number,), quote) for blocks, quote in wheres for number in blocks]
        found.append([shown.text(place, where) for where in wheres])
    forms = [found]
    if one.type == "date":
        lang = shown.template.lang
        forms.append([[read_date(text, lang[place]) or text for text in texts] for place, texts in enumerate(found)])
    best = (0.0, 0.0)
    for right in rights:
        for form in forms:
            score = FieldScore()
            for want, have in zip(right, form, strict=True):
                count(score, want, have)
            best = max(best, (2 * score.right / max(1, score.given + score.wanted), score.right / max(1, score.given)))
    return best


# -- training --


@dataclass(frozen=True, slots=True)
class CandidateRows(TrainingRows):
    """`groups` has the templates with the rows of each of their fields."""

    PARAMETERS = _PARAMETERS
    ROUNDS = _ROUNDS

    groups: list[list[slice]]

    def compared(self, odds: Floats) -> NDArray[np.float32]:
        tables = (compared(np.array([odds[one] for one in slices])) for slices in self.groups)
        return np.concatenate([columns for some in tables for columns in some])


def rows_of(data: Sequence[Examples]) -> CandidateRows:
    right, weight, fold, end = [], [], [], 0
    groups: list[list[slice]] = []
    for template in data:
        groups.append([])
        of_all = np.where(_easy(template.fields), _ONE_EASY_OF, 1)
        for one in template.fields:
            best = one.f1.max(initial=0)
            is_right = (one.f1 >= max(_RIGHT_F1, best - _AS_GOOD)) & (one.precision >= _RIGHT_PRECISION)
            # What has a part of a list or of a text is wrong where there is all of it.
            is_part = (one.f1 < best - _MUCH_WORSE) & (one.f1 > _UNSURE_F1)
            is_wrong = ((one.f1 <= _UNSURE_F1) & (one.precision <= _UNSURE_PRECISION)) | is_part
            right.append(is_right)
            left = np.where(np.arange(len(is_right)) % _ONE_EASY_OF == 0, _ONE_EASY_OF, 0)
            each = template.weight * of_all * np.where(_is_easy(one), left, 1)
            weight.append(each * (is_right | is_wrong))
            fold.append(np.full(len(is_right), fold_of(template.family, FOLDS)))
            groups[-1].append(slice(end, end := end + len(is_right)))
    table = np.concatenate([one.table for template in data for one in template.fields])
    return CandidateRows(
        table, np.concatenate(right).astype(float), np.concatenate(weight), np.concatenate(fold), groups
    )


def report(data: Sequence[Examples], rows: CandidateRows, odds: Floats) -> None:
    chances = 1 / (1 + np.exp(-odds))
    for asked, (pages, *_) in product((True, False), _SHOWN):
        likeliest = []
        for template, slices in zip(data, rows.groups, strict=True):
            if (template.asked, template.pages) == (asked, pages):
                for one, where in zip(template.fields, slices, strict=True):
                    at = chances[where].argmax()
                    likeliest.append((chances[where][at], one.f1[at], one.precision[at], one.f1.max(), one.is_there))
        chance, f1, precision, best, is_there = np.array(likeliest, float).T
        there = is_there > 0
        print(
            f"{'asked' if asked else 'unasked'}, {pages} pages: {there.sum()} fields, F1 of the best candidates"
            f" {best[there].mean():.3f}, of the likeliest {f1[there].mean():.3f}"
        )
        for least in _THRESHOLDS:
            given = chance > least
            print(
                f"    above {least}: F1 {(f1 * given)[there].mean():.3f}, precision"
                f" {precision[given & there].mean():.3f};"
                f" {(given & ~there).sum()} of {(~there).sum()} that are not there"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", type=Path, nargs="?", default=Path(__file__).with_name("candidate_examples.npz"))
    parser.add_argument("--make", type=Path, nargs="*", metavar="FOLDER", help="make the examples, of these sites too")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    if args.make is not None:
        save([one for site, modes in sites_in(args.make) for one in examples_of(site, modes)], args.examples)
    data = load(args.examples)
    rows = rows_of(data)
    print(f"{len(rows.table)} rows, {(rows.weight > 0).sum()} to learn from, {int(rows.right.sum())} right", flush=True)
    report(data, rows, rows.held_out())
    if args.write:
        np.savez_compressed(args.write, allow_pickle=False, **rows.fit_both(np.ones(len(rows.table), bool)).arrays())


if __name__ == "__main__":
    main()
