"""The way from an element down to one within it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lxml import etree

# libxml2 takes nearly everything behind a "<" for a tag's name, and does not let itself be asked for all of that.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def steps_down(ancestor: etree._Element, element: etree._Element) -> tuple[str, str]:
    """The way down to an element, as CSS and XPath; positions where an element has siblings of its tag."""
    css: list[str] = []
    xpath: list[str] = []
    for node in line_up(element):
        if node is ancestor:
            break
        alike = str(node.tag) if _NAME.fullmatch(str(node.tag)) else "*"  # no selector finds other tags by name
        position = 1 + sum(1 for _ in node.itersiblings(alike, preceding=True))
        alone = position == 1 and next(node.itersiblings(alike), None) is None
        css.append(str(node.tag) if alone else f"{node.tag}:nth-of-type({position})")
        xpath.append(str(node.tag) if alone else f"{node.tag}[{position}]")
    return " > ".join(reversed(css)), "/".join(reversed(xpath))


def tags_down(ancestor: etree._Element, element: etree._Element) -> list[str]:
    steps: list[str] = []
    for node in line_up(element):
        if node is ancestor:
            break
        steps.append(str(node.tag))
    return steps[::-1]


def absolute_path(element: etree._Element) -> str:
    root = element.getroottree().getroot()
    _, xpath = steps_down(root, element)
    return f"/{root.tag}/{xpath}" if xpath else f"/{root.tag}"


def line_up(element: etree._Element) -> Iterator[etree._Element]:
    yield element
    yield from element.iterancestors()
