"""Pages as rows of a table. Columns come from the item's class, so that every file of every crawl has the same."""

from __future__ import annotations

import json
import math
import re
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

MAX_DEPTH: Final = 100  # of values in values; what lies deeper is left out
_MAX_BITS = 10_000  # of a number; Python writes none of more than 4,300 digits
_MAX_NAME_CHARS = 200  # from which on a flat name gets no further parts


def clean(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the value as JSON in UTF-8 can say it: finite numbers, whole surrogate pairs, no deeper than `depth`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else None
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(name)): clean(one, depth - 1) for name, one in value.items()} if depth else None
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(one, depth - 1) for one in value] if depth else None
    return clean_text(str(value))


def clean_text(text: str) -> str:
    """Join halves of surrogate pairs that belong together; replace the others with U+FFFD."""
    if text.isascii():  # Python knows it without a look at the text
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def as_json(value: Any) -> str:
    """Return a clean value as JSON text."""
    return json.dumps(value, ensure_ascii=False)


def flatten(name: str, value: Any) -> dict[str, Any]:
    """Flatten a clean value to scalars: {"price": {"amount": 1}}, called "record", becomes {"record.price.amount": 1}.
    Lists, and what would get too long a name, become JSON.
    """
    flat: dict[str, Any] = {}
    _flatten(name, value, flat, Counter())
    return flat


def _flatten(name: str, value: Any, flat: dict[str, Any], taken: Counter[str]) -> None:
    if isinstance(value, dict) and (len(name) <= _MAX_NAME_CHARS or not value):
        for part, one in value.items():
            _flatten(f"{name}.{part}", one, flat, taken)
        return
    free = name
    while free in flat:  # {"a.b": 1, "a": {"b": 2}}
        taken[name] += 1
        free = f"{name}_{taken[name] if taken[name] > 1 else ''}"
    flat[free] = as_json(value) if isinstance(value, (dict, list)) else value


RECORD: Final = "record"
MAX_FOUND_COLUMNS: Final = 1000
MAX_NAME_CHARS: Final = 300

Kind = Literal["text", "integer", "number", "flag", "json", "struct"]
_KINDS: Mapping[Any, Kind] = {str: "text", int: "integer", float: "number", bool: "flag"}
_INT64 = 2**63

# Beginnings that spreadsheets take for a formula (OWASP, CSV Injection), and numbers that look so.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]([0-9][0-9.,]*|\.[0-9]+)([eE][+-]?[0-9]+)?%?")


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table. `parts` are those of a struct; json is JSON text. `many`: a cell is a list of such values."""

    name: str
    kind: Kind
    parts: tuple[Column, ...] = ()
    many: bool = False


def columns_of(item_class: type) -> tuple[Column, ...]:
    """Return the columns of a dataclass, by its type hints."""
    columns, hints = [], get_type_hints(item_class)
    for name, hint in ((one.name, hints[one.name]) for one in fields(item_class)):
        if get_origin(hint) in (Union, types.UnionType):
            others = [one for one in get_args(hint) if one is not types.NoneType]
            hint = others[0] if len(others) == 1 else object  # noqa: PLW2901 - the hint without None
        is_struct = is_dataclass(hint) and isinstance(hint, type)
        columns.append(
            Column(name, "struct", columns_of(hint)) if is_struct else Column(name, _KINDS.get(hint, "json"))
        )
    return tuple(columns)


def fitted(column: Column, value: Any) -> Any:
    """Return a clean value in the type of its column. Raises ValueError where the column cannot hold it."""
    if value is None:
        return None
    if column.many and column.kind != "json" and isinstance(value, list):
        return [fitted(replace(column, many=False), one) for one in value]
    match column.kind:
        case "json":
            return as_json(value)
        case "text":
            return value if isinstance(value, str) else as_json(value)
        case "flag" if isinstance(value, bool):
            return value
        case "integer" if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
            return value
        case "number" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        case "struct" if isinstance(value, dict):
            return {part.name: fitted(part, value.get(part.name)) for part in column.parts}
    raise ValueError(f"{column.name} is not of type {column.kind}: {value!r:.100}")


def neutral(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would take for a formula."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


class FlatTable:
    """A flat table of the columns of the item's class, those of a record that was `asked` for, and those of records as
    they come. Fields beyond `max_found`, and those with very long names, go as JSON into the column `record`.
    """

    def __init__(
        self, columns: Sequence[Column], asked: Mapping[str, Any] | None = None, *, max_found: int = MAX_FOUND_COLUMNS
    ) -> None:
        self._base = {
            name: None
            for column in columns
            if column.name != RECORD
            for name in ([f"{column.name}.{part.name}" for part in column.parts] or [column.name])
        }
        self._structs = frozenset(column.name for column in columns if column.parts)
        self._found: dict[str, None] = dict.fromkeys(flatten(RECORD, asked) if asked else ())
        self._max_found = max_found
        self._has_rest = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self._base, *self._found, *([RECORD] if self._has_rest else []))

    def row_of(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cells of a page by the names of their columns; adds the columns that are new."""
        cells: dict[str, Any] = {}
        for name, value in line.items():
            cleaned = clean(value)
            if name in self._structs or (name == RECORD and isinstance(cleaned, dict)):
                cells |= flatten(name, cleaned) if cleaned else {}
            elif name != RECORD or cleaned is not None:
                cells[name] = as_json(cleaned) if isinstance(cleaned, (dict, list)) else cleaned
        row = {name: value for name, value in cells.items() if self._has_place(name)}
        rest = {name.removeprefix(f"{RECORD}."): value for name, value in cells.items() if name not in row}
        if rest:
            self._has_rest = True
            # A record that is no object has no fields to name.
            row[RECORD] = rest[RECORD] if rest.keys() == {RECORD} else as_json(rest)
        return row

    def _has_place(self, name: str) -> bool:
        if name in self._base or name in self._found:
            return True
        if name == RECORD or len(self._found) >= self._max_found or len(name) > MAX_NAME_CHARS:
            return False
        self._found[name] = None
        return True
