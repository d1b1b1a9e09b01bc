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
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from itertools import chain, islice, pairwise, takewhile
from statistics import fmean
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Pointed
from llmcrawler.core.understanding.extraction.field_names import affinity, canonical_name, is_furniture, usual_fields
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType
from llmcrawler.core.understanding.extraction.text_kinds import text_kind
from llmcrawler.core.understanding.extraction.tree import BLOCK_STEPS, CONTENT_TAGS, INLINE_TAGS, Work, line_up
from llmcrawler.core.understanding.extraction.typed_values import fits
from llmcrawler.errors import TooCostly

_MAX_DEPTH: Final = 60
_MAX_LABEL_CHARS: Final = 40
_MAX_LEVELS_TO_LABEL: Final = 4
_MAX_ROWS: Final = 60
_MAX_SERIES: Final = 400
_MAX_SIBLINGS: Final = 50
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
_VARYING: Final = _words("varying")
_NAME_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGITS: Final = re.compile(r"\d+")
_MONEY: Final = re.compile(
    r"(?:[$€£¥₹₽₩₺₴]|\b(?:USD|EUR|GBP|CHF|CAD|AUD|kr|zł|Kč|Ft|руб)\b\.?)\s?\d|\d[\d.,\s]*(?:,-)?\s?(?:[$€£¥₹₽₩₺₴円]|(?:USD|"
    r"EUR|GBP|CHF|CAD|AUD|kr|zł|Kč|Ft|руб)\b)"
)
_MARK: Final = re.compile(r"(?:\d|10)(?:[.,]\d\d?)?(?:\s?(?:/|out of|of|von|sur|de|su|van|z|из)\s?(?:5|10)\b.{0,10})?")
_COUNTED: Final = re.compile(r"\s*\(\d+\)$")  # how many stand below
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
# What texts of a kind may be asked for as.
_OF_KINDS: Final = {
    "person": ("name", "author", "performer"),
    "role": ("job_title",),
    "place": ("location", "city"),
    "company": ("company",),
}
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
_MAX_NAMES_CHARS: Final = 200
_CLASS_NAMES: Final = ("class", "itemprop", "aria-label", "data-testid", "role")
_HAVING: Final = frozenset({"has", "with", "no", "without"})
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
    others = (row for series in template.leading_to_others() for rows in series.values() for row in rows)
    return tuple(found.values()), frozenset(others)


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


