"""Labels: texts that say what the value after them, or within them, is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lxml import etree

from llmcrawler.extraction.steps import line_up, steps_down
from llmcrawler.extraction.tree import fold

_MAX_LABEL_CHARS: Final = 60
_MAX_LABEL_PIECES: Final = 2
_LABEL_LEVELS: Final = 4
# Next to each other these are items of one list, and none names the other.
_EQUALS: Final = frozenset({"li", "a", "tr", "dd", "option", "img"})
_NOT_LABELLED: Final = frozenset({"html", "body", "main", "article", "section", "aside", "nav", "form", "footer"})
_NO_LABELS: Final = frozenset(
    {"nav", "header", "footer", "main", "article", "section", "aside", "ul", "ol", "dl", "table", "form", "figure"}
)


def label_queries(element: etree._Element, text_index: int | None) -> Iterator[tuple[str, float]]:
    """XPaths to an element (or one of its text nodes) by the text just before it, or before what holds it."""
    if text_index is not None:
        yield from _labelled_text(element, text_index)
        return
    for level, node in enumerate(line_up(element)):
        if level > _LABEL_LEVELS or node.tag in _NOT_LABELLED or (level and _holds_more(node, element)):
            return
        _, inner = steps_down(node, element) if node is not element else ("", "")
        inner = f"/{inner}" if inner else ""
        prior = 0.9 - 0.1 * level - 0.04 * inner.count("/") - (0.3 if "[" in inner else 0.0)
        before = _before(node)
        if isinstance(before, str):
            query = f"//text()[normalize-space()={_literal(before)}]/following-sibling::{node.tag}[1]{inner}"
            yield query, prior - 0.05
        elif before is not None and not (before.tag == node.tag and node.tag in _EQUALS):
            label = _label(before)
            if label:
                # td, dd, p: the tag of the value stands for itself; its cell may hold more than the value.
                query = f"//{before.tag}[normalize-space()={_literal(label)}]/following-sibling::{node.tag}[1]{inner}"
                yield query, prior
        heading = _heading_before(node)
        if heading is not None and heading is not before:
            label = _label(heading)
            position = 1 + sum(one.tag == node.tag for one in _between(heading, node))
            if label:
                test = f"//{heading.tag}[normalize-space()={_literal(label)}]"
                yield f"{test}/following-sibling::{node.tag}[{position}]{inner}", prior - 0.15 - 0.05 * position


def prefix_queries(element: etree._Element, prefix: str) -> Iterator[tuple[str, float]]:
    """XPaths to elements and text nodes that start with a label: "Published: 12 May"."""
    label = prefix.strip()
    if sum(character.isalpha() for character in label) >= 3 and len(label) <= _MAX_LABEL_CHARS:
        test = f"starts-with(normalize-space(), {_literal(label)})"
        yield f"//{element.tag}[{test}]", 0.85
        yield f"//text()[{test}]", 0.8


def is_mostly(holder: etree._Element, elements: Sequence[etree._Element]) -> bool:
    """Whether an element holds little besides these."""
    return _text_chars(holder) <= 2 * sum(map(_text_chars, elements)) + _MAX_LABEL_CHARS


def _labelled_text(element: etree._Element, text_index: int) -> Iterator[tuple[str, float]]:
    seen = 0
    before: etree._Element | None = None
    for node, text in [(None, element.text), *((child, child.tail) for child in element)]:
        if node is not None and isinstance(node.tag, str) and node.tag not in ("br", "wbr"):
            before = node
        if fold(text or ""):
            seen += 1
            if seen == text_index:
                break
    label = _label(before) if before is not None else ""
    if before is not None and label:
        yield (
            f"//{before.tag}[normalize-space()={_literal(label)}]/following-sibling::text()[normalize-space()][1]",
            0.9,
        )


def _between(heading: etree._Element, node: etree._Element) -> Iterator[etree._Element]:
    for sibling in node.itersiblings(preceding=True):
        if sibling is heading:
            return
        yield sibling


def _holds_more(node: etree._Element, element: etree._Element) -> bool:
    """Whether a node holds so much besides an element that a label before the one does not speak of the other."""
    return _text_chars(node) > 2 * _text_chars(element) + _MAX_LABEL_CHARS


def _text_chars(element: etree._Element) -> int:
    return sum(len(str(piece).strip()) for piece in element.itertext())


def _before(node: etree._Element) -> etree._Element | str | None:
    """The text or the element just before a node, within its parent."""
    previous = node.getprevious()
    while previous is not None:
        if fold(previous.tail or ""):
            return fold(previous.tail or "") if len(fold(previous.tail or "")) <= _MAX_LABEL_CHARS else None
        if isinstance(previous.tag, str) and previous.tag not in ("br", "wbr", "hr", "script", "style", "img"):
            return previous
        previous = previous.getprevious()
    parent = node.getparent()
    text = fold(parent.text or "") if parent is not None else ""
    return text if text and len(text) <= _MAX_LABEL_CHARS else None


def _heading_before(node: etree._Element) -> etree._Element | None:
    for distance, sibling in enumerate(node.itersiblings(preceding=True)):
        if distance > 8:
            return None
        if sibling.tag in ("h1", "h2", "h3", "h4", "h5", "h6", "dt", "th", "label", "strong", "b"):
            return sibling
    return None


def _label(element: etree._Element) -> str:
    """An element's text as XPath's normalize-space() sees it, where it is short enough to be a label."""
    if element.tag in _NO_LABELS:
        return ""
    pieces = [str(piece) for piece in element.itertext()]
    if sum(bool(piece.strip()) for piece in pieces) > _MAX_LABEL_PIECES:
        return ""
    text = fold("".join(pieces))
    return text if len(text) <= _MAX_LABEL_CHARS and any(character.isalpha() for character in text) else ""


def _literal(text: str) -> str:
    """A text as an XPath 1.0 literal, which knows no escapes."""
    if '"' not in text:
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    pieces = ", '\"', ".join(f'"{piece}"' for piece in text.split('"'))
    return f"concat({pieces})"
