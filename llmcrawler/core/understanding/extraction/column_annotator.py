"""Points at the values of a template's pages without a model: by labels, names of elements, a trained scorer of blocks,
structured data, and by how texts vary over the pages.

A candidate is what stands in the same way on the pages, or behind the same label. Each field takes the candidate that
most evidence speaks for, the surest field first; a field that nothing speaks for clearly is left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, permutations, takewhile
from math import inf
from statistics import fmean
from typing import Any, Final

import numpy as np
from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import KIND_ATTRIBUTES, Induced, Pointed, TrainingPage
from llmcrawler.core.understanding.extraction.candidate_scorer import (
    FieldCandidate,
    ScoredTemplate,
    Spots,
    Where,
    items_of,
    plain,
    probabilities,
    trained_field,
)
from llmcrawler.core.understanding.extraction.candidates import ICON_LABELS
from llmcrawler.core.understanding.extraction.field_names import (
    NAME_PART,
    affinity,
    canonical_name,
    is_furniture,
    schema_paths,
    singular,
    snake_case,
    usual_fields,
    usual_type,
)
from llmcrawler.core.understanding.extraction.labels import (
    FRAME_TAGS,
    FURNITURE,
    LABEL_ATTRIBUTES,
    LETTERS,
    MAX_INLINE_CHARS,
    MAX_ITEMS,
    MAX_LABEL_CHARS,
    MAX_VALUE_CHARS,
    OTHERS,
    ColumnKey,
    Labelled,
    above_heading,
    is_within,
    items_at,
    labelled_values,
)
from llmcrawler.core.understanding.extraction.page_parts import kind_of
from llmcrawler.core.understanding.extraction.queries import TELEPHONE
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType, RequestedSchema
from llmcrawler.core.understanding.extraction.repeated_parts import Repeated, repeated_parts
from llmcrawler.core.understanding.extraction.row_columns import beginning
from llmcrawler.core.understanding.extraction.structured_record import (
    SAID_BETTER,
    PageToRead,
    asked_of,
    structured_record,
)
from llmcrawler.core.understanding.extraction.tree import Work, line_up, text_of
from llmcrawler.core.understanding.extraction.typed_values import UP_TO, fits, read_date
from llmcrawler.core.understanding.extraction.value_scorer import (
    DATE,
    FIELDS,
    STRUCK_OUT,
    BlockColumn,
    ScoredPage,
    score_page,
    sole_amount,
    value_part,
)

_SOME_PAGES: Final = 4  # from so many on, what varies over the pages tells
_LABEL_WEIGHT, _SHAPE_WEIGHT, _UNMARKED_WEIGHT, _OWN_NAME_WEIGHT = 1.0, 0.9, 0.7, 0.7
_OUTER_NAME: Final = 0.6  # of the weight of a name within
_PART_OF_NAME: Final = 0.6
_NAMING_ATTRIBUTES: Final = ("class", "id", "name", "rel", *KIND_ATTRIBUTES)
_SAYING_ATTRIBUTES: Final = (*ICON_LABELS, *LABEL_ATTRIBUTES, "data-field", "data-name", "data-key")
_NAMED_LEVELS: Final = 4
_MAX_NAMES_CHARS: Final = 400
_MAX_NAME_WORDS: Final = 4
# Probabilities that are believed: of what is called as the field is, with and without a request, and of what has a
# label that nobody asked for; of what only looks like the field; of what a label calls something else.
_NAMED_LEAST, _UNASKED_LEAST, _OTHER_LEAST, _LEAST, _OTHERWISE_LEAST = 0.2, 0.3, 0.4, 0.4, 0.6
_HALF: Final = 0.5
_MAX_PRICES: Final = 30
_MAX_BESIDE: Final = 6  # blocks of a column that stand for something each, by their place
_MAX_REDUCTION: Final = 3
_ONE_A_PAGE: Final = 1.05
_PARAGRAPH_CHARS: Final = 80
_MAX_WITH_WORD_CHARS: Final = 80
_MAX_PIECES: Final = 4
_FEW: Final = 0.3
_BETWEEN_PIECES: Final = re.compile(r" ?[|·•–—»›@] ?| - | / |, ?")
_ALIKE: Final = 0.7  # share of pages on which two candidates are the same
_CONSTANT: Final = 0.8
_LEAST_WEIGHT: Final = 0.3
_SAME: Final = 0.9
_KNOWN: Final = 0.7  # a label that means a field so surely is believed without further signs
_WITHOUT_DIGITS: Final = frozenset({"city", "country", "town"})

_SEPARATOR: Final = re.compile(r"\s*[,;:|·•–—]|\s/|\s(?=[A-Z]{2}$)")
# Before a name, and not in "In stock"; or what parts it from the step above.
_BEFORE_VALUE: Final = re.compile(
    r"(?i:at|by|with|in|bei|von|mit|chez|par|avec|à|en|por|con|@) (?=[A-ZÀ-ÞА-Я])|[>»›→|·•–—:]+ (?=\w)"
)
_COUNT: Final = re.compile(r"(?<![\d.,])(\d{1,3}(?:[.,]\d{3}){1,2}|\d{1,6})(?![\d.,])")
_IN_BRACKETS: Final = re.compile(r"\(\d+\)")
_AMOUNT: Final = re.compile(r"\d[\d.,]*")
_COUNT_AND_WORD: Final = re.compile(r"(?<![\d.,])(\d{1,3}(?:[.,]\d{3}){1,3}|\d{1,9})\s([^\W\d_]{3,})")
_OWN_HEADING: Final = re.compile(r"[ck]onta[ck]?t|контакт|連絡|お問", re.IGNORECASE)
_ZIP: Final = (
    r"[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|(?:[A-Z]{1,2}-)?\d{4,6}|\d{3} \d\d|\d\d-\d{3}|\d{4} [A-Z]{2}|\d{5}-\d{3,4}"
)
_TOWN: Final = r"[^\W\d_][^\d_,;:|()]{1,40}?"
_END: Final = r"\s?(?:$|[,;|()·])"
_Shapes = tuple[tuple[str, re.Pattern[str]], ...]
_SHAPES: Final[_Shapes] = tuple(
    (name, re.compile(form, re.IGNORECASE if name in ("telephone", "end_date") else 0))
    for name, form in (
        ("email", r"(?<![\w.+-])([\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5})(?![\w.-])"),
        ("telephone", r"(?:\b(?:tel|phone|fon|fono|tél|tlf|mobile?)\b[.:\w]{0,8}|[☎📞])\s?(\+?[\d() /.-]{6,24}\d)"),
        ("telephone", f"^({TELEPHONE})$"),
        ("end_date", rf"\d.{{0,30}}?{UP_TO}(?:[^\W\d_]{{2,10}}\.?,? )?({DATE.pattern})"),
        ("salary_min", r"(?<![\d.,])(\d{2,3}[., ]\d{3})\D{1,12}\d{2,3}[., ]\d{3}(?!\d)"),
        ("salary_max", r"(?<![\d.,])\d{2,3}[., ]\d{3}\D{1,12}(\d{2,3}[., ]\d{3})(?!\d)"),
    )
)
_PARTS_OF_ADDRESSES: Final[_Shapes] = tuple(
    (name, re.compile(form))
    for name, form in (
        ("postal_code", rf"(?:^|[\s,;])({_ZIP}),?\s{_TOWN}{_END}"),
        ("city", rf"(?:^|[\s,;])(?:{_ZIP}),?\s({_TOWN}){_END}"),
        ("postal_code", rf"{_TOWN},?\s(?:[A-Z]{{2}}\s)?({_ZIP}){_END}"),
        ("city", rf"(?:^|,\s?)({_TOWN}),?\s(?:[A-Z]{{2}}\s)?(?:{_ZIP}){_END}"),
        ("city", rf"\d{{1,4}}\s?[a-zA-Z]?\s?[,·|]\s({_TOWN})$"),
        ("street", r"(?:^|,\s?)([^\W\d_][^\d,;:|()]{2,40}\s\d{1,4}\s?[a-zA-Z]?)\s?(?:$|[,·|])"),
        ("street", r"(?:^|,\s?)(\d{1,4}[a-zA-Z]?,?\s[^\W\d_][^\d,;:|()]{2,40}?)\s?(?:$|[,·|])"),
    )
)
_ADDRESS: Final = Field("address")
_INTEGER: Final = re.compile(r"0|[1-9]\d{0,5}")
_SECTION_TAGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_COUNTED: Final = frozenset(f"num_{one}" for one in "available reviews comments views replies answers left".split())
_NO_BLOCKS: Final = FURNITURE | {"card", "teaser"}


def annotate(pages: Sequence[TrainingPage], page_type: str, requested: RequestedSchema | None) -> Induced:
    """Point at the values of the pages of one template. In the answer a page's id is its place among `pages`.

    `requested` are the fields of a user; without them those that are usual for the page type are looked for, and what
    has a label on the pages. Raises TooCostly."""
    return PagesToAnnotate(pages, page_type, requested).answer()


class PagesToAnnotate:
    def __init__(self, pages: Sequence[TrainingPage], page_type: str, requested: RequestedSchema | None) -> None:
        columns: dict[ColumnKey, BlockColumn] = {}
        self.pages = [score_page(page.blocks(), columns) for page in pages]
        _merge_columns(self.pages)
        self.total = len(pages)
        self.requested = requested
        usual = usual_fields(page_type)
        asked = usual if requested is None else requested.fields
        self.wanted = [replace(one, type=one.type or usual_type(one.name)) for one in asked if not one.group]
        self.untyped = {one.key for one in asked if requested is not None and one.type is None}
        records = [
            structured_record(PageToRead(page.html, page.url, page.title, page.lang, page_type)) or {} for page in pages
        ]
        stated = [
            asked_of(record, self.wanted, base_url=page.url, work=Work()) or {}
            for record, page in zip(records, pages, strict=True)
        ]
        if requested is None:  # what the structured data says is in the record anyway, under schema.org's names
            given = Counter(name for page in stated for name, value in page.items() if value is not None)
            self.wanted = [
                one
                for one in self.wanted
                if given[one.name] < _CONSTANT * self.total or not SAID_BETTER.isdisjoint(schema_paths(one.name))
            ]
        groups = () if requested is None else requested.fields
        self.repeated, self.of_others = repeated_parts([page.page for page in self.pages], page_type, groups)
        self.template = ScoredTemplate(
            self.pages,
            [page.title for page in pages],
            [page.lang for page in pages],
            [set(map(plain, _leaves(record))) for record in records],
            stated,
            usual,
            requested is not None,
            any(part.name == "posts" for part in self.repeated),
        )
        for page in self.pages:
            self.template.counts.update({block.text for block in page.page.blocks})
        self.has_towns = requested is not None or any(one.name == "city" for one in usual)
        in_columns, named = list(self._columns()), [*self._labels(), *self._counts()]
        self.candidates: list[FieldCandidate] = [*in_columns, *named, *self._asked()]
        self.candidates += [*self._parts(), *self._with_words(), *self._pieces(in_columns)]
        self.others = dict(self._other_fields(named)) if requested is None else {}
        self.wanted += self.others
        self.chosen: dict[str, tuple[Field, Spots]] = {}
        self.named: dict[str, str] = {}  # key of a field that is looked for -> of what was chosen, named by its label

    def text(self, place: int, where: Where) -> str:
        return self.template.text(place, where)

    # -- candidates --

    def _columns(self) -> Iterator[FieldCandidate]:
        found: dict[ColumnKey, FieldCandidate] = defaultdict(FieldCandidate)
        elements: dict[ColumnKey, etree._Element | None] = {}
        columns: dict[ColumnKey, BlockColumn] = {}
        for place, page in enumerate(self.pages):
            others = OTHERS - above_heading(page)
            for number, column in enumerate(page.columns, 1):
                if column is not None and column.above.isdisjoint(others):
                    found[column.key].spots.setdefault(place, []).append(((number,), None))
                    elements.setdefault(column.key, page.page.spots[number].element)
                    columns[column.key] = column
        self._mark_list_prices(found)
        for key, one in found.items():
            element = elements[key]
            if element is not None and (_is_of_others(element) or not self.of_others.isdisjoint(line_up(element))):
                continue
            one.names = one.names or _element_names(element)
            if columns[key].frame & STRUCK_OUT:
                one.names["list_price"] = _SHAPE_WEIGHT
            if "h1" in columns[key].frame:
                one.names["title"] = _OWN_NAME_WEIGHT
            yield one
            if one.is_several and element is not None and key[1] is None:
                is_text = element.tag == "p"
                yield replace(one, spots=self._joined(one), is_list=True, is_text=is_text)
                counts = set(map(len, one.spots.values()))
                for at in range(min(counts) if len(counts) == 1 and max(counts) <= _MAX_BESIDE else 0):
                    yield replace(one, spots={place: [spots[at]] for place, spots in one.spots.items()})

    def _joined(self, one: FieldCandidate) -> Spots:
        """Return the blocks of each page as one value, without those that nearly all pages have."""
        often = _CONSTANT * self.total if self.total >= _SOME_PAGES else inf
        joined: Spots = {}
        for place, spots in one.spots.items():
            varied = [where for where in spots if self.template.counts[self.text(place, where)] < often]
            joined[place] = [(tuple(blocks[0] for blocks, _ in (varied or spots)[:MAX_ITEMS]), None)]
        return joined

    def _mark_list_prices(self, found: dict[ColumnKey, FieldCandidate]) -> None:
        """Find the prices that some pages have beside a lower one, and drop what is saved: the difference."""
        amounts: dict[ColumnKey, dict[int, tuple[float, set[etree._Element]]]] = defaultdict(dict)
        for key, one in found.items():
            for place, spots in one.spots.items():
                amount = sole_amount(self.text(place, spots[0])) if len(spots) == 1 else None
                element = self.pages[place].page.spots[spots[0][0][0]].element
                if amount and element is not None and len(amounts) < _MAX_PRICES:
                    amounts[key][place] = amount, set(islice(line_up(element), _NAMED_LEVELS))
        for (key, high), (_, low) in permutations(amounts.items(), 2):
            both = {place for place in high.keys() & low.keys() if high[place][1] & low[place][1]}
            is_lower = all(low[place][0] < high[place][0] < _MAX_REDUCTION * low[place][0] for place in both)
            if is_lower and len({low[place][0] for place in both}) > 1 and len(high) < _CONSTANT * self.total:
                found[key].names = {"list_price": _SHAPE_WEIGHT}
                saved = {place: round(high[place][0] - low[place][0], 2) for place in both}
                for other, values in amounts.items():
                    if all(saved.get(place) == amount for place, (amount, _) in values.items()):
                        found.pop(other, None)

    def _labels(self) -> Iterator[FieldCandidate]:
        """Yield what stands behind labels: texts that many pages have, with others behind them that vary."""
        found: dict[str, dict[int, list[Labelled]]] = defaultdict(lambda: defaultdict(list))
        names_in: dict[ColumnKey, dict[str, None]] = defaultdict(dict)
        for place, page in enumerate(self.pages):
            for one in labelled_values(page, is_requested=self.requested is not None):
                name = snake_case(re.sub(r"\(.*?\)$", "", one.label) if len(one.label) > 24 else one.label)
                if name and len(name) < MAX_LABEL_CHARS and not is_furniture(one.label):
                    found[name][place].append(one)
                    names_in[one.label_column][name] = None
        shares = {key: [min(1.0, len(found[name]) / self.total) for name in names] for key, names in names_in.items()}
        # Of a column that says one of several things on each page these are its values.
        share = {key: fmean(ones) if len(ones) < 3 or sum(ones) > _ONE_A_PAGE else 0.0 for key, ones in shares.items()}
        for name, all_of_name in found.items():
            by_page = self._without_the_sites(all_of_name)
            given = [one for several in by_page.values() for one in several]
            marked = fmean(one.marked for one in given)
            trusted = max(share[one.label_column] for one in given)
            known = max((affinity(one, name) for one in self.wanted), default=0.0)
            if self._is_label(by_page, marked, trusted, is_known=known >= _KNOWN):
                weight = _UNMARKED_WEIGHT + (_LABEL_WEIGHT - _UNMARKED_WEIGHT) * marked
                spots = {place: [several[0].where] for place, several in by_page.items()}
                yield FieldCandidate(spots, {name: weight}, is_label=True)
                items: Spots = {
                    place: [(items_at(self.pages[place], where[0]), None)] for place, [where, *_] in spots.items()
                }
                if fmean(len(blocks) for [(blocks, _)] in items.values()) > _ONE_A_PAGE:
                    yield FieldCandidate(items, {name: weight}, is_label=True, is_list=True)

    def _without_the_sites(self, by_page: Mapping[int, list[Labelled]]) -> Mapping[int, list[Labelled]]:
        """Return the values behind a label without the one that nearly all pages have beside their own: the telephone
        number of the office."""
        texts = {place: [self.text(place, one.where) for one in several] for place, several in by_page.items()}
        counts = Counter(chain.from_iterable(map(dict.fromkeys, texts.values())))
        usual, count = counts.most_common(1)[0]
        own = {
            place: kept
            for place, several in by_page.items()
            if (kept := [one for one, text in zip(several, texts[place], strict=True) if text != usual])
        }
        is_beside = self.total >= _SOME_PAGES and count >= _CONSTANT * self.total and own
        return own if is_beside and all(usual in texts[place] for place in own) else by_page

    def _is_label(
        self, by_page: Mapping[int, Sequence[Labelled]], marked: float, trusted: float, *, is_known: bool
    ) -> bool:
        count, total = len(by_page), self.total
        if not trusted and total >= _SOME_PAGES:
            return False
        values = [self.text(place, several[0].where) for place, several in by_page.items()]
        said = ({self.text(place, one.where) for one in several} for place, several in by_page.items())
        if fmean(map(len, said)) > 1.5:  # a group's
            return False
        if all(map(_IN_BRACKETS.fullmatch, values)):  # how many stand below: "Awards (2)"
            return False
        if total == 1 or (is_known and marked >= 0.5):
            return is_known and marked > 0
        few = count < max(2, 0.3 * total) and (count < max(2, 0.1 * total) or trusted < 0.4)
        if few or (len(set(values)) < 2 and not (is_known and len(values[0]) <= MAX_LABEL_CHARS)):
            return False
        own = fmean(self.template.counts[value] for value in values)
        if count > 3 and own > _CONSTANT * count and not is_known:
            return False
        return marked >= 0.5 or is_known or own * 2 <= count

    def _with_words(self) -> Iterator[FieldCandidate]:
        """Yield texts without a word that calls them as a field is, the first or the last on many pages: "Room 204",
        "Grey cloth upholstery".
        """
        found: dict[tuple[str, bool], Spots] = defaultdict(dict)
        for place, page in enumerate(self.pages):
            for number, column in enumerate(page.columns, 1):
                text = page.page.blocks[number - 1].text
                if column is None or column.key[1] or " " not in text or len(text) > _MAX_WITH_WORD_CHARS:
                    continue
                if not column.frame & FRAME_TAGS and column.above.isdisjoint(FURNITURE):
                    (first, _, rest), (before, _, last) = text.partition(" "), text.rpartition(" ")
                    found[first, True].setdefault(place, [((number,), rest)])
                    found[last, False].setdefault(place, [((number,), before)])
        for (word, _), spots in found.items():
            one = FieldCandidate(spots, {snake_case(word): _OWN_NAME_WEIGHT})
            values = {self.text(place, where) for place, [where] in spots.items()}
            is_often = len(spots) >= max(2, _FEW * self.total) and len(values) >= max(2, _HALF * len(spots))
            if is_often and any(one.weight(field) >= _LEAST_WEIGHT for field in self.wanted):
                yield one

    def _pieces(self, columns: Sequence[FieldCandidate]) -> Iterator[FieldCandidate]:
        """Yield the pieces of texts that signs part into as many on all pages: "Leith, Edinburgh"."""
        for one in columns:
            if one.is_list or one.is_several or len(one.spots) < _SOME_PAGES:
                continue
            texts = {place: self.text(place, spots[0]) for place, spots in one.spots.items()}
            if max(map(len, texts.values())) > _MAX_WITH_WORD_CHARS:
                continue
            sign = _BETWEEN_PIECES.search(next(iter(texts.values())))
            parted = {place: text.split(sign[0]) for place, text in texts.items()} if sign else {}
            if len({len(pieces) for pieces in parted.values()}) != 1:
                continue
            for pieces in islice(zip(*parted.values(), strict=True), _MAX_PIECES):
                spots: Spots = {
                    place: [(one.spots[place][0][0], piece.strip())]
                    for place, piece in zip(parted, pieces, strict=True)
                    if piece.strip()
                }
                if len({spot[0][1] for spot in spots.values()}) > 1:
                    yield FieldCandidate(spots, {name: _PART_OF_NAME * weight for name, weight in one.names.items()})

    def _counts(self) -> Iterator[FieldCandidate]:
        """Yield numbers within texts that are otherwise alike: "In stock (92 available)", "1,204 views, 7 replies"."""
        found: dict[tuple[ColumnKey, str], FieldCandidate] = {}
        for place, page in enumerate(self.pages):
            for number, column in enumerate(page.columns, 1):
                text = page.page.blocks[number - 1].text
                if column is None or column.key[1] or len(text) > 60 or column.frame & FRAME_TAGS:
                    continue
                for count, word, form in _counted(text):
                    name = f"num_{snake_case(word)}"
                    one = found.setdefault((column.key, form), FieldCandidate(names={name: _OWN_NAME_WEIGHT}))
                    one.spots.setdefault(place, []).append(((number,), count))
        for one in found.values():
            several = fmean(len(spots) for spots in one.spots.values())
            values = {self.text(place, spots[0]) for place, spots in one.spots.items()}
            if len(one.spots) >= max(2, 0.5 * self.total) and several == 1 and len(values) > 1:
                yield one

    def _parts(self) -> Iterator[FieldCandidate]:
        """Yield what is told by its form within texts: mail addresses, telephone numbers, the parts of an address."""
        for one in list(self.candidates):
            place, where = next((place, spots[0]) for place, spots in one.spots.items())
            column = self.pages[place].columns[where[0][0] - 1]
            if one.is_list or column is None or column.frame & FRAME_TAGS:
                continue
            is_address = self.has_towns and one.weight(_ADDRESS) >= _LEAST_WEIGHT
            for name, form in (*_SHAPES, *_PARTS_OF_ADDRESSES) if self.has_towns else _SHAPES:
                found: Spots = {}
                for place, spots in one.spots.items():
                    texts = ((where, self.text(place, where)[:MAX_INLINE_CHARS]) for where in spots)
                    matches = [(where[0][:1], match[1]) for where, text in texts if (match := form.search(text))]
                    found |= {place: matches} if matches else {}
                whole = (self.text(place, (spots[0][0], None)) for place, spots in found.items())
                if name == "end_date" and found and all(len(text) <= _PARAGRAPH_CHARS for text in whole):
                    one.names["start_date"] = _SHAPE_WEIGHT  # it starts there, too
                of_address = (name, form) in _PARTS_OF_ADDRESSES
                if len(found) <= (_HALF * len(one.spots) if of_address else 0):
                    continue
                is_whole = all(self.text(place, (spots[0][0], None)) == spots[0][1] for place, spots in found.items())
                weight = _LABEL_WEIGHT if is_whole else _SHAPE_WEIGHT
                yield FieldCandidate(found, {name: weight if is_address or not of_address else _HALF * weight})

    def _other_fields(self, candidates: Sequence[FieldCandidate]) -> Iterator[tuple[Field, FieldCandidate]]:
        """Yield what is no usual field of the page type but has a label, under the name that this gives."""
        named = {one.name for one in self.wanted}
        for one in candidates:
            name = canonical_name(next(iter(one.names)))
            if name in named or not (one.is_label or not _COUNTED.isdisjoint(one.names)):
                continue
            texts = [(place, self.text(place, spots[0])) for place, spots in one.spots.items()]
            # What the structured data says is in the record anyway.
            if fmean(plain(text) in self.template.said[place] for place, text in texts) > _ALIKE:
                continue
            named.add(name)
            said = [text for _, text in texts]
            many = fmean(len(spots[0][0]) for spots in one.spots.values()) > 1.3 and max(map(len, said)) < 300
            yield Field(name, _type_of(name, said), many), one

    def _asked(self) -> Iterator[FieldCandidate]:
        """Yield what is a field only where somebody asks for it: what JSON or a data-* attribute alone says, and where
        links lead that are called so ("Home page").
        """
        found: dict[str, FieldCandidate] = {}
        for place, page in enumerate(self.pages if self.requested is not None else ()):
            for number, spot in page.page.spots.items():
                if spot.json_path is not None:
                    key, called = spot.json_path, spot.json_path.rpartition(".")[2]
                elif spot.attribute == "href" and spot.element is not None:
                    key = called = text_of(spot.element)[:MAX_LABEL_CHARS]
                elif spot.attribute is not None and spot.attribute.startswith("data-"):
                    key, called = spot.attribute, spot.attribute.removeprefix("data-")
                else:
                    continue
                one = found.setdefault(key, FieldCandidate(names={snake_case(called): _OWN_NAME_WEIGHT}))
                one.spots.setdefault(place, []).append(((number,), None))
        yield from found.values()

    @property
    def groups(self) -> set[str]:
        return {one.group for one, _ in self.chosen.values()}

    def overlap(self, one: Mapping[int, list[Where]], other: Mapping[int, list[Where]]) -> float:
        """Return the share of pages on which two candidates are the same value."""
        places = [place for place in one.keys() & other.keys() if one[place] and other[place]]
        both = [(place, one[place][0], other[place][0]) for place in places]
        same = [
            self.text(place, mine) == self.text(place, its) and (mine[0] == its[0] or len(mine[0]) != len(its[0]))
            for place, mine, its in both
        ]
        return sum(same) / max(1, min(len(one), len(other)))

    # -- choice --

    def answer(self) -> Induced:
        taken: list[Spots] = []
        for part in self.repeated if self.total > 1 else ():
            self._add_repeated(part, taken)
        known = self.chosen.keys() | self.groups
        known |= set() if self.requested else {singular(key) for key in self.chosen}
        for one, candidate in self._surest_first([one for one in self.wanted if one.key not in known]):
            _, first = self.chosen.get(self.named.get(one.key, ""), (one, {}))
            if first and _pages_of(first) & candidate.spots.keys():
                continue
            spots = self.values(one, candidate)
            if not _pages_of(spots) or self._is_taken(one, candidate, spots, taken):
                continue
            if first:  # the same field on pages of another layout
                first.update({place: found for place, found in spots.items() if found})
            else:
                label = canonical_name(next(iter(candidate.names))) if candidate.is_label and not self.requested else ""
                texts = (self.text(place, where) for place, some in spots.items() for where in some)
                is_text = one.key in self.untyped and one.type == "url" and not all(fits(text, "url") for text in texts)
                named = replace(one, name=label or one.name, type=None if is_text else one.type)
                if named.key in self.chosen or named.key in self.groups:
                    continue
                self.named[one.key] = named.key
                self.chosen[named.key] = (named, spots)
            taken.append(spots)
        pointed = {key: spots if one.group else self.without_frame(spots) for key, (one, spots) in self.chosen.items()}
        values = {
            str(place): tuple(
                Pointed(key, blocks, quote)
                for key, spots in pointed.items()
                for blocks, quote in (spots[place] or [((), None)] if place in spots else ())
            )
            for place in range(self.total)
        }
        return Induced(tuple(one for one, _ in self.chosen.values()), values)

    def without_frame(self, spots: Spots) -> Spots:
        """Return where the values stand without what all texts have in common before or behind: the template's, as in
        "Foix, FR" on all pages, "Skills:", "at Cobalt Works", or "Sold by" before a link."""
        alone = {
            place: [((number,), quote) for blocks, quote in found for number in blocks]
            for place, found in spots.items()
        }
        texts = [self.text(place, where) for place, found in alone.items() for where in found]
        first = next(iter(texts), "")
        begun = _BEFORE_VALUE.match(first)
        start = begun[0] if begun and all(text.startswith(begun[0]) for text in texts) else ""
        if not start and texts and (said := beginning(texts)):  # "Sold by", before a link
            rest = (
                (place, where[0][0], self.text(place, where)[len(said) :]) for place in alone for where in alone[place]
            )
            start = said if all(self._has_within(*one) for one in rest) else ""
        last = first[-MAX_LABEL_CHARS:]  # no value of a megabyte is taken apart at all its commas
        ends = (last[match.start() :] for match in _SEPARATOR.finditer(last))
        end = next((one for one in ends if all(text.endswith(one) and text != one for text in texts)), "")
        # "875 KB" is no place in a country.
        is_unit = any(text[: len(text) - len(end)].endswith(tuple("0123456789")) for text in texts)
        end = "" if is_unit or any(map(str.isdigit, end)) else end
        if not (start or end) or len(_pages_of(spots)) < _SOME_PAGES:
            return spots
        return {
            place: [
                (blocks, self.text(place, (blocks, quote))[len(start) :].removesuffix(end)) for blocks, quote in found
            ]
            for place, found in alone.items()
        }

    def _has_within(self, place: int, number: int, text: str) -> bool:
        """Tell whether an element within that of a block has just this text."""
        page = self.pages[place].page
        outer, later = page.spots[number].element, page.blocks[number : number + _MAX_BESIDE]
        within = (block for block in later if outer is not None and is_within(page.spots[block.n].element, outer))
        return any(block.text == text for block in within)

    def _pairs(self, one: Spots, other: Spots) -> list[tuple[str, str]]:
        """Return what two candidates say on pages with both; of a date, which may have two forms, the day."""
        both = [(place, one[place][0], other[place][0]) for place in _pages_of(one) & _pages_of(other)]
        texts = [(place, self.text(place, mine), self.text(place, its)) for place, mine, its in both]
        return [
            (_said(mine, self.template.lang[place]), _said(its, self.template.lang[place]))
            for place, mine, its in texts
        ]

    def _add_repeated(self, part: Repeated, taken: list[Spots]) -> None:
        """Add a list or a group of objects: where fields are requested, to those that mean it."""
        names = {one.key: one for one in part.fields}
        if self.requested is not None:
            names = {}
            group = part.fields[0].group
            for one in self.requested.fields:
                if bool(one.group) != bool(group) or not (one.many or one.group or one.type is None):
                    continue
                offered = [
                    other.key
                    for other in part.fields
                    if one.key == other.key or (not group and _means(one.name, other.name))
                ]
                # The path to a page ends with the one category that it is of.
                is_one = part.name == "categories" and not one.many and singular(one.name) == one.name
                typed = replace(one, type=one.type or usual_type(one.name), many=not one.group and not is_one)
                names |= {key: typed for key in offered[:1] if key not in names}
        for key, one in names.items():
            spots: Spots = {}
            for place, values in enumerate(part.values):
                if given := [(value.blocks, value.quote) for value in values if value.field == key]:
                    spots[place] = given if one.many or one.group else [(given[0][0][-1:], None)]
            if spots and one.key not in self.chosen:
                texts = [self.text(place, where) for place, some in spots.items() for where in some]
                # "2019" is when, and no date.
                is_text = one.key in self.untyped and sum(fits(text, one.type) for text in texts) < _HALF * len(texts)
                self.chosen[one.key] = (replace(one, type=None) if one.group and is_text else one, spots)
                taken.append(spots)

    def _is_taken(self, one: Field, candidate: FieldCandidate, spots: Spots, taken: Sequence[Spots]) -> bool:
        """Tell whether what a field is claimed to be is another one: the same day or number, or the title once more, as
        at the end of a breadcrumb, or with a word or two around it."""
        if one.key in self.groups or any(self.overlap(spots, other) > _ALIKE for other in taken):
            return True
        weight = candidate.weight(one)
        is_alike = one.type not in (None, "string", "url") and weight < _LEAST_WEIGHT
        others = [found for other, found in self.chosen.values() if other.type == one.type] if is_alike else []
        both = [self._pairs(spots, other) for other in others]
        if any(sum(mine == its for mine, its in pairs) > _SAME * len(pairs) for pairs in both):
            return True
        titles = next((found for other, found in self.chosen.values() if trained_field(other) == "title"), {})
        pairs = self._pairs(spots, titles)
        most = 2 if weight < _HALF else 1
        return sum(title in text and len(text) <= most * len(title) for text, title in pairs) > _HALF * len(pairs)

    def _surest_first(self, wanted: Sequence[Field]) -> Iterator[tuple[Field, FieldCandidate]]:
        """Yield the fields that are looked for with what is surely enough one of them."""
        odds = probabilities(self.template, self.candidates, wanted)
        found = [
            at
            for at in zip(*np.nonzero(odds > _NAMED_LEAST), strict=True)
            if odds[at] > self._least(wanted[at[0]], self.candidates[at[1]])
        ]
        for at in sorted(found, key=lambda at: (-odds[at], at)):
            yield wanted[at[0]], self.candidates[at[1]]

    def _least(self, one: Field, candidate: FieldCandidate) -> float:
        """Return from what probability on a candidate is believed to be a field."""
        if candidate.weight(one) < _LEAST_WEIGHT:
            return _OTHERWISE_LEAST if candidate.is_label else _LEAST
        return (
            _NAMED_LEAST if self.requested is not None else _UNASKED_LEAST if one not in self.others else _OTHER_LEAST
        )

    def values(self, one: Field, candidate: FieldCandidate) -> Spots:
        """Return where the values of a field stand that a candidate is: the likeliest spot of each page, and the part
        of its text that can be read as one."""
        trained = trained_field(one)
        column = FIELDS.index(trained) if trained else None
        found: Spots = {}
        for place, spots in candidate.spots.items():
            # The first post of a thread is by who has opened it.
            where = spots[0]
            if column is not None and (one.many or not self.template.has_posts):
                where = max(spots, key=lambda where: self.pages[place].scores[where[0][0] - 1, column])
            blocks, quote = where
            text, lang = self.text(place, where), self.template.lang[place]
            if one.many and len(blocks) == 1 and (items := items_of(text)):
                found[place] = [(blocks, item) for item in items]
                continue
            part = text if len(blocks) > 1 else self._part(one, trained, text, quote, lang)
            if part is None and len(text) <= _PARAGRAPH_CHARS and candidate.is_label and candidate.weight(one) >= _SAME:
                form = replace(one, type=None) if one.key in self.untyped else one
                part = self._part(form, None, text, quote, lang)  # in whatever form
            found[place] = [] if part is None else [(blocks, None if part == text and quote is None else part)]
        return found

    def _part(self, one: Field, trained: str | None, text: str, quote: str | None, lang: str) -> str | None:
        if one.type == "date" and read_date(text, lang):
            return text
        trained = trained or ("start_date" if one.type == "date" else None)
        part = quote or (value_part(trained, text) if trained else text)
        if part is None or (one.type not in (None, "string") and not fits(part, one.type)):
            return None
        if one.name in _WITHOUT_DIGITS and any(map(str.isdigit, part)):
            return None
        return part if len(part) <= MAX_VALUE_CHARS or one.type in (None, "string") else None


def _merge_columns(pages: Sequence[ScoredPage]) -> None:
    """Make one column of those that differ in a class only, where no page has two of them: the class is a value itself,
    as in "job-type full-time", or the category of a post."""
    alike: dict[tuple[Any, ...], dict[ColumnKey, set[int]]] = defaultdict(lambda: defaultdict(set))
    ways: dict[ColumnKey, tuple[Any, ...]] = {}
    for place, page in enumerate(pages):
        for number, column in enumerate(page.columns, 1):
            element = page.page.spots[number].element
            if column is not None and element is not None:
                key = column.key
                if key not in ways:
                    ways[key] = (*map(kind_of, line_up(element)), *key[1:])
                alike[ways[key]][key].add(place)
    merged: dict[ColumnKey, ColumnKey] = {}
    for keys in alike.values():
        if len(keys) > 1 and sum(map(len, keys.values())) == len(set[int]().union(*keys.values())):
            merged |= dict.fromkeys(keys, min(keys))
    kept = {one.key: one for page in pages for one in page.columns if one is not None}
    for page in pages:
        page.columns[:] = (one and kept[merged.get(one.key, one.key)] for one in page.columns)


def _counted(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the numbers of a text that count something, with what they count and the text that is alike on pages."""
    numbers = _COUNT.findall(text)
    if len(numbers) == 1 == len(_AMOUNT.findall(text)) and LETTERS.search(text):
        before, _, after = text.partition(numbers[0])
        word = next(iter(LETTERS.findall(after)), "") or next(iter(LETTERS.findall(before)[::-1]), "")
        yield numbers[0], word, f"{before}#{after}" if len(after) > 30 else f"#{after}" if after else before
        return
    several = _COUNT_AND_WORD.findall(text)
    if len(several) > 1 and len(several) == len(_AMOUNT.findall(text)):
        yield from ((count, word, f"# {singular(word)}") for count, word in several)


