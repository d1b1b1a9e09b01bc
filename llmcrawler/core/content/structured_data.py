"""Reads what a page describes as data, as plain dicts with "@type": JSON-LD, OpenGraph's product properties, microdata,
and RDFa of schema.org's names. Bounds how much a page may say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from llmcrawler.core.content.markup import plain

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

    def fitting(self, objects: Sequence[Any]) -> list[Any]:
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


Attributes = dict[str, str | None]

_MAX_ELEMENTS: Final = 20_000  # with a property or an item, of a page
_MAX_DEPTH: Final = 12
_MAX_NAMES: Final = 20  # of one element
_MAX_NAME_CHARS: Final = 200
_MAX_REFERENCES: Final = 200
_MAX_HTML_CHARS: Final = 4_000_000  # that are read for all values of a page, which may stand within each other
_BREAK: Final = re.compile(
    r"</?(?:address|article|blockquote|br|dd|div|dl|dt|figcaption|figure|h[1-6]|hr|li|ol|p|pre|section|table|td|th|tr|ul)"
    r"\b[^>]*+>"
)
_TAG: Final = re.compile(r"<[^>]*+>")
# What an anchor says of the thing is where it leads to for these only; of an author or a name, it is its text.
_LED_TO: Final = re.compile(
    r"(?:.*url|url|sameas|mainentityofpage|image|logo|photo|item|availability|itemcondition|license|hasmap|menu)\Z",
    re.IGNORECASE,
)
_TAGS_WITH: Final = {"value": {"data", "meter"}, "data": {"object"}}
_VOCABULARY: Final = re.compile(r"(?:https?://(?:www\.)?(?:schema|data-vocabulary)\.org/|schema:)", re.IGNORECASE)
_TERMS: Final = {
    "dc:title": "name", "dc:date": "datePublished", "dc:created": "dateCreated", "dc:creator": "author",
    "dc:description": "description", "foaf:name": "name", "dc:modified": "dateModified",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Syntax:
    """The attributes of a syntax: that which makes an item of an element, its type and its properties, and its name."""

    scope: str
    types: str
    properties: str
    identity: str
    name_of: Callable[[str], str]


def _rdfa_name(name: str) -> str:
    """Return a property without schema.org's prefix; "" for that of another vocabulary."""
    name = _TERMS.get(name.lower().replace("dcterms:", "dc:"), name)
    name = _VOCABULARY.sub("", name, count=1)
    return "" if ":" in name else name


_MICRODATA: Final = _Syntax(
    "itemscope", "itemtype", "itemprop", "itemid", lambda name: _VOCABULARY.sub("", name, count=1)
)
_RDFA: Final = _Syntax("typeof", "typeof", "property", "resource", _rdfa_name)


def microdata(tree: LexborHTMLParser) -> list[dict[str, Any]]:
    """Return top-level microdata items (HTML standard, section 5); inner items are values, repeated values a list."""
    return _Reading(_MICRODATA).items(tree)


def rdfa(tree: LexborHTMLParser) -> list[dict[str, Any]]:
    """Return the top-level objects that `typeof` and `property` (RDFa Lite) describe, in the form of microdata's."""
    return _Reading(_RDFA).items(tree)


@dataclass(slots=True)
class _Item:
    values: dict[str, Any]
    depth: int


