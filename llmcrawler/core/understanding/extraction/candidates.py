"""Selectors that could find again what the annotator pointed at.

Each kind of evidence has a prior: how far it is trusted before it is tried. How a candidate does on the pages decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final

from lxml import etree

from llmcrawler.core.content.fingerprint import may_be_hash
from llmcrawler.core.understanding.extraction.blocks import KIND_ATTRIBUTES, Spot
from llmcrawler.core.understanding.extraction.queries import is_known
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.core.understanding.extraction.tree import absolute_path, fold, line_up, steps_down, tags_down

PROPERTY: Final = "property"
ID: Final = "id"
CLASS: Final = "class"
PATH: Final = "path"
_PROPERTY_ATTRIBUTES: Final = (*KIND_ATTRIBUTES, *"data-field data-label data-title data-name data-key data-th".split())
_OWN_PROPERTY_ATTRIBUTES: Final = {"meta": ("name",), "link": ("rel",)}
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
_ICON_TAGS: Final = frozenset({"i", "svg", "span", "em", "div"})
_MAX_ICON_NODES: Final = 20
ICON_LABELS: Final = ("aria-label", "title")
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
    tag = str(element.tag)
    for attribute in (*_PROPERTY_ATTRIBUTES, *_OWN_PROPERTY_ATTRIBUTES.get(tag, ())):
        value = element.get(attribute) or ""
        if not re.fullmatch(r"[\w:.-]{2,60}(?: [\w:.-]{1,60}){0,4}", value):
            continue
        test = f'{attribute}="{value}"'
        prior = _META_PRIOR if tag == "meta" and attribute != "itemprop" else 1.0
        yield Feature(f"{tag}[{test}]", f"{tag}[@{test}]", PROPERTY, prior)
    identifier = element.get("id") or ""
    if _TAME.match(identifier) and not _NUMBERED.search(identifier):
        yield Feature(f"#{identifier}", f'*[@id="{identifier}"]', ID, 0.95)
    if tag in _UNIQUE_TAGS:
        yield Feature(tag, tag, PATH if tag != "h1" else CLASS, _UNIQUE_TAGS[tag])
    names = [one for one in dict.fromkeys((element.get("class") or "").split()) if _TAME.match(one)]
    classes = {name: 0.35 if may_be_hash(name) else 0.7 for name in names if not _STATE.search(name)}
    classes = dict(list(classes.items())[:_MAX_CLASSES])
    if 1 < len(classes) <= 4:
        test = " and ".join(map(_has_class, classes))
        yield Feature(f"{tag}.{'.'.join(classes)}", f"{tag}[{test}]", CLASS, min(classes.values()) - 0.05)
    for name, prior in classes.items():
        yield Feature(f"{tag}.{name}", f"{tag}[{_has_class(name)}]", CLASS, prior)


@lru_cache(maxsize=32)  # those of the ancestors are asked for again and again
def best_features(element: etree._Element) -> list[Feature]:
    return list(features_of(element))[:3]


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
    return Feature(str(element.tag), str(element.tag), PATH, 0.3)


def _has_class(name: str) -> str:
    return f'contains(concat(" ", normalize-space(@class), " "), " {name} ")'


def label_queries(element: etree._Element, text_index: int | None) -> Iterator[tuple[str, float]]:
    """Yield (XPath, prior) to an element, or one of its text nodes, by the text before it or before what holds it."""
    if text_index is not None:
        yield from _labelled_text(element, text_index)
        return
    icon = next(iter(element), None)
    if icon is not None and icon_before(element) is icon and (named := _named(icon)):
        yield f"{named}/following-sibling::text()[normalize-space()][1]", 0.85
    for level, node in enumerate(line_up(element)):
        # A label before a node that holds much besides the element is not the element's.
        if level > _LABEL_LEVELS or node.tag in _NOT_LABELLED or (level and not is_mostly(node, [element])):
            return
        inner = f"/{steps_down(node, element)[1]}" if node is not element else ""
        prior = 0.9 - 0.1 * level - 0.04 * inner.count("/") - (0.3 if "[" in inner else 0.0)
        before = _before(node)
        if isinstance(before, str):
            query = f"//text()[normalize-space()={_literal(before)}]/following-sibling::{node.tag}[1]{inner}"
            yield query, prior - 0.05
        elif before is not None and not (before.tag == node.tag and node.tag in _EQUALS) and (named := _named(before)):
            # td, dd, p: the tag of the value stands for itself; its cell may hold more than the value.
            yield f"{named}/following-sibling::{node.tag}[1]{inner}", prior
        # The nearest heading, and the node's place (from 1) among the siblings of its tag behind that.
        position = 1
        for sibling in islice(node.itersiblings(preceding=True), _MAX_HEADING_DISTANCE + 1):
            if sibling.tag in _HEADINGS:
                if sibling is not before and (named := _named(sibling)):
                    query = f"{named}/following-sibling::{node.tag}[{position}]{inner}"
                    yield query, prior - 0.15 - 0.05 * position
                break
            position += sibling.tag == node.tag


def is_mostly(holder: etree._Element, elements: Sequence[etree._Element]) -> bool:
    room = 2 * sum(len(piece.strip()) for one in elements for piece in one.itertext()) + _MAX_LABEL_CHARS
    # Sooner or later the holder is all of the page.
    return all((room := room - len(piece.strip())) >= 0 for piece in holder.itertext())


def _labelled_text(element: etree._Element, text_index: int) -> Iterator[tuple[str, float]]:
    seen = 0
    before: etree._Element | None = None
    for node, text in [(None, element.text), *((child, child.tail) for child in element)]:
        if node is not None and isinstance(node.tag, str) and node.tag not in ("br", "wbr"):
            before = node
        seen += bool(fold(text or ""))
        if seen == text_index:
            break
    if before is not None and (named := _named(before)):
        yield f"{named}/following-sibling::text()[normalize-space()][1]", 0.9


def _named(element: etree._Element) -> str:
    """Return the XPath of all elements that say the same as a label, or are the same icon; "" for what is neither."""
    if label := _label(element):
        return f"//{element.tag}[normalize-space()={_literal(label)}]"
    if not _is_icon(element):
        return ""
    labels = ((name, element.get(name) or "") for name in ICON_LABELS)
    said = next((f"@{name}={_literal(text)}" for name, text in labels if 0 < len(text) <= _MAX_LABEL_CHARS), "")
    classes = element.get("class") or ""  # the last of them may be a size, or a builder's
    return f"//{element.tag}[{said or f'@class={_literal(classes)}'}]" if said or fold(classes) else ""


def icon_before(element: etree._Element) -> etree._Element | None:
    """Return the icon that an element begins with or stands behind: an element without text."""
    first, before = next(iter(element), None), element.getprevious()
    is_first = first is not None and not fold(element.text or "")
    icon = first if is_first else before if before is not None and not fold(before.tail or "") else None
    return icon if icon is not None and _is_icon(icon) else None


def _is_icon(element: etree._Element) -> bool:
    nodes = list(islice(element.iter(), _MAX_ICON_NODES)) if element.tag in _ICON_TAGS else []
    texts = (text for node in nodes for text in (node.text, node.tail if node is not element else None))
    return 0 < len(nodes) < _MAX_ICON_NODES and not any(text and text.strip() for text in texts)


def _before(node: etree._Element) -> etree._Element | str | None:
    for previous in node.itersiblings(preceding=True):
        text = fold(previous.tail or "")
        if text:
            return text if len(text) <= _MAX_LABEL_CHARS else None
        if isinstance(previous.tag, str) and previous.tag not in ("br", "wbr", "hr", "script", "style", "img"):
            return previous
    parent = node.getparent()
    text = fold(parent.text or "") if parent is not None else ""
    return text if text and len(text) <= _MAX_LABEL_CHARS else None


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
    if '"' not in text:
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    pieces = ", '\"', ".join(f'"{piece}"' for piece in text.split('"'))
    return f"concat({pieces})"


STRUCTURED: Final = "structured-data"
LABEL: Final = "label"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selector (without a pattern yet) and how far its kind is trusted before it is tried, 0..1."""

    selector: Selector
    prior: float


