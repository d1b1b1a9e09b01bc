"""Selectors that could find again what the model pointed at.

Kinds of evidence, and what was measured of them: DESIGN, "Records". The order of trust is a prior only; how a candidate
does on the pages decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

from llmcrawler.extraction.blocks import Spot
from llmcrawler.extraction.model import Selector
from llmcrawler.extraction.tree import fold

PROPERTY: Final = "property"
STRUCTURED: Final = "structured-data"
ID: Final = "id"
LABEL: Final = "label"
CLASS: Final = "class"
PATH: Final = "path"

_PROPERTY_ATTRIBUTES: Final = ("itemprop", "property", "data-testid", "data-test", "data-qa", "data-cy", "data-hook")
# Written for other machines: often cut, stripped of markup, or out of date.
_META_PRIOR: Final = 0.65
_MAX_ANCESTORS: Final = 8
_MAX_CLASSES: Final = 6
_MAX_LABEL_CHARS: Final = 60
_MAX_LABEL_PIECES: Final = 2
_LABEL_LEVELS: Final = 4
_TAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{1,59}$")
_NUMBERED: Final = re.compile(r"\d{2,}|\d$")
# What build tools make of a class name; it holds until the next build.
_HASHED: Final = re.compile(
    r"^(?:css|sc|jsx|emotion|styled|svelte|jss)-|^[a-z]{4,6}[A-Z][A-Za-z]{3}$|(?=.*\d)(?=.*[A-Z])[A-Za-z0-9_-]{5,}$"
)
_STATE: Final = re.compile(
    r"(?:^|[-_])(?:active|current|selected|open|hidden|show|first|last|odd|even|disabled|lazy\w*)$"
)
# Next to each other these are items of one list, and none names the other.
_EQUALS: Final = frozenset({"li", "a", "tr", "dd", "option", "img"})
_NOT_LABELLED: Final = frozenset({"html", "body", "main", "article", "section", "aside", "nav", "form", "footer"})
_NO_LABELS: Final = frozenset(
    {"nav", "header", "footer", "main", "article", "section", "aside", "ul", "ol", "dl", "table", "form", "figure"}
)
_UNIQUE_TAGS: Final = {"h1": 0.75, "title": 0.3, "time": 0.5, "address": 0.5, "h2": 0.3, "h3": 0.25, "blockquote": 0.3}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selector (without a pattern yet) and how far its kind is trusted before it is tried, 0..1."""

    selector: Selector
    prior: float


@dataclass(frozen=True, slots=True)
class _Sign:
    """Something that tells an element from others: as CSS, and as an XPath node test."""

    css: str
    xpath: str
    evidence: str
    prior: float


def candidates_for(spots: Sequence[Spot]) -> list[Candidate]:
    """Selectors for one value, which stands at one spot, or for a list, whose items stand at several."""
    found: dict[tuple[str, str | None], Candidate] = {}
    for candidate in _all(spots):
        key = (candidate.selector.query, candidate.selector.attribute)
        if key not in found or found[key].prior < candidate.prior:
            found[key] = candidate
    return list(found.values())


def candidates_within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
    """Selectors for a value relative to the element of a repeated group that it stands in."""
    element = spot.element
    assert element is not None
    tail = f"/text()[normalize-space()][{spot.text_index}]" if spot.text_index else ""

    def relative(css: str, xpath: str, evidence: str, prior: float) -> Candidate:
        if tail:
            return Candidate(Selector(f".//{xpath}{tail}", "xpath", None, None, evidence), prior)
        return Candidate(Selector(css, "css", spot.attribute, None, evidence), prior)

    if element is row:
        yield Candidate(Selector(f".{tail}", "xpath", spot.attribute, None, PATH), 0.5)
        return
    for sign in _signs(element):
        yield relative(sign.css, sign.xpath, sign.evidence, sign.prior)
    yield relative(str(element.tag), str(element.tag), PATH, 0.3)
    for parent in element.iterancestors():
        if parent is row:
            break
        for anchor in _near_signs(parent):
            evidence, prior = _joined(anchor, _tag_sign(element))
            yield relative(f"{anchor.css} {element.tag}", f"{anchor.xpath}//{element.tag}", evidence, prior)
    _, xpath = _steps(row, element)
    yield Candidate(Selector(f"./{xpath}{tail}", "xpath", spot.attribute, None, PATH), 0.4 - 0.04 * xpath.count("/"))
    for query, prior in _label_queries(element, spot.text_index):
        yield Candidate(Selector(f".{query}", "xpath", spot.attribute, None, LABEL), prior)


