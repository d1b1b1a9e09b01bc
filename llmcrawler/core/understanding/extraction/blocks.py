"""Cuts a page into numbered blocks, chooses those that the model is shown within a budget, keeps pages for that."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, pairwise, takewhile
from statistics import fmean
from typing import TYPE_CHECKING, Final

from lxml import etree

from llmcrawler.core.content import block_key, read_page
from llmcrawler.core.content.fingerprint import may_be_hash
from llmcrawler.core.understanding.extraction.queries import PageSource, json_leaves, state_leaves
from llmcrawler.core.understanding.extraction.selectors import Language
from llmcrawler.core.understanding.extraction.tree import (
    BLOCK_STEPS,
    CONTENT_TAGS,
    INLINE_TAGS,
    SILENT_TAGS,
    TRAINING_STEPS,
    Work,
    fold,
    line_up,
    parse_tree,
    starts_frame,
    text_of,
)
from llmcrawler.errors import TooCostly

if TYPE_CHECKING:
    from llmcrawler.core.understanding.extraction.record_schema import Field

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
# They say what an element is, whatever it looks like.
KIND_ATTRIBUTES: Final = tuple(
    "itemprop property data-testid data-test data-qa data-cy data-hook data-ui data-at data-purpose".split()
)
_OF_KIND: Final = frozenset({"class", *KIND_ATTRIBUTES})
_META_NOISE: Final = (
    "viewport generator theme-color robots referrer format-detection csrf-token msapplication color-scheme googlebot"
    " google-site-verification apple-mobile handheldfriendly mobile-web-app twitter:card og:locale fb:app_id verify"
).split()
_DIGITS: Final = re.compile(r"\d+")
_ABSOLUTE: Final = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
_LABEL_TAGS: Final = frozenset("th dt b strong label legend h2 h3 h4 h5 h6".split())
_PROSE_TAGS: Final = frozenset("a b em i strong sub sup".split())
_SMALL_WHOLE_CHARS: Final = 300
_TEXT_NODE_CHARS: Final = 200
_MAX_BLOCKS: Final = 3_000
_MAX_STATE_BLOCKS: Final = 60
_MAX_HINT_CHARS: Final = 200
_UNKNOWN_SCORE: Final = 0.5
_INLINE_LEVELS: Final = 5


@dataclass(frozen=True, slots=True)
class Pointed:
    """Value that an annotator points at: the numbers of its blocks, and the part of their text (None: all)."""

    field: str
    blocks: tuple[int, ...]
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class Induced:
    """What an annotator points at, checked. `values` are by page id, `dropped` counts what was refused by reason,
    `missing` are the ids of the pages that the answer leaves out. A field all of whose pointers on a page were refused
    is there without blocks: the page may have it."""

    fields: tuple[Field, ...]
    values: Mapping[str, Sequence[Pointed]]
    dropped: Counter[str] = field(default_factory=Counter)
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Block:
    """Numbered block as the model sees it. `hint` tells where it stands: "p.price", "a@href"; mostly empty."""

    n: int
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """The source of a block's text: an element's text, one of its non-blank text nodes (`text_index`, from 1), one of
    its attributes, or a value in JSON-LD or the JSON of other scripts (`json_path`, then there is no element)."""

    element: etree._Element | None
    attribute: str | None = None
    text_index: int | None = None
    json_path: str | None = None
    language: Language = "json-ld"


@dataclass(frozen=True, slots=True)
class BlockList:
    """The blocks of a page without the page: what is shown of it, and what tells it from others.

    `links` are the numbers of the blocks that are addresses; `labels` the texts of elements that mostly name what
    stands beside or below them; `paths` the ways from the root to what carries text, as tags and classes, without
    numbers. Of each block `ways` has its path, "" for what has no element, and `scores` how surely it is of the main
    content, in 0..1. `frame` are the numbers of what stands in menus, heads and feet, `pieces` of what a long text with
    links is made of."""

    blocks: tuple[Block, ...]
    links: frozenset[int]
    texts: frozenset[str]
    labels: frozenset[str]
    paths: frozenset[str]
    ways: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    frame: frozenset[int] = frozenset()
    pieces: frozenset[int] = frozenset()


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

    def listed(self, scores: Mapping[int, float] | None = None, cards: Collection[int] = ()) -> BlockList:
        """Return the blocks without the page. `scores`: of its main content, by `block_key`. `cards` are the numbers of
        those that are of other pages, and neither shown nor compared."""
        own = [block for block in self.blocks if block.n not in cards]
        elements = ((block.text, self.spots[block.n].element) for block in own)
        names: dict[etree._Element, str] = {}
        found = [self.spots[block.n].element for block in self.blocks]
        frame = set[etree._Element]()
        heading = next(self.root.iter("h1"), None)
        around = frozenset(() if heading is None else heading.iterancestors())
        ways = tuple("" if element is None else _path(element, names, frame, around) for element in found)
        return BlockList(
            self.blocks,
            frozenset(n for n, spot in self.spots.items() if spot.attribute in ("href", "src")),
            frozenset(block.text for block in own),
            frozenset(text for text, element in elements if element is not None and element.tag in _LABEL_TAGS),
            frozenset(way for block in own if (way := ways[block.n - 1])),
            ways,
            tuple(self._scores(scores or {})),
            frozenset(n for n, spot in self.spots.items() if spot.element in frame),
            frozenset({*self._pieces_of_prose(ways), *cards}),
        )

    def _pieces_of_prose(self, ways: Sequence[str]) -> Iterator[int]:
        """Yield the numbers of what texts with links are made of: words between, links and their addresses. Where one
        item of a list is such a text, one link makes another item one."""
        prose: etree._Element | None = None
        known, host = set[str](), _host(self.url)
        for block, way in zip(self.blocks, ways, strict=True):
            spot = self.spots[block.n]
            if spot.element is None:
                continue
            if spot.element is prose or (prose is not None and prose in islice(line_up(spot.element), _INLINE_LEVELS)):
                yield block.n
            elif not (spot.attribute or spot.text_index) and _is_prose(
                spot.element, len(block.text), host, 1 if way in known else 2
            ):
                prose = spot.element
                known.add(way)

    def _scores(self, known: Mapping[int, float]) -> Iterator[float]:
        """Yield the score of each block: that of its own text, else of the text that it stands in or behind."""
        of_elements: dict[etree._Element, float] = {}
        score = _UNKNOWN_SCORE
        for block in self.blocks:
            element = self.spots[block.n].element
            parent = None if element is None else element.getparent()
            if element is None or parent is None or parent.tag == "head":
                yield _UNKNOWN_SCORE
                continue
            line = islice(line_up(element), _INLINE_LEVELS)
            holder = next((node for node in line if node.tag not in INLINE_TAGS), element)
            own = known.get(block_key(str(holder.tag), block.text)) if known else None
            of_elements[element] = score = (
                of_elements.get(element, of_elements.get(parent, score)) if own is None else own
            )
            yield score

    def _pieces(self, work: Work) -> Iterator[tuple[str, str, Spot]]:
        head = self.root.find("head")
        waiting = [node for node in reversed(self.root) if node is not head]
        while waiting:
            element = waiting.pop()
            if isinstance(element.tag, str) and element.tag not in SILENT_TAGS:
                yield from _element_pieces(element, work)
                waiting.extend(reversed(element))
        # Behind the body: what a visitor sees is pointed at before what was written for machines.
        for element in head.iter("title", "meta") if head is not None else ():
            if element.tag == "title":
                name, content, spot = "", fold(element.text or ""), Spot(element)
            else:
                name = element.get("property") or element.get("name") or element.get("itemprop") or ""
                content, spot = fold(element.get("content") or ""), Spot(element, "content")
                if not 0 < len(name) <= _MAX_HINT_CHARS or any(noise in name.lower() for noise in _META_NOISE):
                    continue
            if content:
                yield content, f"meta {name}" if name else "title", spot
        stated = set[str]()
        for path, value in json_leaves(self.source.json_ld):
            stated.add(value)
            yield value, f"json-ld {path}", Spot(None, json_path=path)
        yield from islice(self._state_pieces(stated, work), _MAX_STATE_BLOCKS)

    def _state_pieces(self, stated: Collection[str], work: Work) -> Iterator[tuple[str, str, Spot]]:
        """Yield what is called like a value of a record in the data of scripts, and stands nowhere else."""
        seen = text_of(self.root, work) if self.source.state else ""
        for path, value in state_leaves(self.source.state):
            is_value = len(value) <= _SHORT_CHARS and any(map(str.isalnum, value)) and value not in stated
            if is_value and _NAMED.search(path.rpartition(".")[2]):
                work.charge_text(len(seen))
                if not re.search(rf"(?<!\w){re.escape(value)}(?!\w)", seen):
                    yield value, f"json {path}", Spot(None, json_path=path, language="json")


def _path(
    element: etree._Element,
    names: dict[etree._Element, str],
    frame: set[etree._Element],
    around: frozenset[etree._Element],
) -> str:
    line = list(takewhile(lambda node: node not in names, line_up(element)))
    for node in reversed(line):
        parent = node.getparent()
        # The classes of what holds the heading say what only this page is: its name, its category, that it is on sale.
        is_around = node in around or node.tag == "body"
        kind = "" if is_around else " ".join(str(value) for name, value in node.items() if name in _OF_KIND)
        own = _DIGITS.sub("", f"{node.tag}.{kind}")
        # A digest: written out, the ways through a page that is nested deeply take more room than all pages.
        way = own if parent is None else f"{names[parent]} {own}"
        names[node] = blake2b(way.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if node.tag not in CONTENT_TAGS and (parent in frame or starts_frame(node)):
            frame.add(node)
    return names[element]


def _element_pieces(element: etree._Element, work: Work) -> Iterator[tuple[str, str, Spot]]:
    for attribute in (*_DATA_ATTRIBUTES.get(str(element.tag), ()), *_DATA_ATTRIBUTES[""]):
        value = fold(element.get(attribute) or "")
        if value and not value.startswith(("#", "javascript:", "data:")):
            yield value, f"{_name(element) or element.tag}@{attribute}", Spot(element, attribute)
    yield from _data_pieces(element, work)
    # Its non-blank text nodes, as XPath's `text()[normalize-space()]` counts them.
    nodes = (element.text, *(child.tail for child in element))
    own = [text for text in (fold(node or "") for node in nodes) if text]
    children = [child for child in element if isinstance(child.tag, str) and child.tag not in ("br", "wbr")]
    if not own and not (len(children) > 1 and _is_inline(element, work)):
        return
    whole = text_of(element, work)
    if not any(map(str.isalnum, whole)):
        return
    mixed = any(text_of(child, work) for child in children)
    if not mixed or _is_inline(element, work) or len(whole) <= _SMALL_WHOLE_CHARS:
        yield whole, _name(element), Spot(element)
    if mixed or (len(own) > 1 and len(whole) <= _SMALL_WHOLE_CHARS):
        for index, text in enumerate(own, 1):
            if text != whole and len(text) <= _TEXT_NODE_CHARS and any(map(str.isalnum, text)):
                yield text, "", Spot(element, text_index=index)


def _data_pieces(element: etree._Element, work: Work) -> Iterator[tuple[str, str, Spot]]:
    """Yield the data-* attributes that are called like a value of a record, and say what the element's text does not:
    data-price, data-sku."""
    for name in element.keys():  # noqa: SIM118 - an element's iterator gives its children
        if not isinstance(name, str) or not name.startswith("data-") or not _NAMED.search(name[len("data-") :]):
            continue
        value = fold(element.get(name) or "")
        if len(value) <= _SHORT_CHARS and any(map(str.isalnum, value)) and value not in text_of(element, work):
            yield value, f"{_name(element) or element.tag}@{name}", Spot(element, name)


def _is_inline(element: etree._Element, work: Work) -> bool:
    for node in element.iterdescendants():
        work.charge(1)
        if isinstance(node.tag, str) and node.tag not in INLINE_TAGS and node.tag not in ("br", "img"):
            return False
    return True


def _host(address: str) -> str:
    return address.partition("//")[2].partition("/")[0].lower() if _ABSOLUTE.match(address) else ""


def _is_prose(element: etree._Element, chars: int, host: str, least: int) -> bool:
    """Tell whether links without names explain words of a text of so many characters: several in a long one that is
    mostly words around them, or `least` in any, where they lead to other sites alone and none has a label."""
    parts = [child for child in element if isinstance(child.tag, str) and child.tag != "br"]
    links = [_host(child.get("href") or "") for child in parts if child.tag == "a"]
    if len(links) < least or any(child.tag not in _PROSE_TAGS or _name(child) for child in parts):
        return False
    around = [fold(text or "") for text in (element.text, *(child.tail for child in element))]
    words = sum(map(len, around))
    is_long = chars > _SHORT_CHARS and len(links) > 1 and 2 * words > chars
    return is_long or (
        5 * words > chars and {"", host}.isdisjoint(links) and not any(one.endswith(":") for one in around)
    )


def _name(element: etree._Element) -> str:
    tag = str(element.tag)
    if element.get("itemprop"):
        return f"{tag}[itemprop={element.get('itemprop')}]"[:40]
    classes = [name for name in (element.get("class") or "").split() if not may_be_hash(name)]
    if element.get("id"):
        return f"{tag}#{element.get('id')}"[:40]
    if classes:  # "text text--small" says the first twice
        return f"{tag}.{'.'.join(name for name in classes[:2] if name == classes[0] or classes[0] not in name)}"[:40]
    return tag if tag in ("h1", "h2", "h3", "th", "dt", "title") else ""


_LONG_BLOCK_CHARS: Final = 400
# Around the text of a block in the document: {"n": 123, "text": "", "in": ""},
_CHARS_AROUND: Final = 30
_CHARS_PER_TOKEN: Final = 4

# What values of records look like: prices, dates, identifiers, authors.
_VALUE: Final = re.compile(
    r"(?:[$€£¥₹₽₩฿₺₴]|\b(?:USD|EUR|GBP|CHF|CAD|AUD|JPY|CNY|INR|kr|zł|Kč|Ft|lei)\b)\s?\d"
    r"|\d[\d.,\s]*\s?(?:[$€£¥₹₽₩฿₺₴]|(?:USD|EUR|GBP|CHF|kr|zł|Kč|Ft|lei|руб)\b)"
    r"|\b(?:1[89]|20)\d\d-[01]?\d-[0-3]?\d|\b[0-3]?\d[./][01]?\d[./](?:1[89]|20)?\d\d\b"
    r"|\b[0-3]?\d(?:st|nd|rd|th)?[.,]? \w{3,9}\.?,? (?:19|20)\d\d\b"
    r"|\b\w{3,9}\.? [0-3]?\d(?:st|nd|rd|th)?, (?:19|20)\d\d\b"
    r"|\b(?:ISBN|GTIN|EAN|UPC|SKU|MPN|ASIN)\b"
    r"|\A(?:(?:[Ww]ritten |[Pp]osted )?[Bb][Yy]|[Vv]on|[Pp]ar|[Pp]or|[Dd]i|[Aa]utor|[Aa]uthor):? +[^\W\d_]"
)
# What the names of elements, properties and meta tags that hold such values are made of.
_NAMED: Final = re.compile(
    r"price|amount|currency|sku|gtin|isbn|mpn|brand|manufacturer|author|byline|creator|publish|date|time\b|rating|score"
    r"|review.?count|stock|avail|condition|address|phone|email|headline|title|name\b|location|salary|spec|attribute",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(r"(?:h1|title)\b")
_SHORT_CHARS: Final = 120  # of what is a value and not a text that has one in it
_LABEL_CHARS: Final = 40
_VALUE_WORTH, _NAMED_WORTH, _LABELLED_WORTH, _HEADING_WORTH, _LINK_WORTH = 0.6, 0.4, 0.4, 0.8, -0.5
_METADATA_WORTH: Final = 0.6  # of what stands in the page and in its metadata
_REPEATED_WORTH: Final = 0.85  # of a block, for each before it that stands in the same way: reviews, rows, menus
_LEAST_REPEATED: Final = 0.5


def repeated_texts(pages: Sequence[BlockList]) -> dict[str, bool]:
    """Return the texts on nearly all pages of a template, and whether each is on all of them: its frame and its labels,
    not a page's own data."""
    counts = Counter(text for page in pages for text in page.texts)
    enough = max(2, 0.8 * len(pages))
    return {text: count == len(pages) for text, count in counts.items() if count >= enough}


