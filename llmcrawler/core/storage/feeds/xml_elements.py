"""Values as XML 1.0 that every parser takes, whatever names and characters a page has put into them."""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape, quoteattr

# Names that editions 4 and 5 of XML 1.0 both allow, without a namespace. Those that begin with xml are reserved.
_NAME = re.compile(r"(?![xX][mM][lL])[A-Za-z_][A-Za-z0-9_.-]*")
# Of characters that UTF-8 can carry. One at a time, as an expression takes a second for megabytes of them.
_FORBIDDEN = [*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"]


def element(name: str, value: Any, depth: int = 0, indent: int = 0) -> str:
    """Return a clean value as an element: of an object one for each name, of a list one `value` for each value."""
    start, end = tags(name)
    margin, line_end = " " * indent * depth, "\n" if indent else ""
    if not value or not isinstance(value, (dict, list)):
        return f"{margin}{start}{_text(value)}{end}{line_end}"
    items = value.items() if isinstance(value, dict) else (("value", one) for one in value)
    parts = "".join([element(part, one, depth + 1, indent) for part, one in items])
    return f"{margin}{start}{line_end}{parts}{margin}{end}{line_end}"


def tags(name: str) -> tuple[str, str]:
    """Return the tags around an element. A name that XML does not take stands in an attribute: <field name="$a">."""
    if _NAME.fullmatch(name):
        return f"<{name}>", f"</{name}>"
    return f"<field name={quoteattr(_allowed(name))}>", "</field>"


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    # A parser reads a bare carriage return as the end of a line.
    return escape(_allowed(str(value)), {"\r": "&#13;"})


def _allowed(text: str) -> str:
    for char in _FORBIDDEN:
        if char in text:
            text = text.replace(char, "\ufffd")
    return text
