"""Makes a stored page fit to be looked at: nothing in it runs or is fetched, and the elements that the values of its
record come from are marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lxml import etree

from llmcrawler.core.reporting.html.learned_sites import MAX_STEPS
from llmcrawler.core.understanding.extraction import (
    PageSource,
    SelectorResult,
    Variant,
    Work,
    best_match,
    compile_extractor,
    parse_tree,
)
from llmcrawler.errors import TooCostly

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
    `results` are what the selectors of its template gave.
    """

    html: str
    results: Sequence[SelectorResult] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def look_at(html: str, variants: Sequence[Variant], url: str, lang: str) -> Looked:
    """Look at a stored page that costs little to read. The variant that fits it best is the one that is shown."""
    root = parse_tree(html)
    results: list[SelectorResult] = []
    with suppress(TooCostly):  # it is shown without marks
        results = selector_results(root, variants, url, lang)
    _clean(root)
    places = _mark(root, results)
    return Looked(etree.tostring(root, method="html", encoding="unicode"), results, places)


def selector_results(root: etree._Element, variants: Sequence[Variant], url: str, lang: str) -> list[SelectorResult]:
    """Return what the selectors of the variant that fits a page best give on it. Raises TooCostly."""
    source = PageSource(root, Work(MAX_STEPS))
    # What only libxml2 understands may take for ever.
    some = [one for one in variants if compile_extractor(one.extractor).is_bounded]
    found = [compile_extractor(one.extractor).extract_from(source, url, lang) for one in some]
    match = best_match(some, found)
    return compile_extractor(match.variant.extractor).results(source, url, lang) if match is not None else []


def _mark(root: etree._Element, results: Sequence[SelectorResult]) -> dict[str, str]:
    """Mark the elements that are shown, and return the id of the first one of each field."""
    places: dict[str, str] = {}
    fields: dict[etree._Element, list[str]] = {}
    for result in results:
        for element in result.elements if result.is_used else ():
            above = {element.tag, *(one.tag for one in element.iterancestors())}
            if element.getroottree().getroot() is not root or "head" in above:
                continue
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
            if str(name).lower() in _FETCHING or str(name).lower().startswith(("on", MARK)):
                del element.attrib[name]
        if (element.get("id") or "").startswith(_ID):
            del element.attrib["id"]
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
