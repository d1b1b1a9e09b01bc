"""Finds the pages of a site that show what a page before them has shown, at another url."""

from __future__ import annotations

import base64
import struct
from hashlib import blake2b
from typing import Final, NamedTuple

from llmcrawler.core.understanding.templates.page_sketch import PageSketch
from llmcrawler.core.urls import names_variant, normalise, relative_url, site_name, variant_key

MAX_PAGES: Final = 20_000  # of one site that are remembered
# Bits of 64 in which the words of two pages may differ: of any two; of views, by their urls; and of those where more
# speaks for it. Pages of one template differ in some 25, others in 32, views of one in 0 to 20.
_NEAR_ALONE: Final = 3  # where nothing else speaks for it: a hundredth of the words
_NEAR: Final = 10
_NEAR_VIEWS: Final = 18
_NEAR_SURE: Final = 26
_HEAD: Final = struct.Struct(">Q6QH")  # the key of an address, a sketch, bytes of the url that follows


class _FirstPage(NamedTuple):
    """A first page, as it is met at an address: its own, or that of a page which repeats it."""

    key: int
    sketch: PageSketch
    url: str

    def pack(self) -> bytes:
        url = self.url.encode("utf-8", "replace")
        return _HEAD.pack(self.key, *self.sketch, len(url)) + url

    @classmethod
    def unpack(cls, row: bytes) -> _FirstPage:
        key, *sketch, _size = _HEAD.unpack_from(row)
        return cls(key, PageSketch(*sketch), row[_HEAD.size :].decode())


class DuplicateIndex:
    """Remembers the first pages of one site, and tells of each page that follows which of them it repeats.

    A page repeats another one if all that it says is the same, with its title, language, numbers, images and ids; or if
    its words are nearly the same and the site says that they are one: by its canonical link (then headings, numbers,
    images and links agree too), or by a url that differs only in what names a view. Of more than `max_pages` the one
    not met for longest goes first.
    """

    def __init__(self, max_pages: int = MAX_PAGES) -> None:
        self._max_pages = max_pages
        # Rows are kept packed: half of the memory, and saved as they are.
        self._by_address: dict[int, bytes] = {}
        self._by_content: dict[int, bytes] = {}
        self._by_form: dict[int, bytes] = {}

    def first_of(self, url: str, sketch: PageSketch, *, address: str, canonical: str | None = None) -> str | None:
        """Return the url of the page that this one repeats; None for one that is the first of its kind, which is
        remembered. `address` is the url that answered, after redirects.
        """
        own, named = _key(address), _target(canonical, address)
        first = self._repeated(sketch, address, named)
        if first is None or first.url == url:
            page = _FirstPage(own, sketch, url)
            self._remember(page)
            if named is not None and _key(named) not in self._by_address:  # that page is still to come, or never will
                self._remember(page._replace(key=_key(named)))
            return None
        self._remember(first)
        self._remember(first._replace(key=own))
        return first.url

    def restore(self, url: str, sketch: PageSketch, *, address: str, first: str | None) -> None:
        """Remember what an earlier run of the crawl has found of a page: it is the first, or repeats `first`."""
        self._remember(_FirstPage(_key(address), sketch, first or url))

    def sketch_of(self, url: str, address: str) -> PageSketch | None:
        """Return the sketch of a first page, None where it is not remembered."""
        row = self._at(_key(address))
        return row.sketch if row is not None and row.url == url else None

    def to_json(self) -> str:
        """Return the pages that are remembered, as text of base64."""
        return base64.b64encode(b"".join(self._by_address.values())).decode()

    @classmethod
    def from_json(cls, value: str) -> DuplicateIndex:
        """Return the index that `to_json` gave this of. Raises ValueError for anything else."""
        index, data, at = cls(), base64.b64decode(value, validate=True), 0
        while at < len(data):
            head = data[at : at + _HEAD.size]
            if len(head) < _HEAD.size:
                raise ValueError("the list of pages is cut off")
            key, *sketch, size = _HEAD.unpack(head)
            at += len(packed := data[at : at + _HEAD.size + size])
            index._add(key, PageSketch(*sketch), packed)
        return index

    def _repeated(self, sketch: PageSketch, address: str, named: str | None) -> _FirstPage | None:
        """Return the first page that agrees: that which the site names, else one that is a view of the same by its url
        or has named this one, else one of the same content, or nearly so.
        """
        own = _key(address)
        if named is not None and (first := self._at(_key(named))) is not None:
            is_own = _key(named) == own  # a page that names itself tells nothing of its views
            is_view = is_own or names_variant(address) or names_variant(named)
            if _agree(sketch, first.sketch, is_view=is_view, is_told=not is_own or named == first.url):
                return first
        if (first := self._at(own)) is not None:
            is_told = _key(first.url) != own  # by that page
            is_view = not is_told or names_variant(address) or names_variant(first.url)
            if _agree(sketch, first.sketch, is_view=is_view, is_told=is_told):
                return first
        if sketch.content and (row := self._by_content.get(sketch.content)) is not None:
            return _FirstPage.unpack(row)
        if not sketch.form or (row := self._by_form.get(sketch.form)) is None:
            return None
        first = _FirstPage.unpack(row)
        is_near = _difference(sketch, first.sketch) <= _NEAR_ALONE and sketch.stated == first.sketch.stated
        return first if is_near else None

    def _at(self, key: int) -> _FirstPage | None:
        row = self._by_address.get(key)
        return None if row is None else _FirstPage.unpack(row)

    def _remember(self, row: _FirstPage) -> None:
        self._forget(row.key)
        self._add(row.key, row.sketch, row.pack())
        if len(self._by_address) > self._max_pages:
            self._forget(next(iter(self._by_address)))

    def _add(self, key: int, sketch: PageSketch, packed: bytes) -> None:
        self._by_address[key] = packed
        if sketch.content:
            self._by_content.setdefault(sketch.content, packed)
        if sketch.form:
            self._by_form.setdefault(sketch.form, packed)

    def _forget(self, key: int) -> None:
        row = self._by_address.pop(key, None)
        if row is None:
            return
        sketch = _FirstPage.unpack(row).sketch
        for known, digest in ((self._by_content, sketch.content), (self._by_form, sketch.form)):
            if known.get(digest) is row:
                del known[digest]


def _target(canonical: str | None, address: str) -> str | None:
    """Return the page that a canonical link names if it is another one of the same site. The front page is none: a
    common blunder names it on all pages.
    """
    target = None if canonical is None else normalise(canonical)
    if target is None or target == address or relative_url(target) == "/":
        return None
    return target if site_name(target) == site_name(address) else None


def _agree(one: PageSketch, other: PageSketch, *, is_view: bool, is_told: bool) -> bool:
    """Tell whether the contents of two pages are so alike that they may be one. `is_view`: their urls differ only in
    what names a view; `is_told`: the site says that they are one.
    """
    if one.stated and other.stated and one.stated != other.stated:
        return False
    if one.content and one.content == other.content:
        return True
    difference, has_same_points = _difference(one, other), one.points == other.points
    if not is_view:
        return has_same_points and difference <= _NEAR
    is_named = one.title == other.title
    is_sure = has_same_points or (is_told and is_named)
    return (is_told or is_named) and difference <= (_NEAR_SURE if is_sure else _NEAR_VIEWS)


def _difference(one: PageSketch, other: PageSketch) -> int:
    """Return in how many of 64 bits the words of two pages differ."""
    return (one.words ^ other.words).bit_count()


def _key(url: str) -> int:
    return int.from_bytes(blake2b(variant_key(url).encode("utf-8", "replace"), digest_size=8).digest(), "big")
