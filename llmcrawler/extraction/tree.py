"""A page as the lxml tree that selectors run on: the same one that `scrapy shell` gives for the page."""

from __future__ import annotations

from typing import Final

from lxml import etree

_MAX_HTML_CHARS: Final = 6_000_000
# Words before and after these are one word.
INLINE_TAGS: Final = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark meter nobr output q rp rt ruby s"
    " samp small span strike strong sub sup time tt u var wbr".split()
)
# Never text that a visitor reads.
SILENT_TAGS: Final = frozenset(
    {"script", "style", "noscript", "template", "svg", "iframe", "textarea", "select", "head"}
)


def parse_tree(html: str) -> etree._Element:
    """The root element. Never raises on malformed HTML; an empty page is an empty html element."""
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
    body = html[:_MAX_HTML_CHARS].strip().replace("\x00", "").encode("utf-8", "replace") or b"<html/>"
    root = etree.fromstring(body, parser=parser)
    return etree.fromstring(b"<html/>", parser=parser) if root is None else root


def fold(text: str) -> str:
    """White space folded to single spaces."""
    return " ".join(text.split())


def text_of(element: etree._Element) -> str:
    """What a visitor reads in an element, white space folded; elements that start a line keep their words apart."""
    if len(element) == 0 or element.tag in SILENT_TAGS:
        return fold(element.text or "")
    pieces: list[str] = []
    silent: etree._Element | None = None
    for event, node in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
        apart = " " if isinstance(node.tag, str) and node.tag not in INLINE_TAGS else ""
        if event == "start":
            if silent is None and node.tag in SILENT_TAGS:
                silent = node
            pieces.append(apart)
            if silent is None:
                pieces.append(node.text or "")
        else:
            silent = None if node is silent else silent
            pieces.append(apart)
            if silent is None and node is not element:
                pieces.append(node.tail or "")
    return fold("".join(pieces))
