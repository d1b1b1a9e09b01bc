"""Finds what repeats within a page and is its record's: lists of values (tags, a path of categories, ingredients) and
groups of objects (reviews, posts, rows of a table, the items of a listing), by comparing the pages of a template.

Elements that are children of one and have the same tag and class are rows. Rows with one text each are a list where a
label, a class or an address says of what; rows with several texts are a group where their columns look like one. What
stands in the frame, is the same on all pages, or leads to other pages of the template is left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from itertools import chain, islice, takewhile
from statistics import fmean
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Pointed
from llmcrawler.core.understanding.extraction.field_names import canonical_name, is_furniture, usual_fields
from llmcrawler.core.understanding.extraction.page_parts import (
    CLASS_NAMES,
    PageParts,
    names_of,
    parts_of_name,
    place_of,
    rel_of,
    words_of,
)
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType
from llmcrawler.core.understanding.extraction.row_columns import (
    RowColumn,
    RowTable,
    chosen_columns,
    probabilities,
    whole_columns,
    with_parts,
)
from llmcrawler.core.understanding.extraction.text_kinds import text_kind
from llmcrawler.core.understanding.extraction.tree import CONTENT_TAGS, INLINE_TAGS, line_up
from llmcrawler.core.understanding.extraction.typed_values import fits

_MAX_ROWS: Final = 60
_MAX_SERIES: Final = 400
_MAX_TABLES: Final = 120
_LEAST_CHANCE: Final = 0.4
_MAX_TEXTS_READ: Final = 20

_SAID: Final[dict[str, Any]] = json.loads(
    files("llmcrawler.core.understanding.extraction").joinpath("repeated_parts.json").read_text(encoding="utf-8")
)


def _meanings(table: str) -> dict[str, str]:
    return {word: meaning for meaning, words in _SAID[table].items() for word in words.split()}


def _words(name: str) -> frozenset[str]:
    return frozenset(_SAID[name].split())


_LISTS: Final[Mapping[str, str]] = _SAID["lists"]  # usual field -> what a list of such values is called
_CLASSES: Final = _meanings("classes_of_lists")
_NAMES: Final = _meanings("names_of_lists")
_ADDRESSES: Final = _meanings("addresses_of_lists")
_GROUPS: Final = _meanings("groups")
_LINKED: Final = frozenset(_ADDRESSES.values())
_PATH: Final = _words("path")
_PERHAPS_PATH: Final = _words("perhaps_path")
_FRAME_OF_SITE: Final = _words("frame_of_site")
_FRAME: Final = _FRAME_OF_SITE | _words("frame_of_page")
_SOLD: Final = frozenset({"variants", "offers"})
_FRAME_TAGS: Final = frozenset({"nav", "aside", "form", "dialog"})
_DIGITS: Final = re.compile(r"\d+")
_MONEY: Final = re.compile(
    r"(?:[$€£¥₹₽₩₺₴]|\b(?:USD|EUR|GBP|CHF|CAD|AUD|kr|zł|Kč|Ft|руб)\b\.?)\s?\d|\d[\d.,\s]*(?:,-)?\s?(?:[$€£¥₹₽₩₺₴円]|(?:USD|"
    r"EUR|GBP|CHF|CAD|AUD|kr|zł|Kč|Ft|руб)\b)"
)
_MARK: Final = re.compile(r"(?:\d|10)(?:[.,]\d\d?)?(?:\s?(?:/|out of|of|von|sur|de|su|van|z|из)\s?(?:5|10)\b.{0,10})?")
_IS_TIME: Final = re.compile(r"^\W{0,3}(?:[^\W\d_]{1,12}\W{1,3}){0,2}(?:19|20)\d\d|^[\d\W]*$")
_SENTENCE: Final = re.compile(r"[^\W\d_]{4}[.!?]$")
_YEAR: Final = re.compile(r"(?:1[89]|20)\d\d")
_NICKNAME: Final = re.compile(r"[^\W\d][\w.-]{2,24}")
_AMOUNT: Final = re.compile(r"(?:\d|[½¼¾⅓⅔⅛])[^:]*\s[^\W\d_]{2,}")
_WORDS: Final = re.compile(r"[^\W\d_]+")
_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_HEADS: Final = (*_HEADINGS, "header")
_TYPES: Final[dict[str, FieldType]] = {
    "price": "number", "list_price": "number", "rating": "number", "url": "url", "image": "url", "date": "date",
}  # fmt: skip
_OF_ITEMS: Final = _words("of_items")
_TITLED: Final = _words("titled")
_KINDS: Final = {"employers": "company", "experience": "company"}  # of what a row is titled by
# How sure what names a list makes it.
_OF_LABEL: Final = 4.0
_OF_CLASS: Final = 3.0
_OF_ID: Final = 2.5
_OF_LINKS: Final = 2.0
_OF_PATH: Final = 1.5
_OF_HEADING: Final = 1.0
_OF_SHAPE: Final = 0.5
_PAGES_ASKED: Final = 6
_MAX_LABEL_WORDS: Final = 4
_MAX_NAME_WORDS: Final = 5
_NEARLY_ONE: Final = 1.1
_SHORT_VALUE_CHARS: Final = 40
_FEWEST_PAGES: Final = 2
_MAX_HOLDERS: Final = 1.3
_SHARE_OF_VALUES: Final = 0.9
_LEAST_SHARE: Final = 0.15
_MOSTLY: Final = 0.8
_MANY: Final = 0.5
_FEW: Final = 0.3
_NAMED: Final = 0.7
_VARIED: Final = 0.5
_PROSE_CHARS: Final = 50
_TITLE_CHARS: Final = (3, 200)
_LINE_CHARS: Final = 300
_SHORT_CHARS: Final = 60
_STRUCK: Final = _words("struck")
_PERSON: Final = _words("person")
_NO_PERSON: Final = _words("no_person")
_WRITER: Final = _words("writer")
_DATE: Final = _words("date")
_NO_DATE: Final = _words("no_date")
_SHORT: Final = _words("short")
_TEXTS: Final = frozenset({"description", "summary", "body"})
_HOME: Final = frozenset(_SAID["home"].split(", "))
_RATING: Final = _words("rating")


@dataclass(frozen=True, slots=True)
class Repeated:
    """What repeats: a list of plain values, which is one field with `many`, or a group, whose fields have it as their
    `group`. `values` are what to point at on each page, in the order of the pages; `share` is that of the pages that
    have any."""

    name: str
    fields: tuple[Field, ...]
    values: tuple[tuple[Pointed, ...], ...]

    @property
    def share(self) -> float:
        return fmean(map(bool, self.values))


def repeated_parts(
    pages: Sequence[PageBlocks], page_type: str, requested: Sequence[Field] = ()
) -> tuple[tuple[Repeated, ...], frozenset[etree._Element]]:
    """Return what repeats within the pages of one template, the surest of each name, and the rows that lead to other
    pages of it. First come the groups of the `requested` fields, under their names."""
    template = _Template(pages, page_type)
    groups: dict[str, list[Field]] = {}
    for asked in requested:
        groups.setdefault(asked.group, []).append(asked)
    of_groups = [template.requested(name, fields) for name, fields in groups.items() if name]
    found: dict[str, Repeated] = {one.name: one for one in of_groups if one is not None}
    for _, one in sorted(template.found(), key=lambda pair: -pair[0]):
        best = found.setdefault(one.name, one)
        # A template may have two layouts, each with classes of its own.
        if best.fields == one.fields and not any(map(all, zip(best.values, one.values, strict=True))):
            values = (mine or other for mine, other in zip(best.values, one.values, strict=True))
            found[one.name] = replace(best, values=tuple(values))
    return tuple(found.values()), frozenset(template.rows_of_others())


def row_tables(pages: Sequence[PageBlocks], page_type: str) -> list[RowTable]:
    """Return the rows of each kind of the pages of one template, with what tells what they are."""
    return _Template(pages, page_type).tables


def cards_of_others(pages: Sequence[PageBlocks], page_type: str) -> list[frozenset[int]]:
    """Return the numbers of the blocks of each page that are cards of other pages of the template, as of what is like
    it or was seen last. None where a list may be the record."""
    template = _Template(pages, page_type)
    found: list[set[int]] = [set() for _ in pages]
    for series in template.leading_to_others(_MOSTLY) if "items" not in template.usual else ():
        for at, rows in series.items():
            found[at].update(n for row in rows for n in template.pages[at].within[row])
    return list(map(frozenset, found))


_Series = dict[int, list[etree._Element]]  # the rows of one kind by the place of their page


class _Template:
    def __init__(self, pages: Sequence[PageBlocks], page_type: str) -> None:
        self.usual = {one.name for one in usual_fields(page_type)}
        # What people say on such a page.
        of_type = {"posts", "answers"} & self.usual or {"reviews" if "price" in self.usual else "comments"}
        self._statements = min(of_type)
        numbers: dict[tuple[int, str], int] = {}
        self.pages = [PageParts(page, numbers) for page in pages]
        self._titles = {page.title for page in self.pages}
        self._shapes = {_shape(page.page.url) for page in self.pages}
        holders: dict[int, dict[int, list[list[etree._Element]]]] = {}
        for at, page in enumerate(self.pages):
            for children in page.children.values():
                for way, rows in _by(page.way, children).items():
                    holders.setdefault(way, {}).setdefault(at, []).append(rows[:_MAX_ROWS])
        series = [one for some in holders.values() for one in self._series_of(some)]
        several = (one for one in series if max(map(len, one.values())) > 1 or self._is_path(one))
        self._series = list(islice(several, _MAX_SERIES))

    def _series_of(self, holders: Mapping[int, Sequence[list[etree._Element]]]) -> Iterator[_Series]:
        """Yield the rows of one kind. Where pages have several lists of them, their labels tell these apart."""
        labelled: dict[str, _Series] = {}
        repeated = {""}
        above: dict[etree._Element | None, set[bool]] = {}
        if max(map(len, holders.values())) > 1:
            for at, lists in holders.items():
                for rows in lists:
                    label = self.pages[at].label(rows[0])
                    above.setdefault(next(islice(rows[0].iterancestors(), 1, 2), None), set()).add(bool(label))
                    repeated |= {label} if at in labelled.get(label, ()) else set()
                    labelled.setdefault(label, {})[at] = rows
        # Where the first of several side by side has a label alone, each is a row of what that names.
        are_rows = any(len(one) > 1 for one in above.values())
        split = [one for label, one in labelled.items() if label not in repeated and not are_rows]
        if split:
            yield from split
        elif fmean(map(len, holders.values())) < _MAX_HOLDERS:
            yield {at: max(lists, key=len) for at, lists in holders.items()}

    def found(self) -> Iterator[tuple[float, Repeated]]:
        if "items" in self.usual:
            yield from self._items()
        else:
            yield from chain(self._lists(), self._groups())
        if "price" in self.usual:
            yield from self._pictures()

    # -- lists --

    def _lists(self) -> Iterator[tuple[float, Repeated]]:
        for series in self._series:
            values = {
                at: [(row, n) for row in rows if (n := self.pages[at].value(row)) is not None]
                for at, rows in series.items()
            }
            is_plain = sum(map(len, values.values())) >= _SHARE_OF_VALUES * sum(map(len, series.values()))
            name, score = self._name_of_list(series)
            is_titled = name in _TITLED and score == _OF_LABEL
            if self._is_path(series):
                name, score, values = "categories", _OF_PATH, self._without_ends(series, values)
            elif self._is_frame(series, tags=_FRAME_TAGS - {"aside"} if is_titled else _FRAME_TAGS):
                continue
            elif not is_plain:
                values = self._titles_of(series, _KINDS.get(name, "")) if is_titled else {}
            if not name and "ingredients" in self.usual and self._are_amounts(values):
                name, score = "ingredients", _OF_SHAPE
            are_together = all(self.pages[at].are_together(rows) for at, rows in series.items())
            if not name or not (are_together or (name in _TITLED and next(iter(series.values()))[0].tag in _HEADS)):
                continue
            if name in _LINKED and any(self.pages[at].links(row) > 1 for at, rows in series.items() for row in rows):
                continue  # lists themselves
            numbers = {at: tuple(self._number(name, at, row, n) for row, n in ones) for at, ones in values.items()}
            if is_titled:
                numbers = {
                    at: tuple(n for n in ones if not _IS_TIME.search(self.pages[at].text(n)))
                    for at, ones in numbers.items()
                }
            texts = {at: tuple(map(self.pages[at].text, ones)) for at, ones in numbers.items() if ones}
            # What one page says before a list may be its own text.
            is_sure = score in (_OF_CLASS, _OF_LINKS) or min(len(self.pages), _FEWEST_PAGES) <= len(texts)
            share = len(texts) / len(self.pages)
            if is_sure and (score > _OF_HEADING or share >= _MANY) and self._are_values(name, texts):
                yield score + share, self._list(Field(name, "string", True), numbers)

    def _titles_of(self, series: _Series, kind: str) -> dict[int, list[tuple[etree._Element, int]]]:
        """Return the text of each row that is of a kind, or that tells it from the others. None where several do."""
        table = _Columns(self.pages, series)
        columns = table.titles(kind)
        found: dict[int, list[tuple[etree._Element, int]]] = {}
        for (at, place), [((n, _), _), *_] in columns[0].cells.items() if len(columns) == 1 else ():
            found.setdefault(at, []).append((table.rows[place][1], n))
        return found

    def _list(self, field: Field, numbers: Mapping[int, tuple[int, ...]]) -> Repeated:
        given = (numbers.get(at, ()) for at in range(len(self.pages)))
        return Repeated(field.name, (field,), tuple((Pointed(field.name, ones),) if ones else () for ones in given))

    def _pictures(self) -> Iterator[tuple[float, Repeated]]:
        """Yield the pictures of a thing that is sold: rows without text that lead to no other page."""
        for series in self._series:
            if self._is_frame(series) or self._leads_to_others(series):
                continue
            found = {at: [self.pages[at].picture(row) for row in rows] for at, rows in series.items()}
            numbers = {at: tuple(n for n in ones if n is not None) for at, ones in found.items()}
            texts = Counter(self.pages[at].text(n) for at, ones in numbers.items() for n in ones)
            # What other pages show too is no picture of the thing.
            if sum(map(len, numbers.values())) == sum(map(len, series.values())) and max(texts.values()) == 1:
                yield len(texts), self._list(Field("images", "url", True), numbers)

    def _number(self, name: str, at: int, row: etree._Element, n: int) -> int:
        """Return the block of a value; of what is linked the text of the link: "Books (12)"."""
        return (self.pages[at].link(row) or n) if name in _LINKED else n

    def _are_amounts(self, values: Mapping[int, Sequence[tuple[etree._Element, int]]]) -> bool:
        found = [_AMOUNT.match(self.pages[at].text(n)) for at, ones in values.items() for _, n in ones]
        return sum(map(bool, found)) >= _MOSTLY * len(found)

    def _are_values(self, name: str, texts: Mapping[int, tuple[str, ...]]) -> bool:
        """Tell whether lists differ from page to page, and have such values rather than titles of other pages."""
        counts = Counter(texts.values())
        # Crawls come along categories: nearly all pages of a template may be of one.
        most = len(texts) - 1 if name == "categories" else _MOSTLY * len(texts)
        if not texts or (len(texts) > 2 and max(counts.values()) > most):
            return False
        each = [text for one in texts.values() for text in one]
        if name == "authors" and sum(map(_may_be_name, each)) < _MOSTLY * len(each):
            return False
        chars = fmean(map(len, each))
        is_line = chars < (_SHORT_VALUE_CHARS if name in _SHORT else _LINE_CHARS)
        return is_line and sum(text in self._titles for text in each) < _FEW * len(each)

    def _name_of_list(self, series: _Series) -> tuple[str, float]:
        """Return what most pages call a list, and how surely; "" where they do not say, or say that it is furniture."""
        said: Counter[tuple[str, float]] = Counter()
        for at, rows in islice(series.items(), _PAGES_ASKED):
            page = self.pages[at]
            parts = [_ADDRESSES.get(rel_of(row), "") or _word_of_address(page.address(row)) for row in rows]
            usual, most = Counter(parts).most_common(1)[0]
            names = self._names(page.label(rows[0]), rows[0], usual if 2 * most > len(rows) else "")
            said[next(names, ("", 0.0))] += 1
        (name, score), count = said.most_common(1)[0]
        if name:
            return (name, score) if 2 * count > said.total() else ("", 0.0)
        own = self._own_name(series) if next(iter(series.values()))[0].tag == "li" else ""
        return own, _OF_HEADING if own else 0.0

    def _own_name(self, series: _Series) -> str:
        """Return what a label calls rows that is the template's: the same on all pages, and no furniture."""
        labels = {page.label(row) for page, row in self._firsts(series)}
        label = labels.pop()
        is_name = not labels and len(series) > 1 and len(label.split()) <= _MAX_LABEL_WORDS
        name = canonical_name(label) if is_name and not _DIGITS.search(label) and not is_furniture(label) else ""
        return "" if name in _GROUPS.values() or name in _TEXTS else name

    def _names(self, label: str, row: etree._Element, of_links: str) -> Iterator[tuple[str, float]]:
        if label and is_furniture(label):
            return
        is_inline = row.tag in INLINE_TAGS
        name = _LISTS.get(canonical_name(label))
        if name is not None and (name in _SHORT or not is_inline):  # in a line "for 4 people" no words are ingredients
            yield name, _OF_LABEL
        # The classes of a whole post may be what it is filed under.
        nodes = list(takewhile(lambda node: node.tag not in CONTENT_TAGS, islice(line_up(row), 3)))
        for node in nodes:
            named = [_NAMES.get(one.lower()) for one in names_of(node, CLASS_NAMES)]
            words = [_CLASSES.get(word) for word in words_of(node, CLASS_NAMES)]
            may_be = (name for name in (*named, *words) if name and (name in _SHORT or node is row or not is_inline))
            yield from ((name, _OF_CLASS) for name in may_be)
        # An id that has such a word among others is that of a chapter.
        yield from ((_CLASSES[name], _OF_ID) for node in nodes if (name := (node.get("id") or "").lower()) in _CLASSES)
        if of_links:
            yield of_links, _OF_LINKS

    def _is_path(self, series: _Series) -> bool:
        """Tell whether rows are the path of categories that leads to a page."""
        at, rows = next(iter(series.items()))
        words = {word for node in islice(line_up(rows[0]), 4) for word in words_of(node)}
        if words & _PATH:
            return max(map(len, series.values())) > 1 or len(rows[0].findall(".//a")) == 1  # not all of it
        firsts = {page.text(n) for page, row in self._firsts(series) if (n := page.value(row)) is not None}
        return bool(words & _PERHAPS_PATH) and len(firsts) == 1 and bool(self.pages[at].address(rows[0]))

    def _firsts(self, series: _Series) -> Iterator[tuple[PageParts, etree._Element]]:
        yield from ((self.pages[at], rows[0]) for at, rows in series.items())

    def _without_ends(
        self, series: _Series, values: Mapping[int, Sequence[tuple[etree._Element, int]]]
    ) -> dict[int, list[tuple[etree._Element, int]]]:
        """Return the rows of a path without the home page and the page itself. The home page may be a mere icon."""
        kept = {}
        for at, rows in values.items():
            page = self.pages[at]
            leads_on = bool(rows and page.address(rows[0][0]))
            is_first = bool(rows) and rows[0][0] is series[at][0]
            is_home = is_first and self._is_home(page, [row for row, _ in rows], page.text(rows[0][1]))
            inner = rows[1:] if is_home else rows
            kept[at] = [
                (row, n)
                for row, n in inner
                if page.text(n) != page.title
                and (page.address(row) or not leads_on)
                and page.text(n).casefold() not in _HOME
            ]
        return kept

    @staticmethod
    def _is_home(page: PageParts, rows: Sequence[etree._Element], text: str) -> bool:
        """Tell whether the first of a path is no category: by its word, or as all others are below its address."""
        first, *others = map(page.address, rows)
        is_above = len(others) > 1 and all(one.startswith(first) for one in others if one)
        return text.casefold() in _HOME or urlsplit(first).path == "/" or (bool(first) and is_above)

    # -- groups --

    def _groups(self) -> Iterator[tuple[float, Repeated]]:
        found: set[str] = set()
        for series in self._series:
            if self._is_around(series) or self._is_frame(series) or self._is_same(series):
                continue
            table = _Columns(self.pages, series)
            label = next(self.pages[at].label(rows[0]) for at, rows in series.items())
            name = self._name_of_group(label, series)
            is_furnished = bool(label) and is_furniture(label)
            heads = {} if is_furnished else table.headed()
            may_be_others = not heads and (is_furnished or self._leads_to_others(series))
            if may_be_others and not self._are_statements(name, table, series):
                continue
            name, fields = (name or self._own_name(series), heads) if heads else self._said(name, table, series)
            if name and len(fields.keys() - {"url"}) > 1 and (group := table.group(name, fields)):
                found.add(name)
                yield group.share + len(fields) / 10, group
        if found.isdisjoint(_GROUPS.values()):  # what people say may show no sign that the rules know
            said = [Field(one, group=self._statements) for one in ("author", "date", "text")]
            group = self.requested(self._statements, said)
            if group is not None and len(group.fields) > 1:
                yield group.share, group

    def _name_of_group(self, label: str, series: _Series) -> str:
        """Return what a label or classes call rows, "" where they do not."""
        first = next(iter(series.values()))[0]
        of_classes = (word for node in islice(line_up(first), 2) for word in words_of(node))
        said = (
            _GROUPS[word] for word in (*parts_of_name(label), canonical_name(label), *of_classes) if word in _GROUPS
        )
        return next((one for one in said if one != "posts" or "posts" in self.usual), "")

    def _said(self, name: str, table: _Columns, series: _Series) -> tuple[str, dict[str, RowColumn]]:
        """Return the name and the columns of rows without heads: of offers, of what people say, or of items."""
        if name in _SOLD:
            return name, table.offers()
        fields = table.statements
        is_said = {"author", "date", "text"} <= fields.keys() or self._are_statements("", table, series)
        if not name and is_said and not self._are_headed_links(series):
            return self._statements, fields
        if not name:
            return self._own_name(series), table.items()
        return name, fields if name == "reviews" else {
            key: one for key, one in fields.items() if key not in ("rating", "title")
        }

    @cached_property
    def tables(self) -> list[RowTable]:
        """The rows of each kind with their columns."""
        found = []
        for series in islice(self._series, _MAX_TABLES):
            table = _Columns(self.pages, series)
            columns = with_parts(table.all, len(table.rows), self._heads(table))
            found += [self._table(series, table.rows, columns)] if columns else []
        return found

    def _heads(self, table: _Columns) -> dict[str, RowColumn]:
        """Return what columns are called by the head of their table, and on a listing by what they look like."""
        return {**(table.items() if "items" in self.usual else {}), **table.headed()}

    def _table(
        self, series: _Series, rows: Sequence[tuple[int, etree._Element]], columns: Sequence[RowColumn]
    ) -> RowTable:
        labels = Counter(self.pages[at].label(some[0]) for at, some in islice(series.items(), _PAGES_ASKED))
        label = labels.most_common(1)[0][0]
        row = rows[0][1]
        words = [words_of(node) for node in islice(line_up(row), 3)]
        names = tuple([*("_".join(some[at:]) for at in range(len(some))), *some] for some in words)
        told = {
            "rows": np.log2(len(rows)),
            "rows a page": np.log2(len(rows) / len(series)),
            "pages": len(series) / len(self.pages),
            "of a listing": "items" in self.usual,
            "share of the blocks": fmean(
                sum(len(self.pages[at].within[row]) for row in some) / len(self.pages[at].page.blocks)
                for at, some in series.items()
            ),
            "place on the page": fmean(
                self.pages[at].within[some[0]][0] / len(self.pages[at].page.blocks) for at, some in series.items()
            ),
            "around the heading": self._is_around(series),
            "in the frame": self._is_frame(series),
            "the same": self._is_same(series),
            "leading to others": self._leads_to_others(series),
            "path": self._is_path(series),
            "labelled": bool(label),
            "furniture": bool(label) and is_furniture(label),
            "of a table": row.tag == "tr",
            "of a list": row.tag == "li",
            "cell": row.tag in ("td", "th", "dt", "dd"),
        }
        return RowTable(rows, columns, label, names, told)

    def requested(self, group: str, fields: Sequence[Field]) -> Repeated | None:
        """Return the rows whose columns are most surely the fields of a group; None where none is likely enough."""
        if not self.tables:
            return None
        number, chosen = chosen_columns(probabilities(self.tables, group, fields), _LEAST_CHANCE)
        table = self.tables[number]
        columns = {fields[one]: table.columns[at] for one, at in chosen.items()}
        return _pointed(self.pages, table.rows, columns) if columns else None

    def _items(self) -> Iterator[tuple[float, Repeated]]:
        for series in self._series:
            if self._is_path(series) or self._is_frame(series, _FRAME_OF_SITE) or self._is_same(series):
                continue
            table = _Columns(self.pages, series)
            fields = table.linked(table.headed())
            if fields.keys().isdisjoint(("title", "name")) and (items := table.items()):
                fields = items | {name: one for name, one in fields.items() if one not in items.values()}
            is_titled = "title" in fields or "name" in fields
            if is_titled and len(fields) > 1 and (group := table.group("items", fields)):
                yield len(table.rows) * (1 + len(fields)), group

    def _are_statements(self, name: str, table: _Columns, series: _Series) -> bool:
        """Tell whether rows are what people say, by their class and by what they have: each may have an address. In a
        thread all that have a name and a text are."""
        is_named = (name or self._statements == "posts") and name not in _SOLD
        said = table.statements if is_named else {}
        return {"author", "text"} <= said.keys() and not self._are_headed_links(series)

    @staticmethod
    def _are_headed_links(series: _Series) -> bool:
        """Tell whether most rows have a heading that leads elsewhere, as what is written on another page."""
        rows = [row for some in series.values() for row in some]
        links = [link for row in rows for one in row.iter(*_HEADINGS) if (link := _link_of(one)) is not None]
        return len(links) > _MANY * len(rows)

    # -- what is no part of the record --

    def _is_frame(self, series: _Series, words: frozenset[str] = _FRAME, tags: frozenset[str] = _FRAME_TAGS) -> bool:
        """Tell whether rows stand in what is around the record. What holds the page's own heading is not."""
        at, rows = next(iter(series.items()))
        around = self.pages[at].around
        for node in line_up(rows[0]):
            if node in around or (not around and node.tag in CONTENT_TAGS) or node.tag == "body":
                return False
            if node.tag in ("header", "footer"):
                return not any(above.tag in (*CONTENT_TAGS, "section") for above in node.iterancestors())
            if node.tag in tags or not words.isdisjoint(words_of(node)):
                return True
        return False

    def _is_same(self, series: _Series) -> bool:
        """Tell whether most rows stand on most pages."""
        if len(self.pages) < 3:
            return False
        texts = [
            {tuple(map(self.pages[at].text, self.pages[at].within[row])) for row in rows} for at, rows in series.items()
        ]
        counts = Counter(text for one in texts for text in one)
        return fmean(counts[text] for one in texts for text in one) > max(1.0, _MANY * len(self.pages))

    def _is_around(self, series: _Series) -> bool:
        """Tell whether one of the rows has the page's heading in it."""
        return any(row in self.pages[at].around for at, rows in series.items() for row in rows)

    def leading_to_others(self, share: float = _FEW) -> Iterator[_Series]:
        apart = (one for one in self._series if not self._is_path(one) and not self._is_around(one))
        return (one for one in apart if self._leads_to_others(one, share))

    def rows_of_others(self) -> Iterator[etree._Element]:
        """Yield the rows that lead to other pages: beside the box of what is like the page's thing may stand one of the
        thing itself, made alike, and what holds a large part of a page is its own."""
        for series in self.leading_to_others():
            for at, rows in series.items():
                most = _FEW * len(self.pages[at].page.blocks)
                yield from (row for row in rows if len(self.pages[at].within[row]) <= most and self._leads(at, row))

    def _leads_to_others(self, series: _Series, share: float = _FEW) -> bool:
        """Tell whether more than a share of the rows lead to pages like these."""
        leading = [self._leads(at, row) for at, rows in series.items() for row in rows]
        return sum(leading) > share * len(leading)

    def _leads(self, at: int, row: etree._Element) -> bool:
        """Tell whether a row leads to another page of the template, by address or title."""
        page = self.pages[at]
        address = page.address(row).partition("#")[0]
        titled = any(page.text(n) in self._titles - {page.title} for n in page.within[row])
        return titled or (bool(address) and address != page.page.url and _shape(address) in self._shapes)


