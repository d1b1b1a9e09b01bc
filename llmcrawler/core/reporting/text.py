"""Writes text for people: figures in words, and text from crawled sites made fit for a terminal."""

from __future__ import annotations

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len, chop_cells, set_cell_size

_ELLIPSIS = "…"
_SHOWN_CHARS = 200  # of a value of a record


def plain(text: object, width: int | None = None) -> str:
    """Return one line of printable characters, cut to `width` terminal cells: control characters could move the cursor
    or write the clipboard, format characters turn the direction of the line or hide a part of it.
    """
    line = "".join(_printable(character) for character in str(text))
    if width is None or cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + _ELLIPSIS if width > 0 else ""


def column(text: object, width: int, *, right: bool = False) -> str:
    """Return the text padded, or cut, to exactly `width` terminal cells."""
    line = plain(text, width)
    padding = " " * (width - cell_len(line))
    return padding + line if right else line + padding


def fold(tokens: Iterable[object], width: int, indent: str = "") -> list[str]:
    """Return lines of at most `width` terminal cells, indented. Only a token longer than a line is split."""
    room, lines = max(1, width - len(indent)), [""]
    for token in map(plain, tokens):
        pieces = [token]
        if cell_len(token) > room:
            pieces = [piece for word in token.split() for piece in chop_cells(word, room)]
        for piece in pieces:
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if cell_len(joined) <= room:
                lines[-1] = joined
            else:
                lines.append(piece)
    return [indent + line for line in lines if line]


def _printable(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() else (" " if character in "\t\n\r" else "\N{REPLACEMENT CHARACTER}")
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    return "\N{REPLACEMENT CHARACTER}" if category[0] == "C" or category in ("Zl", "Zp") else character


def ranked(counter: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return names with their counts, the most frequent first; equal counts by name, so that nothing flickers."""
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


def counts(counter: Counter[str], shown: int) -> str:
    """Return the most frequent names with their counts."""
    ordered = ranked(counter)
    parts = [f"{name} {count:,}" for name, count in ordered[:shown]]
    if len(ordered) > shown:
        parts.append(f"{len(ordered) - shown} more")
    return ", ".join(parts)


def many(number: int, what: str) -> str:
    """Return a number of things: "1 page", "2 pages", "2 batches"."""
    plural = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{'' if number == 1 else plural}"


def duration(seconds: float) -> str:
    if seconds < 59.5:  # more would be rounded to 60
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(seconds: float) -> str:
    """Return a Unix time as local date and time."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def money(cost_usd: float | None) -> str:
    return "cost unknown" if cost_usd is None else f"${cost_usd:.4f}"


def percent(share: float) -> str:
    """Return whole percents, rounded down: 100% is all, not nearly all, and 0% is nothing."""
    whole = math.floor(100 * share + 1e-9)
    return "<1%" if whole <= 0 < share else f"{whole}%"


def count(number: float) -> str:
    return f"{number:,.0f}"


def dollars(amount: float) -> str:
    return f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def shown_value(value: Any, max_chars: int = _SHOWN_CHARS) -> Any:
    """Return a value of a record as JSON that is short: a number, or a text; None where there is none."""
    if value in (None, "", [], {}):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        value = ", ".join(map(str, value[:max_chars]))
    text = plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
