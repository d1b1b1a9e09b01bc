"""Reads only a page's title, links and feeds, for mapping a site: a tenth of the cost of reading the whole page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborNode

from llmcrawler.core.content.markup import parse
from llmcrawler.core.content.metadata import robots_metas
from llmcrawler.core.content.page_links import Resolver

_FEED_TYPES: Final = frozenset(("application/rss+xml", "application/atom+xml"))
_WAYS: Final = frozenset(("next", "prev", "canonical", "alternate"))
_MAX_TITLE_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Outline:
    """The title, links and feeds of a page; absolute urls, in document order. `robots` is that of PageContent."""

    title: str
    links: tuple[str, ...]
    feeds: tuple[str, ...]
    robots: dict[str, str]


def read_outline(html: str, url: str) -> Outline:
    """Read the outline of a page. Pure; malformed HTML raises nothing. Other addresses of the page (canonical, other
    languages) are links too.
    """
    tree = parse(html)
    base = tree.css_first("base[href]")
    resolve = Resolver(url, _attribute(base, "href") if base is not None else "")
    title = tree.css_first("title")
    references = [_attribute(node, "href") for node in tree.css("a[href], area[href]")]
    feeds: dict[str, None] = {}
    for node in tree.css("link[href][rel]"):
        kind = _attribute(node, "type").partition(";")[0].strip().lower()
        relations = _WAYS.intersection(_attribute(node, "rel").lower().split())
        if "alternate" in relations and kind in _FEED_TYPES:
            feeds[resolve(_attribute(node, "href"))] = None
        elif relations and kind in ("", "text/html"):
            references.append(_attribute(node, "href"))
    links = dict.fromkeys(
        resolve(reference).partition("#")[0] for reference in references if not reference.startswith("#")
    )
    return Outline(
        title=" ".join((title.text() if title is not None else "").split())[:_MAX_TITLE_CHARS],
        links=tuple(filter(None, links)),
        feeds=tuple(filter(None, feeds)),
        robots=robots_metas((_attribute(node, "name"), _attribute(node, "content")) for node in tree.css("meta[name]")),
    )


def _attribute(node: LexborNode, name: str) -> str:
    return node.attributes.get(name) or ""