class _Columns:
    """The rows of a series with their columns, each of which is taken for one field."""

    def __init__(self, pages: Sequence[PageParts], series: _Series) -> None:
        self._pages = pages
        self.rows = [(at, row) for at, rows in series.items() for row in rows]
        self.all = whole_columns(pages, self.rows)
        self._columns = [one for one in self.all if one.is_single]
        self._texts = [one for one in self._columns if one.attribute is None]
        prose = [one for one in self.all if one.attribute is None and one.chars >= _PROSE_CHARS]
        self._prose = sorted(prose, key=lambda one: -one.chars)

    def group(self, name: str, columns: Mapping[str, RowColumn]) -> Repeated | None:
        """Return what to point at; None where most rows have not even two of the fields."""
        filled = Counter(cell for one in columns.values() for cell in one.cells)
        if sum(count > 1 for count in filled.values()) < max(2, _MANY * len(self.rows)):
            return None
        fields = {Field(key, _TYPES.get(key, "string"), group=name): one for key, one in columns.items()}
        return _pointed(self._pages, self.rows, fields)

    @cached_property
    def statements(self) -> dict[str, RowColumn]:
        """Return the columns of what people say: who, when, and the text, two of them at least."""
        spoken = (one for one in self._texts if one.varies and one.mostly(_SENTENCE.search))
        text = next(iter(self._prose), None) or _best(spoken, lambda one: one.chars)
        left = [one for one in self._columns if one is not text]
        date = _best(filter(_is_date, left), _worth_of_date)
        author = _best((one for one in left if one is not date and _is_name(one)), _worth_of_name)
        headings = (one for one in left if one.element.tag in _HEADINGS and one.varies)
        title = _first(headings, lambda one: one is not date and not (author and one.is_around(author)))
        if sum(one is not None for one in (author, date, text)) < 2:
            return {}
        rating = _first(left, _is_rating)
        return _there({"author": author, "date": date, "rating": rating, "title": title, "text": text})

    def titles(self, kind: str) -> list[RowColumn]:
        """Return the column of texts of a kind; where none stands out, those of short texts that tell the rows of a
        page apart; headings, where some are."""
        short = [
            one
            for one in self._texts
            if len(one.cells) >= _MOSTLY * len(self.rows)
            and one.mostly(
                lambda text: len(text) < _SHORT_CHARS and not (_IS_TIME.search(text) or _SENTENCE.search(text))
            )
        ]
        shares = [fmean((text_kind(text) or ("",))[0] == kind for text in one.sample) for one in short if kind]
        best = max(shares, default=0.0)
        if best > max(_FEW, 2 * sum(sorted(shares)[-2:-1])):
            return [short[shares.index(best)]]
        found = [one for one in short if one.distinct > _MOSTLY]
        found = [one for one in found if not any(one is not other and one.is_around(other) for other in found)]
        return [one for one in found if _heading_of(one.element) is not None] or found

    def offers(self) -> dict[str, RowColumn]:
        price = self._price()
        name = _first(
            self._texts, lambda one: one is not price and one.distinct > _VARIED and not one.mostly(_MONEY.search)
        )
        found = {"name": name, "price": price, "list_price": self._list_price(price)}
        return _there(found) if price and name else {}

    def items(self) -> dict[str, RowColumn]:
        """Return the columns of what is listed; none where rows have no title that leads on."""
        links = [one for one in self._columns if one.attribute == "href" and one.distinct > _VARIED]
        texts = [one for one in self._texts if len(one.cells) > _MANY * len(self.rows) and one.distinct > _VARIED]
        headings = [one for one in texts if _heading_of(one.element) is not None]
        titles = [
            one
            for one in headings or [one for one in texts if _link_of(one.element) is not None]
            if _TITLE_CHARS[0] <= one.chars <= _TITLE_CHARS[1] and one.varies and not one.mostly(_MONEY.search)
        ]
        title = max(
            titles,
            key=lambda one: (len(one.cells), "a" in [node.tag for node in islice(line_up(one.element), 3)], one.chars),
            default=None,
        )
        if title is None or not links:
            return {}
        own = _link_of(title.element)
        url = next((one for one in links if one.element is own), max(links, key=lambda one: len(one.cells)))
        left = [one for one in self._columns if one is not title]
        price = self._price()
        found = {
            "title": title,
            "url": url,
            "price": price,
            "list_price": self._list_price(price),
            "image": _first(left, lambda one: one.attribute == "src" and one.varies),
            "date": _best(filter(_is_date, left), _worth_of_date),
            "author": _best((one for one in left if _is_name(one) and one.is_marked(_WRITER)), _worth_of_name),
            "year": _first(left, lambda one: one.mostly(_YEAR.fullmatch)),
            "rating": _first(left, _is_rating),
            "description": _first(self._prose, lambda one: one.varies and one.is_single and not one.is_around(title)),
        }
        taken = {id(one) for one in found.values()}
        for one in self._texts:
            name = next((word for word in one.words if word in _OF_ITEMS), "")
            if name and id(one) not in taken and one.chars < _PROSE_CHARS and not one.mostly(_MONEY.search):
                found.setdefault(name, one)
        return _there(found)

    def headed(self) -> dict[str, RowColumn]:
        """Return the columns of a table by what its head calls them, on all pages the same."""
        heads = {at: self._head(self._pages[at], row) for at, row in self.rows}
        names = next(iter(heads.values()))
        if len(names) < 2 or any(other != names for other in heads.values()):
            return {}
        found: dict[str, RowColumn] = {}
        for one in self._texts:
            cell = next((node for node in line_up(one.element) if node.tag in ("td", "th")), None)
            if cell is not None and (name := names.get(place_of(cell))):
                found.setdefault(name, one)
        return found

    def linked(self, columns: Mapping[str, RowColumn]) -> dict[str, RowColumn]:
        """Return the columns of a table with where its rows lead."""
        link = _first(self._columns, lambda one: one.attribute == "href" and one.distinct > _VARIED)
        return {**columns, **({"url": link} if link and columns else {})}

    @staticmethod
    def _head(page: PageParts, row: etree._Element) -> dict[int, str]:
        table = next((node for node in line_up(row) if node.tag == "table"), None) if row.tag == "tr" else None
        cells = [] if table is None else [one for one in next(table.iter("tr"), ()) if one.tag == "th"]
        texts = {place_of(one): page.text(page.within[one][0]) for one in cells if one in page.within}
        return {place: name for place, text in texts.items() if (name := canonical_name(text))}

    def _price(self) -> RowColumn | None:
        prices = [one for one in self._texts if _is_price(one) and not _is_struck(one)]
        most = max((len(one.cells) for one in prices), default=0)
        often = [one for one in prices if 2 * len(one.cells) >= most]
        return _best(often, lambda one: len(one.cells) / len(self.rows) + one.mostly(_is_amount))

    def _list_price(self, price: RowColumn | None) -> RowColumn | None:
        struck = [one for one in self._texts if price is not None and _is_price(one) and _is_struck(one)]
        return _best(struck, lambda one: one.mostly(_is_amount))


