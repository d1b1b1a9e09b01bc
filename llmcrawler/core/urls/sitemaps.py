"""Reads the lists of urls that a site publishes: sitemaps of all kinds, feeds, llms.txt."""

from __future__ import annotations

import html
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from itertools import chain, islice
from typing import TypeVar

from lxml import etree

from llmcrawler.core.content.decoding import decode, pieces, shown_encoding, xml_encoding_of

MAX_URLS = 200_000  # of a file; sitemaps.org allows 50,000, and files with more are not rare
_PACKED_URLS = 250  # together: some of 4,000 characters are unpacked in a few milliseconds


@dataclass(frozen=True, slots=True)
class Listed:
    """An address as the file gives it. What is not said is "". `lastmod` of a feed is ISO 8601."""

    url: str
    lastmod: str = ""
    title: str = ""


class PackedUrls(Collection[Listed]):
    """Addresses in a twentieth of the memory that they take as objects; each is made when it is its turn."""

    def __init__(self, urls: Collection[Listed]) -> None:
        self._count = len(urls)
        rows = ([one.url, one.lastmod, one.title] for one in urls)
        parts = iter(lambda: list(islice(rows, _PACKED_URLS)), [])
        self._parts = [zlib.compress(json.dumps(part).encode(), 1) for part in parts]

    def __iter__(self) -> Iterator[Listed]:
        return (Listed(*row) for part in self._parts for row in json.loads(zlib.decompress(part)))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, one: object) -> bool:
        return any(one == listed for listed in self)


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The urls of a file, and further files to read. `fault`: what is wrong; there may be urls all the same."""

    urls: Collection[Listed] = ()
    sitemaps: tuple[str, ...] = ()
    is_feed: bool = False
    fault: str = ""


@dataclass(slots=True)
class _FoundUrls:
    """Collects what is found in a file."""

    urls: dict[str, Listed] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)  # in other languages
    sitemaps: dict[str, None] = field(default_factory=dict)
    is_feed: bool = False
    fault: str = ""

    @property
    def is_full(self) -> bool:
        return len(self.urls) + len(self.sitemaps) >= MAX_URLS

    def blame(self, fault: str) -> None:
        self.fault = self.fault or fault


# The largest that are known have 1 MB; those with the whole texts of a site have another name (llms-full.txt).
_MAX_BYTES = 4 * 2**20
# What is bounded gives nothing back ({,}+), so that text without a link takes linear time too.
_LINK = re.compile(
    r"\[([^\[\]\n]{0,500}+)\]\(\s{0,20}+<?((?:[^\s()<>]|\([^\s()<>]{0,200}+\)){1,2083}+)>?[^()\n]{0,500}+\)"
)
_BARE = re.compile(r"(?<![(<\w])https?://[^\s<>()\[\]\"'`]{1,2083}+")
_MAX_LINKS = 50_000
_LINE_CHARS = 65_536  # a regular expression holds the interpreter's lock


def parse_llms_txt(body: bytes) -> Sitemap:
    """Return the links with their texts as titles; addresses may be relative. Never raises."""
    text = decode(body, xml_encoding_of(body, _MAX_BYTES), _MAX_BYTES)
    if re.match(r"\s*<", text):  # many a site answers all addresses with a web page
        return Sitemap(fault="it is a web page")
    found: dict[str, Listed] = {}
    for line in (long[at : at + _LINE_CHARS] for long in text.splitlines() for at in range(0, len(long), _LINE_CHARS)):
        for match in _LINK.finditer(line):
            if len(found) < _MAX_LINKS and not match[2].startswith(("#", "mailto:")):
                found.setdefault(match[2], Listed(match[2], "", " ".join(match[1].split())))
        for match in _BARE.finditer(_LINK.sub(" ", line)):
            if len(found) < _MAX_LINKS:
                address = match[0].rstrip(".,;:!?")
                found.setdefault(address, Listed(address))
    return Sitemap(tuple(found.values()), fault="" if found else "it contains no URLs")


_Link = TypeVar("_Link")

# Admission takes about 30 us for an ordinary link. One of 2,000 characters that all have to be escaped, or that tries
# each pattern of a trap at each place, takes 5 ms: so many characters are 30 ms at worst.
_LINKS = 200
_CHARACTERS = 12_000


def in_turns(links: Iterable[_Link], length: Callable[[_Link], int]) -> Iterator[list[_Link]]:
    """Split links into lists that can be admitted at once; `length` returns that of a link's url."""
    part: list[_Link] = []
    characters = 0
    for link in links:
        part.append(link)
        characters += length(link)
        if len(part) >= _LINKS or characters >= _CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part


MAX_BODY_BYTES = 50 * 1024 * 1024  # as sitemaps.org allows; a zip bomb ends here

