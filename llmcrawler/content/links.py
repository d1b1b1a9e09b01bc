"""Links of a page as absolute http(s) urls."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

from llmcrawler.items import Link

from .elements import TAGS
from .segments import Segments

_OTHER_SCHEMES: Final = ("javascript:", "mailto:", "tel:", "data:", "about:", "blob:", "ftp:", "sms:", "whatsapp:")
_PARTS: Final = frozenset(("nav", "header", "footer", "aside", "main", "article"))
_DIGITS: Final = re.compile(r"\d+")
_DROPPED: Final = {ord(char): None for char in "\t\r\n"}


class Resolver:
    """Joins references to one base; root-relative and absolute ones without urllib, which costs ten times as much."""

    def __init__(self, url: str, base: str = "") -> None:
        self.base = url
        if base:
            self.base = self._join(base) or url
        try:
            parts = urlsplit(self.base)
        except ValueError:
            parts = urlsplit("")
        self._root = f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} else ""
        self._known: dict[str, str] = {}

    def __call__(self, reference: str) -> str:
        """The absolute url, or "" when the reference leads to none that can be fetched over http(s)."""
        found = self._known.get(reference)
        if found is None:
            found = self._known[reference] = self._resolve(reference.strip().translate(_DROPPED))
        return found

    def _resolve(self, reference: str) -> str:
        if reference.lower().startswith(_OTHER_SCHEMES):
            return ""
        plain = "/." not in reference
        if plain and self._root and reference.startswith("/") and not reference.startswith(("//", "/\\")):
            return self._root + reference
        if plain and reference.startswith(("http://", "https://")) and "[" not in reference:
            return reference
        return self._join(reference)

    def _join(self, reference: str) -> str:
        try:
            joined = urljoin(self.base, reference)
        except ValueError:
            return ""
        return joined if joined.startswith(("http://", "https://")) else ""


def resolve_links(page: Segments, resolve: Resolver) -> tuple[Link, ...]:
    """Links in document order, one a url, with the first anchor text that is not empty and that one's place."""
    texts: dict[str, tuple[str, int]] = {}
    for reference, text, container in page.links:
        if reference.startswith("#"):
            continue
        url = resolve(reference).partition("#")[0]
        if url and (url not in texts or not texts[url][0]):
            texts[url] = text, container
    places: dict[int, str] = {}
    links = []
    for url, (text, container) in texts.items():
        place = places.get(container)
        if place is None:
            place = places[container] = _place(page, container)
        links.append(Link(url, text, place))
    return tuple(links)


def _place(page: Segments, container: int) -> str:
    """Names of the container, of what it is in, and of the part of the page (nav, main, ...). Digits count things."""
    names = [page.signatures[container]]
    above = page.parents[container]
    if above != container:
        names.append(page.signatures[above])
    while page.parents[above] != above and TAGS[page.tags[above]] not in _PARTS:
        above = page.parents[above]
    names.append(TAGS[page.tags[above]])
    return _DIGITS.sub("0", " < ".join(names))
