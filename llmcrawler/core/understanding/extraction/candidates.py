"""Selectors that could find again what the annotator pointed at.

Each kind of evidence has a prior: how far it is trusted before it is tried. How a candidate does on the pages decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import Spot
from llmcrawler.core.understanding.extraction.element_features import (
    CLASS,
    PATH,
    anchors,
    best_features,
    common_features,
    features_of,
    is_mostly,
    joined,
    label_queries,
    prefix_queries,
    tag_feature,
)
from llmcrawler.core.understanding.extraction.extractor import Selector
from llmcrawler.core.understanding.extraction.queries import is_bounded
from llmcrawler.core.understanding.extraction.tree import absolute_path, line_up, steps_down, tags_down

STRUCTURED: Final = "structured-data"
LABEL: Final = "label"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selector (without a pattern yet) and how far its kind is trusted before it is tried, 0..1."""

    selector: Selector
    prior: float


def candidates_for(spots: Sequence[Spot]) -> list[Candidate]:
    """Return selectors for one value, which stands at one spot, or for a list, whose items stand at several.

    Only such whose work is counted: an element may have any name.
    """
    return best_of_each(one for one in _all(spots) if is_bounded(one.selector))


def best_of_each(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return each selector once, with the highest prior that it has."""
    found: dict[tuple[str, str | None], Candidate] = {}
    for one in candidates:
        key = (one.selector.query, one.selector.attribute)
        if key not in found or found[key].prior < one.prior:
            found[key] = one
    return list(found.values())


def candidates_within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
    """Yield selectors for a value relative to the row of a repeated group that it stands in; as `candidates_for`."""
    return (one for one in _within(row, spot) if is_bounded(one.selector))


def started_with(element: etree._Element, prefix: str) -> Iterator[Candidate]:
    """Yield selectors for what starts with a label."""
    found = (Candidate(_xpath(query, LABEL), prior) for query, prior in prefix_queries(element, prefix))
    return (one for one in found if is_bounded(one.selector))


def _xpath(query: str, evidence: str, attribute: str | None = None) -> Selector:
    return Selector(query, "xpath", attribute, None, evidence)


def _css(query: str, evidence: str, attribute: str | None = None) -> Selector:
    return Selector(query, "css", attribute, None, evidence)


def _text_step(spot: Spot) -> str:
    """Return the XPath step from an element to the text node of it that a spot is; "" for the whole element."""
    return f"/text()[normalize-space()][{spot.text_index}]" if spot.text_index else ""


def _within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
    element, tail = spot.element, _text_step(spot)
    assert element is not None

    def relative(css: str, xpath: str, evidence: str, prior: float) -> Candidate:
        selector = _xpath(f".//{xpath}{tail}", evidence) if tail else _css(css, evidence, spot.attribute)
        return Candidate(selector, prior)

    if element is row:
        yield Candidate(_xpath(f".{tail}", PATH, spot.attribute), 0.5)
        return
    for feature in [*features_of(element), tag_feature(element)]:
        yield relative(feature.css, feature.xpath, feature.evidence, feature.prior)
    for parent in element.iterancestors():
        if parent is row:
            break
        for anchor in best_features(parent):
            evidence, prior = joined(anchor, tag_feature(element))
            yield relative(f"{anchor.css} {element.tag}", f"{anchor.xpath}//{element.tag}", evidence, prior)
    _, xpath = steps_down(row, element)
    yield Candidate(_xpath(f"./{xpath}{tail}", PATH, spot.attribute), 0.4 - 0.04 * xpath.count("/"))
    for query, prior in label_queries(element, spot.text_index):
        yield Candidate(_xpath(f".{query}", LABEL, spot.attribute), prior)


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
    element, tail = spot.element, _text_step(spot)
    assert element is not None

    def anywhere(css: str, xpath: str, evidence: str, prior: float) -> Candidate:
        if tail:
            return Candidate(_xpath(f"//{xpath}{tail}", evidence), prior - 0.05)
        return Candidate(_css(css, evidence, spot.attribute), prior)

    features = list(features_of(element))
    for feature in features:
        yield anywhere(feature.css, feature.xpath, feature.evidence, feature.prior)
    for anchor, ancestor in anchors(element):
        for feature in [*features[:3], tag_feature(element)]:
            evidence, prior = joined(anchor, feature)
            yield anywhere(f"{anchor.css} {feature.css}", f"{anchor.xpath}//{feature.xpath}", evidence, prior)
        css, xpath = steps_down(ancestor, element)
        evidence = anchor.evidence if anchor.evidence != CLASS and ">" not in css and ":" not in css else PATH
        prior = 0.55 * anchor.prior + 0.1 - 0.04 * css.count(">")
        yield anywhere(f"{anchor.css} > {css}", f"{anchor.xpath}/{xpath}", evidence, prior)
    for query, prior in label_queries(element, spot.text_index):
        yield Candidate(_xpath(query, LABEL, spot.attribute), prior)
    yield Candidate(_xpath(absolute_path(element) + tail, PATH, spot.attribute), 0.1)
    if tail:
        yield from (Candidate(one.selector, one.prior - 0.1) for one in _for_one(Spot(element)))


def _for_list(spots: Sequence[Spot]) -> Iterator[Candidate]:
    """Yield selectors that give each of the spots: what they have in common, below what holds them all."""
    elements = [spot.element for spot in spots if spot.element is not None]
    if not elements or len({(spot.attribute, spot.element.tag) for spot in spots if spot.element is not None}) > 1:
        return
    tail = "/text()[normalize-space()]" if all(spot.text_index for spot in spots) else ""
    for css, xpath, evidence, prior in _list_queries(elements):
        attribute = spots[0].attribute
        is_css = css and not tail
        yield Candidate(_css(css, evidence, attribute) if is_css else _xpath(xpath + tail, evidence, attribute), prior)


def _list_queries(elements: Sequence[etree._Element]) -> Iterator[tuple[str, str, str, float]]:
    """Yield selectors for a list, as (CSS or "", XPath, evidence, prior)."""
    common = common_features(elements)
    for feature in common:
        yield feature.css, f"//{feature.xpath}", feature.evidence, feature.prior - 0.05
    for holder in _holders(elements):
        steps = tags_down(holder, elements[0])
        if any(tags_down(holder, element) != steps for element in elements[1:]):
            continue
        css_down, down = " > ".join(steps), "/".join(steps)
        for anchor in best_features(holder):
            prior = 0.75 * anchor.prior + 0.15 - 0.03 * len(steps)
            yield f"{anchor.css} > {css_down}", f"//{anchor.xpath}/{down}", anchor.evidence, prior
            for feature in common[:2]:
                css, xpath = f"{anchor.css} {feature.css}", f"//{anchor.xpath}//{feature.xpath}"
                yield css, xpath, *joined(anchor, feature)
        for query, prior in label_queries(holder, None) if is_mostly(holder, elements) else ():
            yield "", f"{query}/{down}", LABEL, prior - 0.03 * len(steps)
        for anchor, ancestor in anchors(holder):
            css, xpath = steps_down(ancestor, holder)
            prior = 0.5 * anchor.prior - 0.04 * css.count(">")
            yield f"{anchor.css} > {css} > {css_down}", f"//{anchor.xpath}/{xpath}/{down}", PATH, prior


def _holders(elements: Sequence[etree._Element]) -> Iterable[etree._Element]:
    """Return the lowest element that holds all (for a single one: its parent) and the two above."""
    lines = [set(line_up(element)) for element in elements[1:]]
    shared = (node for node in elements[0].iterancestors() if all(node in line for line in lines))
    return islice((node for node in shared if node.tag != "html"), 3)
