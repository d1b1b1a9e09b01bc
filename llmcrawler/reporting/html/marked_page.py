"""Makes a stored page fit to be looked at: nothing in it runs or is fetched, and the elements that the values of its
record come from are marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lxml import etree

from llmcrawler.errors import TooCostly
from llmcrawler.extraction import (
    PageSource,
    Selector,
    SelectorResult,
    Variant,
    Work,
    best_match,
    compile_extractor,
    parse_tree,
)
from llmcrawler.reporting.html.learned_sites import MAX_STEPS

MARK = "data-llmcrawler"  # the attribute of a marked element: the fields whose values it holds
_ID = "llmcrawler-mark-"
_DROPPED = frozenset(
    "script style link meta base iframe frame frameset object embed applet template portal audio video source"
    " track".split()
)
_FETCHING = frozenset(
    "href src srcset imagesrcset action formaction background poster data ping cite longdesc manifest codebase archive"
    " profile usemap classid lowsrc dynsrc autofocus xlink:href http-equiv target is slot".split()
)
_MAX_MARKED = 200


@dataclass(frozen=True, slots=True)
class Looked:
    """A stored page that was looked at. `html` is the page to show, `places` has the id of the element of each field;
    `results` are what the selectors of its template gave, in their order.
    """

    html: str
    results: Sequence[SelectorResult] = ()
    tried: Sequence[tuple[str, Selector]] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def look_at(html: str, variants: Sequence[Variant], url: str, lang: str) -> Looked:
    """Look at a stored page that costs little to read. The variant that fits it best is the one that is shown."""
    root = parse_tree(html)
    results: list[SelectorResult] = []
    tried: list[tuple[str, Selector]] = []
    with suppress(TooCostly):  # it is shown without marks
        results, tried = _results(PageSource(root, Work(MAX_STEPS)), variants, url, lang)
    places = _mark(results)
    _clean(root)
    return Looked(etree.tostring(root, method="html", encoding="unicode"), results, tried, places)


def _results(
    source: PageSource, variants: Sequence[Variant], url: str, lang: str
) -> tuple[list[SelectorResult], list[tuple[str, Selector]]]:
    # What only libxml2 understands may take for ever.
    compiled = {id(one): compile_extractor(one.extractor) for one in variants}
    some = [one for one in variants if compiled[id(one)].is_bounded]
    match = best_match(some, [compiled[id(one)].extract_from(source, url, lang) for one in some])
    if match is None:
        return [], []
    extractor = match.variant.extractor
    tried = [(name, selector) for name, rows in extractor.groups for selector in rows]
    tried += [(rule.field.key, selector) for rule in extractor.rules for selector in rule.selectors]
    return compile_extractor(extractor).results(source, url, lang), tried


def _mark(results: Sequence[SelectorResult]) -> dict[str, str]:
    places: dict[str, str] = {}
    fields: dict[etree._Element, list[str]] = {}
    for result in results:
        for element in result.elements if result.is_used else ():
            if len(fields) < _MAX_MARKED or element in fields:
                fields.setdefault(element, []).append(result.field)
    for number, (element, names) in enumerate(fields.items()):
        element.set(MARK, ", ".join(dict.fromkeys(names)))
        element.set("id", f"{_ID}{number}")
        for name in names:
            places.setdefault(name, f"{_ID}{number}")
    return places


def _clean(root: etree._Element) -> None:
    for element in list(root.iter()):
        if not isinstance(element.tag, str) or element.tag.lower() in _DROPPED:
            _remove(element, root)
            continue
        for name in element.attrib:
            if str(name).lower() in _FETCHING or str(name).lower().startswith("on"):
                del element.attrib[name]
        if "(" in (element.get("style") or "") or "\\" in (element.get("style") or ""):
            del element.attrib["style"]  # it may name a picture


def _remove(element: etree._Element, root: etree._Element) -> None:
    parent = element.getparent()
    if parent is None or element is root:
        return
    before = element.getprevious()
    if before is not None:
        before.tail = (before.tail or "") + (element.tail or "")
    else:
        parent.text = (parent.text or "") + (element.tail or "")
    parent.remove(element)