def shown_blocks(page: BlockList, repeated: Mapping[str, bool], budget_tokens: int) -> tuple[Block, ...]:
    """Return the blocks of a page that fit a budget of tokens (4 characters each), in document order but for the
    boilerplate, which comes last and is left out first. Where the others are too many, long texts lose their ends, and
    those stay that are most likely values of the page's record."""
    kept, frame = _parted(page, repeated)
    room = budget_tokens * _CHARS_PER_TOKEN
    if _chars(kept) > room:
        kept = _most_telling(page, kept, room)
    shown: list[Block] = []
    for block in (*kept, *(_shortened(block) for block in frame)):
        room -= _chars([block])
        if room < 0 and shown:
            break
        shown.append(block)
    return tuple(shown)


def is_crowded(page: BlockList, repeated: Mapping[str, bool], budget_tokens: int) -> bool:
    return _chars(_parted(page, repeated)[0]) > budget_tokens * _CHARS_PER_TOKEN


def listed_to_show(html: str, url: str, budget_tokens: int) -> BlockList:
    """Return the blocks of a page that is shown by itself, with their scores where they matter: for these the page is
    read once more."""
    page = PageBlocks(html, url)
    listed = page.listed()
    return page.listed(main_scores(html, url)) if is_crowded(listed, {}, budget_tokens) else listed


