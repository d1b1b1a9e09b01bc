"""Finds the values of a page that have labels: in tables and lists of terms, beside or below them, in the same text,
behind icons, and with names in attributes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile, zip_longest
from typing import Final
from urllib.parse import urlsplit

from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import Spot
from llmcrawler.core.understanding.extraction.candidate_scorer import Where
from llmcrawler.core.understanding.extraction.candidates import ICON_LABELS, icon_before
from llmcrawler.core.understanding.extraction.field_names import NAME_PART, canonical_name, usual_type
from llmcrawler.core.understanding.extraction.tree import SILENT_TAGS, fold, line_up, text_of
from llmcrawler.core.understanding.extraction.value_scorer import ScoredPage

LABEL_ATTRIBUTES: Final = ("data-label", "data-title", "data-th")  # as tables have them that fold on small screens
_ICON_MARK: Final = 0.7  # what is behind an icon has to look like the field
MAX_LABEL_CHARS: Final = 40
_MAX_LABEL_WORDS: Final = 5
MAX_INLINE_CHARS: Final = 200
MAX_VALUE_CHARS: Final = 300
_FEWEST_COLUMNS: Final = 3  # of a table whose head is marked by nothing
MAX_ITEMS: Final = 100
_INLINE_LABEL: Final = re.compile(r"([^\W\d_][^:.!?;|\n]{1,32}?)\s?[:：](?!//)\s*(?=\S)")
_MARKED_CLASS: Final = re.compile(
    r"(?:^|[\s_-])(?:label|term|key|caption|attr\w{0,10}|sr-?only|offscreen|visually-?hidden|screen-reader-text)(?:$|[\s_-])",
    re.IGNORECASE,
)
_ICON_SET: Final = re.compile(r"^(?:(?:fa[bdlrs]?|bi|glyphicon|icons?|ico|mdi|la|ion|ti|feather)-)+(.*)")
_NO_LABEL: Final = re.compile(r"\d{3}|\d[.,:%]|[$€£]|https?|^\W*$")
_FEWEST_DIGITS: Final = 6  # of a telephone number
_NO_HOST: Final = re.compile(r"^(?:https?:)?//(?:www\.)?|^www\.|/$")
LETTERS: Final = re.compile(r"[^\W\d_]{3,}")
_LABEL_TAGS: Final = frozenset({"th", "dt", "label"})
_HEADING_TAGS: Final = frozenset("h2 h3 h4 h5 h6 strong b".split())
_CONTROLS: Final = frozenset({"label", "button", "option"})
_NO_LABEL_TAGS: Final = frozenset("a h1 button option".split())
_VALUE_TAGS: Final = frozenset("td dd span a time b strong em p div".split())
_ITEM_TAGS: Final = frozenset("li dd a span".split())
_MAX_ITEM_LEVELS: Final = 8
_MAX_BLOCKS_OF_LIST: Final = 400
FRAME_TAGS: Final = frozenset({"nav", "footer"})
OTHERS: Final = frozenset({"related", "recommend", "similar"})
FURNITURE: Final = OTHERS | frozenset("comment review cookie carousel modal menu nav footer cart".split())
ColumnKey = tuple[str, str | None, int | None]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Value on a page that stands behind a label. `marked`: how surely tags, classes or a colon say that it is one."""

    label: str
    where: Where
    marked: float
    label_column: ColumnKey


def labelled_values(page: ScoredPage, *, is_requested: bool) -> Iterator[Labelled]:
    """Yield the values of a page that stand behind a label, or behind one in the same block. Where fields are
    requested, the class of any icon may be one."""
    blocks = {
        (spot.element, spot.text_index): number
        for number, spot in page.page.spots.items()
        if spot.element is not None and spot.attribute is None
    }
    hrefs = {spot.element: number for number, spot in page.page.spots.items() if spot.attribute == "href"}
    site = urlsplit(page.page.url).netloc
    furniture = FURNITURE - above_heading(page)
    runs = list(_text_runs(page.page.root, blocks))
    asked: set[etree._Element] = set()
    for run, behind in zip(runs, [*runs[1:], *runs[-1:]], strict=True):
        column = page.columns[run.block - 1]
        if column is None or column.above & furniture:
            continue
        name = _named_without_text(run.element, site, by_icon=is_requested) if run.element not in asked else ""
        if name and name != run.text and text_of(run.element) == run.text:
            leads_to = hrefs.get(_link_of(run.element)) if usual_type(name) == "url" else None
            yield Labelled(name, ((leads_to or run.block,), None), _ICON_MARK, column.key)
        asked.add(run.element)
        inline = _INLINE_LABEL.match(run.text) if len(run.text) <= MAX_INLINE_CHARS else None
        if inline and inline.end() < len(run.text):
            yield Labelled(inline[1], ((run.block,), run.text[inline.end() :]), True, column.key)
            continue
        value = page.columns[behind.block - 1]
        if run.text == behind.text or value is None or not value.above.isdisjoint(furniture):
            continue
        if _may_be_label(behind) and _is_under(behind.element, run.element):
            yield Labelled(behind.text, ((run.block,), None), False, value.key)
        if not _may_be_label(run) or behind.element.tag == "h1":
            continue
        if below := _cell_below(run.element, blocks):
            yield Labelled(run.text, ((below,), None), run.element.tag == "th", column.key)
        elif found := _value_behind(run, behind, blocks, page):
            yield Labelled(run.text, (found[0], None), found[1], column.key)