class _PageParts:
    """A page with the blocks that stand in each element, and the way to each as a number that all pages share."""

    def __init__(self, page: PageBlocks, numbers: dict[tuple[int, str], int]) -> None:
        self.page = page
        self.within: dict[etree._Element, list[int]] = {}
        self.whole: dict[etree._Element, int] = {}
        self.ways: dict[etree._Element, int] = {}
        self.children: dict[etree._Element, dict[etree._Element, None]] = {}
        self._numbers = numbers
        work = Work(BLOCK_STEPS)
        body = page.root.find("body")
        with suppress(TooCostly):
            for block in page.blocks:
                spot = page.spots[block.n]
                if spot.element is None:
                    continue
                line = list(islice(line_up(spot.element), _MAX_DEPTH))
                work.charge(len(line))
                if body is None or body not in line[1:]:
                    continue
                line = line[: line.index(body) + 1]
                if spot.attribute is None and spot.text_index is None:
                    self.whole[spot.element] = block.n
                for node in line:
                    self.within.setdefault(node, []).append(block.n)
                for node, parent in pairwise(line):
                    self.children.setdefault(parent, {})[node] = None
        heading = next((one for one in page.root.iter("h1") if one in self.within), None)
        self.around = frozenset() if heading is None else frozenset(heading.iterancestors())
        title = page.root.findtext("head/title") or ""
        self.title = " ".join(title.split()) if heading is None else self.text(self.within[heading][0])

    def text(self, n: int) -> str:
        return self.page.blocks[n - 1].text

    def way(self, element: etree._Element) -> int:
        """Return the number of the way from the root: of tags and first classes."""
        if element not in self.ways:
            parent = element.getparent()
            above = -1 if parent is None else self.way(parent)
            self.ways[element] = self._numbers.setdefault((above, kind_of(element)), len(self._numbers))
        return self.ways[element]

    def link(self, row: etree._Element) -> int | None:
        """Return the text of the only link of a row."""
        links = [n for n in self.within[row] if self._is_link(n)]
        return links[0] if len(links) == 1 else None

    def links(self, row: etree._Element) -> int:
        return sum(map(self._is_link, self.within[row]))

    def _is_link(self, n: int) -> bool:
        spot = self.page.spots[n]
        return spot.element is not None and spot.element.tag == "a" and self.whole.get(spot.element) == n

    def value(self, row: etree._Element) -> int | None:
        """Return the block that is all of the text of a row, if there is one."""
        node: etree._Element | None = row
        while node is not None:
            if node.tag == "time" and (given := [n for n in self.within[node] if self.page.spots[n].attribute]):
                return given[0]
            if node in self.whole:
                return self.whole[node]
            inner = [child for child in self.children.get(node, ()) if any(map(self._is_text, self.within[child]))]
            own = any(self.page.spots[n].element is node and self._is_text(n) for n in self.within[node])
            node = inner[0] if len(inner) == 1 and not own else None
        return None

    def picture(self, row: etree._Element) -> int | None:
        """Return the address of the picture that a row is, if it is one."""
        found = [n for n in self.within[row] if self.page.spots[n].attribute == "src"]
        return found[0] if len(found) == 1 and not any(map(self._is_text, self.within[row])) else None

    def _is_text(self, n: int) -> bool:
        return self.page.spots[n].attribute is None

    def address(self, row: etree._Element) -> str:
        """Return where the first link of a row leads, "" for nowhere else."""
        for n in self.within.get(row, ()):
            spot = self.page.spots[n]
            if spot.attribute == "href" and not self.text(n).startswith(("#", "mailto:", "tel:")):
                with suppress(ValueError):
                    return urljoin(self.page.url, self.text(n))
        return ""

    def are_together(self, rows: Sequence[etree._Element]) -> bool:
        """Tell whether no other text stands in an element between rows, as labels do."""
        parent = rows[0].getparent()
        children = list(self.children[parent]) if parent is not None else []
        first = children.index(rows[0])
        return children[first : first + len(rows)] == list(rows)

    def label(self, row: etree._Element) -> str:
        """Return the short text right before the first row of a list, "" where there is none."""
        node = row if row.tag != "tr" else next((one for one in line_up(row) if one.tag == "table"), row)
        for _ in range(_MAX_LEVELS_TO_LABEL):
            parent = node.getparent()
            siblings = islice(node.itersiblings(preceding=True), _MAX_SIBLINGS)
            before = next((one for one in siblings if (one.tail or "").strip() or one in self.within), None)
            loose = ((before.tail if before is not None else parent.text if parent is not None else "") or "").strip()
            if any(map(str.isalpha, loose)):
                return loose if len(loose) <= _MAX_LABEL_CHARS else ""
            if before is not None:
                texts = [self.text(n) for n in self.within.get(before, ()) if self._is_text(n)]
                text = _COUNTED.sub("", texts[0]) if texts and all(one in texts[0] for one in texts) else ""
                return text if len(text) <= _MAX_LABEL_CHARS and any(map(str.isalpha, text)) else ""
            if parent is None or parent.tag == "body":
                return ""
            node = parent
        return ""