# -- columns and names --


def _pointed(
    pages: Sequence[PageParts], rows: Sequence[tuple[int, etree._Element]], columns: Mapping[Field, RowColumn]
) -> Repeated:
    """Return a group with what to point at on each page. What holds one row cannot be told from what holds all."""
    several = {at for at, count in Counter(at for at, _ in rows).items() if count > 1}
    of_page: dict[int, list[Pointed]] = defaultdict(list)
    for asked, column in columns.items():
        numbers: dict[int, list[int]] = defaultdict(list)
        for (at, place), spots in column.cells.items():
            if at in several and column.part:
                of_page[at] += (Pointed(asked.key, (n,), quote) for (n, quote), _ in spots)
            elif at in several:
                own = [n for (n, _), _ in spots]
                numbers[at] += own if column.is_single else pages[at].texts_beside(rows[place][1], own)
        for at, ones in numbers.items():
            of_page[at].append(Pointed(asked.key, tuple(ones)))
    return Repeated(next(iter(columns)).group, tuple(columns), tuple(tuple(of_page[at]) for at in range(len(pages))))


def _first(columns: Iterable[RowColumn], fitting: Callable[[RowColumn], object]) -> RowColumn | None:
    return next((one for one in columns if fitting(one)), None)


def _best(columns: Iterable[RowColumn], worth: Callable[[RowColumn], float]) -> RowColumn | None:
    return max(columns, key=worth, default=None)


