"""Text of strangers made fit for a terminal: no escape sequence, no second line, a known width."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

_ELLIPSIS = "…"


def plain(text: object, width: int | None = None) -> str:
    """One line of printable characters, cut to `width` terminal cells.

    Control characters would move the cursor, set colours or the title, or write the clipboard; format characters
    would turn the direction of the line or hide a part of it.
    """
    line = "".join(_printable(character) for character in str(text))
    if width is None or cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + _ELLIPSIS if width > 0 else ""


def column(text: object, width: int, *, right: bool = False) -> str:
    """The text padded, or cut, to exactly `width` terminal cells."""
    line = plain(text, width)
    padding = " " * (width - cell_len(line))
    return padding + line if right else line + padding


def _printable(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() else (" " if character in "\t\n\r" else "\N{REPLACEMENT CHARACTER}")
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    return "\N{REPLACEMENT CHARACTER}" if category[0] == "C" or category in ("Zl", "Zp") else character