class _Template:
    def __init__(self, pages: Sequence[PageBlocks], page_type: str) -> None:
        self.usual = {one.name for one in usual_fields(page_type)}
        # What people say on such a page.
        of_type = {"posts", "answers"} & self.usual or {"reviews" if "price" in self.usual else "comments"}
        self._statements = min(of_type)
        numbers: dict[tuple[int, str], int] = {}
        self.pages = [_PageParts(page, numbers) for page in pages]
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
        for (at, place), numbers in columns[0].cells.items() if len(columns) == 1 else ():
            found.setdefault(at, []).append((table.rows[place][1], numbers[0]))
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
            parts = [_rel(row) or _word_of_address(page.address(row)) for row in rows]
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
            named = [_NAMES.get(one.lower()) for one in _names_of(node, _CLASS_NAMES)]
            words = [_CLASSES.get(word) for word in _words_of(node, _CLASS_NAMES)]
            may_be = (name for name in (*named, *words) if name and (name in _SHORT or node is row or not is_inline))
            yield from ((name, _OF_CLASS) for name in may_be)
        # An id that has such a word among others is that of a chapter.
        yield from ((_CLASSES[name], _OF_ID) for node in nodes if (name := (node.get("id") or "").lower()) in _CLASSES)
        if of_links:
            yield of_links, _OF_LINKS

    def _is_path(self, series: _Series) -> bool:
        """Tell whether rows are the path of categories that leads to a page."""
        at, rows = next(iter(series.items()))
        words = {word for node in islice(line_up(rows[0]), 4) for word in _words_of(node)}
        if words & _PATH:
            return max(map(len, series.values())) > 1 or len(rows[0].findall(".//a")) == 1  # not all of it
        firsts = {page.text(n) for page, row in self._firsts(series) if (n := page.value(row)) is not None}
        return bool(words & _PERHAPS_PATH) and len(firsts) == 1 and bool(self.pages[at].address(rows[0]))

    def _firsts(self, series: _Series) -> Iterator[tuple[_PageParts, etree._Element]]:
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
    def _is_home(page: _PageParts, rows: Sequence[etree._Element], text: str) -> bool:
        """Tell whether the first of a path is no category: by its word, or as all others are below its address."""
        first, *others = map(page.address, rows)
        is_above = len(others) > 1 and all(one.startswith(first) for one in others if one)
        return text.casefold() in _HOME or urlsplit(first).path == "/" or (bool(first) and is_above)

    # -- groups --

    def _groups(self) -> Iterator[tuple[float, Repeated]]:
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
                yield group.share + len(fields) / 10, group

    def _name_of_group(self, label: str, series: _Series) -> str:
        """Return what a label or classes call rows, "" where they do not."""
        first = next(iter(series.values()))[0]
        of_classes = (word for node in islice(line_up(first), 2) for word in _words_of(node))
        said = (_GROUPS[word] for word in (*_parts(label), canonical_name(label), *of_classes) if word in _GROUPS)
        return next((one for one in said if one != "posts" or "posts" in self.usual), "")

    def _said(self, name: str, table: _Columns, series: _Series) -> tuple[str, dict[str, _Column]]:
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

    def requested(self, name: str, fields: Sequence[Field]) -> Repeated | None:
        """Return the rows that have most of the fields of a group that is asked for; None where none has two of them,
        or half of them where nothing calls the rows so."""
        best: tuple[float, Repeated | None] = (1.0, None)
        for series in self._series:
            if self._is_around(series) or self._is_frame(series) or self._is_same(series):
                continue
            at, rows = next(iter(series.items()))
            words = ("_".join(_words_of(node)) for node in islice(line_up(rows[0]), 2))
            called = max(affinity(Field(name), one) for one in (self.pages[at].label(rows[0]), *words))
            table = _Columns(self.pages, series)
            columns = table.requested(fields)
            worth = called + len(columns) / len(fields) + min(len(table.rows), _MAX_ROWS) / 1000
            if len(columns) > 1 and worth > best[0] and (group := table.group(name, columns)):
                best = worth, group
        return best[1]

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
            if node.tag in tags or not words.isdisjoint(_words_of(node)):
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

    def _leads_to_others(self, series: _Series, share: float = _FEW) -> bool:
        """Tell whether more than a share of the rows lead to pages like these, by address or title."""
        rows = [(self.pages[at], row) for at, some in series.items() for row in some]
        leading = 0
        for page, row in rows:
            address = page.address(row).partition("#")[0]
            titled = any(page.text(n) in self._titles - {page.title} for n in page.within[row])
            leading += titled or (bool(address) and address != page.page.url and _shape(address) in self._shapes)
        return leading > share * len(rows)


