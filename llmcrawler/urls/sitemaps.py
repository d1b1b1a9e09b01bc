"""Sitemaps (sitemaps.org 0.9), sitemap indexes, RSS and Atom feeds, and plain lists of urls; gzipped or not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from io import BytesIO

from lxml import etree

MAX_BYTES = 100 * 2**20  # unpacked; sitemaps.org allows 50 MB

_LOC = re.compile(rb"<\s*(?:[\w.-]+:)?loc\s*>\s*(?:<!\[CDATA\[)?\s*([^<\]]+)", re.IGNORECASE)
_LINE = re.compile(rb"^\s*(https?://\S+)\s*$", re.MULTILINE | re.IGNORECASE)
_ENTRIES = ("url", "sitemap", "item", "entry")
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    url: str
    lastmod: str | None = None


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The pages that a sitemap lists, and the further sitemaps."""

    urls: tuple[SitemapEntry, ...] = ()
    sitemaps: tuple[str, ...] = ()


def parse_sitemap(body: bytes) -> Sitemap:
    """Never raises: what is malformed gives what can be read of it, what is no sitemap gives nothing."""
    body = _unpacked(body)
    if b"<" not in body[:2048]:
        return Sitemap(tuple(SitemapEntry(_text(line)) for line in _LINE.findall(body)))
    reading = _Reading()
    try:
        reading.read(body)
    except etree.XMLSyntaxError:
        # Cut or broken: the parser recovers what it can; what it missed is found by its tags.
        reading.add_missing(_text(loc) for loc in _LOC.findall(body))
    return Sitemap(tuple(reading.urls.values()), tuple(reading.sitemaps))


class _Reading:
    def __init__(self) -> None:
        self.urls: dict[str, SitemapEntry] = {}
        self.sitemaps: dict[str, None] = {}

    def read(self, body: bytes) -> None:
        # No entities, no DTDs, no network: a sitemap is a stranger's file.
        events = etree.iterparse(
            BytesIO(body),
            events=("start", "end"),
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            recover=True,
        )
        fields: dict[str, str] = {}
        for event, element in events:
            name = etree.QName(element).localname.lower() if isinstance(element.tag, str) else ""
            if event == "start":
                if name in _ENTRIES:
                    fields = {}  # a feed has a link of its own before its items
            elif name in ("loc", "lastmod", "link", "updated", "pubdate"):
                fields.setdefault(name, (element.text or element.get("href") or "").strip())
            elif name in _ENTRIES:
                self._add(name, fields)
                fields = {}
                element.clear()
                while element.getprevious() is not None and element.getparent() is not None:
                    del element.getparent()[0]
        if fields.get("loc"):
            self._add("url", fields)

    def add_missing(self, locations: Iterable[str]) -> None:
        for url in locations:
            if url not in self.sitemaps:
                self.urls.setdefault(url, SitemapEntry(url))

    def _add(self, name: str, fields: dict[str, str]) -> None:
        url = fields.get("loc") or fields.get("link") or ""
        if not url:
            return
        if name == "sitemap":
            self.sitemaps[url] = None
        else:
            lastmod = fields.get("lastmod") or fields.get("updated") or fields.get("pubdate")
            self.urls.setdefault(url, SitemapEntry(url, lastmod or None))


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(_GZIP_MAGIC):
        return body[:MAX_BYTES]
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        return unpacker.decompress(body, MAX_BYTES)
    except zlib.error:
        return b""


def _text(raw: bytes) -> str:
    return unescape(raw.decode("utf-8", "replace")).strip()