def main_scores(html: str, url: str) -> dict[int, float]:
    return {block.key: block.score for block in read_page(html, url).blocks}


def _parted(page: BlockList, repeated: Mapping[str, bool]) -> tuple[list[Block], list[Block]]:
    """Return the blocks of a page's own, with the two before each, and those of the frame. Where its links lead is not
    shown, nor are menus, heads and feet, and what is the same on all pages around the rest, but for what stands as
    something of the page's own does."""
    own = {block.n for block in page.blocks if block.text not in repeated}
    seen = [block for block in page.blocks if not _for_machines(block) and block.hint != "title"]
    near = ((block.n, n) for block in seen if block.n in own for n in (block.n - 1, block.n - 2))
    beside = {n for of, n in near if of in page.frame or n not in page.frame}
    kept = [block for block in _without_twins(page) if block.n in own or block.n in beside]
    ways = {page.ways[block.n - 1] for block in kept}
    varying = [block.n for block in seen if not repeated.get(block.text)] or [0]
    between = set(range(varying[0], varying[-1] + 1)) - page.frame
    left_out = own | beside | page.links | page.pieces
    return kept, [
        block
        for block in page.blocks
        if block.n not in left_out and (block.n in between or page.ways[block.n - 1] in ways or _for_machines(block))
    ]


