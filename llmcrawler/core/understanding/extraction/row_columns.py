"""Tells which fields of a group the columns of repeated rows are: of posts, reviews, the jobs of a CV, a table.

What stands in the same place of the rows is a column, and so are the parts of its texts: the date of "by Ann, 12 May",
the two ends of "2019 – 2021". Boosted trees tell with what probability a column of some rows is a field of the group,
by how both are called, what kind of texts stand there and how they vary, and where on their pages the rows stand; in a
second step also by what the first one says of the other columns, fields and rows. `row_columns.npz` is made by
benchmarks/row_columns_train.py of development templates with their truth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile
from statistics import fmean
from typing import Any, Final

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from llmcrawler.core.understanding.extraction.candidate_scorer import TextKinds, best_other, two_steps
from llmcrawler.core.understanding.extraction.field_names import NAME_PART, affinity, snake_case, usual_kind, usual_type
from llmcrawler.core.understanding.extraction.page_parts import PageParts, words_of
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType
from llmcrawler.core.understanding.extraction.tree import line_up
from llmcrawler.core.understanding.extraction.typed_values import fits
from llmcrawler.core.understanding.extraction.value_scorer import DATE

Floats = NDArray[np.float32]
Cell = tuple[int, int]
"""The place of a page, and that of a row among all rows."""
Spot = tuple[int, str | None]
"""The number of a block, and the part of its text that is meant; None: all of it."""

_LEAST_SHARE: Final = 0.15  # of the rows have what is a column
_MAX_BLOCKS_OF_ROW: Final = 200
_MAX_COLUMNS: Final = 200
_MAX_TEXTS: Final = 12
_MAX_TEXTS_READ: Final = 20
_NEARLY_ONE: Final = 1.1
_FEW: Final = 0.3
_MAX_CHARS: Final = 200
_MAX_LABEL_CHARS: Final = 30
_MAX_PART_CHARS: Final = 120
_MAX_PIECES: Final = 4
_MAX_BESIDE: Final = 5
_MOSTLY: Final = 0.8
_HALF: Final = 0.5
_OF_LABEL, _OF_NAME, _OF_OUTER_NAME, _OF_LATER_WORD = 1.0, 0.7, 0.6, 0.7
_NAME_LEVELS: Final = 3
_MAX_NAMES_CHARS: Final = 200
_MAX_NAME_WORDS: Final = 4
_NAMING_ATTRIBUTES: Final = "class itemprop id rel data-label data-title data-th data-testid".split()
_MEANT_BY_TAGS: Final = {"time": "date", "cite": "author", "address": "address"}
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_SIGN: Final = re.compile(r" ?[|·•–—»›] ?| - | / |, ?|: ")
_WHEN: Final = (
    r"(?:\d{4}-\d\d(?:-\d\d)?|(?:\d{1,2}[./]){1,2}(?:19|20)\d\d|(?<![\d:])\d{1,2}[:.h]\d\d(?![\d:])"
    r"|(?:\d{1,2}\.? )?(?:[^\W\d_]{3,10}\.?,? )?(?:19|20)\d\d)"
)
_ENDS: Final = re.compile(
    rf"({_WHEN})\s?(?:[–—-]|\b(?:to|bis|au|à|al?|tot|till?|until|hasta|até|do)\b)\s?({_WHEN}|[^\W\d_]{{4,12}})",
    re.IGNORECASE,
)
_MOMENT: Final = re.compile(_WHEN)
_BRACKETS: Final = re.compile(r"^(.{2,80}?)\s*[(\[](.{1,60})[)\]]$")
_NUMBER: Final = re.compile(r"(?<![\d.,])\d[\d.,]*(?![\d.,])")
_MONEY: Final = re.compile(r"[$€£¥₹₽₩₺₴]|\b(?:USD|EUR|GBP|CHF|kr|zł|Kč|Ft)\b")
# What fields are compared with, so that the trees know what they mean.
_KNOWN: Final = tuple(
    "title name author date text price rating url start_date end_date job_title company location status count".split()
)
_LEAST: Final = -8.0
_LEAST_WORTH: Final = -6.0


@dataclass(slots=True)
class RowColumn:
    """What stands in the same place of rows: the blocks of each row, with their texts. `names`: what it is called ->
    weight, 0..1; `order`: where it stands in its row, 0..1; `part`: which part of another column it is, "" for none."""

    element: etree._Element
    attribute: str | None
    names: dict[str, float]
    order: float = 0.0
    part: str = ""
    cells: dict[Cell, list[tuple[Spot, str]]] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The text of each row."""
        return [" ".join(text for _, text in spots) for spots in self.cells.values()]

    @property
    def sample(self) -> list[str]:
        """Some of the texts, from all over the rows."""
        texts = self.texts
        return [text[:_MAX_CHARS] for text in texts[:: -(-len(texts) // _MAX_TEXTS)]]

    @property
    def is_single(self) -> bool:
        """Whether nearly all rows have one block of it."""
        return sum(map(len, self.cells.values())) <= _NEARLY_ONE * len(self.cells)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that its element is called by, or that around it."""
        own = words_of(self.element)
        parent = self.element.getparent()
        return own if own or parent is None else words_of(parent)

    @property
    def chars(self) -> float:
        """The characters that a row has of it."""
        return fmean(map(len, self.texts))

    @property
    def distinct(self) -> float:
        """The share of texts that are on no other row of their page."""
        texts = self.texts
        return len(set(zip((at for at, _ in self.cells), texts, strict=True))) / len(texts)

    @property
    def varies(self) -> bool:
        texts = self.texts
        return len(set(texts)) > max(1, _FEW * len(texts))

    def mostly(self, holds: Callable[[str], object]) -> bool:
        texts = self.texts[:_MAX_TEXTS_READ]
        return sum(bool(holds(text)) for text in texts) >= _MOSTLY * len(texts)

    def is_marked(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self.words)

    def is_around(self, other: RowColumn) -> bool:
        return self.element in line_up(other.element)

    def part_of(self, part: str) -> RowColumn:
        return RowColumn(self.element, self.attribute, {**self.names}, self.order, part)


@dataclass(frozen=True)
class RowTable:
    """Rows of one kind, each with the place of its page. `label` stands before them; `names` are those of the rows, of
    what holds them, and of what holds that; `told` are numbers that tell what else they are."""

    rows: Sequence[tuple[int, etree._Element]]
    columns: Sequence[RowColumn]
    label: str
    names: tuple[Sequence[str], ...]
    told: Mapping[str, float]

    @cached_property
    def samples(self) -> list[list[str]]:
        """Some texts of each column."""
        return [one.sample for one in self.columns]

    @cached_property
    def own_features(self) -> Floats:
        """What tells something of each column, whatever the field."""
        elements = dict.fromkeys(one.element for one in self.columns if one.attribute is None)
        below = Counter(above for one in elements for above in one.iterancestors())
        found = []
        for one, sample in zip(self.columns, self.samples, strict=True):
            above = sum(node in elements for node in one.element.iterancestors())
            found.append(_own_features(one, sample, len(self.rows), (below[one.element], above)))
        own = np.array(found, np.float32)
        own[:, _CHARS] /= max(1, own[:, _CHARS].max())
        return own


def whole_columns(pages: Sequence[PageParts], rows: Sequence[tuple[int, etree._Element]]) -> list[RowColumn]:
    """Return the columns of rows, each of which stands on one of the pages, in the order of the first rows."""
    columns: dict[tuple[int, str | None, int | None], RowColumn] = {}
    places: dict[tuple[int, str | None, int | None], list[float]] = {}
    for place, (at, row) in enumerate(rows):
        page = pages[at]
        numbers = page.within[row][:_MAX_BLOCKS_OF_ROW]
        for rank, n in enumerate(numbers):
            spot = page.page.spots[n]
            is_row = spot.element is row and spot.text_index is None and not spot.attribute
            if spot.element is None or (is_row and len(numbers) > 1):
                continue
            key = (page.way(spot.element), spot.attribute, spot.text_index)
            if key not in columns:
                columns[key] = RowColumn(spot.element, spot.attribute, _names_within(spot.element, row))
            places.setdefault(key, []).append(rank / len(numbers))
            columns[key].cells.setdefault((at, place), []).append(((n, None), page.text(n)))
    for key, one in columns.items():
        one.order = fmean(places[key])
    often = (one for one in columns.values() if len(one.cells) >= _LEAST_SHARE * len(rows))
    return list(islice(often, _MAX_COLUMNS))


def with_parts(columns: Sequence[RowColumn], rows: int, heads: Mapping[str, RowColumn]) -> list[RowColumn]:
    """Return columns in their order, named by the `heads` of their table and by labels, each with its parts."""
    for name, one in heads.items():
        one.names[name] = _OF_LABEL
    found = sorted(columns, key=lambda one: one.order)
    _name_by_labels(found, rows)
    return [each for one in found for each in (one, *_beside(one), *_parts(one))]


def _names_within(element: etree._Element, row: etree._Element) -> dict[str, float]:
    """Return what an element is called by attributes and tags, its own and those of what is around it in the row."""
    names: dict[str, float] = {}
    weight = _OF_NAME
    for node in islice(takewhile(lambda one: one is not row, line_up(element)), _NAME_LEVELS):
        called = " ".join(node.get(name) or "" for name in _NAMING_ATTRIBUTES)[:_MAX_NAMES_CHARS].split()
        for value in called:
            words = [word.lower() for word in NAME_PART.findall(value)][:_MAX_NAME_WORDS]
            for at in range(len(words)):
                name = "_".join(words[at:])
                names[name] = max(names.get(name, 0.0), weight * _OF_LATER_WORD**at)
        if meant := _MEANT_BY_TAGS.get(str(node.tag)):
            names[meant] = max(names.get(meant, 0.0), weight)
        weight *= _OF_OUTER_NAME if called else 1.0
    return names


def _name_by_labels(columns: Sequence[RowColumn], rows: int) -> None:
    """Name the columns that stand behind one that says the same in all rows."""
    label = ""
    for one in columns:
        if one.attribute is not None:
            continue
        texts = set(one.texts)
        if len(texts) == 1 and rows > 2 and len(one.cells) >= _MOSTLY * rows:
            text = texts.pop()
            label = snake_case(text) if len(text) <= _MAX_LABEL_CHARS else ""
        elif label:
            one.names[label] = _OF_LABEL
            label = ""


def _beside(column: RowColumn) -> Iterator[RowColumn]:
    """Yield the blocks of a column of which most rows have as many, by their place."""
    count, rows = Counter(map(len, column.cells.values())).most_common(1)[0]
    if 1 < count <= _MAX_BESIDE and rows >= _MOSTLY * len(column.cells):
        for at in range(count):
            one = column.part_of(f"beside{at}")
            one.order += at / 100
            one.cells = {cell: [spots[at]] for cell, spots in column.cells.items() if len(spots) == count}
            yield one


def _parts(column: RowColumn) -> Iterator[RowColumn]:
    """Yield the parts of a column's texts that may be values of their own."""
    sample = column.sample
    if column.attribute in ("href", "src", "datetime") or fmean(map(len, sample)) > _MAX_PART_CHARS:
        return
    begun = beginning([text for spots in column.cells.values() for _, text in spots])
    label = {snake_case(begun): _OF_LABEL if ":" in begun else _OF_NAME} if snake_case(begun) else {}
    for kind, (share, way) in _ways(sample, begun).items():
        if sum(any(part != text for part in way(text)) for text in sample) < share * len(sample):
            continue
        made: dict[int, RowColumn] = {}
        for cell, spots in column.cells.items():
            for (n, _), text in spots:
                for place, part in enumerate(map(str.strip, way(text))):
                    if part:
                        one = made.setdefault(place, column.part_of(f"{kind}{place}"))
                        one.cells.setdefault(cell, []).append(((n, part), part))
        for one in made.values():
            one.names |= label if kind == "behind" else {}
            yield one
            if kind == "behind":
                yield from _parts(one)


def beginning(texts: Sequence[str]) -> str:
    """Return the words that all texts begin with, "" where all are the same."""
    pairs = zip(min(texts), max(texts), strict=False)
    shared = "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return shared[: max(shared.rfind(" "), shared.rfind(":")) + 1] if min(texts) != max(texts) else ""


_Way = Callable[[str], Sequence[str]]


def _ways(sample: Sequence[str], begun: str) -> dict[str, tuple[float, _Way]]:
    """Return how a text may be taken apart: what kind of parts -> the share of texts that must have them, and the way
    to the parts of one."""

    def by(form: re.Pattern[str]) -> _Way:
        return lambda text: found.groups() if (found := form.search(text)) else ()

    sign = next((found[0] for text in sample if (found := _SIGN.search(text))), "")
    pieces = Counter(text.count(sign) for text in sample).most_common(1)[0][0] + 1 if sign else 0
    return {
        "date": (_HALF, lambda text: [found[0]] if (found := DATE.search(text)) else []),
        "ends": (_HALF, by(_ENDS)),
        "brackets": (_HALF, by(_BRACKETS)),
        "number": (_MOSTLY, lambda text: found if len(found := _NUMBER.findall(text)) == 1 else ()),
        "behind": (_MOSTLY, lambda text: [text[len(begun) :]] if begun else ()),
        "piece": (_MOSTLY, lambda text: text.split(sign) if 1 < text.count(sign) + 1 == pieces <= _MAX_PIECES else ()),
    }


# -- choice --


def probabilities(tables: Sequence[RowTable], group: str, fields: Sequence[Field]) -> list[Floats]:
    """Return for each table with what probability each of its columns is each field of a group: a row per field."""
    first, second = two_steps("row_columns.npz")
    numbers = [feature_tables(table, group, fields) for table in tables]
    odds = [np.array([first.log_odds([one]) for one in some]) for some in numbers]
    found = []
    for some, others in zip(numbers, compared(odds), strict=True):
        both = zip(some, others, strict=True)
        found.append(np.array([1 / (1 + np.exp(-second.log_odds([one, other]))) for one, other in both], np.float32))
    return found


def chosen_columns(chances: Sequence[NDArray[Any]], least: float) -> tuple[int, dict[int, int]]:
    """Return the number of the table whose columns are in sum the likeliest, and the column of each field in it whose
    chance is over `least`; no column is two fields."""
    found = []
    for some in chances:
        chosen: dict[int, int] = {}
        for one, column in sorted(zip(*np.nonzero(some > least), strict=True), key=lambda at: -some[at]):
            if one not in chosen and column not in chosen.values():
                chosen[int(one)] = int(column)
        found.append((sum(some[at] for at in chosen.items()), chosen))
    number = max(range(len(found)), key=lambda at: found[at][0])
    return number, found[number][1]


def compared(odds: Sequence[NDArray[Any]]) -> Iterator[list[Floats]]:
    """Yield for each table what the second step sees of the first one's log odds: for each field a row per column."""
    worth = [float(np.maximum(some, _LEAST_WORTH).max(1).mean()) for some in odds]
    best = np.max([some.max(1) for some in odds], 0)
    for number, (some, own_worth) in enumerate(zip(odds, worth, strict=True)):
        other_worth = max((*worth[:number], *worth[number + 1 :]), default=_LEAST_WORTH)
        of_table = own_worth, own_worth - other_worth, some.max()
        found = []
        for at, own in enumerate(some):
            fields = np.delete(some, at, 0).max(0) if len(some) > 1 else np.full(len(own), _LEAST)
            others = best_other(own)
            columns = [own, fields, own - fields, others, own - others, own - best[at]]
            columns += [np.full(len(own), one) for one in of_table]
            found.append(np.column_stack(columns).astype(np.float32))
        yield found


def feature_tables(table: RowTable, group: str, fields: Sequence[Field]) -> list[Floats]:
    """Return for each field of a group the numbers that tell which column it is: a row per column."""
    own = table.own_features
    said = [*table.told.values(), *(_called(group, names) for names in ([table.label], *table.names))]
    of_rows = np.tile(np.array(said, np.float32), (len(own), 1))
    kinds = TextKinds(table.samples)
    named = {one: np.array([_named(one, column) for column in table.columns]) for one in fields}
    found = []
    for one in fields:
        form = one.type or usual_type(one.name) or "string"
        numbers = [
            *named[one].T,
            best_other(named[one][:, 0]),
            np.max([np.zeros(len(own)), *(named[other][:, 0] for other in fields if other is not one)], 0),
            *kinds.features(one).values(),
            [_fit(some, form) for some in table.samples],
            *(affinity(Field(one.name), known) for known in _KNOWN),
            *(form in names for names in (("date",), ("number", "integer"), ("url",))),
            usual_kind(one.name) is not None,
            len(fields),
        ]
        columns = [np.broadcast_to(np.asarray(some, np.float32), len(own)) for some in numbers]
        found.append(np.column_stack([own, of_rows, *columns]))
    return found


_CHARS: Final = 1  # of the features of a column: compared with the longest


def _own_features(one: RowColumn, sample: Sequence[str], rows: int, nested: tuple[int, int]) -> list[float]:
    """Return what tells something of one of `rows`' columns. `nested`: how many others are within its element, and how
    many it is within."""
    texts = one.texts
    pages = [at for at, _ in one.cells]
    near = list(islice(line_up(one.element), 3))
    return [
        len(one.cells) / rows,
        fmean(map(len, sample)),
        fmean(map(len, one.cells.values())),
        len(set(zip(pages, texts, strict=True))) / len(texts),
        len(set(texts)) / len(texts),
        np.log2(1 + fmean(map(len, texts))),
        np.log2(1 + fmean(text.count(" ") for text in sample)),
        fmean(sum(map(str.isdigit, text[:60])) / max(1, len(text[:60])) for text in sample),
        fmean(text[:1].isupper() for text in sample),
        fmean(text.endswith((".", "!", "?")) for text in sample),
        fmean(len(text) < 60 and DATE.search(text) is not None for text in sample),
        fmean(len(text) < 40 and _MONEY.search(text) is not None for text in sample),
        fmean(_NUMBER.fullmatch(text) is not None for text in sample),
        fmean(_MOMENT.fullmatch(text) is not None for text in sample),
        *nested,
        any(node.tag in _HEADINGS for node in near),
        any(node.tag == "a" for node in near),
        any(node.tag in ("strong", "b", "dt", "th") for node in near[:2]),
        one.element.tag == "time",
        *(one.attribute == name for name in ("datetime", "href", "src")),
        one.attribute is not None,
        one.order,
        max(one.names.values(), default=0.0) >= _OF_LABEL,
        bool(one.part),
        one.part.endswith("0"),
        *(one.part.startswith(kind) for kind in ("piece", "ends", "date", "beside")),
    ]


def _named(one: Field, column: RowColumn) -> tuple[float, float]:
    """Return how surely a column is called as a field is, and how well that name fits without regard to its weight."""
    asked = Field(one.name)
    fit = (((weight * (near := affinity(asked, name))), near) for name, weight in column.names.items())
    return max(fit, default=(0.0, 0.0))


def _fit(texts: Sequence[str], form: FieldType) -> float:
    """Return the share of texts that may be of a form; a year or a time of day may be a date."""
    if form == "string":
        return 1.0
    return fmean(fits(text, form) or (form == "date" and _MOMENT.fullmatch(text) is not None) for text in texts)


def _called(group: str, names: Sequence[str]) -> float:
    return max((affinity(Field(group), name) for name in names if name), default=0.0)
