"""Pages as rows of a flat table whose record columns are not known before the last page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from llmcrawler.feeds.columns import Column
from llmcrawler.feeds.values import as_json, clean, flatten

RECORD: Final = "record"
_MAX_FOUND_COLUMNS = 1000
_MAX_NAME_CHARS = 300

# What spreadsheets take for the beginning of a formula (OWASP, CSV Injection), and what looks so and is a number.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]([0-9][0-9.,]*|\.[0-9]+)([eE][+-]?[0-9]+)?%?")


def neutral(cell: Any) -> Any:
    """The cell with an apostrophe before what a spreadsheet would work out as a formula."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


class FlatTable:
    """Columns of the item's class come first, the fields of records as they are first seen. Pages may make up names
    without end: those beyond `max_found`, and very long ones, go as JSON into one column, `record`.
    """

    def __init__(self, columns: Sequence[Column], *, max_found: int = _MAX_FOUND_COLUMNS) -> None:
        self._base = {
            name: None
            for column in columns
            if column.name != RECORD
            for name in ([f"{column.name}.{part.name}" for part in column.parts] or [column.name])
        }
        self._structs = frozenset(column.name for column in columns if column.parts)
        self._found: dict[str, None] = {}
        self._max_found = max_found
        self._has_rest = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self._base, *self._found, *([RECORD] if self._has_rest else []))

    def row_of(self, line: Mapping[str, Any]) -> dict[str, Any]:
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
        if name == RECORD or len(self._found) >= self._max_found or len(name) > _MAX_NAME_CHARS:
            return False
        self._found[name] = None
        return True
