"""Makes rows of a table from the records of pages: columns of one type each, by the user's schema or by the values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from llmcrawler.core.storage.feeds.tables import MAX_FOUND_COLUMNS, MAX_NAME_CHARS, RECORD, Column, Kind, as_json, clean
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType
from llmcrawler.core.understanding.extraction.typed_values import read_amount

URL: Final = "url"
PAGE_TYPE: Final = "page_type"
_OF_PAGE: Final = (URL, PAGE_TYPE)

_KINDS: Final[Mapping[FieldType, Kind]] = {
    "string": "text",
    "date": "text",
    "url": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "flag",
}
# Words in the names of columns whose digits are no amount, though they may look so: nobody adds them up.
_NAMED: Final = frozenset(
    """
    id ids uid uuid guid sku upc ean gtin isbn issn asin mpn barcode serial code codes ref reference model version
    zip zipcode postcode postal plz phone telephone tel fax mobile iban bic vat account title name headline
    """.split()
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CODE_DIGITS: Final = 5  # whole numbers of so many digits, all of one length, are codes: zip codes, article numbers
_INT64: Final = 2**63


@dataclass(slots=True)
class _ColumnValues:
    """The values that a column without a given type has had so far."""

    kinds: set[str] = field(default_factory=set)
    currencies: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)  # of whole numbers that are written in digits only
    is_list: bool = False

    def note(self, value: Any, lang: str) -> None:
        if isinstance(value, list):
            self.is_list = True
            for one in value:
                self.note(one, lang)
        elif value is not None:
            self.kinds.add(self._kind(value, lang))

    def _kind(self, value: Any, lang: str) -> str:
        if isinstance(value, str):
            amount = read_amount(value, lang)
            if amount is None:
                return "text"
            number, currency = amount
            if currency:
                self.currencies.add(currency)
            self.lengths.add(len(value) if value.isdigit() else 0)
            return "numeral" if isinstance(number, int) else "decimal"
        if isinstance(value, bool):
            return "flag"
        if isinstance(value, int):
            return "integer" if -_INT64 <= value < _INT64 else "text"
        return "number" if isinstance(value, float) else "json"

    def kind(self, name: str) -> Kind:
        if "json" in self.kinds:
            return "json"
        if self.kinds == {"flag"}:
            return "flag"
        if not self.kinds or self.kinds & {"text", "flag"}:
            return "text"
        # Numbers may be codes, or lose what tells their currencies apart.
        are_codes = len(self.lengths) == 1 and min(self.lengths) >= _CODE_DIGITS
        are_named = not _NAMED.isdisjoint(word.lower() for word in _WORD.findall(name))
        if self.kinds & {"numeral", "decimal"} and (are_codes or len(self.currencies) > 1 or are_named):
            return "text"
        return "integer" if self.kinds <= {"integer", "numeral"} else "number"


class RecordTable:
    """A table with a row for each record: url and page type, then the fields that were asked for, then others in the
    order they are met. A nested field is named by its path. Types are those of `fields`; columns without a given type
    get theirs from all of their values: so `columns` and `typed` are for the time when all rows are there.

    Pages may make up names without end: fields beyond `max_found` are JSON in one column, `record`."""

    def __init__(self, fields: Sequence[Field] = (), *, max_found: int = MAX_FOUND_COLUMNS) -> None:
        self._given: dict[str, Column] = {}
        self._seen: dict[str, _ColumnValues] = {}
        for one in fields:
            name = _column_name(one.group or one.name)
            if one.group:
                self._given[name] = Column(name, "json", many=True)
            elif one.type is not None:
                self._given[name] = Column(name, _KINDS[one.type], many=one.many)
            self._seen.setdefault(name, _ColumnValues(is_list=one.many))
        self._room = max_found
        self._has_rest = False

    @property
    def columns(self) -> tuple[Column, ...]:
        found = (
            self._given.get(name) or Column(name, seen.kind(name), many=seen.is_list)
            for name, seen in self._seen.items()
        )
        return (*(Column(name, "text") for name in _OF_PAGE), *found, *([Column(RECORD, "json")] * self._has_rest))

    def row_of(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a page line by the names of their columns, as the page has them, in plain JSON."""
        row: dict[str, Any] = {name: line.get(name) for name in _OF_PAGE}
        rest: dict[str, Any] = {}
        for path, value in _leaves(clean(line[RECORD])):
            name = _column_name(path)
            if name not in self._seen and self._room > 0 and len(name) <= MAX_NAME_CHARS and name != RECORD:
                self._room -= 1
                self._seen[name] = _ColumnValues()
            if name in self._seen:
                row[name] = value
                self._seen[name].note(value, line.get("lang") or "")
            else:
                rest[path] = value
        if rest:
            self._has_rest = True
            row[RECORD] = rest
        return row


def typed_cell(column: Column, value: Any, lang: str = "") -> Any:
    """Return a value of a row in the type of its column; None where that cannot hold it. `lang` is the page's."""
    if value is None or column.kind in ("json", "struct"):
        return value
    if column.many:
        cells = [_typed(column.kind, one, lang) for one in (value if isinstance(value, list) else [value])]
        return [one for one in cells if one is not None]
    return _typed(column.kind, value, lang)


def _typed(kind: Kind, value: Any, lang: str) -> Any:
    if kind == "text":
        return value if isinstance(value, str) or value is None else as_json(value)
    if kind == "flag":
        return value if isinstance(value, bool) else None
    amount = read_amount(value, lang) if isinstance(value, str) else None
    number = amount[0] if amount is not None else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    return float(number) if kind == "number" else int(number)


def _column_name(path: str) -> str:
    return f"{RECORD}.{path}" if path in _OF_PAGE else path


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a nested object holds, with paths such as `offer.price`. Lists are whole, empty objects nothing."""
    if not isinstance(value, dict) or len(path) > MAX_NAME_CHARS:
        yield path, value
        return
    for name, one in value.items():
        yield from _leaves(one, f"{path}.{name}" if path else name)