def _named_without_text(element: etree._Element, site: str, *, by_icon: bool) -> str:
    """Return what an attribute, an icon by its label or a class, or a link says of an element: one to a telephone, or
    to the address off the site that is its text; "" where none does."""
    icon = icon_before(element)
    said = [] if icon is None else [icon.get(attribute) or "" for attribute in ICON_LABELS]
    said += [element.get(attribute) or "" for attribute in LABEL_ATTRIBUTES]
    if label := next(filter(LETTERS.search, said), ""):
        return label[:MAX_LABEL_CHARS]
    link = _link_of(element)
    if link is not None:
        text, address = text_of(element).lower(), (link.get("href") or "").lower()
        if address.startswith("tel:") and sum(map(str.isdigit, text)) >= _FEWEST_DIGITS:
            return "telephone"
        host = _NO_HOST.sub("", address)
        # With a path it may as well be an account elsewhere.
        if "." in host and "/" not in host and host == _NO_HOST.sub("", text) and host not in site:
            return "website"
    classes = " ".join(node.get("class") or "" for node in (icon.iter() if icon is not None else ())).split()
    parts = (_ICON_SET.match(name) for name in classes)
    names = [part[1].replace("-", " ") for part in parts if part]
    known = next((canonical_name(name) for name in names if usual_type(name) is not None), "")
    return known or (NAME_PART.findall(classes[-1])[-1:] or [""])[0] if by_icon and classes else known


def _link_of(element: etree._Element) -> etree._Element | None:
    return next((node for node in islice(line_up(element), 2) if node.tag == "a"), None)


def above_heading(page: ScoredPage) -> frozenset[str]:
    """Return what is said of all that is around the heading of a page: no furniture, whatever its name."""
    return next((one.above for one in page.columns if one is not None and "h1" in one.frame), frozenset())


@dataclass(frozen=True, slots=True)
class _TextRun:
    """Run of text of a page, and the block that has it."""

    element: etree._Element
    text: str
    block: int


Blocks = Mapping[tuple[etree._Element, int | None], int]
"""The numbers of blocks by their element and the number of their text node, if they are one."""


def _text_runs(root: etree._Element, blocks: Blocks) -> Iterator[_TextRun]:
    """Yield the runs of text of a page in the order of the document."""
    counts: Counter[etree._Element] = Counter()
    silent: etree._Element | None = None
    body = root.find("body")
    for event, node in etree.iterwalk(root if body is None else body, events=("start", "end", "comment", "pi")):
        if silent is not None:
            if event != "end" or node is not silent:
                continue
            silent = None
        elif event == "start" and (node.tag in SILENT_TAGS or node.tag in FRAME_TAGS):
            silent = node
            continue
        element, given = (node, node.text) if event == "start" else (node.getparent(), node.tail)
        text = fold(given or "")
        if text and element is not None:
            counts[element] += 1
            number = blocks.get((element, counts[element])) or blocks.get((element, None))
            if number and any(map(str.isalnum, text)):
                yield _TextRun(element, text, number)


def _may_be_label(run: _TextRun) -> bool:
    text = run.text
    is_short = len(text) <= MAX_LABEL_CHARS and text.count(" ") < _MAX_LABEL_WORDS
    in_label = run.element.tag == "a" and next(run.element.iterancestors()).tag in _LABEL_TAGS
    is_free = in_label or run.element.tag not in _NO_LABEL_TAGS
    return is_short and is_free and _NO_LABEL.search(text) is None


def _is_head_of_column(line: Sequence[etree._Element]) -> bool:
    """Tell whether a cell in the line is one of a row of heads: what stands behind it is the next of them."""
    cell = next((one for one in line if one.tag == "th"), None)
    beside = None if cell is None else cell.getprevious() if cell.getnext() is None else cell.getnext()
    return beside is not None and beside.tag == "th"


def _is_under(label: etree._Element, value: etree._Element) -> bool:
    """Tell whether one element of two that are all there is in a box is the label of the other, which stands first."""
    return label.getprevious() is value and label.getnext() is None and value.getprevious() is None


