"""Selectors as steps from element to element: the part of CSS and XPath that records need.

All that is learned is in this part (`path_of` reads each candidate, and one that it cannot read is none), so that
`evaluation` can run it in time linear in the page. What a person writes into a file of templates may be outside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from llmcrawler.core.understanding.extraction.extractor import Language

Axis = Literal["descendant", "child", "following-sibling"]
TEXT: Final = "text()"
ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class PathStep:
    """The way from an element to others: those on an axis with a tag (or "*", or text nodes) that pass all tests.

    `nth_of_type` counts from 1 among the siblings of the tag, `nth` among those on the axis that pass the tests.
    `equal` and `prefix` are compared with the whole text, white space normalised.
    """

    axis: Axis
    tag: str
    attributes: tuple[tuple[str, str | None], ...] = ()
    classes: tuple[str, ...] = ()
    nth_of_type: int | None = None
    equal: str | None = None
    prefix: str | None = None
    is_not_blank: bool = False
    nth: int | None = None

    @property
    def reads_text(self) -> bool:
        return self.equal is not None or self.prefix is not None or self.is_not_blank


@dataclass(frozen=True, slots=True)
class Path:
    """The steps of a selector. `start`: the document, the element that a selector is run on ("."), or this element and
    all within it (CSS)."""

    start: Literal["document", "element", "within"]
    steps: tuple[PathStep, ...]


@lru_cache(maxsize=4096)
def path_of(query: str, language: Language) -> Path | None:
    """Parse a selector. None for one that is none, or outside the part of CSS or XPath that is known here."""
    return _css(query) if language == "css" else _xpath(query)


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
_QUOTED: Final = r'(?:"[^"]*"|\'[^\']*\')'
_SIMPLE: Final = re.compile(
    rf"#(?P<id>{_NAME})|\.(?P<class>{_NAME})|:nth-of-type\((?P<nth>[1-9]\d{{0,6}})\)"
    rf"|\[(?P<attribute>{_NAME})(?:=(?P<value>\"[^\"\\\n]*\"|'[^'\\\n]*'|{_NAME}))?\]"
)
_COMPOUND: Final = re.compile(rf"(?P<tag>{_NAME}|\*)?(?P<simple>(?:{_SIMPLE.pattern.replace('?P<', '?P<_')})*)")
_COMBINATOR: Final = re.compile(r"[ \t\r\n\f]*>[ \t\r\n\f]*|[ \t\r\n\f]+")


def _css(query: str) -> Path | None:
    steps: list[PathStep] = []
    at, axis = 0, "descendant"
    query = query.strip(" \t\r\n\f")
    while True:
        compound = _COMPOUND.match(query, at)
        if compound is None or not compound[0]:
            return None
        step = _css_step("child" if axis == "child" else "descendant", compound)
        if step is None:
            return None
        steps.append(step)
        at = compound.end()
        if at == len(query):
            return Path("within", tuple(steps))
        combinator = _COMBINATOR.match(query, at)
        if combinator is None:
            return None
        at, axis = combinator.end(), "child" if ">" in combinator[0] else "descendant"


def _css_step(axis: Axis, compound: re.Match[str]) -> PathStep | None:
    tag = (compound["tag"] or ANY).lower()
    attributes: list[tuple[str, str | None]] = []
    classes: list[str] = []
    nth: int | None = None
    for simple in _SIMPLE.finditer(compound["simple"]):
        if simple["id"]:
            attributes.append(("id", simple["id"]))
        elif simple["class"]:
            classes.append(simple["class"])
        elif simple["nth"]:
            if nth is not None or tag == ANY or axis != "child":
                return None
            nth = int(simple["nth"])
        else:
            attributes.append((simple["attribute"].lower(), simple["value"] and simple["value"].strip("\"'")))
    return PathStep(axis, tag, tuple(attributes), tuple(classes), nth)


_CLASS: Final = r'contains\(concat\(" ", normalize-space\(@class\), " "\), " [^" \t\r\n]+ "\)'
_LITERAL: Final = rf"(?:{_QUOTED}|concat\({_QUOTED}(?:, {_QUOTED})*\))"
_TEST: Final = re.compile(
    rf"\[(?:(?P<nth>[1-9]\d{{0,6}})|@(?P<attribute>{_NAME})(?:\s*=\s*(?P<value>{_QUOTED}))?"
    rf"|(?P<classes>{_CLASS}(?: and {_CLASS})*)"
    rf"|(?P<space>normalize-space\(\))(?:\s*=\s*(?P<equal>{_LITERAL}))?"
    rf"|starts-with\(normalize-space\(\),\s*(?P<prefix>{_LITERAL})\))\]"
)
_STEP: Final = re.compile(
    rf"(?P<slash>//?)(?P<sibling>following-sibling::)?(?P<tag>text\(\)|{_NAME}|\*)"
    rf"(?P<tests>(?:{_TEST.pattern.replace('?P<', '?P<_')})*)"
)
_CLASS_NAME: Final = re.compile(r'" ([^" \t\r\n]+) "\)')
_PIECE: Final = re.compile(_QUOTED)


def _xpath(query: str) -> Path | None:
    query = query.strip()
    at = 1 if query.startswith(".") else 0
    start: Literal["document", "element"] = "element" if at else "document"
    steps: list[PathStep] = []
    while at < len(query):
        match = _STEP.match(query, at)
        if match is None or (steps and steps[-1].tag == TEXT and not match["sibling"]):
            return None
        step = _xpath_step(match, is_first=not steps and start == "document")
        if step is None:
            return None
        steps.append(step)
        at = match.end()
    return Path(start, tuple(steps)) if steps or at else None


def _xpath_step(match: re.Match[str], *, is_first: bool) -> PathStep | None:
    axis: Axis = "descendant" if match["slash"] == "//" else "child"
    if match["sibling"]:
        if axis == "descendant" or is_first:
            return None
        axis = "following-sibling"
    found: dict[str, object] = {}
    attributes: list[tuple[str, str | None]] = []
    for test in _TEST.finditer(match["tests"]):
        if "nth" in found:
            return None  # a test after the position counts what is left
        if test["attribute"]:
            attributes.append((test["attribute"], test["value"] and test["value"][1:-1]))
            continue
        name, value = _test(test)
        if name in found:
            return None
        found[name] = value
    # `//p[2]` counts among the children of each parent, which no learned selector asks for.
    if ("nth" in found and axis == "descendant") or (match["tag"] == TEXT and (attributes or "classes" in found)):
        return None
    return PathStep(axis, match["tag"], tuple(attributes), **found)  # type: ignore[arg-type]


def _test(test: re.Match[str]) -> tuple[str, object]:
    if test["nth"]:
        return "nth", int(test["nth"])
    if test["classes"]:
        return "classes", tuple(_CLASS_NAME.findall(test["classes"]))
    if test["prefix"]:
        return "prefix", _text(test["prefix"])
    return ("equal", _text(test["equal"])) if test["equal"] else ("is_not_blank", True)


def _text(literal: str) -> str:
    return "".join(piece[1:-1] for piece in _PIECE.findall(literal))
