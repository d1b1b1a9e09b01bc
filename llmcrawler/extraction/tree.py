"""A page as the lxml tree that selectors run on: the same one that `scrapy shell` gives for the page."""

from __future__ import annotations

from typing import Final

from lxml import etree

from llmcrawler.extraction.work import Work

_MAX_HTML_CHARS: Final = 6_000_000
_MANY_PIECES: Final = 1_000
_STEPS_A_PIECE: Final = 3
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


def text_of(element: etree._Element, work: Work | None = None) -> str:
    """What a visitor reads in an element, white space folded; elements that start a line keep their words apart.

    Raises TooCostly where this takes more work than is left.
    """
    work = work or Work()
    if len(element) == 0 or element.tag in SILENT_TAGS:
        work.charge_text(len(element.text or ""))
        return fold(element.text or "")
    pieces: list[str] = []
    charged = 0
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
        if len(pieces) > charged + _MANY_PIECES:
            work.charge(_STEPS_A_PIECE * (len(pieces) - charged))
            charged = len(pieces)
    work.charge(_STEPS_A_PIECE * (len(pieces) - charged))
    text = "".join(pieces)
    work.charge_text(len(text))
    return fold(text)