@dataclass
class _Reading:
    """One pass over the elements that have a property or make an item, in document order. Each belongs to the nearest
    item around it, and to those that refer to it by its id. The ways up the tree are kept, so that time is linear.
    """

    syntax: _Syntax
    room: Room = field(default_factory=Room)
    html_chars: int = _MAX_HTML_CHARS
    made: dict[int, _Item] = field(default_factory=dict)  # by element
    around: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by element, the items that what is in it is of
    referring: dict[int, list[int]] = field(default_factory=dict)  # by element, the items that refer to it

    def items(self, tree: LexborHTMLParser) -> list[dict[str, Any]]:
        syntax = self.syntax
        elements = tree.css(f"[{syntax.scope}],[{syntax.properties}]")[:_MAX_ELEMENTS]
        if syntax is _MICRODATA:
            self._follow_references(tree)
        top: list[dict[str, Any]] = []
        # One that both selectors give stands there twice.
        for node in {one.mem_id: one for one in elements}.values():
            if self.room.is_full:
                break
            self._read(node, node.attributes, top)
        found = [item for item in top[:_MAX_OBJECTS] if len(item) > 1]
        # Items that refer to each other may go round in a circle.
        return Room().fitting(found) if self.referring else found

    def _read(self, node: LexborNode, attributes: Attributes, top: list[dict[str, Any]]) -> None:
        syntax = self.syntax
        given = (attributes.get(syntax.properties) or "").split()[:_MAX_NAMES]
        names = [name[:_MAX_NAME_CHARS] for name in map(syntax.name_of, given) if name]
        is_item = syntax.scope in attributes
        owners = self._owners(node) if given else ()
        if not is_item and not (owners and names):
            return
        self.room.values -= 1
        depth = max((self.made[one].depth + 1 for one in owners), default=0)
        value: Any
        if is_item:
            if depth >= _MAX_DEPTH:
                return
            known = self.made.get(node.mem_id)
            value = self._item(attributes) if known is None else known.values
            self.made[node.mem_id] = _Item(value, depth)
            if not given or (syntax is _RDFA and not owners):
                top.append(value)
        else:
            value = self.room.text(self._value(node, attributes, names))
        for owner in owners:
            for name in names:
                _add(self.made[owner].values, name, value)

    def _item(self, attributes: Attributes) -> dict[str, Any]:
        kinds = (attributes.get(self.syntax.types) or "").split()[:_MAX_NAMES]
        types = [kind.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1][:_MAX_NAME_CHARS] for kind in kinds]
        item: dict[str, Any] = {"@type": types[0] if len(types) == 1 else types or "Thing"}
        identity = (attributes.get(self.syntax.identity) or "").strip()
        if identity:
            item["@id"] = self.room.text(identity)
        return item

    def _owners(self, node: LexborNode) -> tuple[int, ...]:
        """Return the items, of those made so far, that a property of this element is of."""
        climbed: list[int] = []
        current: LexborNode | None = node
        found: tuple[int, ...] = ()
        while current is not None:
            number = current.mem_id
            if number in self.around:
                found = self.around[number]
                break
            climbed.append(number)
            current = current.parent
            if current is not None and current.mem_id in self.made:
                found = (current.mem_id,)
                break
        for number in reversed(climbed):
            found = (*found, *self.referring[number]) if number in self.referring else found
            self.around[number] = found
        return tuple(one for one in dict.fromkeys(found) if one in self.made)

    def _value(self, node: LexborNode, attributes: Attributes, names: list[str]) -> str:
        tag = node.tag
        is_text = tag in {"a", "area"} and not any(_LED_TO.match(name) for name in names)
        for name in ("content", "datetime", "href", "src", "value", "data"):
            given = attributes.get(name)
            if given is None or tag not in _TAGS_WITH.get(name, {tag}):
                continue
            if not (name == "href" and is_text) and (given.strip() or tag in {"meta", "link"}):
                return given.strip()
        return self._text(node) or (attributes.get("href") or "").strip()

    def _text(self, node: LexborNode) -> str:
        """Return the text of an element, white space folded; what stands in parts of their own has lines of its own."""
        child = node.child
        if child is None or (child.is_text_node and child.next is None):
            return " ".join(node.text().split())
        if self.html_chars <= 0:
            return ""
        html = node.html or ""
        self.html_chars -= len(html)
        text = plain(_TAG.sub("", _BREAK.sub("\n", html)))
        return "\n".join(line for line in (" ".join(one.split()) for one in text.split("\n")) if line)

    def _follow_references(self, tree: LexborHTMLParser) -> None:
        """Note which elements items refer to by `itemref`. Such an item is made at once: they may stand before it."""
        scopes = tree.css("[itemscope][itemref]")[:_MAX_REFERENCES]
        if not scopes:
            return
        named = {one.attributes.get("id"): one.mem_id for one in reversed(tree.css("[id]")[:_MAX_ELEMENTS])}
        for scope in scopes:
            for name in (scope.attributes.get("itemref") or "").split()[:_MAX_NAMES]:
                if name in named and named[name] != scope.mem_id:
                    self.referring.setdefault(named[name], []).append(scope.mem_id)
            self.made[scope.mem_id] = _Item(self._item(scope.attributes), 0)


def _add(item: dict[str, Any], name: str, value: Any) -> None:
    if name not in item:
        item[name] = value
    elif isinstance(item[name], list):
        item[name].append(value)
    else:
        item[name] = [item[name], value]
