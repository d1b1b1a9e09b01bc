"""Counts what rules go by that tell a page's type.

link_count, word_count, link_density (share of words in links, 0..1), form_count, password_inputs, search_inputs,
article_tags, code_blocks (pre), price_count (amounts with a currency), heading_count, list_items, images, tables,
time_tags, add_to_cart (forms and buttons that name a cart or basket in action, name, class or id), comment_blocks
(blocks within an element that is named for comments). All floats; a cue that is 0 is given, too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from llmcrawler.core.content.folding import KEPT_CHARS
from llmcrawler.core.content.hints import HINTS
from llmcrawler.core.content.segments import Segments

# A number without a currency matches too, with empty groups: so it is not looked at again from each of its digits.
_PRICE: Final = re.compile(
    r"([$€£¥₹₽]|\b(?:USD|EUR|GBP|CHF)\b) ?\d[\d.,]*+|\d[\d.,]*+( ?(?:[€£₽]|(?:zł|kr|Kč|USD|EUR|GBP|CHF)\b))?+"
)
# Without one of these there is no price, and this is found faster.
_CURRENCY: Final = re.compile("[$€£¥₹₽]|USD|EUR|GBP|CHF|zł|kr|Kč")
_MAX_PRICE_CHARS: Final = 2000
_CART: Final = re.compile(r'(?:action|name|class|id|data-action)="[^"]*(?:cart|basket)')
_COMMENT_BIT: Final = 1 << next(index for index, hint in enumerate(HINTS) if hint.startswith("comment"))
_COUNTED: Final = (
    ("form_count", ("form",)), ("article_tags", ("article",)), ("code_blocks", ("pre",)),
    ("heading_count", ("h1", "h2", "h3", "h4", "h5", "h6")), ("list_items", ("li",)), ("images", ("img",)),
    ("tables", ("table",)), ("time_tags", ("time",)),
)  # fmt: skip


def price_counts(page: Segments) -> list[int]:
    """Return for each block how many prices stand near its beginning."""
    texts = [block.text for block in page.blocks]
    return [_cached_prices(text) if len(text) <= KEPT_CHARS else _prices(text) for text in texts]


def _prices(text: str) -> int:
    text = text[:_MAX_PRICE_CHARS]
    if _CURRENCY.search(text) is None:
        return 0
    return sum([bool(before or behind) for before, behind in _PRICE.findall(text)])


_cached_prices: Final = lru_cache(maxsize=8192)(_prices)


def _names_cart(source: str) -> bool:
    return ("cart" in source or "basket" in source) and _CART.search(source) is not None


def page_cues(page: Segments, link_count: int, price_count: int) -> dict[str, float]:
    """Return the numbers that the module's docstring lists, by name."""
    words = sum([block.words for block in page.blocks])
    linked = sum([block.link_words for block in page.blocks])
    hints = page.hints
    inputs = [source for tag, source in page.controls if tag == "input"]
    cues = {
        "link_count": float(link_count),
        "word_count": float(words),
        "link_density": linked / words if words else 0.0,
        "password_inputs": float(sum('type="password"' in source for source in inputs)),
        "search_inputs": float(sum('type="search"' in source or 'name="q"' in source for source in inputs)),
        "price_count": float(price_count),
        "add_to_cart": float(sum(map(_names_cart, [source.lower() for _, source in page.controls]))),
        "comment_blocks": float(sum([hints[block.container] & _COMMENT_BIT != 0 for block in page.blocks])),
    }
    for name, tags in _COUNTED:
        cues[name] = float(sum(page.counts.get(tag, 0) for tag in tags))
    return cues
