"""Reads JSON-LD and OpenGraph's product properties as plain dicts with "@type", and bounds what a page may say."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_WRAPPING: Final = re.compile(
    r"\A\s*+(?:<!--|//\s*+<!\[CDATA\[|/\*\s*+<!\[CDATA\[\s*+\*/|<!\[CDATA\[)++"
    r"|(?:-->|//\s*+\]\]>|/\*\s*+\]\]>\s*+\*/|\]\]>)\s*+;?+\s*+\Z"
)
_STRING_OR_COMMA: Final = re.compile(r'("(?:[^"\\]++|\\.?)*+(?:"|\Z))|,(?=\s*+[}\]])|/\*.*?(?:\*/|\Z)', re.DOTALL)
_MAX_OBJECTS: Final = 200
_MAX_NESTING: Final = 24
_MAX_SCRIPT_VALUES: Final = 1_000  # after each other in one script
_MAX_VALUES: Final = 20_000  # of all objects of a page
_MAX_CHARS: Final = 500_000


def json_ld(scripts: list[str]) -> list[dict[str, Any]]:
    """Return the objects of JSON-LD scripts, with lists and @graph taken apart; other scripts give nothing."""
    found: list[dict[str, Any]] = []
    for script in scripts:
        for value in _values(script):
            _flatten(value, found)
    return Room().fitting(found)


class Room:
    """Counts how much data may still be taken from a page: it can nest values deeper than Python can walk, and repeat
    one text in each of ten thousand elements around it.
    """

    def __init__(self) -> None:
        self.values = _MAX_VALUES
        self.chars = _MAX_CHARS

    def fitting(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return copies of the objects, cut to what is left."""
        return [self._cut(one, 0) for one in objects[:_MAX_OBJECTS] if not self.is_full]

    @property
    def is_full(self) -> bool:
        return self.values <= 0 or self.chars <= 0

    def text(self, text: str) -> str:
        """Return the text, cut to what is left."""
        text = text[: max(0, self.chars)]
        self.chars -= len(text)
        return text

    def _cut(self, value: Any, depth: int) -> Any:
        self.values -= 1
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        if depth >= _MAX_NESTING:
            return None
        if isinstance(value, list):
            return [self._cut(one, depth + 1) for one in value[: max(0, self.values)]]
        named = list(value.items())[: max(0, self.values)]
        return {self.text(name): self._cut(one, depth + 1) for name, one in named}


def _values(script: str) -> list[Any]:
    """Return all JSON values of a script: some pages put several objects after each other."""
    text = _WRAPPING.sub("", script).strip()
    decoder = json.JSONDecoder(strict=False)
    for candidate in (text, _STRING_OR_COMMA.sub(lambda match: match[1] or "", text)):
        values: list[Any] = []
        position = 0
        try:
            while position < len(candidate) and len(values) < _MAX_SCRIPT_VALUES:
                value, position = decoder.raw_decode(candidate, position)
                values.append(value)
                while position < len(candidate) and candidate[position] in " \t\r\n;,":
                    position += 1
        except (ValueError, RecursionError):
            if not values:
                continue
        return values
    return []


def _flatten(value: Any, found: list[dict[str, Any]]) -> None:
    waiting = [value]  # the next one last
    for _ in range(_MAX_VALUES):
        if not waiting or len(found) >= _MAX_OBJECTS:
            return
        current = waiting.pop()
        if isinstance(current, list):
            waiting += reversed(current[:_MAX_VALUES])
        elif isinstance(current, dict):
            graph = current.get("@graph")
            if isinstance(graph, list | dict):
                waiting.append(graph)
            if "@type" in current:
                found.append(current)


def open_graph_product(metas: dict[str, str]) -> list[dict[str, Any]]:
    """Return the product that OpenGraph describes (og:type and product:price:*), or nothing."""
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
