"""Cuts a page into numbered blocks, which the model is shown and points at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Final

from lxml import etree

from llmcrawler.errors import TooCostly
from llmcrawler.extraction.queries import PageSource, json_leaves
from llmcrawler.extraction.tree import (
    BLOCK_STEPS,
    INLINE_TAGS,
    SILENT_TAGS,
    TRAINING_STEPS,
    Work,
    fold,
    line_up,
    parse_tree,
    text_of,
)

# Attributes that carry data of their own, by tag; "" stands for any tag.
_DATA_ATTRIBUTES: Final = {
    "": ("datetime", "content"),
    "a": ("href",),
    "img": ("src",),
    "source": (),
    "data": ("value",),
    "meter": ("value",),
    "meta": ("content",),
}
_META_NOISE: Final = (
    "viewport generator theme-color robots referrer format-detection csrf-token msapplication color-scheme googlebot"
    " google-site-verification apple-mobile handheldfriendly mobile-web-app twitter:card og:locale fb:app_id verify"
).split()
_DIGITS: Final = re.compile(r"\d+")
_LABEL_TAGS: Final = frozenset("th dt b strong label legend h2 h3 h4 h5 h6".split())
_SMALL_WHOLE_CHARS: Final = 300
_TEXT_NODE_CHARS: Final = 200
_LONG_BLOCK_CHARS: Final = 400
_MAX_BLOCKS: Final = 3_000
_MAX_HINT_CHARS: Final = 200
# Around the text of a block in the document: {"n": 123, "text": "", "in": ""},
_CHARS_AROUND: Final = 30
_CHARS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Block:
    """Numbered block as the model sees it. `hint` tells where it stands: "p.price", "a@href"; mostly empty."""

    n: int
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """The source of a block's text: an element's text, one of its non-blank text nodes (`text_index`, from 1),
    one of its attributes, or a value of the page's JSON-LD (`json_path`, then there is no element).
    """

    element: etree._Element | None
    attribute: str | None = None
    text_index: int | None = None
    json_path: str | None = None


@dataclass(frozen=True, slots=True)
class BlockList:
    """The blocks of a page without the page: what is shown of it, and what tells it from others.

    `links` are the numbers of the blocks that are addresses; `labels` the texts of elements that mostly name what
    stands beside or below them; `paths` the ways from the root to what carries text, as tags and classes, without
    numbers.
    """

    blocks: tuple[Block, ...]
    links: frozenset[int]
    texts: frozenset[str]
    labels: frozenset[str]
    paths: frozenset[str]


class PageBlocks:
    """The blocks of a page in document order, the head last, numbered from 1; a page always gives the same numbers."""

    def __init__(self, html: str, url: str = "") -> None:
        self.url = url
        self.source = PageSource(parse_tree(html), Work(TRAINING_STEPS))
        blocks: list[Block] = []
        spots: dict[int, Spot] = {}
        with suppress(TooCostly):  # what was found by then is shown
            for text, hint, spot in islice(self._pieces(Work(BLOCK_STEPS)), _MAX_BLOCKS):
                number = len(blocks) + 1
                blocks.append(Block(number, text, hint))
                spots[number] = spot
        self.blocks: tuple[Block, ...] = tuple(blocks)
        self.spots = spots

    @property
    def root(self) -> etree._Element:
        return self.source.root

    def listed(self) -> BlockList:
        """Return the blocks without the page."""
        elements = ((block.text, self.spots[block.n].element) for block in self.blocks)
        names: dict[etree._Element, str] = {}
        return BlockList(
            self.blocks,
            frozenset(n for n, spot in self.spots.items() if spot.attribute in ("href", "src")),
            frozenset(block.text for block in self.blocks),
            frozenset(text for text, element in elements if element is not None and element.tag in _LABEL_TAGS),
            frozenset(_path(spot.element, names) for spot in self.spots.values() if spot.element is not None),
        )

    def _pieces(self, work: Work) -> Iterator[tuple[str, str, Spot]]:
        head = self.root.find("head")
        waiting = [node for node in reversed(self.root) if node is not head]
        while waiting:
            element = waiting.pop()
            if not isinstance(element.tag, str) or element.tag in SILENT_TAGS:
                continue
            yield from _element_pieces(element, work)
            waiting.extend(reversed(element))
        # Behind the body: what a visitor sees is pointed at before what was written for machines.
        if head is not None:
            yield from _head_pieces(head)
        for path, value in json_leaves(self.source.json_ld):
            yield value, f"json-ld {path}", Spot(None, json_path=path)


def _path(element: etree._Element, names: dict[etree._Element, str]) -> str:
    """Return the way from the root to an element; `names` remembers those of the elements on it."""
    line = list(takewhile(lambda node: node not in names, line_up(element)))
    for node in reversed(line):
        parent = node.getparent()
        own = _DIGITS.sub("", f"{node.tag}.{node.get('class') or ''}")
        # A digest: written out, the ways through a page that is nested deeply take more room than all pages.
        way = own if parent is None else f"{names[parent]} {own}"
        names[node] = blake2b(way.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return names[element]


def repeated_texts(pages: Sequence[BlockList]) -> frozenset[str]:
    """Return the texts on nearly all pages of a template: its frame and its labels, not a page's own data."""
    counts = Counter(text for page in pages for text in page.texts)
    enough = max(2, 0.8 * len(pages))
    return frozenset(text for text, count in counts.items() if count >= enough)


