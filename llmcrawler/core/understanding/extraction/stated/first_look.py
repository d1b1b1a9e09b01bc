"""Tells from a page's text, before any parse, whether the page may say enough of itself for a record."""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.understanding.extraction.stated.meta_objects import LEAST, TELLING

_BLANK: Final = r"[\t\n\f\r ]"
_ATTRIBUTE: Final = (
    rf"""[\t\n\f\r /]*+([^\s"'<>/=`]++)(?:{_BLANK}*+={_BLANK}*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>=`]++)))?+"""
)
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_META: Final = re.compile(r"<[mM][eE][tT][aA](?=[\t\n\f\r />])")
# Of a tag as nearly all are written; one that is not may say anything.
_REST: Final = re.compile(rf"(?:{_ATTRIBUTE})*+[\t\n\f\r /]*+>")
_NAMING: Final = frozenset(("property", "name", "itemprop"))
# An attribute, with a value or beside others; what stands behind that word in scripts is neither.
_TYPE: Final = re.compile(r"typeof(?:[\s/]++[\w:@.-]++){0,8}+[\s/]*+(?:>|=(?![=>]))")


def may_have_record(html: str, *, of_metas: bool) -> bool:
    """Tell whether a page may have objects, or with `of_metas` enough meta elements, that make a record. Time is linear
    in the size of the page.
    """
    if "ld+json" in html or "itemscope" in html:
        return True
    if "typeof" in html and ("TYPEOF" in html or _TYPE.search(html) is not None):
        return True
    return of_metas and _may_have_metas(html)


def _may_have_metas(html: str) -> bool:
    said: set[str] = set()
    for start in _META.finditer(html):
        tag = _REST.match(html, start.end())
        if tag is None:
            return True
        for name, *values in _ATTRIBUTES.findall(tag[0]):
            if name.lower() in _NAMING:
                value = "".join(values)
                if "&" in value:
                    return True
                said.add(TELLING.get(value.strip().lower(), ""))
        if len(said - {""}) >= LEAST:
            return True
    return False