@dataclass(slots=True)
class _Column:
    """What stands in the same place of the rows: of each row the numbers of its blocks, by page and row."""

    element: etree._Element
    attribute: str | None
    cells: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def add(self, cell: tuple[int, int], n: int, text: str) -> None:
        self.cells.setdefault(cell, []).append(n)
        self.texts.append(text)

    @property
    def is_single(self) -> bool:
        """Whether nearly all rows have one of them."""
        return len(self.texts) <= _NEARLY_ONE * len(self.cells)

    @property
    def words(self) -> tuple[str, ...]:
        own = _words_of(self.element)
        parent = self.element.getparent()
        return own if own or parent is None else _words_of(parent)

    @property
    def chars(self) -> float:
        """The characters that a row has of it."""
        return sum(map(len, self.texts)) / len(self.cells)

    @property
    def distinct(self) -> float:
        """The share of texts that are on no other row of their page."""
        pages = [at for (at, _), numbers in self.cells.items() for _ in numbers]
        return len(set(zip(pages, self.texts, strict=True))) / len(self.texts)

    @property
    def varies(self) -> bool:
        return len(set(self.texts)) > max(1, _FEW * len(self.texts))

    def mostly(self, holds: Callable[[str], object]) -> bool:
        texts = self.texts[:_MAX_TEXTS_READ]
        return sum(bool(holds(text)) for text in texts) >= _MOSTLY * len(texts)

    @property
    def kind(self) -> str:
        """The kind of most texts, "" where they are of several."""
        return next((kind for kind in _OF_KINDS if self.share_of(kind) > _MANY), "")

    def share_of(self, kind: str) -> float:
        """The share of texts that are names of companies, or of people, and so on."""
        texts = self.texts[:_MAX_TEXTS_READ]
        return sum((text_kind(text) or ("",))[0] == kind for text in texts) / len(texts)

    def is_marked(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self.words)

    def is_around(self, other: _Column) -> bool:
        return self.element in line_up(other.element)