_BLANKS = "\x00 \t\r\n"
_URL = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*>", re.IGNORECASE)
_AMPERSAND = "\ue000"  # stands for one where libxml2 would lose it
_ROOT = re.compile(r"<(?:[\w-]+:)?(?:urlset|sitemapindex|rss|feed|rdf)\b", re.IGNORECASE)
_START = re.compile(rf"<\?xml\b|{_ROOT.pattern}", re.IGNORECASE)
_WEB_PAGE = re.compile(r"<!doctype html|<html\b", re.IGNORECASE)
_SITEMAP_FILE = re.compile(r"sitemap[^/?]*\.xml(?:\.gz)?$", re.IGNORECASE)
_XHTML = "http://www.w3.org/1999/xhtml"
_MAX_TEXT = 500  # characters of a title or a date
_MAX_FIELD = 5_000  # characters of an element's text that are looked at
_HEAD_BYTES = 2000
_FED_CHARS = 65_536
_MAX_IDLE_ELEMENTS = 100_000  # between two entries; they stand in memory until the next one


def parse_sitemap(body: bytes) -> Sitemap:
    """Read a urlset, a sitemapindex, RSS, Atom, or one url a line; gzipped or not, cut short or malformed. Never
    raises, and expands no entities.
    """
    found = _FoundUrls()
    if len(body) > MAX_BODY_BYTES:
        found.blame("it is larger than 50 MB: the rest is ignored")
    body, fault = _unpack(body[:MAX_BODY_BYTES])
    found.blame(fault)
    encoding = shown_encoding(body)
    if encoding is None:
        body = body.lstrip(b"\x00\t\r\n ")
        head = body[:_HEAD_BYTES].decode("latin-1")
        start = head.find("<?xml")
        if not head.startswith("<") and (match := _START.search(head)):
            start = match.start()
        if start > 0:  # behind what the server says of its own troubles
            body = body[start:]
        encoding = xml_encoding_of(body, MAX_BODY_BYTES)
    head = next(pieces(body, encoding, MAX_BODY_BYTES))[:_HEAD_BYTES].lstrip(_BLANKS)
    if not head.startswith("<"):
        _read_lines(pieces(body, encoding, MAX_BODY_BYTES), found)
    elif _WEB_PAGE.search(head) and not _ROOT.search(head):  # often an error page under the sitemap's address
        found.blame("it is a web page")
    else:
        _read_xml(body, encoding, found)
    if found.is_full:
        found.blame(f"it has {MAX_URLS:,} URLs or more: the rest is ignored")
    elif not found.urls and not found.sitemaps:
        found.blame("it contains no URLs")
    others = (Listed(url) for url in found.others if url not in found.urls)
    urls = tuple(islice(chain(found.urls.values(), others), MAX_URLS))
    return Sitemap(urls, tuple(found.sitemaps)[:MAX_URLS], found.is_feed, found.fault)


def parse_packed_sitemap(body: bytes) -> Sitemap:
    """Return the same as `parse_sitemap`, in little memory, for another process."""
    found = parse_sitemap(body)
    return replace(found, urls=PackedUrls(found.urls))


def _unpack(body: bytes) -> tuple[bytes, str]:
    """Unzip, twice where a zipped file was zipped, as far as it goes; return also what is wrong with it."""
    fault = ""
    for _ in range(2):
        if not body.startswith(b"\x1f\x8b"):
            break
        unzip, unpacked = zlib.decompressobj(wbits=31), bytearray()
        try:
            for start in range(0, len(body), 65536):
                unpacked += unzip.decompress(body[start : start + 65536], MAX_BODY_BYTES - len(unpacked))
                if unzip.eof or len(unpacked) >= MAX_BODY_BYTES:
                    break
            if len(unpacked) >= MAX_BODY_BYTES:
                fault = "it is larger than 50 MB when it is unpacked: the rest is left out"
            elif not unzip.eof:
                fault = "its gzip stream is cut short"
        except zlib.error:  # a damaged end: what was read so far is still a list
            fault = "its gzip stream is damaged"
        body = bytes(unpacked)
    return body, fault


def _read_xml(body: bytes, encoding: str, found: _FoundUrls) -> None:
    """Read XML strictly, which tells what is wrong; then, where something is, as far as it can be read."""

    def texts() -> Iterator[str]:
        # Without the declaration: libxml2 would take any encoding that it names and iconv knows.
        parts = pieces(body, encoding, MAX_BODY_BYTES)
        for text in chain([_DECLARATION.sub("", next(parts).lstrip(_BLANKS))], parts):
            yield from (text[start : start + _FED_CHARS] for start in range(0, len(text), _FED_CHARS))

    try:
        _pull(texts(), found, recover=False)
    except etree.XMLSyntaxError as error:
        found.blame(f"its XML is malformed: {str(error)[:_MAX_TEXT]}")
    else:
        if found.urls or found.sitemaps:
            return
    # The recovering parser drops all entities from the first fault on, and what is not closed.
    with suppress(etree.XMLSyntaxError):  # past recovery: keep what was read so far
        _pull((text.replace("&", _AMPERSAND) for text in texts()), found, recover=True)
    last = next(reversed(found.urls), None)
    end = decode(body[-4 * _MAX_FIELD :], encoding)
    if last is not None and html.unescape(end).endswith(last):  # half an address is none
        del found.urls[last]


