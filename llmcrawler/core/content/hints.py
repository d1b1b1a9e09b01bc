"""Tells from the names in an element's attributes which part of the page it may be (navigation, comments, ...)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from llmcrawler.core.content.markup import TAG_IDS

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
# A bit beside those of HINTS: the element is a remark that stands apart from the text, with a title of its own.
REMARK: Final = 1 << len(HINTS)
_REMARKS: Final = frozenset(
    "admonition admonitionblock theme-admonition markdown-alert custom-block starlight-aside callout".split()
)


def _by_first_letter() -> tuple[re.Pattern[str], list[int]]:
    """Return a pattern that finds what `(HINT)|(HINT)|...` finds but tries the words of one letter only at each place,
    and the bit of HINTS for the number of each of its groups.
    """
    letters: dict[str, list[str]] = {}
    bits: dict[str, list[int]] = {}
    for index, hint in enumerate(HINTS):
        for word in hint.split("|"):
            first, rest = (word[0], word[1:]) if word[0] != "(" else ("a", word.replace("(?<![a-z])a", "(?<![a-z]a)"))
            letters.setdefault(first, []).append(f"({rest})")
            bits.setdefault(first, []).append(1 << index)
    pattern = "|".join(f"{letter}(?:{'|'.join(words)})" for letter, words in letters.items())
    return re.compile(pattern), [0, *(bit for letter in letters for bit in bits[letter])]


# Of what a hint matches nothing but this goes on behind a hyphen, and nothing has other signs: so words are looked up
# one by one, as names are put together of the same ones.
_ACROSS: Final = "cross-sell"
_WORD: Final = re.compile("[a-z]+-?")
_HINT_RE, _HINT_BITS = _by_first_letter()
# Names that end so are those of a question for consent that lies over the page, not of a page that has one.
_CONSENT: Final = re.compile(
    r"(?!has|with|no-|is-|tag-|category-|post|product)(?=.*(?:cookie|consent))(?=.*(?:banner|sdk|dialog|popup|modal|notice|bar|wall|overlay|message|prompt"
    r"|layer|manager)).*(?:cookies?|consent|banner|sdk|dialog|popup|modal|notice|bar|wall|overlay|message|prompt|layer|manager"
    r"|wrapper|container)\Z"
)
_MAX_NAME_CHARS: Final = 80
_KEPT_CHARS: Final = 500  # so that the caches cannot grow to the size of many pages
_CLASS: Final = ' class="'
_SIGNATURE_CHARS: Final = 60
_MAX_TAG_CHARS: Final = 40  # that of a custom element may have a million
_NAMES: Final = re.compile(r' (?:class|id|role|itemprop)="([^"]*+)"')


def part_names(attribute_source: str) -> str:
    """Return the values of class, id, role and itemprop, with spaces between."""
    if attribute_source.startswith(_CLASS) and attribute_source.find('"', len(_CLASS)) == len(attribute_source) - 1:
        return attribute_source[len(_CLASS) : -1]
    return " ".join(_NAMES.findall(attribute_source))


def asks_for_consent(attribute_source: str) -> bool:
    """Tell whether an element's names are those of a banner or dialog that asks for consent to cookies."""
    names = part_names(attribute_source)[:_KEPT_CHARS].lower().split()
    return any(len(name) <= _MAX_NAME_CHARS and _CONSENT.match(name) for name in names)


def hint_bits(attribute_source: str) -> int:
    """Return a bit for each of HINTS that a name in an element's attributes matches, and REMARK."""
    bits = 0
    for name in part_names(attribute_source).lower()[:200].split():
        bits |= _name_bits(name)
    return bits


def part_of(tag: str, attribute_source: str) -> tuple[int, str, int]:
    """Return the number of an element's tag, its signature (the tag and its class), and its `hint_bits`."""
    return (_cached_part if len(attribute_source) <= _KEPT_CHARS else _part)(tag, attribute_source)


def _part(tag: str, source: str) -> tuple[int, str, int]:
    name = tag[:_MAX_TAG_CHARS]
    signature = name + source[:_SIGNATURE_CHARS] if source.startswith(_CLASS[:-1]) else name
    return TAG_IDS.get(tag, 0), signature, hint_bits(source)


_cached_part: Final = lru_cache(maxsize=16384)(_part)


@lru_cache(maxsize=16384)
def _name_bits(name: str) -> int:
    bits = REMARK if name in _REMARKS else 0
    for word in [name] if _ACROSS in name else _WORD.findall(name):
        bits |= _word_bits(word)
    return bits


@lru_cache(maxsize=16384)
def _word_bits(word: str) -> int:
    bits = 0
    for match in _HINT_RE.finditer(word):
        bits |= _HINT_BITS[match.lastindex or 0]
    return bits
