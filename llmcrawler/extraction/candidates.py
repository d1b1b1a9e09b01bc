"""Selectors that could find again what the model pointed at.

Kinds of evidence, and what was measured of them: DESIGN, "Records". The order of trust is a prior only; how a candidate
does on the pages decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

from llmcrawler.extraction.blocks import Spot
from llmcrawler.extraction.labels import is_mostly, label_queries, prefix_queries
from llmcrawler.extraction.model import Selector
from llmcrawler.extraction.queries import is_bounded
from llmcrawler.extraction.signs import CLASS, PATH, anchors, common_signs, joined, near_signs, signs_of, tag_sign
from llmcrawler.extraction.steps import absolute_path, line_up, steps_down, tags_down

STRUCTURED: Final = "structured-data"
LABEL: Final = "label"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selector (without a pattern yet) and how far its kind is trusted before it is tried, 0..1."""

    selector: Selector
    prior: float


def candidates_for(spots: Sequence[Spot]) -> list[Candidate]:
    """Selectors for one value, which stands at one spot, or for a list, whose items stand at several.

    Only such whose work is counted: an element may have any name.
    """
    found: dict[tuple[str, str | None], Candidate] = {}
    for candidate in _all(spots):
        if not is_bounded(candidate.selector):
            continue
        key = (candidate.selector.query, candidate.selector.attribute)
        if key not in found or found[key].prior < candidate.prior:
            found[key] = candidate
    return list(found.values())


def candidates_within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
    """Selectors for a value relative to the element of a repeated group that it stands in; as `candidates_for`."""
    return (one for one in _within(row, spot) if is_bounded(one.selector))


def _within(row: etree._Element, spot: Spot) -> Iterator[Candidate]:
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
    for sign in signs_of(element):
        yield relative(sign.css, sign.xpath, sign.evidence, sign.prior)
    yield relative(str(element.tag), str(element.tag), PATH, 0.3)
    for parent in element.iterancestors():
        if parent is row:
            break
        for anchor in near_signs(parent):
            evidence, prior = joined(anchor, tag_sign(element))
            yield relative(f"{anchor.css} {element.tag}", f"{anchor.xpath}//{element.tag}", evidence, prior)
    _, xpath = steps_down(row, element)
    yield Candidate(Selector(f"./{xpath}{tail}", "xpath", spot.attribute, None, PATH), 0.4 - 0.04 * xpath.count("/"))
    for query, prior in label_queries(element, spot.text_index):
        yield Candidate(Selector(f".{query}", "xpath", spot.attribute, None, LABEL), prior)


def started_with(element: etree._Element, prefix: str) -> Iterator[Candidate]:
    """Selectors for what starts with a label."""
    for query, prior in prefix_queries(element, prefix):
        candidate = Candidate(Selector(query, "xpath", None, None, LABEL), prior)
        if is_bounded(candidate.selector):
            yield candidate


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

    signs = list(signs_of(element))
    for sign in signs:
        yield css_or_xpath(sign.css, f"//{sign.xpath}", sign.evidence, sign.prior)
    for anchor, ancestor in anchors(element):
        for sign in [*signs[:3], tag_sign(element)]:
            evidence, prior = joined(anchor, sign)
            yield css_or_xpath(f"{anchor.css} {sign.css}", f"//{anchor.xpath}//{sign.xpath}", evidence, prior)
        css, xpath = steps_down(ancestor, element)
        evidence = anchor.evidence if anchor.evidence != CLASS and ">" not in css and ":" not in css else PATH
        prior = 0.55 * anchor.prior + 0.1 - 0.04 * css.count(">")
        yield css_or_xpath(f"{anchor.css} > {css}", f"//{anchor.xpath}/{xpath}", evidence, prior)
    for query, prior in label_queries(element, spot.text_index):
        yield Candidate(Selector(query, "xpath", spot.attribute, None, LABEL), prior)
    yield Candidate(Selector(absolute_path(element) + tail, "xpath", spot.attribute, None, PATH), 0.1)
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
    common = common_signs(elements)
    for sign in common:
        yield sign.css, f"//{sign.xpath}", sign.evidence, sign.prior - 0.05
    for holder in _holders(elements):
        steps = tags_down(holder, elements[0])
        if any(tags_down(holder, element) != steps for element in elements[1:]):
            continue
        css_down, down = " > ".join(steps), "/".join(steps)
        for anchor in near_signs(holder):
            prior = 0.75 * anchor.prior + 0.15 - 0.03 * len(steps)
            yield f"{anchor.css} > {css_down}", f"//{anchor.xpath}/{down}", anchor.evidence, prior
            for sign in common[:2]:
                yield f"{anchor.css} {sign.css}", f"//{anchor.xpath}//{sign.xpath}", *joined(anchor, sign)
        for query, prior in label_queries(holder, None) if is_mostly(holder, elements) else ():
            yield "", f"{query}/{down}", LABEL, prior - 0.03 * len(steps)
        for anchor, ancestor in anchors(holder):
            css, xpath = steps_down(ancestor, holder)
            prior = 0.5 * anchor.prior - 0.04 * css.count(">")
            yield f"{anchor.css} > {css} > {css_down}", f"//{anchor.xpath}/{xpath}/{down}", PATH, prior


def _holders(elements: Sequence[etree._Element]) -> list[etree._Element]:
    """The lowest element that holds all (for a single one: its parent) and the two above."""
    lines = [list(line_up(element)) for element in elements]
    shared = [node for node in lines[0][1:] if all(node in line for line in lines[1:])]
    return [node for node in shared if node.tag != "html"][:3]
