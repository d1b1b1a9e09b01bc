"""Writes the Markdown within a block. While a block is read, control characters mark where emphasis, code, a link, a
cell or a line begins or ends: only at the block's end is it known which of them have text in them.
"""

from __future__ import annotations

import re
from typing import Final

OPEN, CLOSE = "\x00", "\x01"  # each stands before the signs that it opens or closes: **, *, ~~, ^ or `
CELL = "\x02"  # the end of a cell in a row of a table
LINK, TARGET, LINK_END = "\x03", "\x04", "\x05"  # around a link's text and its address
BREAK = "\x06"  # the end of a line within a block

MARKS: Final = "\x00\x01\x02\x03\x04\x05\x06"
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
        source = _LINK.sub(_link, source)
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


def _link(match: re.Match[str]) -> str:
    return _linked(match[1], match[2])


def _linked(text: str, href: str) -> str:
    stripped = " ".join(text.replace(BREAK, " ").split())
    if not stripped:
        return " "
    lead, tail = (" " if text[:1].isspace() else ""), (" " if text[-1:].isspace() else "")
    target = href.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("\n", "")
    return f"{lead}[{stripped}]({target}){tail}"
