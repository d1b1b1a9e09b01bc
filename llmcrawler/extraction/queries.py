"""Runs selectors on a page: CSS and XPath on its tree, paths on its JSON-LD."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from cssselect import HTMLTranslator, SelectorError
from lxml import etree

from llmcrawler.content.structured import json_ld
from llmcrawler.extraction import json_paths
from llmcrawler.extraction.model import Language, Selector
from llmcrawler.extraction.patterns import taken
from llmcrawler.extraction.tree import fold, text_of

_TRANSLATOR = HTMLTranslator()
# Of a selector that matches more, the rest is not looked at.
_MAX_NODES = 1_000


class Source:
    """A page that selectors run on: its tree and, read on demand, its JSON-LD."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root

    @cached_property
    def json_ld(self) -> list[dict[str, Any]]:
        """The objects of the page's JSON-LD."""
        scripts = [
            script.text
            for script in self.root.iter("script")
            if script.text and "ld+json" in (script.get("type") or "").lower()
        ]
        return json_ld(scripts) if scripts else []


@lru_cache(maxsize=4096)
def compile_query(query: str, language: Language) -> etree.XPath:
    """Raises ValueError for a query that is no CSS or XPath."""
    try:
        xpath = _TRANSLATOR.css_to_xpath(query) if language == "css" else query
        return etree.XPath(xpath, smart_strings=False)
    except (SelectorError, etree.XPathError) as error:
        raise ValueError(f"not a {language} selector: {query!r}: {error}") from error


def nodes_at(element: etree._Element, selector: Selector) -> list[Any]:
    """The elements (or texts, for an XPath that ends in them) that a CSS or XPath selector gives below an element."""
    found = compile_query(selector.query, selector.language)(element)
    return found if isinstance(found, list) else [found]


def texts_at(source: Source, selector: Selector) -> list[str]:
    """What a selector gives on a page: texts, white space folded, none of them empty."""
    if selector.language == "json-ld":
        return taken(json_paths.resolve(source.json_ld, selector.query), selector.pattern)
    return texts_within(source.root, selector)


def texts_within(element: etree._Element, selector: Selector) -> list[str]:
    """What a CSS or XPath selector gives within an element."""
    texts = (_text(node, selector.attribute) for node in nodes_at(element, selector)[:_MAX_NODES])
    return taken([text for text in texts if text], selector.pattern)


def _text(node: Any, attribute: str | None) -> str:
    if not isinstance(node, etree._Element):
        return fold(str(node))
    return text_of(node) if attribute is None else fold(node.get(attribute) or "")