def _leaves(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
        elif one is not None:
            yield str(one)


def _said(text: str, lang: str) -> str:
    return (read_date(text, lang) or text)[:10] if len(text) <= MAX_LABEL_CHARS else text


def _means(requested: str, name: str) -> bool:
    return requested == name or affinity(Field(requested), name) >= _KNOWN


def _pages_of(spots: Spots) -> set[int]:
    return {place for place, found in spots.items() if found}


def _type_of(name: str, texts: Sequence[str]) -> FieldType:
    if all(map(_INTEGER.fullmatch, texts)):
        return "integer"
    if affinity(Field(name), "price") >= _KNOWN and all(fits(text, "number") for text in texts):
        return "number"
    return "string"


def _element_names(element: etree._Element | None) -> dict[str, float]:
    """Return what an element is called by its classes, id and the like, and by those of what is around it: name ->
    weight."""
    names: dict[str, float] = {}
    weight = _OWN_NAME_WEIGHT
    for node in islice(line_up(element), _NAMED_LEVELS) if element is not None else ():
        called = " ".join(node.get(attribute) or "" for attribute in _NAMING_ATTRIBUTES)[:_MAX_NAMES_CHARS].split()
        for value in called:
            outer, _, within = value.rpartition("__")  # "product__price" is the price of a product
            is_other = not outer or not _NO_BLOCKS.isdisjoint(NAME_PART.findall(outer.lower()))
            for called_so in (value,) if is_other else (value, within):
                words = [word.lower() for word in NAME_PART.findall(called_so)][:_MAX_NAME_WORDS]
                for at in range(len(words)):  # "price_color" may be a color, but is rather something else
                    name = "_".join(words[at:])
                    names[name] = max(names.get(name, 0.0), weight * _PART_OF_NAME**at)
        if node.tag == "address":
            names["address"] = max(names.get("address", 0.0), _OWN_NAME_WEIGHT * _OUTER_NAME)
        said = [snake_case((node.get(attribute) or "")[:_MAX_NAMES_CHARS]) for attribute in _SAYING_ATTRIBUTES]
        names |= {name: max(names.get(name, 0.0), weight) for name in said if name}
        weight *= _OUTER_NAME if called or any(said) else 1.0
    return names


def _is_of_others(element: etree._Element) -> bool:
    """Tell whether the heading over what an element stands in says that it is of other pages: "You might also like"."""
    own = next(element.getroottree().iter("h1"), None)
    around = set(line_up(own)) if own is not None else {element}
    for node in takewhile(lambda one: one not in around, line_up(element)):
        heading = next(node.itersiblings(*_SECTION_TAGS[1:], preceding=True), None)
        text = text_of(heading)[:MAX_LABEL_CHARS] if heading is not None else ""
        if LETTERS.search(text) and is_furniture(text) and not _OWN_HEADING.search(text):
            return True
    return False
