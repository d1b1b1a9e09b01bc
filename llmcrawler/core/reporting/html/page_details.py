"""Packs what can be looked at of single pages: record, text and stored HTML. The reader's browser unpacks what is
looked at.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from typing import Any

from llmcrawler.core.reporting.html.marked_page import Looked
from llmcrawler.core.reporting.html.record_rows import shown_value
from llmcrawler.core.reporting.templates_table import selector_text
from llmcrawler.core.reporting.text import plain

_PAGES_A_PIECE = 16  # of one template: what they share is packed once
_MAX_TEXT_BYTES = 8_000_000  # packed
_MAX_HTML_BYTES = 12_000_000
_MAX_HTML_PAGES = 2_000  # 5 ms each
# Share of the room that is taken -> pages of one template that still get some, so that no template takes all.
_PORTIONS = ((0.5, 1_000_000), (0.75, 100), (0.95, 20))
_TEXT_CHARS = 20_000
_VALUE_CHARS = 2_000
_MAX_FIELDS = 100
_MAX_OPEN_CHARS = 8_000_000  # of pages that are not packed yet
_MAX_SELECTORS = 5

Key = tuple[str, str]  # site, template


class _Quota:
    """Room for something of the pages, shared out among templates."""

    def __init__(self, max_bytes: int, max_pages: int = 10**9) -> None:
        self.max_bytes = max_bytes
        self.max_pages = max_pages
        self.taken = 0.0
        self.pages: Counter[Key] = Counter()

    def has_some(self, key: Key) -> bool:
        share = max(self.taken / self.max_bytes, self.pages.total() / self.max_pages)
        return any(share < bound and self.pages[key] < pages for bound, pages in _PORTIONS)


class PageDetails:
    """Packed pieces, each with some pages of one template. `places` has the piece of a row, and the place in it."""

    def __init__(self, text_bytes: int = _MAX_TEXT_BYTES, html_bytes: int = _MAX_HTML_BYTES) -> None:
        self.pieces: list[str] = []
        self.places: dict[int, tuple[int, int]] = {}
        self._texts = _Quota(text_bytes)
        self._html = _Quota(html_bytes, _MAX_HTML_PAGES)
        self._open: dict[Key, list[tuple[int, dict[str, Any]]]] = {}
        self._open_chars = 0

    @property
    def html_pages(self) -> int:
        return self._html.pages.total()

    def wants_html(self, key: Key) -> bool:
        return self._html.has_some(key)

    def add(self, row: int, key: Key, item: Mapping[str, Any], looked: Looked | None) -> None:
        """Add a page of the list; one that finds no room is left out."""
        if not self._texts.has_some(key):
            return
        self._texts.pages[key] += 1
        text = item.get("text")
        detail: dict[str, Any] = {
            "record": _record(item.get("record"), looked),
            "text": text[:_TEXT_CHARS] if isinstance(text, str) else None,
            "cut": isinstance(text, str) and len(text) > _TEXT_CHARS,
        }
        if looked is not None:
            self._html.pages[key] += 1
            detail["html"] = looked.html
        some = self._open.setdefault(key, [])
        some.append((row, detail))
        self._open_chars += len(detail.get("html", "")) + len(detail["text"] or "")
        if len(some) >= _PAGES_A_PIECE:
            self._pack(self._open.pop(key))
        if self._open_chars > _MAX_OPEN_CHARS:
            self.close()

    def close(self) -> None:
        """Pack what is left."""
        left, self._open = [pair for some in self._open.values() for pair in some], {}
        for start in range(0, len(left), _PAGES_A_PIECE):
            self._pack(left[start : start + _PAGES_A_PIECE])

    def _pack(self, some: list[tuple[int, dict[str, Any]]]) -> None:
        for place, (row, _detail) in enumerate(some):
            self.places[row] = (len(self.pieces), place)
        text = json.dumps([detail for _row, detail in some], ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "replace")
        self._open_chars -= sum(len(one.get("html", "")) + len(one["text"] or "") for _row, one in some)
        packed = b64encode(zlib.compress(data, 6)).decode("ascii")
        self.pieces.append(packed)
        of_html = sum(len(detail.get("html", "")) for _row, detail in some) / max(1, len(text))
        self._html.taken += len(packed) * min(1.0, of_html)
        self._texts.taken += len(packed) * (1 - min(1.0, of_html))


def _record(record: Any, looked: Looked | None) -> list[list[Any]] | None:
    """Return (field, value, selector, the id of its element) of each field, in the order of the record."""
    if not isinstance(record, dict):
        return None
    rows = []
    for name, value in list(record.items())[:_MAX_FIELDS]:
        # A field of an object within the record, or of an array's objects, has a longer name.
        used = [one for one in looked.results if one.is_used and _is_of(one.field, name)] if looked else []
        place = next((looked.places[one.field] for one in used if one.field in looked.places), None) if looked else None
        selectors = [selector_text({one.selector.language: one.selector.query, "attribute": one.selector.attribute,
                                    "pattern": one.selector.pattern}) for one in used[:_MAX_SELECTORS]]  # fmt: skip
        texts = [f"{language}  {plain(text)[:500]}" for language, text in selectors]
        rows.append([plain(name)[:80], shown_value(value, _VALUE_CHARS), "\n".join(texts), place])
    return rows


def _is_of(field: str, name: str) -> bool:
    return field == name or field.startswith(f"{name}.")
