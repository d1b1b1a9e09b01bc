"""Writes what stands before the lines of a block in Markdown: marks of list items, quotes, definitions and notes."""

from __future__ import annotations

import re
from typing import Final

_MAX_MARKS: Final = 24  # what is nested deeper has the marks of so many elements around it
_MAX_HEADING: Final = 6
# Words at a line's start that would be a mark in Markdown.
_LIKE_A_HEADING: Final = re.compile(r"#{1,6}(?=\s)")
_OWN_LINK: Final = re.compile(r"\[((?:[^\]]|\](?!\())*+)\]\(#[^()\s]*+\)")
_FORMULA: Final = re.compile(r"\n?[ >]*+\$\$[^$\n]++\$\$")
_FENCE: Final = re.compile(r"\n?(?:> |- |\d+\. |: |\[\^[^\]]*\]: )*+ *+```")


class LineMarks:
    """The marks of the elements around a block, outermost first. That of an item stands once, white space behind it."""

    def __init__(self) -> None:
        # Per element that is open: mark of the next line, mark of those behind it, number of the next item (0: no
        # ordered list, -1: no list).
        self._next: list[str] = []
        self._others: list[str] = []
        self._numbers: list[int] = []

    @property
    def is_open(self) -> bool:
        """Tell whether any element with a mark is open."""
        return bool(self._next)

    def open_list(self, first: int) -> None:
        """Begin a list; `first` is the number of its first item, 0 if it has none."""
        is_bare = bool(self._numbers) and self._numbers[-1] != -1  # in a list, but in none of its items
        indent = "  " if is_bare else ""
        self._open(indent, indent, first)

    def open_item(self) -> None:
        mark = "- "
        if self._numbers and (number := self._numbers[-1]) > 0:
            self._numbers[-1] = number + 1
            mark = f"{number}. "
        self._open(mark, " " * len(mark), -1)

    def open(self, first: str, others: str) -> None:
        """Begin an element whose first line has one mark and all others another."""
        self._open(first, others, -1)

    def open_quote(self) -> None:
        """Begin a quote. The first block of one that stands by itself begins with an empty line, which keeps it apart
        from another quote before it.
        """
        self._open("> " if self._next else "\n> ", "> ", -1)

    def _open(self, first: str, others: str, number: int) -> None:
        self._next.append(first)
        self._others.append(others)
        self._numbers.append(number)

    def close(self) -> None:
        """End the element that began last."""
        del self._next[-1:], self._others[-1:], self._numbers[-1:]

    def mark(self, markdown: str) -> str:
        """Put the marks before the lines of a block."""
        first = "".join(self._next[:_MAX_MARKS])
        self._next[:_MAX_MARKS] = self._others[:_MAX_MARKS]
        if "\n" in markdown:
            others = "".join(self._others[:_MAX_MARKS])
            markdown = markdown.replace("\n", "\n" + others)
            if others and "\n" + others + "\n" in markdown:
                markdown = markdown.replace("\n" + others + "\n", "\n" + others.rstrip() + "\n")
        return first + markdown

    def heading(self, level: int, markdown: str) -> str:
        """Write a heading. Its items become sections: their other blocks have no marks; quotes stay."""
        if markdown.startswith("[") and (own := _OWN_LINK.fullmatch(markdown)) is not None:
            markdown = own[1]  # all of it leads to itself
        for index, mark in enumerate(self._others):
            if mark != "> ":
                self._next[index] = self._others[index] = ""
        return self.mark("#" * min(level, _MAX_HEADING) + " " + markdown)


def paragraph(markdown: str) -> str:
    """Return a text whose beginning is no mark of a heading."""
    return "\\" + markdown if _LIKE_A_HEADING.match(markdown) else markdown


def is_code(markdown: str) -> bool:
    """Tell whether a block is nothing but code, or a formula: it has no links, and no prose to score by."""
    if "```" in markdown:
        return _FENCE.match(markdown) is not None
    return "$$" in markdown and _FORMULA.fullmatch(markdown) is not None
