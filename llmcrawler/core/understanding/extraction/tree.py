"""Reads a page as a tree of elements: its texts, the ways through it, and the work that reading it may cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Final

from lxml import etree

from llmcrawler.core.content import with_streamed_parts
from llmcrawler.errors import TooCostly

# A step takes up to a microsecond. An ordinary page of 200 kB takes 5,000, and its record is made on the event loop.
INLINE_STEPS: Final = 12_000
# An honest table of 60,000 rows with six fields takes three million.
PAGE_STEPS: Final = 20_000_000
# Steps that a training run may take on each of its pages: it tries some thousand selectors.
TRAINING_STEPS: Final = 100_000_000
# To take a page of 3,000 blocks apart takes a tenth of that.
BLOCK_STEPS: Final = 1_000_000
_CHARS_A_STEP: Final = 8

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
_FRAME_TAGS: Final = frozenset({"nav", "footer", "header"})
_FRAME_NAME: Final = re.compile(
    r"(?:^|[-_])(?:nav|navbar|navigation|menu|footer|masthead|breadcrumbs?)(?:$|[-_])", re.IGNORECASE
)
CONTENT_TAGS: Final = frozenset({"article", "main"})
# libxml2 takes nearly everything behind a "<" for a tag's name, and does not let itself be asked for all of that.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Work:
    """Counts the steps that reading a page takes: an element visited, or a few characters read; at most `limit`."""

    def __init__(self, limit: int = PAGE_STEPS) -> None:
        self.limit = limit
        self.done = 0

    def charge(self, steps: int) -> None:
        """Count steps. Raises TooCostly where fewer are left."""
        self.done += steps
        if self.done > self.limit:
            raise TooCostly(f"the page's record takes more than {self.limit:,} steps")

    def charge_text(self, chars: int) -> None:
        self.charge(1 + chars // _CHARS_A_STEP)


def parse_tree(html: str) -> etree._Element:
    """Return the root element. Never raises on malformed HTML; an empty page is an empty html element."""
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
    page = with_streamed_parts(html).strip().encode("utf-8", "replace").replace(b"\x00", b"")
    root = etree.fromstring(page or b"<html/>", parser=parser)
    return etree.fromstring(b"<html/>", parser=parser) if root is None else root


def fold(text: str) -> str:
    return " ".join(text.split())


def text_of(element: etree._Element, work: Work | None = None) -> str:
    """Return what a visitor reads in an element, white space folded; words of different lines are kept apart.

    Raises TooCostly where this takes more work than is left."""
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


def line_up(element: etree._Element) -> Iterator[etree._Element]:
    yield element
    yield from element.iterancestors()


def starts_frame(element: etree._Element) -> bool:
    """Tell whether an element is a menu, or the head or foot of the site's pages."""
    names = f"{element.get('id') or ''} {element.get('class') or ''}".split()
    return element.tag in _FRAME_TAGS or any(map(_FRAME_NAME.search, names))


@lru_cache(maxsize=32)  # an anchor above an element is tried with each of its features
def steps_down(ancestor: etree._Element, element: etree._Element) -> tuple[str, str]:
    """Return the way down to an element, as CSS and as XPath; with positions where siblings have the same tag."""
    css: list[str] = []
    xpath: list[str] = []
    for node in takewhile(lambda node: node is not ancestor, line_up(element)):
        alike = str(node.tag) if _NAME.fullmatch(str(node.tag)) else "*"  # no selector finds other tags by name
        position = 1 + sum(1 for _ in node.itersiblings(alike, preceding=True))
        alone = position == 1 and next(node.itersiblings(alike), None) is None
        css.append(str(node.tag) if alone else f"{node.tag}:nth-of-type({position})")
        xpath.append(str(node.tag) if alone else f"{node.tag}[{position}]")
    return " > ".join(reversed(css)), "/".join(reversed(xpath))


def tags_down(ancestor: etree._Element, element: etree._Element) -> list[str]:
    return [str(node.tag) for node in takewhile(lambda node: node is not ancestor, line_up(element))][::-1]


def absolute_path(element: etree._Element) -> str:
    root = element.getroottree().getroot()
    _, xpath = steps_down(root, element)
    return f"/{root.tag}/{xpath}" if xpath else f"/{root.tag}"