def _all(spots: Sequence[Spot]) -> Iterator[Candidate]:
    paths = {spot.json_path for spot in spots}
    if None not in paths:
        for path in sorted(path for path in paths if path is not None):
            yield Candidate(Selector(path, "json-ld", evidence=STRUCTURED), 1.1)
        return
    standing = [spot for spot in spots if spot.element is not None]
    if len(standing) == 1:
        yield from _for_one(standing[0])
    yield from _for_list(standing)


def _for_one(spot: Spot) -> Iterator[Candidate]:
    element = spot.element
    assert element is not None
    tail = f"/text()[normalize-space()][{spot.text_index}]" if spot.text_index else ""

    def css_or_xpath(css: str, xpath: str, evidence: str, prior: float) -> Candidate:
        if tail:
            return Candidate(Selector(xpath + tail, "xpath", None, None, evidence), prior - 0.05)
        return Candidate(Selector(css, "css", spot.attribute, None, evidence), prior)

    signs = list(_signs(element))
    for sign in signs:
        yield css_or_xpath(sign.css, f"//{sign.xpath}", sign.evidence, sign.prior)
    for anchor, ancestor in _anchors(element):
        for sign in [*signs[:3], _tag_sign(element)]:
            evidence, prior = _joined(anchor, sign)
            yield css_or_xpath(f"{anchor.css} {sign.css}", f"//{anchor.xpath}//{sign.xpath}", evidence, prior)
        css, xpath = _steps(ancestor, element)
        evidence = anchor.evidence if anchor.evidence != CLASS and ">" not in css and ":" not in css else PATH
        prior = 0.55 * anchor.prior + 0.1 - 0.04 * css.count(">")
        yield css_or_xpath(f"{anchor.css} > {css}", f"//{anchor.xpath}/{xpath}", evidence, prior)
    for query, prior in _label_queries(element, spot.text_index):
        yield Candidate(Selector(query, "xpath", spot.attribute, None, LABEL), prior)
    yield Candidate(Selector(_absolute(element) + tail, "xpath", spot.attribute, None, PATH), 0.1)
    if tail:
        whole = Spot(element)
        yield from (Candidate(one.selector, one.prior - 0.1) for one in _for_one(whole))


def _for_list(spots: Sequence[Spot]) -> Iterator[Candidate]:
    """Selectors that give each of the spots: what they have in common, below what holds them all."""
    elements = [spot.element for spot in spots if spot.element is not None]
    if not elements or len({(spot.attribute, spot.element.tag) for spot in spots if spot.element is not None}) > 1:
        return
    tail = "/text()[normalize-space()]" if all(spot.text_index for spot in spots) else ""
    for css, xpath, evidence, prior in _list_queries(elements):
        if tail or not css:
            yield Candidate(Selector(xpath + tail, "xpath", spots[0].attribute, None, evidence), prior)
        else:
            yield Candidate(Selector(css, "css", spots[0].attribute, None, evidence), prior)