def candidates_for(spots: Sequence[Spot]) -> list[Candidate]:
    """Return selectors for one value, which stands at one spot, or for a list, whose items stand at several.

    Only such whose work is counted: an element may have any name."""
    standing = [spot for spot in spots if spot.element is not None]
    found = [*(_for_one(standing[0]) if len(standing) == 1 else ()), *_for_list(standing)]
    if not standing:
        in_data = sorted({(spot.json_path or "", spot.language) for spot in spots})
        found = [Candidate(Selector(path, language, evidence=STRUCTURED), 1.1) for path, language in in_data]
    return best_of_each(one for one in found if is_known(one.selector))


def best_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    found: dict[tuple[str, str, str | None], Candidate] = {}
    for one in candidates:
        key = (one.selector.query, one.selector.language, one.selector.attribute)
        if key not in found or found[key].prior < one.prior:
            found[key] = one
    return list(found.values())


def candidates_within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
    """Yield selectors for a value relative to the row of a repeated group that it stands in; as `candidates_for`."""
    return (one for one in _within(row, spot) if is_known(one.selector))


def started_with(element: etree._Element, prefix: str) -> Iterator[Candidate]:
    """Yield selectors for elements and text nodes that start with a label: "Published: 12 May"."""
    label = prefix.strip()
    if sum(map(str.isalpha, label)) >= 3 and len(label) <= _MAX_LABEL_CHARS:
        test = f"starts-with(normalize-space(), {_literal(label)})"
        for node, prior in ((element.tag, 0.85), ("text()", 0.8)):
            selector = Selector(f"//{node}[{test}]", "xpath", evidence=LABEL)
            if is_known(selector):
                yield Candidate(selector, prior)


