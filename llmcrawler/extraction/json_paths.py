"""Paths into a page's JSON-LD: `Product.offers.price` is the price of the offers of each object of type Product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from llmcrawler.extraction.tree import fold

_MAX_DEPTH: Final = 6
_MAX_LEAVES: Final = 300
_MAX_PATH_CHARS: Final = 200
# Who publishes and where the page stands in the site: nothing of the thing that the page is about.
_FRAME_TYPES: Final = frozenset({"WebSite", "SearchAction", "SiteNavigationElement", "WPHeader", "WPFooter"})


def leaves(objects: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """(path, text) of each scalar, white space folded; the items of a list share its path."""
    given = 0
    for one in objects:
        kind = type_name(one)
        if kind in _FRAME_TYPES:
            continue
        for path, value in _walk(one, kind, 0):
            if len(path) > _MAX_PATH_CHARS:
                continue
            given += 1
            if given > _MAX_LEAVES:
                return
            yield path, value


def resolve(objects: Sequence[dict[str, Any]], path: str) -> list[str]:
    """The texts at a path, in document order."""
    kind, *keys = path.split(".")
    found: list[Any] = [one for one in objects if type_name(one) == kind]
    for key in keys:
        found = [inner for value in found if isinstance(value, dict) for inner in _items(value.get(key))]
    return [text for text in (_text(value) for value in found) if text]


def type_name(value: dict[str, Any]) -> str:
    """The (first) schema.org type of an object, without its vocabulary; "Thing" where it says none."""
    kind = value.get("@type")
    if isinstance(kind, list):
        kind = next((one for one in kind if isinstance(one, str)), None)
    name = kind.rstrip("/").rsplit("/", 1)[-1].rsplit("#", 1)[-1] if isinstance(kind, str) else ""
    return name.replace(".", "_") or "Thing"


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if depth < _MAX_DEPTH:
            for key, inner in value.items():
                if not key.startswith("@") and "." not in key:
                    yield from _walk(inner, f"{path}.{key}", depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, path, depth + 1 if isinstance(inner, list) else depth)
    else:
        text = _text(value)
        if text:
            yield path, text


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [inner for item in value for inner in _items(item)]
    return [] if value is None else [value]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return fold(str(value)) if isinstance(value, str | int | float) else ""