def _there(columns: Mapping[str, RowColumn | None]) -> dict[str, RowColumn]:
    return {name: one for name, one in columns.items() if one is not None}


def _is_date(one: RowColumn) -> bool:
    if one.attribute not in (None, "datetime") or one.chars > _SHORT_CHARS:
        return False
    return one.mostly(lambda text: len(_DIGITS.findall(text)) > 1 and fits(text, "date"))


def _worth_of_date(one: RowColumn) -> float:
    return 2 * (one.attribute is not None) + one.is_marked(_DATE) - 3 * one.is_marked(_NO_DATE)


def _is_name(one: RowColumn) -> bool:
    return one.attribute is None and one.varies and one.mostly(_may_be_name)


def _worth_of_name(one: RowColumn) -> float:
    is_linked = _link_of(one.element) is not None or one.element.tag == "cite"
    distinct = len(set(one.texts)) / len(one.texts)
    # The name rather than "by" and the name.
    return 2 * one.is_marked(_PERSON) - 3 * one.is_marked(_NO_PERSON) + is_linked + distinct - one.chars / 1000


def _may_be_name(text: str) -> bool:
    """Tell whether a text may be a person's name: a few words without numbers, and not what stands before one."""
    is_short = len(text) < _SHORT_CHARS and 0 < len(_WORDS.findall(text)) <= _MAX_NAME_WORDS
    is_label = text.endswith(":") or canonical_name(text) == "author" or is_furniture(text)
    return is_short and (not _DIGITS.search(text) or bool(_NICKNAME.fullmatch(text))) and not is_label


