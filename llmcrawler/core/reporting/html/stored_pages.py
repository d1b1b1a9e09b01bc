"""Looks at the stored pages of a job: marks where the values of their records stand, counts what each selector still
gives, and packs the pages. The reader's browser unpacks those that are looked at.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from llmcrawler.core.reporting.html.sources import MAX_STEPS, FeedItem, ReportSource, is_readable, site_of
from llmcrawler.core.reporting.terminal_tables import selector_text
from llmcrawler.core.reporting.text import plain, shown_value
from llmcrawler.core.understanding.extraction import (
    PageSource,
    SelectorResult,
    Variant,
    Work,
    best_match,
    compile_extractor,
    parse_tree,
)
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


MARK = "data-llmcrawler"  # the attribute of a marked element: the fields whose values it holds
_ID = "llmcrawler-mark-"
_DROPPED = frozenset(
    "script style link meta base iframe frame frameset object embed applet template portal audio video source"
    " track".split()
)
_FETCHING = frozenset(
    "href src srcset imagesrcset action formaction background poster data ping cite longdesc manifest codebase archive"
    " profile usemap classid lowsrc dynsrc autofocus xlink:href http-equiv target is slot".split()
)
_MAX_MARKED = 200


@dataclass(frozen=True, slots=True)
class Looked:
    """A stored page that was looked at. `html` is the page to show, `places` has the id of the element of each field;
    `results` are what the selectors of its template gave.
    """

    html: str
    results: Sequence[SelectorResult] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def look_at(html: str, variants: Sequence[Variant], url: str, lang: str) -> Looked:
    """Look at a stored page that costs little to read. The variant that fits it best is the one that is shown."""
    root = parse_tree(html)
    results: list[SelectorResult] = []
    with suppress(TooCostly):  # it is shown without marks
        results = selector_results(root, variants, url, lang)
    _clean(root)
    places = _mark(root, results)
    return Looked(etree.tostring(root, method="html", encoding="unicode"), results, places)


def selector_results(root: etree._Element, variants: Sequence[Variant], url: str, lang: str) -> list[SelectorResult]:
    """Return what the selectors of the variant that fits a page best give on it. Raises TooCostly."""
    source = PageSource(root, Work(MAX_STEPS))
    # What only libxml2 understands may take for ever.
    some = [one for one in variants if compile_extractor(one.extractor).is_bounded]
    found = [compile_extractor(one.extractor).extract_from(source, url, lang) for one in some]
    match = best_match(some, found)
    return compile_extractor(match.variant.extractor).results(source, url, lang) if match is not None else []


def _mark(root: etree._Element, results: Sequence[SelectorResult]) -> dict[str, str]:
    """Mark the elements that are shown, and return the id of the first one of each field."""
    places: dict[str, str] = {}
    fields: dict[etree._Element, list[str]] = {}
    for result in results:
        for element in result.elements if result.is_used else ():
            above = {element.tag, *(one.tag for one in element.iterancestors())}
            if element.getroottree().getroot() is not root or "head" in above:
                continue
            if len(fields) < _MAX_MARKED or element in fields:
                fields.setdefault(element, []).append(result.field)
    for number, (element, names) in enumerate(fields.items()):
        element.set(MARK, ", ".join(dict.fromkeys(names)))
        element.set("id", f"{_ID}{number}")
        for name in names:
            places.setdefault(name, f"{_ID}{number}")
    return places


def _clean(root: etree._Element) -> None:
    for element in list(root.iter()):
        if not isinstance(element.tag, str) or element.tag.lower() in _DROPPED:
            _remove(element, root)
            continue
        for name in element.attrib:
            if str(name).lower() in _FETCHING or str(name).lower().startswith(("on", MARK)):
                del element.attrib[name]
        if (element.get("id") or "").startswith(_ID):
            del element.attrib["id"]
        if "(" in (element.get("style") or "") or "\\" in (element.get("style") or ""):
            del element.attrib["style"]  # it may name a picture


def _remove(element: etree._Element, root: etree._Element) -> None:
    parent = element.getparent()
    if parent is None or element is root:
        return
    before = element.getprevious()
    if before is not None:
        before.tail = (before.tail or "") + (element.tail or "")
    else:
        parent.text = (parent.text or "") + (element.tail or "")
    parent.remove(element)


SelectorKey = tuple[str, str, str]  # field, language, text


@dataclass(slots=True)
class SelectorCounts:
    """What the selectors of a template gave on its stored pages. `given` counts pages on which one gives a value,
    `used` those whose record has that value, as the selectors before it gave none; `others` pages by field that have a
    value which no selector gives now.
    """

    pages: int = 0
    given: Counter[SelectorKey] = field(default_factory=Counter)
    used: Counter[SelectorKey] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    def add(self, record: Any, results: Sequence[SelectorResult]) -> None:
        """Count a page with its record and what the selectors gave on it."""
        self.pages += 1
        explained = set()
        for one in results:
            key = selector_key(one.field, one.selector.language, one.selector.query, one.selector.attribute,
                               one.selector.pattern)  # fmt: skip
            self.given[key] += 1
            self.used[key] += one.is_used
            explained.add(one.field.split(".")[0])
        for name, value in record.items() if isinstance(record, dict) else ():
            if value not in (None, "", []) and name.split(".")[0] not in explained:
                self.others[name] += 1


def selector_key(name: str, language: str, query: str, attribute: str | None, pattern: str | None) -> SelectorKey:
    return name, *selector_text({language: query, "attribute": attribute, "pattern": pattern})


class StoredPages:
    """Goes through the pages of a report, as far as there is room for them."""

    def __init__(self, source: ReportSource, details: PageDetails) -> None:
        self._source = source
        self.details = details
        self.counts: dict[tuple[str, str], SelectorCounts] = {}
        self.missing = 0  # pages without stored HTML, of those that were to be looked at

    def add(self, row: int | None, item: FeedItem) -> None:
        """Take a page that is in this row of the list."""
        if row is None or item.get("kind") == "url":
            return
        key = (site_of(str(item.get("url"))), str(item.get("template")))
        looked = self._look(key, item) if self.details.wants_html(key) and item.get("status") is not None else None
        if looked is not None and item.get("template") is not None:
            self.counts.setdefault(key, SelectorCounts()).add(item.get("record"), looked.results)
        self.details.add(row, key, item, looked)

    def _look(self, key: tuple[str, str], item: FeedItem) -> Looked | None:
        html = self._source.html_of(str(item.get("url")))
        if html is None:
            self.missing += 1
            return None
        if not is_readable(html):
            return None
        url, page_type = str(item.get("final_url") or item.get("url")), str(item.get("page_type"))
        learned, has_record = self._source.learned, isinstance(item.get("record"), dict)
        variants = learned.variants(str(item.get("url")), key[1], page_type, of_others=has_record)
        return look_at(html, variants, url, str(item.get("lang") or ""))
