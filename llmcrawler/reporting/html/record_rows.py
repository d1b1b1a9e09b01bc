"""Packs the records of a crawl for the table of a report: by page type, as each type has fields of its own."""

from __future__ import annotations

import json
import math
from typing import Any

from llmcrawler.reporting.text import plain

_MAX_CHARS = 8_000_000  # of all values; records beyond are left out
_MAX_TYPES = 200
_MAX_FIELDS = 60
_VALUE_CHARS = 200
_NAME_CHARS = 80


class RecordRows:
    """The records that the table shows; `left_out` counts the others."""

    def __init__(self, max_chars: int = _MAX_CHARS) -> None:
        self.left_out = 0
        self._left = max_chars
        self._fields: dict[str, dict[str, int]] = {}
        self._rows: dict[str, list[list[Any]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, row: int | None, page_type: str, record: dict[str, Any]) -> None:
        """Add the record of the page in this row of the list, None for a page that is not listed."""
        if row is None or self._left <= 0 or (page_type not in self._rows and len(self._rows) >= _MAX_TYPES):
            self.left_out += 1
            return
        fields = self._fields.setdefault(page_type, {})
        values: list[Any] = [row, *[None] * len(fields)]
        for name, value in record.items():
            if name not in fields and len(fields) >= _MAX_FIELDS:
                continue
            place = 1 + fields.setdefault(name, len(fields))
            values += [None] * (place + 1 - len(values))
            values[place] = shown_value(value)
            self._left -= len(str(values[place])) + 8
        self._rows.setdefault(page_type, []).append(values)

    def as_json(self) -> dict[str, Any]:
        """Return `fields` and `rows` by page type; a row has the number of its page, then the values of the fields."""
        return {
            name: {"fields": [plain(one)[:_NAME_CHARS] for one in self._fields[name]], "rows": rows}
            for name, rows in sorted(self._rows.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        }


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
