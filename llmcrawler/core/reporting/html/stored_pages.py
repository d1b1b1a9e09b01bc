"""Looks at the stored pages of a job: marks the values of their records, and packs the pages for the reader's browser
to unpack.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from llmcrawler.core.reporting.html.sources import MAX_STEPS, FeedItem, ReportSource, is_readable, site_of
from llmcrawler.core.reporting.terminal_tables import selector_text
from llmcrawler.core.reporting.text import plain, shown_value
from llmcrawler.core.understanding.extraction.extractor import SelectorResult, compile_extractor
from llmcrawler.core.understanding.extraction.learner import Variant, best_match
from llmcrawler.core.understanding.extraction.queries import PageSource
from llmcrawler.core.understanding.extraction.tree import Work, parse_tree
from llmcrawler.errors import TooCostly

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

MARK = "data-llmcrawler"  # the attribute of a marked element: the fields whose values it holds
_ID = "llmcrawler-mark-"
_MAX_MARKED = 200
_DROPPED = frozenset(
    "script style link meta base iframe frame frameset object embed applet template portal audio video source"
    " track".split()
)
_FETCHING = frozenset(
    "href src srcset imagesrcset action formaction background poster data ping cite longdesc manifest codebase archive"
    " profile usemap classid lowsrc dynsrc autofocus xlink:href http-equiv target is slot".split()
)

Key = tuple[str, str]  # site, template


@dataclass(slots=True)
class _Quota:
    """Room for something of the pages, shared out among templates."""

    max_bytes: int
    max_pages: int = 10**9
    taken: float = 0.0
    pages: Counter[Key] = field(default_factory=Counter)

    def has_room(self, key: Key) -> bool:
        share = max(self.taken / self.max_bytes, self.pages.total() / self.max_pages)
        return any(share < bound and self.pages[key] < pages for bound, pages in _PORTIONS)


class StoredPages:
    """The pages of a report in packed `pieces` of one template each, as far as there is room. `places` maps a row to
    its piece and its place in it; `missing` counts pages without the stored HTML that was wanted.
    """

    def __init__(
        self, source: ReportSource, text_bytes: int = _MAX_TEXT_BYTES, html_bytes: int = _MAX_HTML_BYTES
    ) -> None:
        self.pieces: list[str] = []
        self.places: dict[int, tuple[int, int]] = {}
        self.missing = 0
        self._source = source
        self._texts = _Quota(text_bytes)
        self._html = _Quota(html_bytes, _MAX_HTML_PAGES)
        self._open: dict[Key, list[tuple[int, dict[str, Any]]]] = {}
        self._open_chars = 0

    @property
    def html_pages(self) -> int:
        return self._html.pages.total()

    def add(self, row: int | None, item: FeedItem) -> None:
        """Add the page in this row of the list; one that finds no room is left out."""
        if row is None:
            return
        key, record, text = (
            (site_of(str(item.get("url"))), str(item.get("template"))),
            item.get("record"),
            item.get("text"),
        )
        looked = self._look(key[1], item) if self._html.has_room(key) and item.get("status") is not None else None
        html, results, marks = looked or (None, (), {})
        if not self._texts.has_room(key):
            return
        self._texts.pages[key] += 1
        detail: dict[str, Any] = {
            "record": record_rows(record, results, marks) if isinstance(record, dict) else None,
            "text": text[:_TEXT_CHARS] if isinstance(text, str) else None,
            "cut": isinstance(text, str) and len(text) > _TEXT_CHARS,
        }
        if html is not None:
            self._html.pages[key] += 1
            detail["html"] = html
        self._open.setdefault(key, []).append((row, detail))
        self._open_chars += _chars(detail)
        if len(self._open[key]) >= _PAGES_A_PIECE:
            self._pack(self._open.pop(key))
        if self._open_chars > _MAX_OPEN_CHARS:
            self.close()

    def close(self) -> None:
        left = [pair for some in self._open.values() for pair in some]
        self._open.clear()
        for start in range(0, len(left), _PAGES_A_PIECE):
            self._pack(left[start : start + _PAGES_A_PIECE])

    def _look(self, template: str, item: FeedItem) -> tuple[str, list[SelectorResult], dict[str, str]] | None:
        url, learned = str(item.get("url")), self._source.learned
        html = self._source.html_of(url)
        self.missing += html is None
        if html is None or not is_readable(html):
            return None
        has_record = isinstance(item.get("record"), dict)
        variants = learned.variants(url, template, str(item.get("page_type")), of_others=has_record)
        return look_at(html, variants, str(item.get("final_url") or url), str(item.get("lang") or ""))

    def _pack(self, some: list[tuple[int, dict[str, Any]]]) -> None:
        self.places |= {row: (len(self.pieces), place) for place, (row, _detail) in enumerate(some)}
        self._open_chars -= sum(_chars(detail) for _row, detail in some)
        text = json.dumps([detail for _row, detail in some], ensure_ascii=False, separators=(",", ":"))
        packed = b64encode(zlib.compress(text.encode("utf-8", "replace"), 6)).decode("ascii")
        self.pieces.append(packed)
        of_html = min(1.0, sum(len(detail.get("html", "")) for _row, detail in some) / max(1, len(text)))
        self._html.taken += len(packed) * of_html
        self._texts.taken += len(packed) * (1 - of_html)


def look_at(
    html: str, variants: Sequence[Variant], url: str, lang: str
) -> tuple[str, list[SelectorResult], dict[str, str]]:
    """Return a stored page fit to be shown, what the selectors of the best fitting variant gave, and the id of each
    field's element.
    """
    root = parse_tree(html)
    results: list[SelectorResult] = []
    with suppress(TooCostly):  # it is shown without marks
        results = selector_results(root, variants, url, lang)
    _clean(root)
    places = _mark(root, results)
    return etree.tostring(root, method="html", encoding="unicode"), results, places


def selector_results(root: etree._Element, variants: Sequence[Variant], url: str, lang: str) -> list[SelectorResult]:
    """Return what the selectors of the variant that fits a page best give on it. Raises TooCostly."""
    source = PageSource(root, Work(MAX_STEPS))
    found = [compile_extractor(one.extractor).extract_from(source, url, lang) for one in variants]
    match = best_match(variants, found)
    return compile_extractor(match.variant.extractor).results(source, url, lang) if match is not None else []


def record_rows(
    record: dict[str, Any], results: Sequence[SelectorResult], places: dict[str, str]
) -> list[tuple[str, Any, str, str | None]]:
    """Return (field, value, selectors, the id of its element) of each field, in the order of the record."""
    rows = []
    for name, value in list(record.items())[:_MAX_FIELDS]:
        # A field of an object within the record, or of an array's objects, has a longer name.
        used = [one for one in results if one.is_used and f"{one.field}.".startswith(f"{name}.")]
        texts = ["  ".join((language, plain(text)[:500])) for language, text in map(_text_of, used[:_MAX_SELECTORS])]
        place = next((places[one.field] for one in used if one.field in places), None)
        rows.append((plain(name)[:80], shown_value(value, _VALUE_CHARS), "\n".join(texts), place))
    return rows


def _text_of(result: SelectorResult) -> tuple[str, str]:
    one = result.selector
    return selector_text({one.language: one.query, "attribute": one.attribute, "pattern": one.pattern})


def _chars(detail: dict[str, Any]) -> int:
    return len(detail.get("html", "")) + len(detail["text"] or "")


def _mark(root: etree._Element, results: Sequence[SelectorResult]) -> dict[str, str]:
    """Mark the elements that are shown, and return the id of the first one of each field."""
    fields: dict[etree._Element, list[str]] = {}
    for result in results:
        for element in result.elements if result.is_used else ():
            above = {element.tag, *(one.tag for one in element.iterancestors())}
            if element.getroottree().getroot() is not root or "head" in above:
                continue
            if len(fields) < _MAX_MARKED or element in fields:
                fields.setdefault(element, []).append(result.field)
    places: dict[str, str] = {}
    for number, (element, names) in enumerate(fields.items()):
        element.set(MARK, ", ".join(dict.fromkeys(names)))
        element.set("id", f"{_ID}{number}")
        for name in names:
            places.setdefault(name, f"{_ID}{number}")
    return places


def _clean(root: etree._Element) -> None:
    etree.strip_elements(root, etree.Comment, etree.ProcessingInstruction, etree.Entity, *_DROPPED, with_tail=False)
    for element in root.iter():
        for name in element.attrib:
            if str(name).lower() in _FETCHING or str(name).lower().startswith(("on", MARK)):
                del element.attrib[name]
        if (element.get("id") or "").startswith(_ID):
            del element.attrib["id"]
        if "(" in (element.get("style") or "") or "\\" in (element.get("style") or ""):
            del element.attrib["style"]  # it may name a picture
