"""Reads the language and the flat metadata of a page from its head, and makes its references absolute http(s) urls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urljoin, urlsplit

from llmcrawler.core.content.markup import TAGS, Token
from llmcrawler.core.content.markup import attributes as attributes_of
from llmcrawler.core.content.segmenter import Segments
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
            part = above = page.parents[container]
            while part and TAGS[page.tags[part]] not in _PARTS:
                part = page.parents[part]
            containers = (container, above) if above != container else (container,)
            names = [page.signatures[one] for one in containers]
            place = places[container] = _place(*names, TAGS[page.tags[part]])
        links.append(Link(url, text, place))
    return tuple(links)


@lru_cache(maxsize=8192)
def _place(*names: str) -> str:
    """Return the names of the container, of what it is in, and of the part of the page; digits, which count things,
    are 0.
    """
    return _DIGITS.sub("0", " < ".join(names))[:_MAX_PLACE_CHARS]


# Names in PageContent.metadata for meta names and properties, best source first.
_NAMES: Final = (
    ("description", ("description", "og:description", "twitter:description")),
    ("author", ("author", "article:author", "dc.creator")),
    ("published", ("article:published_time", "datepublished", "dc.date", "date", "pubdate")),
    ("modified", ("article:modified_time", "og:updated_time", "datemodified", "last-modified")),
    ("site_name", ("og:site_name", "application-name")),
    ("robots", ("robots",)),
    ("tdm-reservation", ("tdm-reservation",)),
    ("tdm-policy", ("tdm-policy",)),
    ("og:type", ("og:type",)),
    ("og:title", ("og:title", "twitter:title")),
    ("og:image", ("og:image",)),
    ("keywords", ("keywords",)),
    ("generator", ("generator",)),
)
_REFRESH: Final = re.compile(r"^\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?['\"]?([^'\"]+)", re.IGNORECASE)
_RSL: Final = "rsl+xml"  # the media type of licences of Really Simple Licensing
_LICENCE: Final = re.compile(r' rel="(?:[^"]*\s)?license["\s]', re.IGNORECASE)
_MAX_LICENCES: Final = 5
_MAX_CONTENT_CHARS: Final = 20_000
_MAX_LANG_CHARS: Final = 40
_ROBOTS: Final = "robots"
_MAX_ROBOTS: Final = 20  # names of robots on one page
_MAX_ROBOTS_CHARS: Final = 2_000  # for one of them
_ROBOT: Final = re.compile(r"[a-z][\w.-]{0,59}")
# How a content begins that is for robots.
_FOR_ROBOTS: Final = re.compile(
    r"\s*+(?:(?:no[a-z]+|all|index|follow|max-[a-z-]+|unavailable_after)\b\s*+)++(?:[,;:]|$)", re.IGNORECASE
)
_LANG: Final = re.compile(r"^[a-zA-Z]{2,3}(?:[-_][a-zA-Z0-9]{2,8})*$")


def metas(page: Segments) -> dict[str, str]:
    """Return the contents of meta elements by lower-case name or property; the first one of a name counts."""
    found: dict[str, str] = {}
    for tag, attributes in page.metas:
        if tag == "meta":
            name = (attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or "").lower()
            content = " ".join(attributes.get("content", "")[:_MAX_CONTENT_CHARS].split())
            if name and content:
                found.setdefault(name, content)
    return found


def robots_metas(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return what a page says to robots in meta elements (name, content), by the names of the robots in lower case;
    "robots" are all. Of several elements for one name all count, with commas between.
    """
    found: dict[str, str] = {}
    for name, content in named:
        robot = name[:100].strip().lower()
        if robot == _ROBOTS or (_FOR_ROBOTS.match(content) and _ROBOT.fullmatch(robot)):
            before = f"{found[robot]}, " if robot in found else ""
            if before or robot == _ROBOTS or len(found) < _MAX_ROBOTS:
                found[robot] = f"{before}{content[:_MAX_ROBOTS_CHARS].strip()}"[:_MAX_ROBOTS_CHARS]
    return found


def base_reference(page: Segments) -> str:
    """Return the href of the first <base>, or ""."""
    return next((found["href"] for tag, found in page.metas if tag == "base" and found.get("href")), "")


def metadata(page: Segments, known: dict[str, str], resolve: Resolver) -> dict[str, str]:
    """Return what the page has of description, canonical, next, prev, refresh, author, published, and the like.
    `license` and `rsl` are addresses with blanks between them.
    """
    found = {}
    for name, sources in _NAMES:
        if value := next((known[source] for source in sources if source in known), ""):
            found[name] = value
    for tag, attributes in page.metas:
        if tag == "link":
            for rel in attributes.get("rel", "").lower().split():
                if rel in {"canonical", "next", "prev"} and (target := resolve(attributes.get("href", ""))):
                    found.setdefault(rel, target)
                elif rel == "license" and (target := resolve(attributes.get("href", ""))):
                    _add_licence(found, "rsl" if _RSL in attributes.get("type", "").lower() else rel, target)
        elif tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
            refresh = _REFRESH.match(attributes.get("content", ""))
            if refresh and (target := resolve(refresh[1])):
                found.setdefault("refresh", target)
    return found


def add_licences(found: dict[str, str], page_tokens: list[Token], resolve: Resolver) -> None:
    """Add the links of the page's text whose relation is "license" to its metadata."""
    for _, tag, source, _ in page_tokens:
        if tag == "a" and _LICENCE.search(source) and (target := resolve(attributes_of(source).get("href", ""))):
            _add_licence(found, "license", target)


def _add_licence(found: dict[str, str], name: str, target: str) -> None:
    targets = found.get(name, "").split()
    if target not in targets and len(targets) < _MAX_LICENCES:
        found[name] = " ".join([*targets, target])


def language(page: Segments, known: dict[str, str]) -> str:
    """Return the language tag that the page gives: html lang, else content-language, else og:locale, else ""."""
    headers = [a.get("content", "") for _, a in page.metas if a.get("http-equiv", "").lower() == "content-language"]
    of_html = [page.html_attributes.get(name, "") for name in ("lang", "xml:lang")]
    for value in (*of_html, *headers, known.get("og:locale", "")):
        if len(value) <= _MAX_LANG_CHARS and _LANG.match(value.strip()):
            return value.strip().replace("_", "-")
    return ""