class _At:
    """Makes candidates for a spot; below `start` ("//" for the page, ".//" for a row) where XPath has to."""

    def __init__(self, spot: Spot, start: str, tail_cost: float) -> None:
        self.attribute = spot.attribute
        self.tail = f"/text()[normalize-space()][{spot.text_index}]" if spot.text_index else ""
        self._start = start
        self._tail_cost = tail_cost

    def anywhere(self, css: str, xpath: str, evidence: str, prior: float) -> Candidate:
        if self.tail:  # CSS finds no text nodes
            query = f"{self._start}{xpath}{self.tail}"
            return Candidate(Selector(query, "xpath", evidence=evidence), prior - self._tail_cost)
        return Candidate(Selector(css, "css", self.attribute, None, evidence), prior)

    def xpath(self, query: str, evidence: str, prior: float) -> Candidate:
        return Candidate(Selector(query, "xpath", self.attribute, None, evidence), prior)


def _within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
    element, at = spot.element, _At(spot, ".//", 0.0)
    assert element is not None
    if element is row:
        yield at.xpath(f".{at.tail}", PATH, 0.5)
        return
    tag = tag_feature(element)
    for feature in [*features_of(element), tag]:
        yield at.anywhere(feature.css, feature.xpath, feature.evidence, feature.prior)
    for parent in takewhile(lambda node: node is not row, element.iterancestors()):
        for anchor in best_features(parent):
            below = f"{anchor.css} {element.tag}", f"{anchor.xpath}//{element.tag}"
            yield at.anywhere(*below, *joined(anchor, tag))
    _, xpath = steps_down(row, element)
    yield at.xpath(f"./{xpath}{at.tail}", PATH, 0.4 - 0.04 * xpath.count("/"))
    for query, prior in label_queries(element, spot.text_index):
        yield at.xpath(f".{query}", LABEL, prior)


def _for_one(spot: Spot) -> Iterator[Candidate]:
    element, at = spot.element, _At(spot, "//", 0.05)
    assert element is not None
    features = list(features_of(element))
    for feature in features:
        yield at.anywhere(feature.css, feature.xpath, feature.evidence, feature.prior)
    for anchor, ancestor in anchors(element):
        for feature in [*features[:3], tag_feature(element)]:
            below = f"{anchor.css} {feature.css}", f"{anchor.xpath}//{feature.xpath}"
            yield at.anywhere(*below, *joined(anchor, feature))
        css, xpath = steps_down(ancestor, element)
        evidence = anchor.evidence if anchor.evidence != CLASS and ">" not in css and ":" not in css else PATH
        prior = 0.55 * anchor.prior + 0.1 - 0.04 * css.count(">")
        yield at.anywhere(f"{anchor.css} > {css}", f"{anchor.xpath}/{xpath}", evidence, prior)
    for query, prior in label_queries(element, spot.text_index):
        yield at.xpath(query, LABEL, prior)
    if at.attribute and (named := _named(element)):  # a link that is called alike on all pages
        yield at.xpath(named, LABEL, 0.92)
    yield at.xpath(absolute_path(element) + at.tail, PATH, 0.1)
    if at.tail:
        yield from (Candidate(one.selector, one.prior - 0.1) for one in _for_one(Spot(element)))


def _for_list(spots: Sequence[Spot]) -> Iterator[Candidate]:
    elements = [spot.element for spot in spots if spot.element is not None]
    if not elements or len({(spot.attribute, spot.element.tag) for spot in spots if spot.element is not None}) > 1:
        return
    attribute = spots[0].attribute
    tail = "/text()[normalize-space()]" if all(spot.text_index for spot in spots) else ""
    for css, xpath, evidence, prior in _list_queries(elements):
        if css and not tail:
            yield Candidate(Selector(css, "css", attribute, None, evidence), prior)
        else:
            yield Candidate(Selector(xpath + tail, "xpath", attribute, None, evidence), prior)


