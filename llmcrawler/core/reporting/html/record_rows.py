"""Packs the records of a crawl for the table of a report: by page type, as each type has fields of its own."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from llmcrawler.core.reporting.text import plain

_MAX_CHARS = 8_000_000  # of all values; records beyond are left out
_MAX_TYPES = 200
_MAX_FIELDS = 60
_VALUE_CHARS = 200
_NAME_CHARS = 80
_LONG_CHARS = 40  # a column of texts that are longer on average stands behind the others
_NEARLY_ALL = 0.9


class RecordRows:
    """The records that the table shows; `left_out` counts the others."""

    def __init__(self, max_chars: int = _MAX_CHARS) -> None:
        self.left_out = 0
        self._left = max_chars
        self._fields: dict[str, dict[str, int]] = {}
        self._rows: dict[str, list[list[Any]]] = {}
        self._in_title: dict[str, Counter[str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, row: int | None, page_type: str, record: dict[str, Any], title: str = "") -> None:
        """Add the record of the page in this row of the list, None for a page that is not listed. `title` is that of
        the page.
        """
        if row is None or self._left <= 0 or (page_type not in self._rows and len(self._rows) >= _MAX_TYPES):
            self.left_out += 1
            return
        fields = self._fields.setdefault(page_type, {})
        values: list[Any] = [row, *[None] * len(fields)]
        in_title = self._in_title.setdefault(page_type, Counter())
        for name, value in record.items():
            if name not in fields and len(fields) >= _MAX_FIELDS:
                continue
            place = 1 + fields.setdefault(name, len(fields))
            values += [None] * (place + 1 - len(values))
            values[place] = shown_value(value)
            self._left -= len(str(values[place])) + 8
            in_title[name] += isinstance(value, str) and _begins(title, value)
        self._rows.setdefault(page_type, []).append(values)

    def as_json(self) -> dict[str, Any]:
        """Return `fields`, `rows` and `head` by page type. A row has the number of its page, then the values of the
        fields: short ones that most records have come first, long texts last. `head` is the place of the field that the
        titles of the pages repeat, None where none is.
        """
        found = {}
        for page_type, rows in sorted(self._rows.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            names = list(self._fields[page_type])
            columns = {name: [_at(row, 1 + place) for row in rows] for place, name in enumerate(names)}
            ordered = sorted(names, key=lambda name: _rank(columns[name]))
            repeated, count = (self._in_title[page_type].most_common(1) or [("", 0)])[0]
            found[page_type] = {
                "fields": [plain(name)[:_NAME_CHARS] for name in ordered],
                "rows": [[row[0], *(columns[name][at] for name in ordered)] for at, row in enumerate(rows)],
                "head": ordered.index(repeated) if count >= _NEARLY_ALL * len(rows) else None,
            }
        return found


def _begins(title: str, value: str) -> bool:
    """Tell whether the title of a page is this value, perhaps with the name of the site after it."""
    words, start = ("".join(text.split()).casefold() for text in (title, value))
    return bool(start) and words.startswith(start)


def _at(row: list[Any], place: int) -> Any:
    return row[place] if place < len(row) else None


def _rank(column: list[Any]) -> tuple[bool, bool]:
    """Return what columns are ordered by: whether their texts are long, and whether most records have no value."""
    texts = [str(value) for value in column if value is not None]
    return sum(map(len, texts)) > _LONG_CHARS * len(texts), 2 * len(texts) < len(column)


def shown_value(value: Any, max_chars: int = _VALUE_CHARS) -> Any:
    """Return a value of a record as JSON that is short: a number, or a text; None where there is none."""
    if value in (None, "", [], {}):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        value = ", ".join(map(str, value[:max_chars]))
    text = plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
