"""Lists of urls as the files of a site give them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

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
