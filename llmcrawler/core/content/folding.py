"""Folds the white space of blocks, and remembers what came of it, as the pages of a site repeat their blocks."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from llmcrawler.core.content.formulas import dollars
from llmcrawler.core.content.marks import BREAK, inline_markdown

T = TypeVar("T")

KEPT_CHARS: Final = 200  # of a text that is remembered, as menus and labels have: longer ones are of one page
_MOST: Final = 8192
_EMPTY_LINES: Final = re.compile(r"(?:  \n){2,}")


_folded: Final[dict[str, tuple[str, int]]] = {}
_of_headings: Final[dict[str, str]] = {}
_of_others: Final[dict[str, str]] = {}


def folded(text: str) -> tuple[str, int]:
    """Return the words of a text with a space between, and how many they are."""
    found = _folded.get(text)
    if found is None:
        words = text.split()
        found = " ".join(words), len(words)
        if len(text) <= KEPT_CHARS:
            keep(_folded, text, found)
    return found


def folded_markdown(source: str, is_heading: bool) -> str:
    """Return the Markdown of a block that has the marks of marks.py; that of a heading has one line."""
    known = _of_headings if is_heading else _of_others
    found = known.get(source)
    if found is None:
        found = _markdown(source, is_heading)
        if len(source) <= KEPT_CHARS:
            keep(known, source, found)
    return found


def keep(known: dict[str, T], text: str, found: T) -> None:
    """Remember what came of a text; of too many all are forgotten, which costs less than to know the oldest."""
    if len(known) >= _MOST:
        known.clear()
    known[text] = found


def _markdown(source: str, is_heading: bool) -> str:
    markdown = inline_markdown(source)
    if "\\" in markdown and "`" not in markdown:
        markdown = dollars(markdown)
    if is_heading:
        return " ".join(markdown.replace(BREAK, " ").split())
    if BREAK in markdown:
        lines = [" ".join(line.split()) for line in markdown.split(BREAK)]
        return _EMPTY_LINES.sub("\n\n", "  \n".join(lines).strip())
    return " ".join(markdown.split())
