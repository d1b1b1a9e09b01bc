"""Takes a page's blocks apart by the elements that they stand in, for what compares the rows of pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise, takewhile
from typing import Final
from urllib.parse import urljoin

from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.tree import BLOCK_STEPS, Work, line_up
from llmcrawler.errors import TooCostly

_MAX_DEPTH: Final = 60
_MAX_LABEL_CHARS: Final = 40
_MAX_LEVELS_TO_LABEL: Final = 4
_MAX_SIBLINGS: Final = 50
_MAX_NAMES_CHARS: Final = 200
CLASS_NAMES: Final = ("class", "itemprop", "aria-label", "data-testid", "role")
_HAVING: Final = frozenset({"has", "with", "no", "without"})
_VARYING: Final = frozenset("even odd first last active current alt op hidden selected clearfix".split())
_NAME_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGITS: Final = re.compile(r"\d+")
_COUNTED: Final = re.compile(r"\s*\(\d+\)$")  # how many stand below


class PageParts:
    """A page with the blocks that stand in each element, and the way to each as a number that all pages share."""

    def __init__(self, page: PageBlocks, numbers: dict[tuple[int, str], int]) -> None:
        self.page = page
        self.within: dict[etree._Element, list[int]] = {}
        self.whole: dict[etree._Element, int] = {}
        self.ways: dict[etree._Element, int] = {}
        self.children: dict[etree._Element, dict[etree._Element, None]] = {}
        self._numbers = numbers
        work = Work(BLOCK_STEPS)
        body = page.root.find("body")
        with suppress(TooCostly):
            for block in page.blocks:
                spot = page.spots[block.n]
                if spot.element is None:
                    continue
                line = list(islice(line_up(spot.element), _MAX_DEPTH))
                work.charge(len(line))
                if body is None or body not in line[1:]:
                    continue
                line = line[: line.index(body) + 1]
                if spot.attribute is None and spot.text_index is None:
                    self.whole[spot.element] = block.n
                for node in line:
                    self.within.setdefault(node, []).append(block.n)
                for node, parent in pairwise(line):
                    self.children.setdefault(parent, {})[node] = None
        heading = next((one for one in page.root.iter("h1") if one in self.within), None)
        self.around = frozenset() if heading is None else frozenset(heading.iterancestors())
        title = page.root.findtext("head/title") or ""
        self.title = " ".join(title.split()) if heading is None else self.text(self.within[heading][0])

    def text(self, n: int) -> str:
        return self.page.blocks[n - 1].text

    def way(self, element: etree._Element) -> int:
        """Return the number of the way from the root: of tags and first classes."""
        if element not in self.ways:
            parent = element.getparent()
            above = -1 if parent is None else self.way(parent)
            self.ways[element] = self._numbers.setdefault((above, kind_of(element)), len(self._numbers))
        return self.ways[element]

    def texts_beside(self, row: etree._Element, numbers: Sequence[int]) -> Sequence[int]:
        """Return all text of what holds these paragraphs of a row, each block once."""
        element = self.page.spots[numbers[0]].element
        holder = element.getparent() if element is not None else None
        if holder is None or holder is row:
            return numbers
        found: list[int] = []
        taken: set[etree._Element] = set()
        for n in self.within[holder]:
            spot = self.page.spots[n]
            if spot.element is not None and not spot.attribute and taken.isdisjoint(line_up(spot.element)):
                found.append(n)
                taken |= {spot.element} if spot.text_index is None else set()
        return found

    def link(self, row: etree._Element) -> int | None:
        """Return the text of the only link of a row."""
        links = [n for n in self.within[row] if self._is_link(n)]
        return links[0] if len(links) == 1 else None

    def links(self, row: etree._Element) -> int:
        return sum(map(self._is_link, self.within[row]))

    def _is_link(self, n: int) -> bool:
        spot = self.page.spots[n]
        return spot.element is not None and spot.element.tag == "a" and self.whole.get(spot.element) == n

    def value(self, row: etree._Element) -> int | None:
        """Return the block that is all of the text of a row, if there is one."""
        node: etree._Element | None = row
        while node is not None:
            if node.tag == "time" and (given := [n for n in self.within[node] if self.page.spots[n].attribute]):
                return given[0]
            if node in self.whole:
                return self.whole[node]
            inner = [child for child in self.children.get(node, ()) if any(map(self._is_text, self.within[child]))]
            own = any(self.page.spots[n].element is node and self._is_text(n) for n in self.within[node])
            node = inner[0] if len(inner) == 1 and not own else None
        return None

    def picture(self, row: etree._Element) -> int | None:
        """Return the address of the picture that a row is, if it is one."""
        found = [n for n in self.within[row] if self.page.spots[n].attribute == "src"]
        return found[0] if len(found) == 1 and not any(map(self._is_text, self.within[row])) else None

    def _is_text(self, n: int) -> bool:
        return self.page.spots[n].attribute is None

    def address(self, row: etree._Element) -> str:
        """Return where the first link of a row leads, "" for nowhere else."""
        for n in self.within.get(row, ()):
            spot = self.page.spots[n]
            if spot.attribute == "href" and not self.text(n).startswith(("#", "mailto:", "tel:")):
                with suppress(ValueError):
                    return urljoin(self.page.url, self.text(n))
        return ""

    def are_together(self, rows: Sequence[etree._Element]) -> bool:
        """Tell whether no other text stands in an element between rows, as labels do."""
        parent = rows[0].getparent()
        children = list(self.children[parent]) if parent is not None else []
        first = children.index(rows[0])
        return children[first : first + len(rows)] == list(rows)

    def label(self, row: etree._Element) -> str:
        """Return the short text right before the first row of a list, "" where there is none."""
        node = row if row.tag != "tr" else next((one for one in line_up(row) if one.tag == "table"), row)
        title = next(node.iter("caption", "tr"), row) if row.tag == "tr" else row
        if title is not row and len(self.within.get(title, ())) == 1:  # a table's first row may be its title
            text = self.text(self.within[title][0])
            return text if len(text) <= _MAX_LABEL_CHARS else ""
        for _ in range(_MAX_LEVELS_TO_LABEL):
            parent = node.getparent()
            siblings = islice(node.itersiblings(preceding=True), _MAX_SIBLINGS)
            before = next((one for one in siblings if (one.tail or "").strip() or one in self.within), None)
            loose = ((before.tail if before is not None else parent.text if parent is not None else "") or "").strip()
            if any(map(str.isalpha, loose)):
                return loose if len(loose) <= _MAX_LABEL_CHARS else ""
            if before is not None:
                texts = [self.text(n) for n in self.within.get(before, ()) if self._is_text(n)]
                text = _COUNTED.sub("", texts[0]) if texts and all(one in texts[0] for one in texts) else ""
                return text if len(text) <= _MAX_LABEL_CHARS and any(map(str.isalpha, text)) else ""
            if parent is None or parent.tag == "body":
                return ""
            node = parent
        return ""


def kind_of(element: etree._Element) -> str:
    """Return what rows of one kind have in common: the tag and the first class that tells anything; a cell's place."""
    classes = (_DIGITS.sub("", one) for one in (element.get("class") or "").split())
    own = next((one for one in classes if one and one not in _VARYING), "")
    own = own or (rel_of(element) if element.tag == "a" else "")
    return f"{element.tag}.{place_of(element) if element.tag in ('td', 'th') else own}"


def place_of(cell: etree._Element) -> int:
    return sum(1 for _ in islice(cell.itersiblings("td", "th", preceding=True), _MAX_SIBLINGS))


def parts_of_name(name: str) -> list[str]:
    return [part.lower() for part in _NAME_PART.findall(name)]


def names_of(element: etree._Element, attributes: Iterable[str] = (*CLASS_NAMES, "id")) -> list[str]:
    return [one for name in attributes for one in (element.get(name) or "")[:_MAX_NAMES_CHARS].split()]


def words_of(element: etree._Element, attributes: Iterable[str] = (*CLASS_NAMES, "id")) -> tuple[str, ...]:
    """Return the words of the names that an element has; not what it is said to have, or to be without."""
    words = (takewhile(lambda word: word not in _HAVING, parts_of_name(name)) for name in names_of(element, attributes))
    return tuple(dict.fromkeys(chain.from_iterable(words)))


def rel_of(element: etree._Element) -> str:
    """Return what the first link in an element says that it leads to: "category", "author", "tag", or nothing."""
    for node in islice(element.iter("a"), 1):
        words = (node.get("rel") or "").lower().split()
        return next((word for word in ("category", "author", "tag") if word in words), "")
    return ""
