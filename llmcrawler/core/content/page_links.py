"""Turns the references of a page into absolute http(s) urls."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import urljoin, urlsplit

from llmcrawler.core.content.elements import TAGS
from llmcrawler.core.content.segments import Segments
from llmcrawler.items import Link

_OTHER_SCHEMES: Final = ("javascript:", "mailto:", "tel:", "data:", "about:", "blob:", "ftp:", "sms:", "whatsapp:")
_PARTS: Final = frozenset(("nav", "header", "footer", "aside", "main", "article"))
_PATH: Final = re.compile(r"[^?#]*")
_DIGITS: Final = re.compile(r"\d+")
# Twice what a crawl takes, as an address can shrink. Longer ones are data; and joined to a long base, each of ten
# thousand links would be as long as that.
_MAX_URL_CHARS: Final = 4200
_MAX_LINKS: Final = 10_000  # of one page
_MAX_TEXT_CHARS: Final = 1000
_MAX_PLACE_CHARS: Final = 300
_DROPPED: Final = {ord(char): None for char in "\t\r\n"}


class Resolver:
    """Joins references to one base; root-relative and absolute ones without urllib, which costs ten times as much."""

    def __init__(self, url: str, base: str = "") -> None:
        self.base = url
        if base and len(base) <= _MAX_URL_CHARS:
            self.base = self._join(base) or url
        try:
            parts = urlsplit(self.base)
        except ValueError:
            parts = urlsplit("")
        self._root = f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} else ""
        self._known: dict[str, str] = {}

    def __call__(self, reference: str) -> str:
        """Return the absolute url, or "" where the reference leads to none that can be fetched over http(s)."""
        if len(reference) > _MAX_URL_CHARS:
            return ""
        found = self._known.get(reference)
        if found is None:
            found = self._known[reference] = self._resolve(reference.strip().translate(_DROPPED))
        return found

    def _resolve(self, reference: str) -> str:
        if reference.lower().startswith(_OTHER_SCHEMES):
            return ""
        if "\\" in reference:  # browsers take it for a slash, but behind the path
            path = _PATH.match(reference)
            assert path is not None  # it may be empty
            reference = path[0].replace("\\", "/") + reference[path.end() :]
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
        is_page = joined.startswith(("http://", "https://")) and len(joined) <= _MAX_URL_CHARS
        return joined if is_page else ""


def resolve_links(page: Segments, resolve: Resolver) -> tuple[Link, ...]:
    """Return links in document order, one per url, with the first anchor text that is not empty and its place."""
    texts: dict[str, tuple[str, int]] = {}
    for reference, text, container in page.links:
        if reference.startswith("#"):
            continue
        url = resolve(reference).partition("#")[0]
        if url and (url not in texts or not texts[url][0]):
            texts[url] = text[:_MAX_TEXT_CHARS], container
            if len(texts) >= _MAX_LINKS:
                break
    places: dict[int, str] = {}
    links = []
    for url, (text, container) in texts.items():
        place = places.get(container)
        if place is None:
            above = page.parents[container]
            containers = (container, above) if above != container else (container,)
            place = places[container] = _place(*(page.signatures[one] for one in containers), _part(page, above))
        links.append(Link(url, text, place))
    return tuple(links)


def _part(page: Segments, container: int) -> str:
    """Return the part of the page (nav, main, ...) that a container is or stands in; "body" outside of all."""
    while container and TAGS[page.tags[container]] not in _PARTS:
        container = page.parents[container]
    return TAGS[page.tags[container]]


@lru_cache(maxsize=8192)
def _place(*names: str) -> str:
    """Return the names of the container, of what it is in, and of the part of the page; digits, which count things,
    are 0.
    """
    return _DIGITS.sub("0", " < ".join(names))[:_MAX_PLACE_CHARS]