def _pull(texts: Iterator[str], found: _FoundUrls, *, recover: bool) -> None:
    parser = etree.XMLPullParser(
        events=("end",), recover=recover, resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False
    )
    idle, is_open = 0, False
    for part in texts:
        opened, closed = part.rfind("<"), part.rfind(">")
        if is_open and closed < 0:  # libxml2 takes 70 bytes for each of its own
            found.blame("it has an unclosed tag: the rest is ignored")
            return
        is_open = opened > closed
        parser.feed(part.encode("utf-8", "replace"))
        idle = _collect(parser, found, idle)
        if idle > _MAX_IDLE_ELEMENTS:
            found.blame("it contains too much besides entries: the rest is ignored")
            return
        if found.is_full:
            return
    parser.close()
    _collect(parser, found, idle)


def _collect(parser: etree.XMLPullParser, found: _FoundUrls, idle: int) -> int:
    """Take the entries that have come. Return how many elements came since the last one, `idle` of them before."""
    for _, element in parser.read_events():
        if not isinstance(element, etree._Element) or not isinstance(element.tag, str):  # a comment
            continue
        name = element.tag.rpartition("}")[2].lower()
        idle += 1
        if name not in ("url", "sitemap", "item", "entry"):
            continue
        idle = 0
        listed = _read_entry(element)
        found.is_feed = found.is_feed or name in ("item", "entry")
        if listed.url and (name == "sitemap" or (name == "url" and _SITEMAP_FILE.search(listed.url))):
            found.sitemaps.setdefault(listed.url)
        elif listed.url:
            found.urls.setdefault(listed.url, listed)
        if len(found.others) < MAX_URLS:
            for child in element.iterchildren(f"{{{_XHTML}}}link"):
                if child.get("rel") == "alternate" and child.get("hreflang"):
                    found.others.setdefault(_plain(child.get("href", "")).strip())
        element.clear()
        parent = element.getparent()
        # Entries that were read are let go, so 50,000 of them never stand in memory.
        while parent is not None and element.getprevious() is not None:
            del parent[0]
    return idle


def _read_entry(element: etree._Element) -> Listed:
    """Return the address, date and title of a <url>, <sitemap>, RSS <item> or Atom <entry>."""
    address = modified = title = ""
    for child in element.iterchildren("*"):
        name = child.tag.rpartition("}")[2].lower()
        text = _plain((child.text or "")[:_MAX_FIELD]).strip()
        if name == "loc" and not address:
            address = text
        elif name == "link" and not address and child.get("rel", "alternate") == "alternate":
            # RSS writes the address as text, Atom as an attribute; xhtml:link of a sitemap is another language.
            address = text or ("" if child.tag.startswith(f"{{{_XHTML}}}") else _plain(child.get("href", "")))
        elif name in ("lastmod", "updated", "pubdate", "date") and not modified:
            modified = text
            if name == "pubdate":  # as in mails (RFC 822)
                with suppress(ValueError):
                    modified = parsedate_to_datetime(text).isoformat()
        elif name == "title" and not title:
            title = text
        elif name == "news" and not title:
            title = _plain((child.findtext("{*}title") or "")[:_MAX_FIELD]).strip()
        elif name == "guid" and not address and child.get("isPermaLink", "true") == "true" and _URL.fullmatch(text):
            address = text
    if address.startswith("&"):  # an entity that was not resolved
        address = ""
    return Listed(address, modified[:_MAX_TEXT], " ".join(title.split())[:_MAX_TEXT])


def _plain(text: str) -> str:
    return html.unescape(text.replace(_AMPERSAND, "&")) if _AMPERSAND in text else text


def _read_lines(texts: Iterable[str], found: _FoundUrls) -> None:
    rest = ""
    for text in chain(texts, ["\n"]):
        *lines, rest = (rest + text.replace("\r", "\n")).split("\n")
        for line in lines:
            address = line.strip("\ufeff \t")
            if _URL.fullmatch(address) and not found.is_full:
                found.urls.setdefault(address, Listed(address))
        if found.is_full:
            return
        rest = rest[:_MAX_FIELD]  # a line without an end is no address
