"""Packs the list of pages into columns, where texts that come again and again are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llmcrawler.core.reporting.text import plain

_TITLE_CHARS = 160
_URL_CHARS = 2_000
_MESSAGE_CHARS = 200
_NAMED = ("origin", "site", "type", "template", "error", "way", "change")


class PageRows:
    """The first `limit` pages; `left_out` counts the others."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left_out = 0
        self._names: dict[str, dict[str, int]] = {name: {} for name in _NAMED}  # to their numbers, as they came
        self._columns: dict[str, list[Any]] = {
            name: [] for name in (*_NAMED, "path", "title", "status", "depth", "ms", "sure")
        }
        self._messages: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._columns["path"])

    def add(self, item: Mapping[str, Any], place: tuple[str, str, str, str, str]) -> int | None:
        """Add a page with the names of its origin, site, type, template and error ("stage/kind", empty without one).
        Return its row, None where the list is full.
        """
        if len(self) >= self.limit:
            self.left_out += 1
            return None
        if place[-1]:
            message = (item.get("error") or {}).get("message") or ""
            self._messages[len(self)] = _cut(plain(message), _MESSAGE_CHARS)
        way, change = (plain(item.get(name) or "")[:100] for name in ("decided_by", "change"))
        for name, text in zip(_NAMED, (*place, way, change), strict=True):
            numbers = self._names[name]
            self._columns[name].append(numbers.setdefault(text, len(numbers)))
        latency, confidence = _number(item.get("latency_seconds")), _number(item.get("confidence"))
        values = {
            "path": str(item["url"])[:_URL_CHARS].removeprefix(place[0]),
            "title": _cut(plain(item.get("title") or ""), _TITLE_CHARS),
            "status": _number(item.get("status")),
            "depth": _number(item.get("depth")),
            "ms": None if latency is None else round(1000 * latency),
            "sure": None if confidence is None else round(100 * confidence),
        }
        for name, value in values.items():
            self._columns[name].append(value)
        return len(self) - 1

    def as_json(self) -> dict[str, Any]:
        """Return `columns` by name; those in `names` hold numbers of names. `messages` are those of errors, by row."""
        names = {name: list(numbers) for name, numbers in self._names.items()}
        return {"names": names, "columns": self._columns, "messages": self._messages}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None  # JSON has no NaN, and Python reads it all the same