def _cell_below(cell: etree._Element, blocks: Blocks) -> int | None:
    """Return the block of the cell below, where a table has a head and one row of as many cells."""
    row = cell.getparent()
    table = None if row is None or cell.tag not in ("td", "th") else next(row.iterancestors("table"), None)
    if table is None:
        return None
    rows = list(islice(table.iter("tr"), 3))
    if len(rows) != 2 or rows[0] is not row or len(row) != len(rows[1]):
        return None
    if len(row) < _FEWEST_COLUMNS and any(one.tag != "th" for one in row):  # a label and its value, twice
        return None
    return _first_block(rows[1][row.index(cell)], blocks)


def _value_behind(
    label: _TextRun, run: _TextRun, blocks: Blocks, page: ScoredPage
) -> tuple[tuple[int, ...], bool] | None:
    """Return the blocks of the value that a label stands before, and whether the label is marked as one; None where
    they do not belong together."""
    holders = [label.element, *islice(label.element.iterancestors(), 3)]
    line = [run.element, *islice(run.element.iterancestors(), 4)]
    up = next((at for at, one in enumerate(line) if one in holders), None)
    if up is None or run.element.tag in _CONTROLS or _is_head_of_column(holders):
        return None
    own = next(label.element.itersiblings(*_VALUE_TAGS), label.element)
    is_next = own.tag in ("td", "dd") or label.element.getparent() not in line
    if is_next and own not in line and not any(text.strip() for text in own.itertext()):  # it has no value
        return None
    is_marked = (
        label.text.endswith((":", "："))
        or any(one.tag in _LABEL_TAGS for one in holders[:3])
        or (label.element.tag in ("b", "strong") and run.element is label.element.getparent())
        or _MARKED_CLASS.search(label.element.get("class") or "") is not None
        or (run.element.tag == "td" and any(one.tag == "td" for one in holders[:2] if one is not run.element))
    )
    is_heading = label.element.tag in _HEADING_TAGS
    in_link = any(one.tag == "a" for one in line[:2])
    is_beside = line[1:2] == holders[1:2] or run.element is label.element.getparent()
    if (in_link and not is_marked) or not (is_marked or is_heading or is_beside):
        return None
    within = [one for one in line[: up + 1] if one not in holders]
    item = next((one for one in within if one.tag in ("li", "p") and (is_marked or is_heading)), None)
    if item is not None and (is_heading or item.tag == "li"):
        behind = takewhile(lambda one: one.tag not in _HEADING_TAGS, islice(item.itersiblings(), MAX_ITEMS))
        rest = (_first_block(one, blocks) for one in behind if one.tag == item.tag)
        return (blocks.get((item, None)) or run.block, *(one for one in rest if one)), True
    # A cell, or an element that holds all of the value.
    holding = [blocks[one, None] for one in within[1:] if one.tag in _VALUE_TAGS and (one, None) in blocks]
    holding = [one for one in holding if len(page.page.blocks[one - 1].text) < MAX_VALUE_CHARS]
    return (holding[-1] if holding else run.block,), is_marked


def items_at(page: ScoredPage, blocks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the blocks of the items of a list: those within the element that a label stands before, or it and its like
    behind it; just what was given where there is no list."""
    spots = page.page.spots
    element = spots[blocks[0]].element
    if len(blocks) > 1 or element is None:
        return blocks
    near = range(blocks[0], min(blocks[0] + _MAX_BLOCKS_OF_LIST, len(spots) + 1))
    within = takewhile(lambda n: is_within(spots[n].element, element), near[1:])
    texts = [n for n in within if spots[n].attribute is None]
    leaves = [n for n, after in zip_longest(texts, texts[1:]) if not after or not _is_part(spots, after, n)]
    if len(leaves) > 1:
        return tuple(leaves[:MAX_ITEMS])
    if element.tag not in _ITEM_TAGS:
        return blocks
    like = takewhile(lambda one: one.tag == element.tag, islice(element.itersiblings(), MAX_ITEMS))
    whole = {spots[n].element: n for n in near if spots[n].attribute is None and spots[n].text_index is None}
    return tuple(whole[one] for one in (element, *like) if one in whole) or blocks


def is_within(element: etree._Element | None, holder: etree._Element) -> bool:
    return element is not None and holder in islice(line_up(element), _MAX_ITEM_LEVELS)


def _is_part(spots: Mapping[int, Spot], number: int, holder: int) -> bool:
    """Tell whether a block stands within another one."""
    outer = spots[holder]
    return outer.text_index is None and outer.element is not None and is_within(spots[number].element, outer.element)


def _first_block(element: etree._Element, blocks: Blocks) -> int | None:
    return next((blocks[one, None] for one in islice(element.iter(), 20) if (one, None) in blocks), None)