def _without_twins(page: BlockList) -> Iterator[Block]:
    """Yield the blocks without what tells nothing new: an address that has stood on the page before, as the picture of
    a product and its name both lead to it, metadata that says what stands in the page, a long text that is there for
    small screens too, and the pieces of a text that is shown."""
    seen = set[str]()
    for block in page.blocks:
        is_twin = block.n in page.links or _for_machines(block) or len(block.text) > _SHORT_CHARS
        if block.n not in page.pieces and not (is_twin and block.text in seen):
            yield block
        seen.add(block.text)


def _most_telling(page: BlockList, blocks: Sequence[Block], room: int) -> list[Block]:
    worth = _worths(page, blocks)
    shortened = [_shortened(block) for block in blocks]
    chosen: set[int] = set()
    for block in sorted(shortened, key=lambda block: -worth[block.n]):
        room -= _chars([block])
        if room < 0 and chosen:
            break
        chosen.add(block.n)
    return [block for block in shortened if block.n in chosen]


def _worths(page: BlockList, blocks: Sequence[Block]) -> dict[int, float]:
    """Return how much it helps to show each block. What is main counts most, then what looks like a value."""
    worths: dict[int, float] = {}
    before: Counter[tuple[str, str]] = Counter()
    in_metadata = {block.text for block in page.blocks if _for_machines(block) and _NAMED.search(block.hint)}
    label = ""
    for block in blocks:
        worth = page.scores[block.n - 1]
        if len(block.text) <= _SHORT_CHARS:
            worth += _VALUE_WORTH * (_VALUE.search(block.text) is not None)
            worth += _NAMED_WORTH * (_NAMED.search(block.hint) is not None)
            worth += _METADATA_WORTH * (block.text in in_metadata and not _for_machines(block))
            worth += _LABELLED_WORTH * (label in page.labels or label.endswith(":"))
        if block.text in page.labels or block.text.endswith(":"):
            worth += _LABELLED_WORTH / 2
        worth += _HEADING_WORTH * (_TITLE.match(block.hint) is not None)
        if block.n in page.links:
            worth += _LINK_WORTH
        place = (page.ways[block.n - 1], block.hint)
        if worth > 0:
            worth *= max(_LEAST_REPEATED, _REPEATED_WORTH ** before[place])
        worths[block.n] = worth
        before[place] += 1
        label = block.text if len(block.text) <= _LABEL_CHARS else ""
    return worths


