"""Reads the language and the flat metadata of a page from its head."""

from __future__ import annotations

import re
from typing import Final

from .page_links import Resolver
from .segments import Segments

# Names in PageContent.metadata for meta names and properties, best source first.
_NAMES: Final = (
    ("description", ("description", "og:description", "twitter:description")),
    ("author", ("author", "article:author", "dc.creator")),
    ("published", ("article:published_time", "datepublished", "dc.date", "date", "pubdate")),
    ("modified", ("article:modified_time", "og:updated_time", "datemodified", "last-modified")),
    ("site_name", ("og:site_name", "application-name")),
    ("robots", ("robots",)),
    ("og:type", ("og:type",)),
    ("og:title", ("og:title", "twitter:title")),
    ("og:image", ("og:image",)),
    ("keywords", ("keywords",)),
    ("generator", ("generator",)),
)
_REFRESH: Final = re.compile(r"^\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?['\"]?([^'\"]+)", re.IGNORECASE)
_MAX_CONTENT_CHARS: Final = 20_000
_MAX_LANG_CHARS: Final = 40
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


def base_reference(page: Segments) -> str:
    """Return the href of the first <base>, or ""."""
    return next((found["href"] for tag, found in page.metas if tag == "base" and found.get("href")), "")


def metadata(page: Segments, known: dict[str, str], resolve: Resolver) -> dict[str, str]:
    """Return what the page has of description, canonical, next, prev, refresh, author, published, and the like."""
    found = {}
    for name, sources in _NAMES:
        if value := next((known[source] for source in sources if source in known), ""):
            found[name] = value
    for tag, attributes in page.metas:
        if tag == "link":
            for rel in attributes.get("rel", "").lower().split():
                if rel in {"canonical", "next", "prev"} and (target := resolve(attributes.get("href", ""))):
                    found.setdefault(rel, target)
        elif tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
            refresh = _REFRESH.match(attributes.get("content", ""))
            if refresh and (target := resolve(refresh[1])):
                found.setdefault("refresh", target)
    return found


def language(page: Segments, known: dict[str, str]) -> str:
    """Return the language tag that the page gives: html lang, else content-language, else og:locale, else ""."""
    headers = [a.get("content", "") for _, a in page.metas if a.get("http-equiv", "").lower() == "content-language"]
    of_html = [page.html_attributes.get(name, "") for name in ("lang", "xml:lang")]
    for value in (*of_html, *headers, known.get("og:locale", "")):
        if len(value) <= _MAX_LANG_CHARS and _LANG.match(value.strip()):
            return value.strip().replace("_", "-")
    return ""