def _list_queries(elements: Sequence[etree._Element]) -> Iterator[tuple[str, str, str, float]]:
    """(CSS or "", XPath, evidence, prior)"""
    common = _common_signs(elements)
    for sign in common:
        yield sign.css, f"//{sign.xpath}", sign.evidence, sign.prior - 0.05
    for holder in _holders(elements):
        steps = _plain_steps(holder, elements[0])
        if any(_plain_steps(holder, element) != steps for element in elements[1:]):
            continue
        css_down, down = " > ".join(steps), "/".join(steps)
        for anchor in _near_signs(holder):
            prior = 0.75 * anchor.prior + 0.15 - 0.03 * len(steps)
            yield f"{anchor.css} > {css_down}", f"//{anchor.xpath}/{down}", anchor.evidence, prior
            for sign in common[:2]:
                yield f"{anchor.css} {sign.css}", f"//{anchor.xpath}//{sign.xpath}", *_joined(anchor, sign)
        for query, prior in _label_queries(holder, None) if _is_mostly(holder, elements) else ():
            yield "", f"{query}/{down}", LABEL, prior - 0.03 * len(steps)
        for anchor, ancestor in _anchors(holder):
            css, xpath = _steps(ancestor, holder)
            prior = 0.5 * anchor.prior - 0.04 * css.count(">")
            yield f"{anchor.css} > {css} > {css_down}", f"//{anchor.xpath}/{xpath}/{down}", PATH, prior


def _holders(elements: Sequence[etree._Element]) -> list[etree._Element]:
    """The lowest element that holds all (for a single one: its parent) and the two above."""
    lines = [list(_line(element)) for element in elements]
    shared = [node for node in lines[0][1:] if all(node in line for line in lines[1:])]
    return [node for node in shared if node.tag != "html"][:3]


def _line(element: etree._Element) -> Iterator[etree._Element]:
    yield element
    yield from element.iterancestors()


def _signs(element: etree._Element) -> Iterator[_Sign]:
    """What marks an element, the best first."""
    tag = str(element.tag)
    for attribute in _property_attributes(element):
        value = element.get(attribute) or ""
        test = f'[{attribute}="{value}"]'
        prior = _META_PRIOR if tag == "meta" and attribute != "itemprop" else 1.0
        yield _Sign(f"{tag}{test}", f'{tag}[@{attribute}="{value}"]', PROPERTY, prior)
    identifier = element.get("id") or ""
    if _TAME.match(identifier) and not _NUMBERED.search(identifier):
        yield _Sign(f"#{identifier}", f'*[@id="{identifier}"]', ID, 0.95)
    if tag in _UNIQUE_TAGS:
        yield _Sign(tag, tag, PATH if tag != "h1" else CLASS, _UNIQUE_TAGS[tag])
    classes = [name for name in dict.fromkeys((element.get("class") or "").split()) if _TAME.match(name)]
    classes = [name for name in classes if not _STATE.search(name)][:_MAX_CLASSES]
    if 1 < len(classes) <= 4:
        test = " and ".join(_has_class(name) for name in classes)
        worst = min(_class_prior(name) for name in classes)
        yield _Sign(f"{tag}.{'.'.join(classes)}", f"{tag}[{test}]", CLASS, worst - 0.05)
    for name in classes:
        yield _Sign(f"{tag}.{name}", f"{tag}[{_has_class(name)}]", CLASS, _class_prior(name))


def _class_prior(name: str) -> float:
    return 0.35 if _HASHED.search(name) else 0.7


def _has_class(name: str) -> str:
    return f'contains(concat(" ", normalize-space(@class), " "), " {name} ")'


def _tag_sign(element: etree._Element) -> _Sign:
    return _Sign(str(element.tag), str(element.tag), PATH, 0.3)


def _property_attributes(element: etree._Element) -> list[str]:
    names = [*_PROPERTY_ATTRIBUTES, *(["name"] if element.tag == "meta" else [])]
    if element.tag == "link":
        names.append("rel")
    return [name for name in names if re.fullmatch(r"[\w:.-]{2,60}", element.get(name) or "")]


def _near_signs(element: etree._Element) -> list[_Sign]:
    return list(_signs(element))[:3]


def _anchors(element: etree._Element) -> Iterator[tuple[_Sign, etree._Element]]:
    """Ancestors with a sign of their own: the nearest ones, further up only those with an id or a property."""
    for level, ancestor in enumerate(element.iterancestors()):
        if level >= _MAX_ANCESTORS or ancestor.tag in ("body", "html"):
            return
        for sign in _near_signs(ancestor)[: 2 if level < 4 else 1]:
            if level < 4 or sign.evidence in (ID, PROPERTY):
                yield sign, ancestor
        if ancestor.tag in ("article", "main"):
            yield _Sign(str(ancestor.tag), str(ancestor.tag), PATH, 0.5), ancestor


