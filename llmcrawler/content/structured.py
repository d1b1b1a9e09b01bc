"""Structured data of a page: JSON-LD, microdata, and what OpenGraph says of products, as plain dicts with "@type"."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

_WRAPPING: Final = re.compile(
    r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)+|(?:-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/|\]\]>)\s*;?\s*$"
)
_STRING_OR_COMMA: Final = re.compile(r'("(?:[^"\\]++|\\.)*+")|,(?=\s*[}\]])|/\*.*?\*/', re.DOTALL)
_MAX_OBJECTS: Final = 200
_MAX_DEPTH: Final = 12
_MAX_ITEMS: Final = 2000


def json_ld(scripts: list[str]) -> list[dict[str, Any]]:
    """The objects of JSON-LD scripts, lists and @graph taken apart. A script that is no JSON gives nothing."""
    found: list[dict[str, Any]] = []
    for script in scripts:
        for value in _values(script):
            _flatten(value, found)
    return found[:_MAX_OBJECTS]


def _values(script: str) -> list[Any]:
    """All JSON values of a script: some pages put several objects after each other."""
    text = _WRAPPING.sub("", script).strip()
    decoder = json.JSONDecoder(strict=False)
    for candidate in (text, _STRING_OR_COMMA.sub(lambda match: match[1] or "", text)):
        values, position = [], 0
        try:
            while position < len(candidate):
                value, position = decoder.raw_decode(candidate, position)
                values.append(value)
                while position < len(candidate) and candidate[position] in " \t\r\n;,":
                    position += 1
        except (ValueError, RecursionError):
            if values:
                return values
            continue
        return values
    return []


def _flatten(value: Any, found: list[dict[str, Any]]) -> None:
    waiting = [value]
    while waiting and len(found) < _MAX_OBJECTS:
        current = waiting.pop(0)
        if isinstance(current, list):
            waiting[:0] = current
        elif isinstance(current, dict):
            graph = current.get("@graph")
            if isinstance(graph, list | dict):
                waiting.insert(0, graph)
            if "@type" in current:
                found.append(current)


def microdata(tree: LexborHTMLParser) -> list[dict[str, Any]]:
    """Top-level microdata items (HTML standard, section 5), nested ones as values; a repeated property is a list."""
    found = []
    for node in tree.css("[itemscope]:not([itemprop])")[:_MAX_OBJECTS]:
        item = _item(node, 0)
        if len(item) > 1:
            found.append(item)
    return found


def _item(scope: LexborNode, depth: int) -> dict[str, Any]:
    types = [kind.rstrip("/").rsplit("/", 1)[-1] for kind in (scope.attributes.get("itemtype") or "").split()]
    item: dict[str, Any] = {"@type": types[0] if len(types) == 1 else types or "Thing"}
    waiting = [scope.child]
    seen = 0
    while waiting and seen < _MAX_ITEMS:
        node = waiting.pop()
        if node is None:
            continue
        seen += 1
        waiting.append(node.next)
        if not node.is_element_node:
            continue
        attributes = node.attributes
        nested = "itemscope" in attributes
        names = (attributes.get("itemprop") or "").split()
        if names:
            value = _item(node, depth + 1) if nested and depth < _MAX_DEPTH else _value(node, attributes)
            for name in names:
                _add(item, name, value)
        if not nested:
            waiting.append(node.child)
    return item


def _add(item: dict[str, Any], name: str, value: Any) -> None:
    if name not in item:
        item[name] = value
    elif isinstance(item[name], list):
        item[name].append(value)
    else:
        item[name] = [item[name], value]


def _value(node: LexborNode, attributes: dict[str, str | None]) -> str:
    for name in ("content", "datetime", "href", "src", "value"):
        if attributes.get(name) is not None and (name != "value" or node.tag in {"data", "meter"}):
            return (attributes[name] or "").strip()
    return " ".join(node.text().split())


def open_graph_product(metas: dict[str, str]) -> list[dict[str, Any]]:
    """A product or article that only OpenGraph tells of (og:type and product:price:*)."""
    kind = metas.get("og:type", "").lower()
    price = metas.get("product:price:amount") or metas.get("og:price:amount")
    if not price and kind not in {"product", "og:product", "product.item"}:
        return []
    item: dict[str, Any] = {"@type": "Product"}
    if metas.get("og:title"):
        item["name"] = metas["og:title"]
    if price:
        currency = metas.get("product:price:currency") or metas.get("og:price:currency") or ""
        item["offers"] = {"@type": "Offer", "price": price, "priceCurrency": currency}
    return [item]
