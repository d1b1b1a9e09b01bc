"""The list of pages, as columns: texts that come again and again are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcrawler.reporting.plain_text import plain

_TITLE_CHARS = 160
_URL_CHARS = 2_000
_MESSAGE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page belongs, by name; `error` is "stage/kind", empty for a page without one."""

    origin: str
    site: str
    page_type: str
    template: str
    error: str


class _Names:
    """Each name once, in the order in which they came."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))


class PageRows:
    """The first `limit` pages."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left_out = 0
        self._names = {name: _Names() for name in ("origin", "site", "type", "template", "error", "way", "change")}
        self._columns: dict[str, list[Any]] = {
            name: [] for name in (*self._names, "path", "title", "status", "depth", "ms", "sure")
        }
        self._messages: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._columns["path"])

    def add(self, line: Mapping[str, Any], place: Place) -> None:
        if len(self) >= self.limit:
            self.left_out += 1
            return
        url = str(line["url"])[:_URL_CHARS]
        latency, sure = line.get("latency_seconds"), line.get("confidence")
        names = {
            "origin": place.origin,
            "site": place.site,
            "type": place.page_type,
            "template": place.template,
            "error": place.error,
            "way": plain(line.get("decided_by") or "")[:100],
            "change": plain(line.get("change") or "")[:100],
        }
        values = {
            "path": url.removeprefix(place.origin),
            "title": _cut(plain(line.get("title") or ""), _TITLE_CHARS),
            "status": _number(line.get("status")),
            "depth": _number(line.get("depth")),
            "ms": None if _number(latency) is None else round(1000 * float(latency or 0)),
            "sure": None if _number(sure) is None else round(100 * float(sure or 0)),
        }
        if place.error:
            message = (line.get("error") or {}).get("message") or ""
            self._messages[len(self)] = _cut(plain(message), _MESSAGE_CHARS)
        for name, text in names.items():
            self._columns[name].append(self._names[name].number(text))
        for name, value in values.items():
            self._columns[name].append(value)

    def as_json(self) -> dict[str, Any]:
        """`columns` by name; those in `names` hold numbers of names. `messages` are those of errors, by row."""
        names = {name: list(one.numbers) for name, one in self._names.items()}
        return {"names": names, "columns": self._columns, "messages": self._messages}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None  # JSON has no NaN, and Python reads it all the same
