"""Counts and lists what a report says of a crawl's pages as they come: bounded, but for one row a listed page."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Any

from llmcrawler.core.reporting.account import CountedLine, CrawlAccount, short
from llmcrawler.core.reporting.html.sources import FeedItem
from llmcrawler.core.reporting.text import many, plain, shown_value
from llmcrawler.core.storage import marks_of

_MAX_RECORD_CHARS = 8_000_000  # of all values; records beyond are left out
_MAX_TYPES = 200
_MAX_FIELDS = 60
_NAME_CHARS = 80
_LONG_CHARS = 40  # a column of texts that are longer on average stands behind the others
_NEARLY_ALL = 0.9

_TITLE_CHARS = 160
_URL_CHARS = 2_000
_MESSAGE_CHARS = 200
_NAMED = ("origin", "site", "type", "template", "error", "way", "change")
_COLUMNS = (*_NAMED, "path", "title", "status", "depth", "ms", "sure")

_MAX_CHANGED = 200


class RecordRows:
    """The records that the table shows; `left_out` counts the others."""

    def __init__(self, max_chars: int = _MAX_RECORD_CHARS) -> None:
        self.left_out = 0
        self._left = max_chars
        self._rows: dict[str, list[tuple[int, dict[str, Any]]]] = {}  # by page type, with the numbers of the pages
        self._in_title: dict[str, Counter[str]] = {}  # all fields of a page type, and how often titles repeat them

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, row: int | None, page_type: str, record: dict[str, Any], title: str = "") -> None:
        if row is None or self._left <= 0 or (page_type not in self._rows and len(self._rows) >= _MAX_TYPES):
            self.left_out += 1
            return
        in_title, values = self._in_title.setdefault(page_type, Counter()), dict[str, Any]()
        title = "".join(title.split()).casefold()
        for name, value in record.items():
            if name not in in_title and len(in_title) >= _MAX_FIELDS:
                continue
            values[name] = shown_value(value)
            self._left -= len(str(values[name])) + 8
            # A title may have the name of the site after the value.
            start = "".join(value.split()).casefold() if isinstance(value, str) else ""
            in_title[name] += bool(start) and title.startswith(start)
        self._rows.setdefault(page_type, []).append((row, values))

    def as_json(self) -> dict[str, Any]:
        """Return `fields`, `rows` and `head` by page type. A row is the number of its page and the values: short,
        common fields first, long texts last. `head` is the place of the field that page titles repeat, if any.
        """
        found = {}
        for page_type, rows in sorted(self._rows.items(), key=lambda pair: (-len(pair[1]), pair[0])):
            ranks = {}
            for name in self._in_title[page_type]:
                texts = [str(value) for _row, values in rows if (value := values.get(name)) is not None]
                ranks[name] = sum(map(len, texts)) > _LONG_CHARS * len(texts), 2 * len(texts) < len(rows)
            ordered = sorted(ranks, key=ranks.__getitem__)
            repeated, count = (self._in_title[page_type].most_common(1) or [("", 0)])[0]
            found[page_type] = {
                "fields": [plain(name)[:_NAME_CHARS] for name in ordered],
                "rows": [[row, *map(values.get, ordered)] for row, values in rows],
                "head": ordered.index(repeated) if count >= _NEARLY_ALL * len(rows) else None,
            }
        return found


class PageRows:
    """The first `limit` pages; `left_out` counts the others."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.left_out = 0
        self._names: dict[str, dict[str, int]] = {name: {} for name in _NAMED}  # to their numbers, as they came
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._messages: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._columns["path"])

    def add(self, item: FeedItem, counted: CountedLine) -> int | None:
        row = len(self)
        if row >= self.limit:
            self.left_out += 1
            return None
        if counted.error:
            self._messages[row] = _cut((item.get("error") or {}).get("message"), _MESSAGE_CHARS)
        place = (counted.origin, counted.site, counted.page_type, counted.template, counted.error)
        names = (*place, short(item.get("decided_by")), short(item.get("change")))
        latency, confidence = _number(item.get("latency_seconds")), _number(item.get("confidence"))
        values = (
            *(
                numbers.setdefault(name, len(numbers))
                for numbers, name in zip(self._names.values(), names, strict=True)
            ),
            str(item["url"])[:_URL_CHARS].removeprefix(counted.origin),
            _cut(item.get("title"), _TITLE_CHARS),
            _number(item.get("status")),
            _number(item.get("depth")),
            None if latency is None else round(1000 * latency),
            None if confidence is None else round(100 * confidence),
        )
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)
        return row

    def as_json(self) -> dict[str, Any]:
        """Return `columns` by name; those in `names` hold numbers of names. `messages` are those of errors, by row."""
        names = {name: list(numbers) for name, numbers in self._names.items()}
        return {"names": names, "columns": self._columns, "messages": self._messages}


class Digest(CrawlAccount):
    """The account of a report, with pages and records listed and counts by depth. `timed` has (Unix time,
    latency in seconds, is an error) `with_times`, for a feed: it has no other timeline.
    """

    def __init__(self, max_listed: int, *, with_times: bool = False) -> None:
        super().__init__()
        self.rows = PageRows(max_listed)
        self.record_rows = RecordRows()
        self.rights: Counter[str] = Counter()  # as core/storage/rights_marks.py marks pages
        self.depths: Counter[tuple[int, str]] = Counter()
        self.changes: Counter[str] = Counter()
        self.changed: dict[str, list[tuple[str, str]]] = {}  # url, title
        self.timed: list[tuple[float, float | None, bool]] = []
        self._with_times = with_times

    @property
    def good(self) -> int:
        return self.pages - self.failed

    @property
    def in_words(self) -> str:
        failed = f" and {many(self.failed, 'failed url')}" if self.failed else ""
        return many(self.good, "page") + failed

    def add(self, item: FeedItem) -> int | None:
        counted, depth = self.count(item), item.get("depth")
        self.depths[depth if isinstance(depth, int) else 0, counted.page_type] += 1
        if change := short(item.get("change")):
            self.changes[change] += 1
            some = self.changed.setdefault(change, [])
            if change != "unchanged" and len(some) < _MAX_CHANGED:
                some.append((counted.url, _cut(item.get("title"), _TITLE_CHARS)))
        self.rights.update(marks_of(item))
        if self._with_times:
            latency, is_error = item.get("latency_seconds"), item.get("error") is not None
            with suppress(ValueError, OverflowError):
                moment = datetime.fromisoformat(str(item.get("fetched_at"))).timestamp()
                self.timed.append((moment, latency if isinstance(latency, int | float) else None, is_error))
        row = self.rows.add(item, counted)
        if isinstance(item.get("record"), dict):
            self.record_rows.add(row, counted.page_type, item["record"], str(item.get("title") or ""))
        return row


def _cut(value: Any, length: int) -> str:
    text = plain(value or "")
    return text if len(text) <= length else text[: length - 1] + "…"


def _number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None  # JSON has no NaN, and Python reads it all the same