def _joined(anchor: _Sign, sign: _Sign) -> tuple[str, float]:
    """The evidence and prior of a sign below an anchor: it rests on the weaker of the two."""
    if sign.evidence in (PROPERTY, ID):
        return sign.evidence, 0.9 * sign.prior
    if sign.evidence == CLASS:
        return CLASS, sign.prior + 0.05 * anchor.prior
    return (ID if anchor.evidence in (ID, PROPERTY) else PATH), 0.6 * anchor.prior


def _common_signs(elements: Sequence[etree._Element]) -> list[_Sign]:
    first = list(_signs(elements[0]))
    others = [{sign.css for sign in _signs(element)} for element in elements[1:]]
    return [sign for sign in first if all(sign.css in signs for signs in others)]


def _steps(ancestor: etree._Element, element: etree._Element) -> tuple[str, str]:
    """The way down to an element, as CSS and XPath; positions where an element has siblings of its tag."""
    css: list[str] = []
    xpath: list[str] = []
    for node in _line(element):
        if node is ancestor:
            break
        position = 1 + sum(1 for _ in node.itersiblings(str(node.tag), preceding=True))
        alone = position == 1 and next(node.itersiblings(str(node.tag)), None) is None
        css.append(str(node.tag) if alone else f"{node.tag}:nth-of-type({position})")
        xpath.append(str(node.tag) if alone else f"{node.tag}[{position}]")
    return " > ".join(reversed(css)), "/".join(reversed(xpath))


def _plain_steps(ancestor: etree._Element, element: etree._Element) -> list[str]:
    steps: list[str] = []
    for node in _line(element):
        if node is ancestor:
            break
        steps.append(str(node.tag))
    return steps[::-1]


def _absolute(element: etree._Element) -> str:
    root = element.getroottree().getroot()
    _, xpath = _steps(root, element)
    return f"/{root.tag}/{xpath}" if xpath else f"/{root.tag}"


def _label_queries(element: etree._Element, text_index: int | None) -> Iterator[tuple[str, float]]:
    """XPaths to an element (or one of its text nodes) by the text just before it, or before what holds it."""
    if text_index is not None:
        yield from _labelled_text(element, text_index)
        return
    for level, node in enumerate(_line(element)):
        if level > _LABEL_LEVELS or node.tag in _NOT_LABELLED or (level and _holds_more(node, element)):
            return
        _, inner = _steps(node, element) if node is not element else ("", "")
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


def _between(heading: etree._Element, node: etree._Element) -> Iterator[etree._Element]:
    for sibling in node.itersiblings(preceding=True):
        if sibling is heading:
            return
        yield sibling


def _holds_more(node: etree._Element, element: etree._Element) -> bool:
    """Whether a node holds so much besides an element that a label before the one does not speak of the other."""
    return _text_chars(node) > 2 * _text_chars(element) + _MAX_LABEL_CHARS


def _is_mostly(holder: etree._Element, elements: Sequence[etree._Element]) -> bool:
    """Whether an element holds little besides these."""
    return _text_chars(holder) <= 2 * sum(map(_text_chars, elements)) + _MAX_LABEL_CHARS


def _text_chars(element: etree._Element) -> int:
    return sum(len(str(piece).strip()) for piece in element.itertext())


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


def started_with(element: etree._Element, prefix: str) -> Iterable[Candidate]:
    """Elements and text nodes that start with a label: "Published: 12 May"."""
    label = prefix.strip()
    if sum(character.isalpha() for character in label) >= 3 and len(label) <= _MAX_LABEL_CHARS:
        test = f"starts-with(normalize-space(), {_literal(label)})"
        yield Candidate(Selector(f"//{element.tag}[{test}]", "xpath", None, None, LABEL), 0.85)
        yield Candidate(Selector(f"//text()[{test}]", "xpath", None, None, LABEL), 0.8)
