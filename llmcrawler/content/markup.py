"""A parsed page as a flat list of tokens.

Walking a lexbor tree from Python costs a call per node and attribute. Serialising it (in C) and cutting the well-formed
result with one regular expression costs about a third of that, and needs no recursion however deep the page is.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from selectolax.lexbor import LexborHTMLParser

# (raw tag, raw attributes, raw content, slash, tag, attributes, text): the alternatives of one token.
Token = tuple[str, str, str, str, str, str, str]

# All quantifiers are possessive, so no input makes this backtrack.
# Lexbor quotes every value and escapes `"`, `<`, `>` in it.
_ATTRIBUTES: Final = r'(?: [^\s=>]++(?:="[^"]*+")?+)*+'
_TOKEN: Final = re.compile(
    rf"<(script|iframe|noembed|noframes|xmp|textarea|title|plaintext)({_ATTRIBUTES})>(.*?)</\1>"
    rf"|<(/?)([a-zA-Z][^\s/>]*+)({_ATTRIBUTES})>|([^<]++)|<!--.*?-->|<![^>]*+>",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r' ([^\s=>]++)(?:="([^"]*+)")?+')

# Never text.
_SKIPPED: Final = ["style", "svg"]
_MAX_HTML_CHARS: Final = 6_000_000
# Lexbor needs time quadratic in the depth of open elements: 20,000 take 0.4 s, 200,000 take a minute.
_MAX_UNCLOSED: Final = 5_000
_MAYBE_DEEP_CHARS: Final = 20_000
_OPEN_OR_CLOSE: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)")
_VOID: Final = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
        "path",
        "li",
        "p",
        "td",
        "tr",
        "th",
        "option",
        "dt",
        "dd",
    ]
)


def _bounded(html: str) -> str:
    """The html, cut where more elements are open than any real page nests."""
    html = html[:_MAX_HTML_CHARS]
    opened = html.count("<")
    if len(html) < _MAYBE_DEEP_CHARS or opened - 2 * html.count("</") < _MAX_UNCLOSED:
        return html
    depth = 0
    for match in _OPEN_OR_CLOSE.finditer(html):
        if match[1]:
            depth = max(0, depth - 1)
        elif match[2].lower() not in _VOID:
            depth += 1
            if depth > _MAX_UNCLOSED:
                return html[: match.start()]
    return html


def parse(html: str) -> LexborHTMLParser:
    """One lexbor tree; lone surrogates, which UTF-8 cannot carry, become question marks."""
    return LexborHTMLParser(_bounded(html).encode("utf-8", "replace").decode("utf-8"))


def tokens(tree: LexborHTMLParser) -> list[Token]:
    """The page as tokens. It strips the tree of what is never text, so take fingerprints before."""
    tree.strip_tags(_SKIPPED)
    return _TOKEN.findall(tree.html or "")


def attributes(source: str) -> dict[str, str]:
    """The attributes of a token's attribute string, the first of a name winning."""
    found: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(source):
        found.setdefault(name, plain(value))
    return found


def plain(text: str) -> str:
    """Text with its character references resolved (the serialiser escapes & < > and nbsp only)."""
    return unescape(text) if "&" in text else text
