"""Features that find an element on other pages of its template: its own attributes, and the labels beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lxml import etree

from llmcrawler.core.content.fingerprint import may_be_hash
from llmcrawler.core.understanding.extraction.tree import fold, line_up, steps_down

PROPERTY: Final = "property"
ID: Final = "id"
CLASS: Final = "class"
PATH: Final = "path"
_PROPERTY_ATTRIBUTES: Final = ("itemprop", "property", "data-testid", "data-test", "data-qa", "data-cy", "data-hook")
# Written for other machines: often cut, stripped of markup, or out of date.
_META_PRIOR: Final = 0.65
_MAX_ANCESTORS: Final = 8
_MAX_CLASSES: Final = 6
_TAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{1,59}$")
_NUMBERED: Final = re.compile(r"\d{2,}|\d$")
_STATE: Final = re.compile(
    r"(?:^|[-_])(?:active|current|selected|open|hidden|show|first|last|odd|even|disabled|lazy\w*)$"
)
_UNIQUE_TAGS: Final = {"h1": 0.75, "title": 0.3, "time": 0.5, "address": 0.5, "h2": 0.3, "h3": 0.25, "blockquote": 0.3}

_MAX_LABEL_CHARS: Final = 60
_MAX_LABEL_PIECES: Final = 2
_LABEL_LEVELS: Final = 4
_MAX_HEADING_DISTANCE: Final = 8
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "dt", "th", "label", "strong", "b"})
# Next to each other these are items of one list, and none names the other.
_EQUALS: Final = frozenset({"li", "a", "tr", "dd", "option", "img"})
_NOT_LABELLED: Final = frozenset({"html", "body", "main", "article", "section", "aside", "nav", "form", "footer"})
_NO_LABELS: Final = frozenset(
    {"nav", "header", "footer", "main", "article", "section", "aside", "ul", "ol", "dl", "table", "form", "figure"}
)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that tells an element from others: as CSS, and as an XPath node test. `prior` is the trust in it."""

    css: str
    xpath: str
    evidence: str
    prior: float


def features_of(element: etree._Element) -> Iterator[Feature]:
    """Yield the features of an element that mark it, the best first."""
    tag = str(element.tag)
    for attribute in _property_attributes(element):
        test = f'{attribute}="{element.get(attribute) or ""}"'
        prior = _META_PRIOR if tag == "meta" and attribute != "itemprop" else 1.0
        yield Feature(f"{tag}[{test}]", f"{tag}[@{test}]", PROPERTY, prior)
    identifier = element.get("id") or ""
    if _TAME.match(identifier) and not _NUMBERED.search(identifier):
        yield Feature(f"#{identifier}", f'*[@id="{identifier}"]', ID, 0.95)
    if tag in _UNIQUE_TAGS:
        yield Feature(tag, tag, PATH if tag != "h1" else CLASS, _UNIQUE_TAGS[tag])
    names = [one for one in dict.fromkeys((element.get("class") or "").split()) if _TAME.match(one)]
    classes = {name: _class_prior(name) for name in names if not _STATE.search(name)}
    classes = dict(list(classes.items())[:_MAX_CLASSES])
    if 1 < len(classes) <= 4:
        test = " and ".join(map(_has_class, classes))
        yield Feature(f"{tag}.{'.'.join(classes)}", f"{tag}[{test}]", CLASS, min(classes.values()) - 0.05)
    for name, prior in classes.items():
        yield Feature(f"{tag}.{name}", f"{tag}[{_has_class(name)}]", CLASS, prior)


def best_features(element: etree._Element) -> list[Feature]:
    """Return the best three features of an element."""
    return list(features_of(element))[:3]


def common_features(elements: Sequence[etree._Element]) -> list[Feature]:
    """Return the features of the first element that all others have too."""
    others = [{feature.css for feature in features_of(element)} for element in elements[1:]]
    return [feature for feature in features_of(elements[0]) if all(feature.css in found for found in others)]


def anchors(element: etree._Element) -> Iterator[tuple[Feature, etree._Element]]:
    """Yield ancestors with a feature of their own: the nearest ones, further up only those with an id or a property."""
    for level, ancestor in enumerate(element.iterancestors()):
        if level >= _MAX_ANCESTORS or ancestor.tag in ("body", "html"):
            return
        for feature in best_features(ancestor)[: 2 if level < 4 else 1]:
            if level < 4 or feature.evidence in (ID, PROPERTY):
                yield feature, ancestor
        if ancestor.tag in ("article", "main"):
            yield Feature(str(ancestor.tag), str(ancestor.tag), PATH, 0.5), ancestor


def joined(anchor: Feature, feature: Feature) -> tuple[str, float]:
    """Return evidence and prior of a feature below an anchor: it rests on the weaker of the two."""
    if feature.evidence in (PROPERTY, ID):
        return feature.evidence, 0.9 * feature.prior
    if feature.evidence == CLASS:
        return CLASS, feature.prior + 0.05 * anchor.prior
    return (ID if anchor.evidence in (ID, PROPERTY) else PATH), 0.6 * anchor.prior


def tag_feature(element: etree._Element) -> Feature:
    """Return the tag of an element as a weak feature."""
    return Feature(str(element.tag), str(element.tag), PATH, 0.3)


def _class_prior(name: str) -> float:
    return 0.35 if may_be_hash(name) else 0.7


