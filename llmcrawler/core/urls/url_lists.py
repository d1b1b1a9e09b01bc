"""Lists of urls: as the files of a site give them, among them llms.txt, and in parts that can be admitted at once."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from llmcrawler.core.content.decoding import decode, xml_encoding_of

MAX_URLS = 200_000  # of a file; sitemaps.org allows 50,000, and files with more are not rare
_PACKED_URLS = 250  # together: some of 4,000 characters are unpacked in a few milliseconds


@dataclass(frozen=True, slots=True)
class Listed:
    """An address as the file gives it: not normalised, and perhaps of another site. What the file does not say is "".
    `lastmod` of a feed is ISO 8601, of a sitemap what stands there.
    """

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
        for part in self._parts:
            for row in json.loads(zlib.decompress(part)):
                yield Listed(*row)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, one: object) -> bool:
        return any(one == listed for listed in self)


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The urls of a file, and `sitemaps`, further files to read. `fault`: what is wrong with the file; there may be
    urls all the same.
    """

    urls: Collection[Listed] = ()
    sitemaps: tuple[str, ...] = ()
    is_feed: bool = False
    fault: str = ""


@dataclass(slots=True)
class Reading:
    """Collects what is found in a file."""

    urls: dict[str, Listed] = field(default_factory=dict)
    others: dict[str, Listed] = field(default_factory=dict)  # in other languages
    sitemaps: dict[str, None] = field(default_factory=dict)
    is_feed: bool = False
    fault: str = ""

    @property
    def is_full(self) -> bool:
        return len(self.urls) + len(self.sitemaps) >= MAX_URLS

    def blame(self, fault: str) -> None:
        self.fault = self.fault or fault

    def as_sitemap(self) -> Sitemap:
        if self.is_full:
            self.blame(f"it has {MAX_URLS:,} urls or more: the rest is left out")
        elif not self.urls and not self.sitemaps:
            self.blame("it holds no urls")
        urls = tuple((self.urls | {url: one for url, one in self.others.items() if url not in self.urls}).values())
        return Sitemap(urls[:MAX_URLS], tuple(self.sitemaps)[:MAX_URLS], self.is_feed, self.fault)

    def add(self, url: str, *, is_sitemap: bool = False) -> None:
        if is_sitemap:
            self.sitemaps.setdefault(url)
        else:
            self.urls.setdefault(url, Listed(url))


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
    for line in _short_lines(text):
        for match in _LINK.finditer(line):
            if len(found) < _MAX_LINKS and not match[2].startswith(("#", "mailto:")):
                found.setdefault(match[2], Listed(match[2], "", " ".join(match[1].split())))
        for match in _BARE.finditer(_LINK.sub(" ", line)):
            if len(found) < _MAX_LINKS:
                address = match[0].rstrip(".,;:!?")
                found.setdefault(address, Listed(address))
    return Sitemap(tuple(found.values()), fault="" if found else "it holds no urls")


def _short_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (line[start : start + _LINE_CHARS] for start in range(0, len(line), _LINE_CHARS))


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
