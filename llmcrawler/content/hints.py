"""Tells from the names in an element's attributes which part of the page it may be (navigation, comments, ...)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# Names that authors give to the parts of a page (class, id, role, itemprop), one bit each. No words of single sites.
HINTS: Final = (
    r"nav|menu|breadcrumb|sitemap|skip|pager|paginat",
    r"foot|copyright|legal",
    r"header|masthead|topbar|banner|logo",
    r"comment|disqus|respond|reply",
    r"side|aside|widget|rail|secondary",
    r"share|social|follow|sharing|subscribe|newsletter|signup",
    r"related|recommend|similar|also|more-|popular|trending|upsell|crosssell|cross-sell|recent",
    r"cookie|consent|modal|popup|overlay|dialog|gdpr|tooltip|toast|dropdown|offcanvas|drawer",
    r"(?<![a-z])ads?(?![a-z])|advert|sponsor|promo|cta",
    r"meta|author|byline|date|tags?(?![a-z])|categor|info|label|badge",
    r"content|main|body|article|entry|story|text|prose|markdown|rte",
    r"post|message|thread|topic|answer|question|reply",
    r"product|price|sku|description|spec|detail|feature",
    r"card|item|tile|grid|list|result|teaser|collection|col-",
    r"review|rating|testimonial",
    r"filter|sort|facet|toolbar|search|form|login|cart|checkout|quantity|account",
    r"hero|intro|lead|title|heading|summary|excerpt",
    r"faq|accordion|collapse|tab|panel|toggle",
)
_HINT_RE: Final = re.compile("|".join(f"({hint})" for hint in HINTS))
# Names that end so are those of a question for consent that lies over the page, not of a page that has one.
_CONSENT: Final = re.compile(
    r"(?!has|with|no-|is-|tag-|category-|post|product)(?=.*(?:cookie|consent))(?=.*(?:banner|sdk|dialog|popup|modal|notice|bar|wall|overlay|message|prompt"
    r"|layer|manager)).*(?:cookies?|consent|banner|sdk|dialog|popup|modal|notice|bar|wall|overlay|message|prompt|layer|manager"
    r"|wrapper|container)\Z"
)
_MAX_NAME_CHARS: Final = 80
_KEPT_CHARS: Final = 500  # so that the caches cannot grow to the size of many pages
_NAMES: Final = re.compile(r' (?:class|id|role|itemprop)="([^"]*+)"')


def part_names(attribute_source: str) -> str:
    """Return the values of class, id, role and itemprop, with spaces between."""
    return " ".join(_NAMES.findall(attribute_source))


def asks_for_consent(attribute_source: str) -> bool:
    """Tell whether an element's names are those of a banner or dialog that asks for consent to cookies."""
    names = part_names(attribute_source)[:_KEPT_CHARS].lower().split()
    return any(len(name) <= _MAX_NAME_CHARS and _CONSENT.match(name) for name in names)


def hint_bits(attribute_source: str) -> int:
    """Return a bit for each of HINTS that a name in an element's attributes matches."""
    return _cached_bits(attribute_source) if len(attribute_source) <= _KEPT_CHARS else _bits(attribute_source)


def _bits(attribute_source: str) -> int:
    bits = 0
    for name in part_names(attribute_source).lower()[:200].split():
        bits |= _name_bits(name)
    return bits


_cached_bits: Final = lru_cache(maxsize=16384)(_bits)


@lru_cache(maxsize=16384)
def _name_bits(name: str) -> int:
    bits = 0
    for match in _HINT_RE.finditer(name):
        bits |= 1 << ((match.lastindex or 1) - 1)
    return bits