def _is_rating(one: RowColumn) -> bool:
    return one.attribute is None and one.is_marked(_RATING) and one.mostly(_MARK.fullmatch)


def _is_price(one: RowColumn) -> bool:
    return one.chars < _SHORT_CHARS / 2 and one.mostly(_MONEY.search)


def _is_amount(text: str) -> bool:
    return len(_MONEY.findall(text)) == 1 and len(_MONEY.sub("", text).strip(" .,-0123456789")) < 3


def _is_struck(one: RowColumn) -> bool:
    return one.element.tag in ("del", "s", "strike") or one.is_marked(_STRUCK)


def _heading_of(element: etree._Element) -> etree._Element | None:
    return next((node for node in islice(line_up(element), 3) if node.tag in _HEADINGS), None)


def _link_of(element: etree._Element) -> etree._Element | None:
    near = next((node for node in islice(line_up(element), 3) if node.tag == "a"), None)
    return near if near is not None else next(element.iter("a"), None)


def _word_of_address(address: str) -> str:
    *folders, _ = urlsplit(address).path.rstrip("/").split("/") if address else [""]
    return next((_ADDRESSES[part] for part in reversed(folders) if part in _ADDRESSES), "")


def _shape(address: str) -> tuple[str, ...]:
    """Return the way to an address, without its own name and without numbers."""
    with suppress(ValueError):
        *folders, last = urlsplit(address).path.rstrip("/").split("/")
        return (*(_DIGITS.sub("0", part) for part in folders), last[-5:] if "." in last else "")
    return ()


def _by(key: Callable[[etree._Element], int], rows: Iterable[etree._Element]) -> dict[int, list[etree._Element]]:
    found: dict[int, list[etree._Element]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
