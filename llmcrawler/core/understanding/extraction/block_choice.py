"""Chooses which blocks of a page a model is shown, within a budget of tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

from llmcrawler.core.content import read_page
from llmcrawler.core.understanding.extraction.blocks import Block, BlockList, PageBlocks

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
_TOLD_WORTH: Final = 0.6  # of what stands in the page and in what it says to machines
_REPEATED_WORTH: Final = 0.85  # of a block, for each before it that stands in the same way: reviews, rows, menus
_LEAST_REPEATED: Final = 0.5


def repeated_texts(pages: Sequence[BlockList]) -> frozenset[str]:
    """Return the texts on nearly all pages of a template: its frame and its labels, not a page's own data."""
    counts = Counter(text for page in pages for text in page.texts)
    enough = max(2, 0.8 * len(pages))
    return frozenset(text for text, count in counts.items() if count >= enough)


def shown_blocks(page: BlockList, repeated: Collection[str], budget_tokens: int) -> tuple[Block, ...]:
    """Return the blocks of a page that fit a budget of tokens (4 characters each), in document order but for the
    boilerplate, which comes last and is left out first. Where the others are too many, long texts lose their ends, and
    those stay that are most likely values of the page's record.
    """
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


def is_crowded(page: BlockList, repeated: Collection[str], budget_tokens: int) -> bool:
    """Tell whether more than the frame is left out: then the page's scores matter."""
    return _chars(_parted(page, repeated)[0]) > budget_tokens * _CHARS_PER_TOKEN


def listed_to_show(html: str, url: str, budget_tokens: int) -> BlockList:
    """Return the blocks of a page that is shown by itself, with their scores where they matter: for these the page is
    read once more.
    """
    page = PageBlocks(html, url)
    listed = page.listed()
    return page.listed(main_scores(html, url)) if is_crowded(listed, (), budget_tokens) else listed


def main_scores(html: str, url: str) -> dict[int, float]:
    """Return how surely the texts of a page are its main content, by `block_key`."""
    return {block.key: block.score for block in read_page(html, url).blocks}


def _parted(page: BlockList, repeated: Collection[str]) -> tuple[list[Block], list[Block]]:
    """Return the page's own blocks with the two before each, which may be labels, and the texts of its frame."""
    own = {block.n for block in page.blocks if block.text not in repeated}
    beside = {n - 1 for n in own} | {n - 2 for n in own}
    kept = [block for block in page.blocks if block.n in own or block.n in beside]
    # Where the frame's links lead is no page's own data.
    kept_or_link = own | beside | page.links
    return kept, [block for block in page.blocks if block.n not in kept_or_link]


def _most_telling(page: BlockList, blocks: Sequence[Block], room: int) -> list[Block]:
    """Return the blocks of most worth that fit together, long ones shortened, in the order of the document."""
    worth = dict(zip((block.n for block in blocks), _worths(page, blocks), strict=True))
    shortened = [_shortened(block) for block in blocks]
    chosen: set[int] = set()
    for block in sorted(shortened, key=lambda block: -worth[block.n]):
        room -= _chars([block])
        if room < 0 and chosen:
            break
        chosen.add(block.n)
    return [block for block in shortened if block.n in chosen]


def _worths(page: BlockList, blocks: Sequence[Block]) -> Iterator[float]:
    """Yield how much it helps to show each block. What is main counts most, then what looks like a value."""
    before: Counter[tuple[str, str]] = Counter()
    told = {block.text for block in blocks if _for_machines(block) and _NAMED.search(block.hint)}
    label = ""
    for block in blocks:
        way, score = page.ways[block.n - 1], page.scores[block.n - 1]
        worth = score
        if len(block.text) <= _SHORT_CHARS:
            worth += _VALUE_WORTH * (_VALUE.search(block.text) is not None)
            worth += _NAMED_WORTH * (_NAMED.search(block.hint) is not None)
            worth += _TOLD_WORTH * (block.text in told and not _for_machines(block))
            worth += _LABELLED_WORTH * (label in page.labels or label.endswith(":"))
        if block.text in page.labels or block.text.endswith(":"):
            worth += _LABELLED_WORTH / 2
        worth += _HEADING_WORTH * (_TITLE.match(block.hint) is not None)
        if block.n in page.links:
            worth += _LINK_WORTH
        place = (way, block.hint)
        yield worth * max(_LEAST_REPEATED, _REPEATED_WORTH ** before[place]) if worth > 0 else worth
        before[place] += 1
        label = block.text if len(block.text) <= _LABEL_CHARS else ""


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
    told from "red", whatever elements they stand in.
    """
    counts = Counter(text for page in pages for text in page.texts)
    behind: dict[str, list[int]] = {}
    for page in pages:
        for one, follower in pairwise(page.blocks):
            if len(one.text) <= _LABEL_CHARS:
                behind.setdefault(one.text, []).append(counts[follower.text])
    labels = {text for text, found in behind.items() if 2 * fmean(found) < counts[text]}
    return [page.texts & labels for page in pages]
