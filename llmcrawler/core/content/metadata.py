"""Reads the language and the flat metadata of a page from its head."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from llmcrawler.core.content.markup import Token
from llmcrawler.core.content.markup import attributes as attributes_of
from llmcrawler.core.content.page_links import Resolver
from llmcrawler.core.content.segments import Segments

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
