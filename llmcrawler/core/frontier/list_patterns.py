"""Ranks URL patterns: pages that list others (archives, facets, sort orders) come after the items that they list.

A URL pattern does not say which it is: /tag/winter may list posts or be one. The pages that were read tell. An item has
words of its own; a list has links to items, the beginnings of their texts, and what other pages say too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.urls import coarse_pattern
from llmcrawler.items import TextBlock

# Priorities of groups. Of a pattern that is not known yet one page goes out as items do, and the others wait for it.
ITEMS: Final = 0
_UNKNOWN: Final = 1
_LISTS: Final = 2  # and up to two more where they bring few urls of items

_OWN: Final = 1 / 3  # with a smaller share of words of their own, a pattern's pages are lists
_MANY: Final = 4  # new items on each page of a good list
_WORDS_A_LINK: Final = 10  # a block with more links than one in so many words is a list of links
_SITE_WIDE: Final = 0.5  # of the pages of a host: what stands on as many of them is its frame
_MAX_PATTERNS: Final = 400
_MAX_BLOCKS: Final = 2000  # of one page
_REMEMBERED: Final = 100_000  # blocks of all pages
_TARGET: Final = re.compile(r"\]\(([^()\s]+)\)")
_IMAGE: Final = re.compile(r"!\[[^\[\]]*+\]\([^()\s]*+\)")


@dataclass(slots=True)
class _Pattern:
    """State of a pattern. `base` is the pattern of its urls without their query, None if they have no query."""

    base: _Pattern | None
    first: str  # the address of its first url
    found: int = 0  # urls
    has_copies: bool = False  # its urls are those of several addresses, with a query added
    pages: int = 0  # that were read
    own: float = 0.0  # sum of the pages' shares of words of their own
    brought: float = 0.0  # items that were new on its pages, the later ones counting more
    known: int | None = None  # the priority that the frontier has of it, in this run

    def priority(self) -> int:
        # A search or an order is a list sooner than an item: as if one page of it had been read, and had been a list.
        pages = self.pages + (self.base is not None)
        if not pages:
            return _UNKNOWN
        if self.own >= _OWN * pages and not (self.has_copies and self._base_has_items()):
            return ITEMS
        return _LISTS + (self.brought < _MANY) + (self.brought < 1)

    def _base_has_items(self) -> bool:
        return self.base is not None and self.base.found > 0 and self.base.priority() < _LISTS


# What `block_facts` tells of a block.
BlockFacts = tuple[int, int, bool, bool]


class ListPatterns:
    """Groups urls by their patterns, some hundred at most, and ranks the groups after what was read."""

    def __init__(self) -> None:
        self.ranks = False  # whether any group was told apart from the others
        self._has_news = False
        self._patterns: dict[str, _Pattern] = {}
        self._groups: set[str] = set()  # the patterns that have urls in the frontier
        self._pages: dict[str, int] = {}  # that were read, by host
        self._blocks: dict[int, int] = {}  # on how many pages each block stood, by the hash of host and block

    def group_of(self, _link: str, url: str) -> str:
        """Return the frontier's group for a normalised url."""
        name = coarse_pattern(url)
        pattern = self._pattern(name, url)
        if pattern is None:
            return ""
        pattern.found += 1
        pattern.has_copies = pattern.has_copies or (pattern.base is not None and url.partition("?")[0] != pattern.first)
        if pattern.found == 1 and (pattern.base is None or pattern.base.found < 2):
            return ""
        if name not in self._groups:
            self._groups.add(name)
            self.ranks = self._has_news = True
        return name

    def note_page(self, url: str, blocks: Sequence[BlockFacts]) -> None:
        """Learn from a page that was read what the pages of its pattern are; `block_facts` gives its blocks."""
        host = urlsplit(url).netloc
        # Words of its own, words besides those of all pages, and the blocks that are not under a heading that leads
        # elsewhere: what is there belongs to that page.
        pages, own, words, keys = self._pages.get(host, 0), 0, 0, set()
        for block_key, word_count, is_list, is_teaser in blocks:
            key = hash((host, block_key))
            if not is_teaser:
                keys.add(key)
            seen = self._blocks.get(key, 0)
            if not seen or seen < _SITE_WIDE * pages:
                words += word_count
                own += word_count if not (is_list or is_teaser or seen) else 0
        for key in keys:
            self._blocks[key] = self._blocks.pop(key, 0) + 1  # at the end: the first key was not met for longest
        while len(self._blocks) > _REMEMBERED:
            del self._blocks[next(iter(self._blocks))]
        self._pages[host] = self._pages.pop(host, 0) + 1
        if len(self._pages) > _MAX_PATTERNS:
            del self._pages[next(iter(self._pages))]
        pattern = self._pattern(coarse_pattern(url), url)
        if pattern is not None and words:
            pattern.pages += 1
            pattern.own += own / words
            self._has_news = True

    def note_links(self, url: str, tasks: Iterable[UrlTask]) -> None:
        """Note the urls that were new on a page: a list that brings items comes before one that repeats them."""
        pattern = self._patterns.get(coarse_pattern(url))
        if pattern is not None:
            groups = [self._patterns[task.group] if task.group in self._groups else None for task in tasks]
            items = sum(one is None or one.priority() < _LISTS for one in groups)
            pattern.brought = (pattern.brought + items) / 2 if pattern.brought else items
            self._has_news = True

    def changed_priorities(self) -> dict[str, int]:
        """Return the priorities of the groups that have others than at the last call."""
        changed: dict[str, int] = {}
        if self._has_news:
            self._has_news = False
            for name in self._groups:
                pattern = self._patterns[name]
                if (priority := pattern.priority()) != pattern.known:
                    changed[name] = pattern.known = priority
        return changed

    def _pattern(self, name: str, url: str) -> _Pattern | None:
        known = self._patterns.get(name)
        if known is None and len(self._patterns) < _MAX_PATTERNS:
            bare, mark, _ = name.partition("?")
            address = url.partition("?")[0]
            base = self._pattern(bare, address) if mark else None
            known = self._patterns[name] = _Pattern(base, address)
        return known


def block_facts(url: str, blocks: Sequence[TextBlock]) -> list[BlockFacts]:
    """Return of each block key, words, whether it is a list of links, and whether a heading above leads elsewhere."""
    found: list[BlockFacts] = []
    teaser = 0  # the level of the heading that leads elsewhere
    for block in blocks[:_MAX_BLOCKS]:
        links = _TARGET.findall(_IMAGE.sub("", block.markdown)) if "](" in block.markdown else ()
        targets = [target.partition("#")[0] for target in links]
        if block.markdown.startswith("#"):
            level = len(block.markdown) - len(block.markdown.lstrip("#"))
            leads = bool(targets) and not _is_same(url, targets[0])
            teaser = level if leads else teaser if level > teaser else 0
        is_list = len(targets) * _WORDS_A_LINK > block.word_count
        found.append((block.key, block.word_count, is_list, teaser > 0))
    return found


def _is_same(url: str, target: str) -> bool:
    """Tell whether two urls show one item: the url of a topic, and that of a post within it."""
    (address, _, query), (other, _, other_query) = url.partition("?"), target.partition("?")
    return address == other and (not (query and other_query) or coarse_pattern(url) == coarse_pattern(target))
