"""Which page types have a record: those that are about one thing."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
# A page type with one of these words in its name leads somewhere, asks for something or says how the site works.
_WITHOUT_RECORD: Final = frozenset(
    """
    home homepage index start landing listing list category categories archive search results sitemap navigation
    login logout signin signup register registration account settings password recovery reset form
    basket cart checkout wishlist compare error maintenance legal terms privacy imprint cookie cookies
    contact about help faq documentation docs reference pricing other unknown misc gallery
    """.split()
)


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """`auto`: all page types but those whose name says that they are about no single thing. Else exactly `names`."""

    auto: bool = True
    names: Collection[str] = ()

    @classmethod
    def of(cls, text: str) -> RecordTypes:
        """From the setting: "auto", "all", "none", or names with commas between."""
        names = frozenset(name.strip() for name in text.split(",") if name.strip())
        if names in (frozenset(), {"auto"}):
            return cls()
        return cls(False, frozenset() if names == {"none"} else names)

    def __contains__(self, page_type: object) -> bool:
        if not isinstance(page_type, str):
            return False
        if self.auto:
            words = {word.lower() for word in _WORDS.findall(page_type.replace("_", " "))}
            return not words & _WITHOUT_RECORD
        return page_type in self.names or "all" in self.names