def shown_blocks(page: BlockList, repeated: Collection[str], budget_tokens: int) -> tuple[Block, ...]:
    """Return the blocks of a page that fit a budget of tokens (4 characters each), in document order but for the
    boilerplate, which comes last and is left out first. Then go links, and at last long texts lose their ends.
    """
    own = {block.n for block in page.blocks if block.text not in repeated}
    beside = {n - 1 for n in own} | {n - 2 for n in own}
    frame = [block for block in page.blocks if block.n not in own and block.n not in beside]
    kept = [block for block in page.blocks if block.n in own or block.n in beside]
    budget_chars = budget_tokens * _CHARS_PER_TOKEN
    if _chars(kept) > budget_chars:
        kept = [block for block in kept if block.n not in page.links]
    if _chars(kept) > budget_chars:
        kept = [_shortened(block) for block in kept]
    shown: list[Block] = []
    for block in (*kept, *(_shortened(block) for block in frame)):
        budget_chars -= _chars([block])
        if budget_chars < 0 and shown:
            break
        shown.append(block)
    return tuple(shown)


def _chars(blocks: Sequence[Block]) -> int:
    return sum(len(block.text) + len(block.hint) + _CHARS_AROUND for block in blocks)


def _shortened(block: Block) -> Block:
    if len(block.text) <= _LONG_BLOCK_CHARS:
        return block
    return Block(block.n, block.text[:_LONG_BLOCK_CHARS].rsplit(" ", 1)[0] + " …", block.hint)


def _head_pieces(head: etree._Element) -> Iterator[tuple[str, str, Spot]]:
    for element in head.iter("title", "meta"):
        if element.tag == "title":
            text = fold(element.text or "")
            if text:
                yield text, "title", Spot(element)
            continue
        name = element.get("property") or element.get("name") or element.get("itemprop") or ""
        content = fold(element.get("content") or "")
        if 0 < len(name) <= _MAX_HINT_CHARS and content and not any(noise in name.lower() for noise in _META_NOISE):
            yield content, f"meta {name}", Spot(element, "content")


def _element_pieces(element: etree._Element, work: Work) -> Iterator[tuple[str, str, Spot]]:
    for attribute in (*_DATA_ATTRIBUTES.get(str(element.tag), ()), *_DATA_ATTRIBUTES[""]):
        value = fold(element.get(attribute) or "")
        if value and not value.startswith(("#", "javascript:", "data:")):
            yield value, f"{_name(element) or element.tag}@{attribute}", Spot(element, attribute)
    own = own_texts(element)
    children = [child for child in element if isinstance(child.tag, str) and child.tag not in ("br", "wbr")]
    if not own and not (len(children) > 1 and _is_inline(element, work)):
        return
    whole = text_of(element, work)
    if not whole or not _says_something(whole):
        return
    mixed = any(text_of(child, work) for child in children)
    if not mixed or _is_inline(element, work) or len(whole) <= _SMALL_WHOLE_CHARS:
        yield whole, _name(element), Spot(element)
    if mixed or (len(own) > 1 and len(whole) <= _SMALL_WHOLE_CHARS):
        for index, text in enumerate(own, 1):
            if text != whole and len(text) <= _TEXT_NODE_CHARS and _says_something(text):
                yield text, "", Spot(element, text_index=index)


def own_texts(element: etree._Element) -> list[str]:
    """Return the element's non-blank text nodes, folded, as XPath's `text()[normalize-space()]` counts them."""
    nodes = (element.text, *(child.tail for child in element))
    return [text for text in (fold(node or "") for node in nodes) if text]


def _is_inline(element: etree._Element, work: Work) -> bool:
    for node in element.iterdescendants():
        work.charge(1)
        if isinstance(node.tag, str) and node.tag not in INLINE_TAGS and node.tag not in ("br", "img"):
            return False
    return True


def _says_something(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _name(element: etree._Element) -> str:
    """Return a short name of the element where it has one that helps: itemprop, id, classes, a heading's tag."""
    tag = str(element.tag)
    if element.get("itemprop"):
        return f"{tag}[itemprop={element.get('itemprop')}]"[:40]
    classes = (element.get("class") or "").split()
    if element.get("id"):
        return f"{tag}#{element.get('id')}"[:40]
    if classes:
        return f"{tag}.{'.'.join(classes[:2])}"[:40]
    return tag if tag in ("h1", "h2", "h3", "th", "dt", "title") else ""