def _for_machines(block: Block) -> bool:
    return block.hint.startswith(("meta ", "json-ld "))


def _chars(blocks: Sequence[Block]) -> int:
    return sum(len(block.text) + len(block.hint) + _CHARS_AROUND for block in blocks)


def _shortened(block: Block) -> Block:
    if len(block.text) <= _LONG_BLOCK_CHARS:
        return block
    return Block(block.n, block.text[:_LONG_BLOCK_CHARS].rsplit(" ", 1)[0] + " …", block.hint)


def labels_of(pages: Sequence[BlockList]) -> list[frozenset[str]]:
    """Return the texts of each page that name what follows: short ones, with rarer texts behind them. So "Colour" is
    told from "red", whatever elements they stand in."""
    counts = Counter(text for page in pages for text in page.texts)
    behind: dict[str, list[int]] = {}
    for page in pages:
        for one, follower in pairwise(block for block in page.blocks if block.n not in page.pieces):
            if len(one.text) <= _LABEL_CHARS:
                behind.setdefault(one.text, []).append(counts[follower.text])
    labels = {text for text, found in behind.items() if 2 * fmean(found) < counts[text]}
    return [page.texts & labels for page in pages]


# Selectors are learned from the first so many characters of a page.
_MAX_PAGE_CHARS = 1_000_000
_EMBEDDED_FILE = re.compile(r";base64,[\w+/=]{1000,}")  # images and fonts, which may be nearly all of a page
_KEPT_PAGES = 24  # a run has twenty, if the settings are as they come


