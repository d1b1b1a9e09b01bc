"""Writes the Markdown within a block. While a block is read, control characters mark where emphasis, code, a link, a
cell or a line begins or ends: only at the block's end is it known which of them have text in them.
"""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.content.caching import cached_if_short
from llmcrawler.core.content.formulas import dollars

OPEN, CLOSE = "\x00", "\x01"  # each stands before the signs that it opens or closes: **, *, ~~, ^ or `
CELL = "\x02"  # the end of a cell in a row of a table
LINK, TARGET, LINK_END = "\x03", "\x04", "\x05"  # around a link's text and its address
BREAK = "\x06"  # the end of a line within a block
RULE = "\n\n---"  # a rule below a block

_PIECES: Final = re.compile(r"([\x00\x01](?:\*\*|\*|~~|\^|`)|\x03|\x04[^\x05]*\x05)")
_LINK: Final = re.compile(r"\x03([^\x03\x04\x05]*)\x04([^\x05]*)\x05")
_LEFT_OVER: Final = re.compile(r"\x03|\x04[^\x05]*\x05")
_TICKS: Final = re.compile("`+")
# What is set high in prices and ordinals, or as a sign of a trade mark, is no power.
_POWER: Final = re.compile(r"[-+−]?\w{1,3}")
_NO_POWER: Final = re.compile(r"(?i)st|nd|rd|th|er|re|e|eme|ème|tm|sm|mc|r|c|o|a")


def inline_markdown(source: str) -> str:
    """Turn marks into Markdown: white space goes outside of emphasis, what is empty goes away. CELL and BREAK stay."""
    if OPEN in source or CLOSE in source:
        return _nested(_PIECES.split(source))
    if LINK in source:
        source = _LINK.sub(lambda match: _linked(match[1], match[2]), source)
    if LINK in source or TARGET in source:
        source = _LEFT_OVER.sub("", source)
    return source


def _nested(pieces: list[str]) -> str:
    """Join pieces of text, which stand at even places, and the marks between them."""
    out = [pieces[0]]
    opened: list[tuple[str, int]] = []  # sign, and where in `out` it stands
    signs: list[str] = []  # of `opened`; within code there are no others
    for index in range(1, len(pieces), 2):
        mark = pieces[index]
        kind, sign = mark[0], mark[1:]
        if kind in {OPEN, LINK}:
            opened.append((sign, len(out)))
            signs.append(sign)
        else:
            wanted = "" if kind == TARGET else sign
            if wanted in signs:
                at = len(signs) - 1
                while signs[at] != wanted:
                    at -= 1
                start = opened[at][1]
                del opened[at:], signs[at:]
                text = out[start] if len(out) == start + 1 else "".join(out[start:])
                if kind == TARGET:
                    text = text if "`" in signs else _linked(text, sign[:-1])
                elif sign not in signs and "`" not in signs:
                    text = _beside(out, start, _signed(text, sign, out[start - 1]), sign)
                out[start:] = [text]
        out.append(pieces[index + 1])
    return "".join(out)


def _beside(out: list[str], start: int, text: str, sign: str) -> str:
    """Make one of twins that stand beside each other: the end of the first and the beginning of the second go."""
    at = start - 1 if out[start - 1] or start < 2 else start - 2  # an empty text stands between two marks
    before = out[at]
    if sign != "`" and text.startswith(sign) and before.endswith(sign) and before.strip("*~"):
        out[at] = before[: -len(sign)]
        return text[len(sign) :]
    return text


