"""Runs selectors on a page: CSS and XPath on its tree, paths on its JSON-LD."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from cssselect import HTMLTranslator, SelectorError
from lxml import etree

from llmcrawler.content.structured import json_ld
from llmcrawler.extraction import json_paths
from llmcrawler.extraction.evaluation import TextNode, evaluate
from llmcrawler.extraction.model import Language, Selector
from llmcrawler.extraction.paths import path_of
from llmcrawler.extraction.patterns import taken
from llmcrawler.extraction.tree import fold, text_of
from llmcrawler.extraction.work import Work

_TRANSLATOR = HTMLTranslator()
# Of a selector that matches more, the rest is not looked at.
_MAX_NODES = 1_000


class Source:
    """A page that selectors run on: its tree and, read on demand, its JSON-LD. `work` is what it may take."""

    def __init__(self, root: etree._Element, work: Work | None = None) -> None:
        self.root = root
        self.work = work or Work()

    @cached_property
    def json_ld(self) -> list[dict[str, Any]]:
        """The objects of the page's JSON-LD."""
        scripts = [
            script.text
            for script in self.root.iter("script")
            if script.text and "ld+json" in (script.get("type") or "").lower()
        ]
        self.work.charge_text(sum(map(len, scripts)))
        return json_ld(scripts) if scripts else []


@lru_cache(maxsize=4096)
def compile_query(query: str, language: Language) -> etree.XPath:
    """For libxml2. Raises ValueError for a query that is no CSS or XPath."""
    try:
        xpath = _TRANSLATOR.css_to_xpath(query) if language == "css" else query
        return etree.XPath(xpath, smart_strings=False)
    except (SelectorError, etree.XPathError) as error:
        raise ValueError(f"not a {language} selector: {query!r}: {error}") from error


def is_bounded(selector: Selector) -> bool:
    """Whether a selector's work is counted. That of what only libxml2 understands is not, and may have no end."""
    return selector.language == "json-ld" or path_of(selector.query, selector.language) is not None


def nodes_at(element: etree._Element, selector: Selector, work: Work) -> list[Any]:
    """The elements (or texts, for an XPath that ends in them) that a CSS or XPath selector gives below an element.

    Raises TooCostly where they take more work than is left.
    """
    path = path_of(selector.query, selector.language)
    if path is not None:
        return [str(node) if isinstance(node, TextNode) else node for node in evaluate(path, element, work)]
    try:
        found = compile_query(selector.query, selector.language)(element)
    except etree.XPathError:
        return []  # it is one by its form, and has a prefix or a function that is not known
    work.charge(len(found) if isinstance(found, list) else 1)
    return found if isinstance(found, list) else [found]


def texts_at(source: Source, selector: Selector) -> list[str]:
    """What a selector gives on a page: texts, white space folded, none of them empty. Raises TooCostly."""
    if selector.language == "json-ld":
        return taken(json_paths.resolve(source.json_ld, selector.query), selector.pattern, source.work)
    return texts_within(source.root, selector, source.work)


def texts_within(element: etree._Element, selector: Selector, work: Work) -> list[str]:
    """What a CSS or XPath selector gives within an element. Raises TooCostly."""
    texts = (_text(node, selector.attribute, work) for node in nodes_at(element, selector, work)[:_MAX_NODES])
    return taken([text for text in texts if text], selector.pattern, work)


def _text(node: Any, attribute: str | None, work: Work) -> str:
    if not isinstance(node, etree._Element):
        text = str(node)
    elif attribute is None:
        return text_of(node, work)
    else:
        text = node.get(attribute) or ""
    work.charge_text(len(text))
    return fold(text)