class TrainingPage:
    """A page kept for learning; its HTML is packed, and cut where a page is longer than any that is learned from."""

    __slots__ = ("_packed", "chars", "features", "lang", "title", "url")

    def __init__(self, url: str, title: str, lang: str, html: str, features: frozenset[str]) -> None:
        self.url = url
        self.title = title
        self.lang = lang
        self.features = features
        if len(html) > _MAX_PAGE_CHARS:
            html = _EMBEDDED_FILE.sub(";base64,", html[: 4 * _MAX_PAGE_CHARS])[:_MAX_PAGE_CHARS]
        self.chars = len(html)
        self._packed = zlib.compress(html.encode("utf-8", "replace"), 1)

    @property
    def html(self) -> str:
        return zlib.decompress(self._packed).decode("utf-8")

    def blocks(self) -> PageBlocks:
        """Return the page taken apart, with as much work allowed as a run may do on it. The pages of the latest run are
        kept so: it looks at them again after each answer."""
        page = _taken_apart(self._packed, self.url)
        page.source.work = Work(TRAINING_STEPS)
        return page


@lru_cache(maxsize=_KEPT_PAGES)
def _taken_apart(packed: bytes, url: str) -> PageBlocks:
    return PageBlocks(zlib.decompress(packed).decode("utf-8"), url)
