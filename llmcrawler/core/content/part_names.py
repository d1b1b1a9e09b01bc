"""Tells from the names in an element's attributes which parts of a page it may be (navigation, comments, ...)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from llmcrawler.core.content.caching import cached_if_short
from llmcrawler.core.content.markup import TAG_IDS

# Patterns of the names that authors give to the parts of a page (class, id, role, itemprop). Each has a bit, in this
# order. No words of single sites.
PART_NAMES: Final[dict[str, str]] = {
    "nav": r"nav|menu|breadcrumb|sitemap|skip|pager|paginat",
    "foot": r"foot|copyright|legal",
    "header": r"header|masthead|topbar|banner|logo",
    "comment": r"comment|disqus|respond|reply",
    "side": r"side|aside|widget|rail|secondary",
    "share": r"share|social|follow|sharing|subscribe|newsletter|signup",
    "related": r"related|recommend|similar|also|more-|popular|trending|upsell|crosssell|cross-sell|recent",
    "cookie": r"cookie|consent|modal|popup|overlay|dialog|gdpr|tooltip|toast|dropdown|offcanvas|drawer",
    "ad": r"(?<![a-z])ads?(?![a-z])|advert|sponsor|promo|cta",
    "meta": r"meta|author|byline|date|tags?(?![a-z])|categor|info|label|badge",
    "content": r"content|main|body|article|entry|story|text|prose|markdown|rte",
    "post": r"post|message|thread|topic|answer|question|reply",
    "product": r"product|price|sku|description|spec|detail|feature",
    "card": r"card|item|tile|grid|list|result|teaser|collection|col-",
    "review": r"review|rating|testimonial",
    "filter": r"filter|sort|facet|toolbar|search|form|login|cart|checkout|quantity|account",
    "hero": r"hero|intro|lead|title|heading|summary|excerpt",
    "faq": r"faq|accordion|collapse|tab|panel|toggle",
}
PART_BITS: Final = {name: 1 << index for index, name in enumerate(PART_NAMES)}
# A bit beside those of PART_NAMES: the element is a remark that stands apart from the text, with a title of its own.
REMARK: Final = 1 << len(PART_NAMES)
_REMARKS: Final = frozenset(
    "admonition admonitionblock theme-admonition markdown-alert custom-block starlight-aside callout".split()
)


def _by_first_letter() -> tuple[re.Pattern[str], list[int]]:
    """Return a pattern that finds what `(PATTERN)|(PATTERN)|...` finds, but at each place tries the words of one letter
    only; and the bit of PART_NAMES for the number of each of its groups.
    """
    letters: dict[str, list[str]] = {}
    bits: dict[str, list[int]] = {}
    for index, pattern in enumerate(PART_NAMES.values()):
        for word in pattern.split("|"):
            first, rest = (word[0], word[1:]) if word[0] != "(" else ("a", word.replace("(?<![a-z])a", "(?<![a-z]a)"))
            letters.setdefault(first, []).append(f"({rest})")
            bits.setdefault(first, []).append(1 << index)
    by_letter = "|".join(f"{letter}(?:{'|'.join(words)})" for letter, words in letters.items())
    return re.compile(by_letter), [0, *(bit for letter in letters for bit in bits[letter])]


# Of what patterns match nothing but this goes on behind a hyphen, and nothing has other signs: so words are looked up
# one by one, as names are put together of the same ones.
_ACROSS: Final = "cross-sell"
_WORD: Final = re.compile("[a-z]+-?")
_PARTS_RE, _PART_BITS = _by_first_letter()
# Names that end so are those of a question for consent that lies over the page, not of a page that has one.
_CONSENT: Final = re.compile(
    r"(?!has|with|no-|is-|tag-|category-|post|product)(?=.*(?:cookie|consent))(?=.*(?:banner|sdk|dialog|popup|modal|notice|bar|wall|overlay|message|prompt"
    r"|layer|manager)).*(?:cookies?|consent|banner|sdk|dialog|popup|modal|notice|bar|wall|overlay|message|prompt|layer|manager"
    r"|wrapper|container)\Z"
)
_MAX_NAME_CHARS: Final = 80
_CACHED_CHARS: Final = 500
_CLASS: Final = ' class="'
_SIGNATURE_CHARS: Final = 60
_MAX_TAG_CHARS: Final = 40  # that of a custom element may have a million
_NAMES: Final = re.compile(r' (?:class|id|role|itemprop)="([^"]*+)"')


def names_in_attributes(attribute_source: str) -> str:
    """Return the values of class, id, role and itemprop, with spaces between."""
    if attribute_source.startswith(_CLASS) and attribute_source.find('"', len(_CLASS)) == len(attribute_source) - 1:
        return attribute_source[len(_CLASS) : -1]
    return " ".join(_NAMES.findall(attribute_source))


def asks_for_consent(attribute_source: str) -> bool:
    """Tell whether an element's names are those of a banner or dialog that asks for consent to cookies."""
    names = names_in_attributes(attribute_source)[:_CACHED_CHARS].lower().split()
    return any(len(name) <= _MAX_NAME_CHARS and _CONSENT.match(name) for name in names)


def part_bits(attribute_source: str) -> int:
    """Return a bit for each of PART_NAMES that a name in an element's attributes matches, and REMARK."""
    bits = 0
    for name in names_in_attributes(attribute_source).lower()[:200].split():
        bits |= _name_bits(name)
    return bits


@cached_if_short(_CACHED_CHARS)
def part_of(element: tuple[str, str]) -> tuple[int, str, int]:
    """Return the number of an element's tag, its signature (the tag and its class), and its `part_bits`."""
    tag, attribute_source = element
    signature = tag[:_MAX_TAG_CHARS]
    if attribute_source.startswith(_CLASS[:-1]):
        signature += attribute_source[:_SIGNATURE_CHARS]
    return TAG_IDS.get(tag, 0), signature, part_bits(attribute_source)


@lru_cache(maxsize=16384)
def _name_bits(name: str) -> int:
    bits = REMARK if name in _REMARKS else 0
    for word in [name] if _ACROSS in name else _WORD.findall(name):
        bits |= _word_bits(word)
    return bits


@lru_cache(maxsize=16384)
def _word_bits(word: str) -> int:
    bits = 0
    for match in _PARTS_RE.finditer(word):
        bits |= _PART_BITS[match.lastindex or 0]
    return bits
