"""Writes the Markdown within a block. While a block is read, control characters mark where emphasis, code, a link or a
cell begins and ends: only at its end is it known which of them have text in them.
"""

from __future__ import annotations

import re
from typing import Final

OPEN, CLOSE = "\x00", "\x01"  # each stands before the signs that it opens or closes: **, * or `
CELL = "\x02"  # the end of a cell in a row of a table
LINK, TARGET, LINK_END = "\x03", "\x04", "\x05"  # around a link's text and its address

MARKS: Final = "\x00\x01\x02\x03\x04\x05"
_MARK: Final = re.compile(r"[\x00-\x05]")
_EMPTY_MARK: Final = re.compile(r"\x00(\*\*|\*|`)\s*+\x01\1")
_OPEN_MARK: Final = re.compile(r"\x00(\*\*|\*|`)(\s*)")
# Begins where white space begins, and nowhere within it: else a long run would be looked through from each place of it.
_CLOSE_MARK: Final = re.compile(r"(?<!\s)(\s*+)\x01(\*\*|\*|`)")
_LINK: Final = re.compile(r"\x03([^\x03\x04\x05]*)\x04([^\x05]*)\x05")
_LEFT_OVER: Final = re.compile(r"\x03|\x04[^\x05]*\x05")


def inline_markdown(source: str) -> str:
    """Turn marks into Markdown: white space goes outside of emphasis, what is empty goes away. CELL stays."""
    if not _MARK.search(source):
        return source
    if OPEN in source or CLOSE in source:
        source = _EMPTY_MARK.sub("", source)
        source = _OPEN_MARK.sub(r"\2\1", source)
        source = _CLOSE_MARK.sub(r"\2\1", source)
    if LINK in source:
        source = _LINK.sub(_link, source)
    if LINK in source or TARGET in source:
        source = _LEFT_OVER.sub("", source)
    return source


def _link(match: re.Match[str]) -> str:
    text, href = match[1], match[2]
    stripped = " ".join(text.split())
    if not stripped:
        return " "
    lead, tail = (" " if text[:1].isspace() else ""), (" " if text[-1:].isspace() else "")
    target = href.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("\n", "")
    return f"{lead}[{stripped}]({target}){tail}"