def _signed(text: str, sign: str, before: str) -> str:
    """Put signs around a text, within the white space around it."""
    stripped = text.strip(" \t\n\r\f\xa0" + BREAK)
    if not stripped or CELL in stripped:
        return text
    at = text.index(stripped)
    lead, tail = text[:at], text[at + len(stripped) :]
    if sign == "^":
        is_power = _POWER.fullmatch(stripped) and not _NO_POWER.fullmatch(stripped) and before[-1:].strip()
        # Two figures behind a price are its cents.
        is_price = stripped.isdigit() and len(stripped) == 2 and before[-1:].isdigit() and not before.endswith("10")
        return f"{lead}^{stripped}{tail}" if is_power and not is_price else text
    if sign != "`":
        return f"{lead}{sign}{stripped}{sign}{tail}"
    return lead + code_span(stripped) + tail


def code_span(text: str) -> str:
    """Return a piece of code in a line; one that has backticks is fenced with more of them."""
    text = " ".join(text.replace(BREAK, " ").split())
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text))))
    return f"{ticks} {text} {ticks}"


def _linked(text: str, href: str) -> str:
    stripped = " ".join(text.replace(BREAK, " ").split())
    if not stripped:
        return " "
    lead, tail = (" " if text[:1].isspace() else ""), (" " if text[-1:].isspace() else "")
    target = href.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("\n", "")
    return f"{lead}[{stripped}]({target}){tail}"


_CACHED_CHARS: Final = 200  # as menus and labels have
_EMPTY_LINES: Final = re.compile(r"(?:  \n){2,}")


@cached_if_short(_CACHED_CHARS, size=8192)
def folded(text: str) -> tuple[str, int]:
    """Return the words of a text with a space between, and how many they are."""
    words = text.split()
    return " ".join(words), len(words)


@cached_if_short(_CACHED_CHARS)
def folded_markdown(block: tuple[bool, str]) -> str:
    """Return the Markdown of a block with the control characters above; that of a heading has one line."""
    is_heading, source = block
    markdown = inline_markdown(source)
    if "\\" in markdown and "`" not in markdown:
        markdown = dollars(markdown)
    if is_heading:
        return " ".join(markdown.replace(BREAK, " ").split())
    if BREAK in markdown:
        lines = [" ".join(line.split()) for line in markdown.split(BREAK)]
        return _EMPTY_LINES.sub("\n\n", "  \n".join(lines).strip())
    return " ".join(markdown.split())


_MAX_MARKS: Final = 24  # what is nested deeper has the marks of so many elements around it
_MAX_HEADING: Final = 6
# Text that would begin a heading in Markdown, or code: a listing that is never closed takes in all that follows.
_LIKE_A_MARK: Final = re.compile(r"^(?:#{1,6}(?=\s)|`{3,}+[^`\n]*$|~~~)", re.MULTILINE)
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
        return bool(self._next)

    def open_list(self, first: int) -> None:
        """Begin a list; `first` is the number of its first item, 0 if it has none."""
        indent = "  " if self._numbers and self._numbers[-1] != -1 else ""  # in a list, but in none of its items
        self.open(indent, indent, first)

    def open_item(self) -> None:
        mark = "- "
        if self._numbers and (number := self._numbers[-1]) > 0:
            self._numbers[-1] = number + 1
            mark = f"{number}. "
        self.open(mark, " " * len(mark))

    def open_quote(self) -> None:
        """Begin a quote. The first block of one that stands by itself begins with an empty line, which keeps it apart
        from another quote before it.
        """
        self.open("> " if self._next else "\n> ", "> ")

    def open(self, first: str, others: str, number: int = -1) -> None:
        """Begin an element whose first line has one mark and all others another; `number` is that of the next item."""
        self._next.append(first)
        self._others.append(others)
        self._numbers.append(number)

    def close(self) -> None:
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
    """Return a text of which no line begins like a heading or code."""
    return _LIKE_A_MARK.sub(r"\\\g<0>", markdown)


def is_code(markdown: str) -> bool:
    """Tell whether a block is nothing but code, or a formula: it has no links, and no prose to score by."""
    if "```" in markdown:
        return _FENCE.match(markdown) is not None
    return "$$" in markdown and _FORMULA.fullmatch(markdown) is not None
