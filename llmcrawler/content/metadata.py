"""A page's head: title, language, description, author, dates, and what it tells social networks."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser

# The names under which pages give the same thing, the more reliable first.
_NAMES = {
    "description": ("description", "og:description", "twitter:description", "dc.description"),
    "author": ("author", "article:author", "dc.creator", "parsely-author", "sailthru.author"),
    "published": ("article:published_time", "datepublished", "dc.date", "date", "pubdate", "parsely-pub-date"),
    "modified": ("article:modified_time", "og:updated_time", "datemodified", "last-modified", "dcterms.modified"),
    "site_name": ("og:site_name", "application-name"),
    "robots": ("robots",),
    "generator": ("generator",),
    "og:type": ("og:type",),
    "og:title": ("og:title",),
    "og:image": ("og:image",),
    "og:locale": ("og:locale", "content-language"),
}
_MAX_VALUE = 2_000
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8})*\Z", re.IGNORECASE)


def metadata(tree: LexborHTMLParser) -> dict[str, str]:
    """Only what is there. Values are text with white space folded; urls are as the page has them."""
    given: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        attributes = node.attributes
        name = attributes.get("property") or attributes.get("name") or attributes.get("http-equiv") or ""
        value = " ".join((attributes.get("content") or "").split())
        if name and value:
            given.setdefault(name.lower(), value[:_MAX_VALUE])
    found = {}
    for key, names in _NAMES.items():
        value = next((given[name] for name in names if name in given), "")
        if value:
            found[key] = value
    canonical = tree.css_first('link[rel="canonical" i][href]')
    if canonical is not None:
        found["canonical"] = (canonical.attributes.get("href") or "").strip()
    return found


def title(tree: LexborHTMLParser, known: dict[str, str]) -> str:
    """The page's title; without one what it tells social networks, then its first heading."""
    node = tree.css_first("head > title") or tree.css_first("title")
    text = " ".join((node.text() or "").split()) if node is not None else ""
    if not text:
        text = known.get("og:title", "")
    if not text:
        heading = tree.css_first("h1")
        text = " ".join((heading.text() or "").split()) if heading is not None else ""
    return text[:_MAX_VALUE]


def language(tree: LexborHTMLParser, known: dict[str, str]) -> str:
    """A BCP 47 tag as the page declares it, or ""."""
    root = tree.css_first("html")
    declared = (root.attributes.get("lang") or root.attributes.get("xml:lang") or "") if root is not None else ""
    for text in (declared, known.get("og:locale", "")):
        tag = text.strip().replace("_", "-")
        if _LANGUAGE.match(tag):
            return tag
    return ""
