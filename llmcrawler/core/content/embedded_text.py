"""Finds the text of a page that its scripts would show: in JSON-LD and in the data that frameworks send with a page.

Only what is surely content is taken, for such data is full of labels, settings and translations: prose under a key that
content has, in pure JSON. It is asked for only where the page itself shows next to nothing.
"""

from __future__ import annotations

import html as html_text
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.content.markup import is_cheap
from llmcrawler.core.content.untrusted_json import is_too_much, value_at

_DATA_SCRIPTS: Final = 'script[type="application/json" i], script#__NEXT_DATA__, script:not([type]):not([src])'
_STATE: Final = re.compile(r"(?:window\.|self\.)?(__[A-Z][A-Z_]{2,40}__)\s*+=\s*+(?=[{\[])|\A\s*+(?=[{\[])")
MAX_SCRIPTS: Final = 50
_MAX_SCRIPT_CHARS: Final = 3_000_000
_MAX_VALUES: Final = 100_000
_MAX_CHARS: Final = 500_000
_MAX_PIECES: Final = 2_000
_LEAST_WORDS: Final = 12
_LEAST_IN_ALL: Final = 60

# The keys of prose, as content systems and schema.org call it, and names of headings beside it.
_PROSE_KEYS: Final = frozenset(
    "articlebody body bodyhtml body_html content contenthtml content_html html rawhtml rendered text value cooked"
    " description longdescription fulldescription descriptionhtml description_html paragraph markdown story"
    " summary lead standfirst answer".split()
)
# What stands below these is the site's and not the page's.
FRAME_KEYS: Final = re.compile(
    r"nav|menu|footer|header|cookie|consent|privacy|legal|i18n|intl|locale|messages|translat|dictionar|config|settings"
    r"|related|recommend|banner|promo|newsletter|seo|meta|tracking|schema|error|query|theme",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(
    r"<(?:p|br|h[1-6]|ul|ol|li|div|blockquote|strong|em|a|figure|table)\b[^<>]*>", re.IGNORECASE
)
_TAG: Final = re.compile(r"<[^<>]*>")
_WORD: Final = re.compile(r"[^\W\d_]{2,}+")
_SENTENCE_END: Final = re.compile(r"[.!?…。！？।؟][\"'”’»)]*+(?:\s|\Z|<)")
_CODE: Final = re.compile(r"[{}]|=>|\bfunction\b|\bvar \w|\$\w+\(|;\s*\n")


def embedded_text(tree: LexborHTMLParser, objects: Sequence[Any]) -> str:
    """Return HTML with the prose in a page's data, or "". `objects`: its JSON-LD. The tree has its scripts yet."""
    for values in (objects, _data(tree)):
        pieces = list(dict.fromkeys(_prose(values)))
        if sum(len(_WORD.findall(piece)) for piece in pieces) >= _LEAST_IN_ALL:
            found = "".join(map(_as_html, pieces))
            # Markup that was made to cost much is left out: the page was weighed without it.
            found = found if is_cheap(found) else "".join(_as_html(_TAG.sub(" ", piece)) for piece in pieces)
            return f"<main><article>{found}</article></main>"
    return ""


def article_body(objects: Sequence[Any]) -> str:
    """Return the longest body of an article that JSON-LD has."""
    bodies = (one.get("articleBody") for one in objects if isinstance(one, dict))
    return max((body for body in bodies if isinstance(body, str)), key=len, default="")[:_MAX_CHARS]


def _as_html(piece: str) -> str:
    if _MARKUP.search(piece):
        return f"<div>{piece}</div>"
    return "".join(f"<p>{html_text.escape(line)}</p>" for line in piece.split("\n") if line.strip())


def _data(tree: LexborHTMLParser) -> Iterator[Any]:
    for node in tree.css(_DATA_SCRIPTS)[:MAX_SCRIPTS]:
        if (state := state_of(node.text(), _MAX_VALUES)) is not None:
            yield state[1]


def state_of(script: str, max_values: int) -> tuple[str, Any] | None:
    """Return the JSON that a script is, or gives to a variable like window.__STATE__, behind the variable's name (or
    ""). None where there is none, or where it is long or may have more than `max_values` values.
    """
    start = _STATE.search(script) if len(script) <= _MAX_SCRIPT_CHARS else None
    if start is None or is_too_much(script, max_values):
        return None
    with suppress(ValueError):  # not pure JSON
        return start[1] or "", value_at(script, start.end())[0]
    return None


def _prose(values: Any) -> Iterator[str]:
    """Yield the strings that are prose under a key of content, in the order of the data."""
    waiting: list[tuple[str, Any]] = [("", value) for value in values][::-1]
    chars, pieces = _MAX_CHARS, _MAX_PIECES
    while waiting and chars > 0 and pieces > 0:
        key, value = waiting.pop()
        if isinstance(value, dict):
            inner = [(name, one) for name, one in value.items() if not FRAME_KEYS.search(name)]
            waiting += reversed(inner)
        elif isinstance(value, list):
            waiting += [(key, one) for one in reversed(value)]
        elif isinstance(value, str) and key.lower() in _PROSE_KEYS and _is_prose(value):
            chars, pieces = chars - len(value), pieces - 1
            yield value


def _is_prose(text: str) -> bool:
    plain = _TAG.sub(" ", text[:_MAX_CHARS]).strip()
    letters = sum(map(len, _WORD.findall(plain)))
    # Some scripts have no spaces between words.
    has_words = plain.count(" ") + 1 >= _LEAST_WORDS or (letters > _LEAST_WORDS * 3 and not plain.isascii())
    return has_words and letters > 0.6 * len(plain) and bool(_SENTENCE_END.search(plain)) and not _CODE.search(plain)