class _Columns:
    """The rows of a series with their columns, each of which is taken for one field."""

    def __init__(self, pages: Sequence[_PageParts], series: _Series) -> None:
        self._pages = pages
        self.rows = [(at, row) for at, rows in series.items() for row in rows]
        columns: dict[tuple[int, str | None, int | None], _Column] = {}
        for place, (at, row) in enumerate(self.rows):
            page = pages[at]
            for n in page.within[row]:
                spot = page.page.spots[n]
                if spot.element is None or (spot.element is row and spot.text_index is None and not spot.attribute):
                    continue
                key = (page.way(spot.element), spot.attribute, spot.text_index)
                columns.setdefault(key, _Column(spot.element, spot.attribute)).add((at, place), n, page.text(n))
        often = [one for one in columns.values() if len(one.cells) >= _LEAST_SHARE * len(self.rows)]
        self._columns = [one for one in often if one.is_single]
        self._texts = [one for one in self._columns if one.attribute is None]
        prose = [one for one in often if one.attribute is None and one.chars >= _PROSE_CHARS]
        self._prose = sorted(prose, key=lambda one: -one.chars)

    def group(self, name: str, columns: Mapping[str, _Column]) -> Repeated | None:
        """Return what to point at; None where most rows have not even two of the fields."""
        filled = Counter(cell for one in columns.values() for cell in one.cells)
        if sum(count > 1 for count in filled.values()) < max(2, _MANY * len(self.rows)):
            return None
        # What holds one row cannot be told from what holds all.
        several = {at for at, count in Counter(at for at, _ in self.rows).items() if count > 1}
        of_page: dict[int, list[Pointed]] = defaultdict(list)
        for field_name, column in columns.items():
            numbers: dict[int, list[int]] = defaultdict(list)
            for (at, place), given in column.cells.items():
                if at in several:
                    numbers[at] += given if column.is_single else self._whole(at, self.rows[place][1], given)
            for at, ones in numbers.items():
                of_page[at].append(Pointed(f"{name}.{field_name}", tuple(ones)))
        made = tuple(Field(one, _TYPES.get(one, "string"), group=name) for one in columns)
        return Repeated(name, made, tuple(tuple(of_page[at]) for at in range(len(self._pages))))

    def _whole(self, at: int, row: etree._Element, numbers: list[int]) -> list[int]:
        """Return all text of what holds the paragraphs of a row, each block once."""
        page = self._pages[at]
        element = page.page.spots[numbers[0]].element
        holder = element.getparent() if element is not None else None
        if holder is None or holder is row:
            return numbers
        found: list[int] = []
        taken: set[etree._Element] = set()
        for n in page.within[holder]:
            spot = page.page.spots[n]
            if spot.element is not None and not spot.attribute and taken.isdisjoint(line_up(spot.element)):
                found.append(n)
                taken |= {spot.element} if spot.text_index is None else set()
        return found

    @cached_property
    def statements(self) -> dict[str, _Column]:
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

    def requested(self, fields: Sequence[Field]) -> dict[str, _Column]:
        """Return the columns that fields mean by the head of a table, by classes, or by what they look like."""
        columns = [*self.headed().items(), *(("_".join(one.words[-2:]), one) for one in self._texts)]
        columns += [pair for known in (self.items(), self.offers(), self.statements) for pair in known.items()]
        columns += [("date", one) for one in self._columns if _is_date(one)]
        columns += [(name, one) for one in self._texts for name in _OF_KINDS.get(one.kind, ())]
        pairs = [
            (affinity(asked, name), -at, asked.name, one) for asked in fields for at, (name, one) in enumerate(columns)
        ]
        found: dict[str, _Column] = {}
        taken: set[int] = set()
        for weight, _, field_name, one in sorted(pairs, key=lambda pair: pair[:2], reverse=True):
            if weight >= _NAMED and field_name not in found and id(one) not in taken:
                found[field_name] = one
                taken.add(id(one))
        return found

    def titles(self, kind: str) -> list[_Column]:
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
        by_share = sorted(short, key=lambda one: one.share_of(kind), reverse=True) if kind else []
        shares = [one.share_of(kind) for one in by_share[:2]]
        if shares and shares[0] > max(_FEW, 2 * sum(shares[1:])):
            return by_share[:1]
        found = [one for one in short if one.distinct > _MOSTLY]
        found = [one for one in found if not any(one is not other and one.is_around(other) for other in found)]
        return [one for one in found if _heading_of(one.element) is not None] or found

    def offers(self) -> dict[str, _Column]:
        price = self._price()
        name = _first(
            self._texts, lambda one: one is not price and one.distinct > _VARIED and not one.mostly(_MONEY.search)
        )
        found = {"name": name, "price": price, "list_price": self._list_price(price)}
        return _there(found) if price and name else {}

    def items(self) -> dict[str, _Column]:
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

    def headed(self) -> dict[str, _Column]:
        """Return the columns of a table by what its head calls them, on all pages the same."""
        heads = {at: self._head(self._pages[at], row) for at, row in self.rows}
        names = next(iter(heads.values()))
        if len(names) < 2 or any(other != names for other in heads.values()):
            return {}
        found: dict[str, _Column] = {}
        for one in self._texts:
            cell = next((node for node in line_up(one.element) if node.tag in ("td", "th")), None)
            if cell is not None and (name := names.get(_place(cell))):
                found.setdefault(name, one)
        return found

    def linked(self, columns: Mapping[str, _Column]) -> dict[str, _Column]:
        """Return the columns of a table with where its rows lead."""
        link = _first(self._columns, lambda one: one.attribute == "href" and one.distinct > _VARIED)
        return {**columns, **({"url": link} if link and columns else {})}

    @staticmethod
    def _head(page: _PageParts, row: etree._Element) -> dict[int, str]:
        table = next((node for node in line_up(row) if node.tag == "table"), None) if row.tag == "tr" else None
        cells = [] if table is None else [one for one in next(table.iter("tr"), ()) if one.tag == "th"]
        texts = {_place(one): page.text(page.within[one][0]) for one in cells if one in page.within}
        return {place: name for place, text in texts.items() if (name := canonical_name(text))}

    def _price(self) -> _Column | None:
        prices = [one for one in self._texts if _is_price(one) and not _is_struck(one)]
        most = max((len(one.cells) for one in prices), default=0)
        often = [one for one in prices if 2 * len(one.cells) >= most]
        return _best(often, lambda one: len(one.cells) / len(self.rows) + one.mostly(_is_amount))

    def _list_price(self, price: _Column | None) -> _Column | None:
        struck = [one for one in self._texts if price is not None and _is_price(one) and _is_struck(one)]
        return _best(struck, lambda one: one.mostly(_is_amount))


# -- columns and names --


def _first(columns: Iterable[_Column], fitting: Callable[[_Column], object]) -> _Column | None:
    return next((one for one in columns if fitting(one)), None)


def _best(columns: Iterable[_Column], worth: Callable[[_Column], float]) -> _Column | None:
    return max(columns, key=worth, default=None)


