"""Tells from a page's text, before any parse, whether it may be read in this process, where all else waits meanwhile.

Reading takes up to 20 microseconds for each element that is begun, and next to none for its end. But some pages are
small and cost much: an element for emphasis that is left open is made anew in each paragraph that follows, so that a
thousand of them before a thousand paragraphs are a million elements; and each attribute of an element is compared with
all those before it. The bounds hold whatever else the page is: what only looks like a tag counts as one.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

_MAX_TAGS: Final = 2_000
_MAX_STARTED: Final = 1_100  # of 1,060 real pages with so few tags one has more, but all 2,000 may be
_MAX_REPEATED: Final = 12_000  # elements that formatting left open may add
_FEW_TAGS: Final = 200  # so few cannot add as many
_TWINS: Final = 3  # so many elements of one name and the same attributes are made anew (HTML standard, 13.2.4.3)

_ATTRIBUTES: Final = r"""(?:[^<>"'=]*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|(?=[^\s"'<>])))*+[^<>"'=]*+>"""
# The start of a formatting element that is not just text and its end: whole, where its attributes are as usual. An `a`
# closes the one before it.
_LEFT_OPEN: Final = re.compile(
    r"<(?=[bcefistuBCEFISTU])(?i:b|big|code|em|font|i|s|small|strike|strong|tt|u)(?=[\s/>])"
    rf"(?!{_ATTRIBUTES}[^<]*+</)(?:{_ATTRIBUTES})?"
)
# A tag as HTML's standard reads it, with more attributes than any page needs: parsers take time quadratic in their
# number. What is long is cut into several of them here, so that this takes time linear in the page.
_BLANK: Final = r"[\t\n\f\r ]"
_VALUE: Final = r"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]{0,500}+)"""
_ATTRIBUTE: Final = rf"[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r />=]{{0,100}}+(?:{_BLANK}*+={_BLANK}*+{_VALUE}?+)?+"
_HUGE_TAG: Final = re.compile(rf"<[A-Za-z][^\t\n\f\r />]{{0,100}}+(?:{_ATTRIBUTE}){{128}}")


def is_cheap(html: str) -> bool:
    """Tell whether reading the page takes some 30 ms and 20 MB at most, in a few microseconds for each kilobyte."""
    tags = html.count("<")
    if tags > _MAX_TAGS or (tags > _MAX_STARTED and tags - html.count("</") > _MAX_STARTED):
        return False
    if _HUGE_TAG.search(html) is not None:
        return False
    return tags <= _FEW_TAGS or tags * _left_open(html) <= _MAX_REPEATED


def _left_open(html: str) -> int:
    """Return an upper bound of the formatting elements that are open at once anywhere in the page."""
    found = Counter(_LEFT_OPEN.findall(html))
    return sum(min(count, _TWINS) if tag.endswith(">") else count for tag, count in found.items())
