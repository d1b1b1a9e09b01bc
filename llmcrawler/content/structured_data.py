"""What a page says about itself to machines: JSON-LD and microdata (schema.org)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_OBJECTS = 200  # of a page
_MAX_DEPTH = 12
_WRAPPING = re.compile(
    r"^\s*(?://\s*)?(?:<!--|<!\[CDATA\[|/\*<!\[CDATA\[\*/)|(?://\s*)?(?:-->|\]\]>|/\*\]\]>\*/)\s*;?\s*$"
)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_URL_ATTRIBUTES = {
    "a": "href",
    "area": "href",
    "link": "href",
    "img": "src",
    "audio": "src",
    "video": "src",
    "source": "src",
    "iframe": "src",
    "embed": "src",
    "object": "data",
}


def structured_data(tree: LexborHTMLParser, html: str, url: str) -> tuple[dict[str, Any], ...]:
    """The page's objects, each with an "@type"; a graph or a list is given as its members. Nothing raises."""
    objects = list(_json_ld(tree)) if "ld+json" in html else []
    if "itemscope" in html:
        objects += _microdata(tree, url)
    return tuple(objects[:MAX_OBJECTS])


def _json_ld(tree: LexborHTMLParser) -> Iterator[dict[str, Any]]:
    for script in tree.css('script[type="application/ld+json" i]'):
        text = _WRAPPING.sub("", _WRAPPING.sub("", script.text() or "")).strip()
        if text:
            yield from _members(_parsed(text), 0)


def _parsed(text: str) -> Any:
    decoder = json.JSONDecoder(strict=False)
    for attempt in (text, _TRAILING_COMMA.sub(r"\1", text)):
        try:
            return decoder.raw_decode(attempt)[0]
        except (ValueError, RecursionError):
            continue
    return None


def _members(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for one in value:
            yield from _members(one, depth + 1)
    elif isinstance(value, dict):
        graph = value.get("@graph")
        if isinstance(graph, (list, dict)):
            yield from _members(graph, depth + 1)
        if value.get("@type"):
            yield value


def _microdata(tree: LexborHTMLParser, url: str) -> list[dict[str, Any]]:
    """Items in document order (HTML Living Standard, section 5); an item that is a property is in its owner."""
    items: dict[int, dict[str, Any]] = {}
    top: list[dict[str, Any]] = []
    for node in tree.css("[itemscope], [itemprop]"):
        attributes = node.attributes
        owner = items.get(_owner_id(node))
        names = (attributes.get("itemprop") or "").split()
        value: Any
        if "itemscope" in attributes:
            value = {"@type": (attributes.get("itemtype") or "").rstrip("/").rpartition("/")[2]}
            items[node.mem_id] = value
            if not names and value["@type"]:
                top.append(value)
        else:
            value = _property_value(node, attributes, url)
        if owner is not None:
            for name in names:
                _add(owner, name, value)
        if len(items) > MAX_OBJECTS:
            break
    return top


def _owner_id(node: LexborNode) -> int:
    parent = node.parent
    while parent is not None and "itemscope" not in parent.attributes:
        parent = parent.parent
    return parent.mem_id if parent is not None else -1


def _property_value(node: LexborNode, attributes: dict[str, str | None], url: str) -> str:
    tag = node.tag or ""
    content = attributes.get("content")
    if content is not None:
        return content.strip()
    if tag in _URL_ATTRIBUTES:
        try:
            return urljoin(url, attributes.get(_URL_ATTRIBUTES[tag]) or "")
        except ValueError:
            return ""
    if tag == "time" and attributes.get("datetime"):
        return attributes["datetime"] or ""
    return " ".join((node.text() or "").split())


def _add(owner: dict[str, Any], name: str, value: Any) -> None:
    if name not in owner:
        owner[name] = value
    elif isinstance(owner[name], list):
        owner[name].append(value)
    else:
        owner[name] = [owner[name], value]