def _has_class(name: str) -> str:
    return f'contains(concat(" ", normalize-space(@class), " "), " {name} ")'


def _property_attributes(element: etree._Element) -> list[str]:
    own = {"meta": ["name"], "link": ["rel"]}.get(str(element.tag), [])
    names = [*_PROPERTY_ATTRIBUTES, *own]
    return [name for name in names if re.fullmatch(r"[\w:.-]{2,60}", element.get(name) or "")]


def label_queries(element: etree._Element, text_index: int | None) -> Iterator[tuple[str, float]]:
    """Yield (XPath, prior) to an element, or one of its text nodes, by the text before it or before what holds it."""
    if text_index is not None:
        yield from _labelled_text(element, text_index)
        return
    for level, node in enumerate(line_up(element)):
        if level > _LABEL_LEVELS or node.tag in _NOT_LABELLED or (level and _holds_more(node, element)):
            return
        inner = f"/{steps_down(node, element)[1]}" if node is not element else ""
        prior = 0.9 - 0.1 * level - 0.04 * inner.count("/") - (0.3 if "[" in inner else 0.0)
        before = _before(node)
        if isinstance(before, str):
            query = f"//text()[normalize-space()={_literal(before)}]/following-sibling::{node.tag}[1]{inner}"
            yield query, prior - 0.05
        elif before is not None and not (before.tag == node.tag and node.tag in _EQUALS) and (label := _label(before)):
            # td, dd, p: the tag of the value stands for itself; its cell may hold more than the value.
            yield f"{_labelled_by(before, label)}/following-sibling::{node.tag}[1]{inner}", prior
        heading, position = _heading_before(node)
        if heading is not None and heading is not before and (label := _label(heading)):
            query = f"{_labelled_by(heading, label)}/following-sibling::{node.tag}[{position}]{inner}"
            yield query, prior - 0.15 - 0.05 * position


def prefix_queries(element: etree._Element, prefix: str) -> Iterator[tuple[str, float]]:
    """Yield (XPath, prior) to elements and text nodes that start with a label: "Published: 12 May"."""
    label = prefix.strip()
    if sum(map(str.isalpha, label)) >= 3 and len(label) <= _MAX_LABEL_CHARS:
        test = f"starts-with(normalize-space(), {_literal(label)})"
        yield f"//{element.tag}[{test}]", 0.85
        yield f"//text()[{test}]", 0.8


def is_mostly(holder: etree._Element, elements: Sequence[etree._Element]) -> bool:
    """Tell whether an element holds little besides these elements."""
    return _text_chars(holder) <= 2 * sum(map(_text_chars, elements)) + _MAX_LABEL_CHARS


def _labelled_text(element: etree._Element, text_index: int) -> Iterator[tuple[str, float]]:
    seen = 0
    before: etree._Element | None = None
    for node, text in [(None, element.text), *((child, child.tail) for child in element)]:
        if node is not None and isinstance(node.tag, str) and node.tag not in ("br", "wbr"):
            before = node
        seen += bool(fold(text or ""))
        if seen == text_index:
            break
    if before is not None and (label := _label(before)):
        yield f"{_labelled_by(before, label)}/following-sibling::text()[normalize-space()][1]", 0.9


def _labelled_by(element: etree._Element, label: str) -> str:
    return f"//{element.tag}[normalize-space()={_literal(label)}]"


def _holds_more(node: etree._Element, element: etree._Element) -> bool:
    """Tell whether a node holds so much besides an element that a label before the node is not the element's."""
    return _text_chars(node) > 2 * _text_chars(element) + _MAX_LABEL_CHARS


def _text_chars(element: etree._Element) -> int:
    return sum(len(str(piece).strip()) for piece in element.itertext())


def _before(node: etree._Element) -> etree._Element | str | None:
    """Return the text or the element just before a node, within its parent."""
    for previous in node.itersiblings(preceding=True):
        text = fold(previous.tail or "")
        if text:
            return text if len(text) <= _MAX_LABEL_CHARS else None
        if isinstance(previous.tag, str) and previous.tag not in ("br", "wbr", "hr", "script", "style", "img"):
            return previous
    parent = node.getparent()
    text = fold(parent.text or "") if parent is not None else ""
    return text if text and len(text) <= _MAX_LABEL_CHARS else None


def _heading_before(node: etree._Element) -> tuple[etree._Element | None, int]:
    """Return the nearest heading before a node, and the node's place (from 1) among siblings of its tag behind it."""
    position = 1
    for sibling in islice(node.itersiblings(preceding=True), _MAX_HEADING_DISTANCE + 1):
        if sibling.tag in _HEADINGS:
            return sibling, position
        position += sibling.tag == node.tag
    return None, position


def _label(element: etree._Element) -> str:
    """Return an element's text as XPath's normalize-space() sees it, where it is short enough to be a label."""
    if element.tag in _NO_LABELS:
        return ""
    pieces = [str(piece) for piece in element.itertext()]
    if sum(bool(piece.strip()) for piece in pieces) > _MAX_LABEL_PIECES:
        return ""
    text = fold("".join(pieces))
    return text if len(text) <= _MAX_LABEL_CHARS and any(map(str.isalpha, text)) else ""


def _literal(text: str) -> str:
    """Return a text as an XPath 1.0 literal, which knows no escapes."""
    if '"' not in text:
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    pieces = ", '\"', ".join(f'"{piece}"' for piece in text.split('"'))
    return f"concat({pieces})"