def _label_before(element: etree._Element) -> Iterator[str]:
    """Yield the XPath to all elements of a tag that stand behind a label in the same parent: "Tags: red, blue"."""
    before = _before(element)
    if isinstance(before, str):
        yield f"//text()[normalize-space()={_literal(before)}]/following-sibling::{element.tag}"
    elif before is not None and before.tag != element.tag and (named := _named(before)):
        yield f"{named}/following-sibling::{element.tag}"


def _behind_others(
    anchor: str, holder: etree._Element, element: etree._Element, steps: Sequence[str], prior: float
) -> Iterator[tuple[str, str, str, float]]:
    """Yield the way from a holder to a list that starts behind others of its kind: a path without the home page. The
    more there are of them, the more it is a place that may shift."""
    first = next(node for node in line_up(element) if node.getparent() is holder)
    if before := sum(1 for _ in first.itersiblings(steps[0], preceding=True)):
        query = "/".join([anchor, f"{steps[0]}[{before}]", f"following-sibling::{steps[0]}", *steps[1:]])
        yield "", query, PATH, prior - 0.05 * (before - 1)


def _ways_down(holder: etree._Element, elements: Sequence[etree._Element]) -> list[tuple[str, str, float]]:
    """Return the ways from what holds elements to all of them, as CSS, as XPath, and by how much each is trusted less:
    by tags, and, where each stands in a row of its own, by its place in that; none where they have none in common."""
    first, *others = {tuple(tags_down(holder, element)) for element in elements}
    if others:
        return []
    rows = (next(node for node in line_up(element) if node.getparent() is holder) for element in elements)
    (css, xpath), *others_within = {steps_down(row, element) for row, element in zip(rows, elements, strict=True)}
    ways = [(" > ".join(first), "/".join(first), 0.0)]
    return ways if others_within or ":" not in css else [*ways, (f"{first[0]} > {css}", f"{first[0]}/{xpath}", 0.1)]


def _list_queries(elements: Sequence[etree._Element]) -> Iterator[tuple[str, str, str, float]]:
    others = [{feature.css for feature in features_of(element)} for element in elements[1:]]
    common = [feature for feature in features_of(elements[0]) if all(feature.css in found for found in others)]
    for feature in common:
        yield feature.css, f"//{feature.xpath}", feature.evidence, feature.prior - 0.05
    if len({element.getparent() for element in elements}) == 1:
        for query in _label_before(elements[0]):
            yield "", query, LABEL, 0.75
    # The lowest element that holds all (for a single one: its parent) and the two above.
    lines = [set(line_up(element)) for element in elements[1:]]
    shared = (node for node in elements[0].iterancestors() if all(node in line for line in lines))
    for holder in islice((node for node in shared if node.tag != "html"), 3):
        yield from _below(holder, elements, common[:2])


def _below(
    holder: etree._Element, elements: Sequence[etree._Element], common: Sequence[Feature]
) -> Iterator[tuple[str, str, str, float]]:
    """Yield the queries to elements below what holds them all; `common` are features of all of them."""
    ways = _ways_down(holder, elements)
    steps = ways[0][1].split("/") if ways else []
    for anchor in best_features(holder) if ways else ():
        prior = 0.75 * anchor.prior + 0.15 - 0.03 * len(steps)
        yield from _behind_others(f"//{anchor.xpath}", holder, elements[0], steps, prior)
        for feature in common:
            css, xpath = f"{anchor.css} {feature.css}", f"//{anchor.xpath}//{feature.xpath}"
            yield css, xpath, *joined(anchor, feature)
    for css_down, down, cost in ways:
        for anchor in best_features(holder):
            prior = 0.75 * anchor.prior + 0.15 - 0.03 * len(steps) - cost
            yield f"{anchor.css} > {css_down}", f"//{anchor.xpath}/{down}", anchor.evidence, prior
        for query, prior in label_queries(holder, None) if is_mostly(holder, elements) else ():
            yield "", f"{query}/{down}", LABEL, prior - 0.03 * len(steps) - cost
        for anchor, ancestor in anchors(holder):
            css, xpath = steps_down(ancestor, holder)
            prior = 0.5 * anchor.prior - 0.04 * css.count(">") - cost
            yield f"{anchor.css} > {css} > {css_down}", f"//{anchor.xpath}/{xpath}/{down}", PATH, prior