def _there(columns: Mapping[str, _Column | None]) -> dict[str, _Column]:
    return {name: one for name, one in columns.items() if one is not None}


def _is_date(one: _Column) -> bool:
    if one.attribute not in (None, "datetime") or one.chars > _SHORT_CHARS:
        return False
    return one.mostly(lambda text: len(_DIGITS.findall(text)) > 1 and fits(text, "date"))


def _worth_of_date(one: _Column) -> float:
    return 2 * (one.attribute is not None) + one.is_marked(_DATE) - 3 * one.is_marked(_NO_DATE)


def _is_name(one: _Column) -> bool:
    return one.attribute is None and one.varies and one.mostly(_may_be_name)


def _worth_of_name(one: _Column) -> float:
    is_linked = _link_of(one.element) is not None or one.element.tag == "cite"
    distinct = len(set(one.texts)) / len(one.texts)
    # The name rather than "by" and the name.
    return 2 * one.is_marked(_PERSON) - 3 * one.is_marked(_NO_PERSON) + is_linked + distinct - one.chars / 1000


def _may_be_name(text: str) -> bool:
    """Tell whether a text may be a person's name: a few words without numbers, and not what stands before one."""
    is_short = len(text) < _SHORT_CHARS and 0 < len(_WORDS.findall(text)) <= _MAX_NAME_WORDS
    is_label = text.endswith(":") or canonical_name(text) == "author" or is_furniture(text)
    return is_short and (not _DIGITS.search(text) or bool(_NICKNAME.fullmatch(text))) and not is_label


def _is_rating(one: _Column) -> bool:
    return one.attribute is None and one.is_marked(_RATING) and one.mostly(_MARK.fullmatch)


def _is_price(one: _Column) -> bool:
    return one.chars < _SHORT_CHARS / 2 and one.mostly(_MONEY.search)


def _is_amount(text: str) -> bool:
    return len(_MONEY.findall(text)) == 1 and len(_MONEY.sub("", text).strip(" .,-0123456789")) < 3


def _is_struck(one: _Column) -> bool:
    return one.element.tag in ("del", "s", "strike") or one.is_marked(_STRUCK)


def _heading_of(element: etree._Element) -> etree._Element | None:
    return next((node for node in islice(line_up(element), 3) if node.tag in _HEADINGS), None)


def _link_of(element: etree._Element) -> etree._Element | None:
    near = next((node for node in islice(line_up(element), 3) if node.tag == "a"), None)
    return near if near is not None else next(element.iter("a"), None)


def kind_of(element: etree._Element) -> str:
    """Return what rows of one kind have in common: the tag and the first class that tells anything; a cell's place."""
    classes = (_DIGITS.sub("", one) for one in (element.get("class") or "").split())
    own = next((one for one in classes if one and one not in _VARYING), "")
    own = own or (_rel(element) if element.tag == "a" else "")
    return f"{element.tag}.{_place(element) if element.tag in ('td', 'th') else own}"


def _place(cell: etree._Element) -> int:
    return sum(1 for _ in islice(cell.itersiblings("td", "th", preceding=True), _MAX_SIBLINGS))


def _parts(name: str) -> list[str]:
    return [part.lower() for part in _NAME_PART.findall(name)]


def _names_of(element: etree._Element, attributes: Iterable[str] = (*_CLASS_NAMES, "id")) -> list[str]:
    return [one for name in attributes for one in (element.get(name) or "")[:_MAX_NAMES_CHARS].split()]


def _words_of(element: etree._Element, attributes: Iterable[str] = (*_CLASS_NAMES, "id")) -> tuple[str, ...]:
    """Return the words of the names that an element has; not what it is said to have, or to be without."""
    words = (takewhile(lambda word: word not in _HAVING, _parts(name)) for name in _names_of(element, attributes))
    return tuple(dict.fromkeys(chain.from_iterable(words)))


def _rel(row: etree._Element) -> str:
    """Return what the link of a row says that it leads to."""
    for node in islice(row.iter("a"), 1):
        words = (node.get("rel") or "").lower().split()
        return next((_ADDRESSES[word] for word in ("category", "author", "tag") if word in words), "")
    return ""


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
