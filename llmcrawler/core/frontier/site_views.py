"""Tells views of a site's things (archives, facets, sort orders, pages of lists) from the things, which come first.

What a page is, its families' urls do not say: /tag/winter may list posts or be one. Pages that were read tell it. A
thing has words of its own. A view has links to things, the beginnings of their texts, and what other pages say too.
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

# Priorities of groups. Of a family that is not known yet one page goes out as things do, and the others wait for it.
THINGS: Final = 0
_UNKNOWN: Final = 1
_VIEWS: Final = 2  # and up to two more where they bring few urls of things

_OWN: Final = 1 / 3  # with a smaller share of words of their own, a family's pages are views
_MANY: Final = 4  # new things on each page of a good list
_WORDS_A_LINK: Final = 10  # a block with more links than one in so many words is a list of links
_SITE_WIDE: Final = 0.5  # of the pages of a host: what stands on as many of them is its frame
_MAX_FAMILIES: Final = 400
_MAX_BLOCKS: Final = 2000  # of one page
_REMEMBERED: Final = 100_000  # blocks of all pages
_TARGET: Final = re.compile(r"\]\(([^()\s]+)\)")
_IMAGE: Final = re.compile(r"!\[[^\[\]]*+\]\([^()\s]*+\)")


@dataclass(slots=True)
class _Family:
    """What is known of a family. `base` is that of its urls without their query, None where they have none."""

    base: _Family | None
    first: str  # the address of its first url
    found: int = 0  # urls
    has_copies: bool = False  # its urls are those of several addresses, with a query added
    pages: int = 0  # that were read
    own: float = 0.0  # sum of the pages' shares of words of their own
    brought: float = 0.0  # things that were new on its pages, the later ones counting more
    known: int | None = None  # the priority that the frontier has of it, in this run

    def priority(self) -> int:
        # A search or an order is a list sooner than a thing: as if one page of it had been read, and had been a list.
        pages = self.pages + (self.base is not None)
        if not pages:
            return _UNKNOWN
        if self.own >= _OWN * pages and not (self.has_copies and self._base_has_things()):
            return THINGS
        return _VIEWS + (self.brought < _MANY) + (self.brought < 1)

    def _base_has_things(self) -> bool:
        return self.base is not None and self.base.found > 0 and self.base.priority() < _VIEWS


# What `block_facts` tells of a block.
BlockFacts = tuple[int, int, bool, bool]


class SiteViews:
    """Groups urls by their families, some hundred at most, and ranks the groups after what was read."""

    def __init__(self) -> None:
        self.ranks = False  # whether any group was told apart from the others
        self._has_news = False
        self._families: dict[str, _Family] = {}
        self._groups: set[str] = set()  # the families that have urls in the frontier
        self._pages: dict[str, int] = {}  # that were read, by host
        self._blocks: dict[int, int] = {}  # on how many pages each block stood, by the hash of host and block

    def group_of(self, _link: str, url: str) -> str:
        """Return the frontier's group for a normalised url."""
        name = coarse_pattern(url)
        family = self._family(name, url)
        if family is None:
            return ""
        family.found += 1
        family.has_copies = family.has_copies or (family.base is not None and url.partition("?")[0] != family.first)
        if family.found == 1 and (family.base is None or family.base.found < 2):
            return ""
        if name not in self._groups:
            self._groups.add(name)
            self.ranks = self._has_news = True
        return name

    def note_page(self, url: str, blocks: Sequence[BlockFacts]) -> None:
        """Learn from a page that was read what the pages of its family are; `block_facts` gives its blocks."""
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
        if len(self._pages) > _MAX_FAMILIES:
            del self._pages[next(iter(self._pages))]
        family = self._family(coarse_pattern(url), url)
        if family is not None and words:
            family.pages += 1
            family.own += own / words
            self._has_news = True

    def note_links(self, url: str, tasks: Iterable[UrlTask]) -> None:
        """Note the urls that were new on a page: a list that brings things comes before one that repeats them."""
        family = self._families.get(coarse_pattern(url))
        if family is not None:
            groups = [self._families[task.group] if task.group in self._groups else None for task in tasks]
            things = sum(one is None or one.priority() < _VIEWS for one in groups)
            family.brought = (family.brought + things) / 2 if family.brought else things
            self._has_news = True

    def changed_priorities(self) -> dict[str, int]:
        """Return the priorities of the groups that have others than at the last call."""
        changed: dict[str, int] = {}
        if self._has_news:
            self._has_news = False
            for name in self._groups:
                family = self._families[name]
                if (priority := family.priority()) != family.known:
                    changed[name] = family.known = priority
        return changed

    def _family(self, name: str, url: str) -> _Family | None:
        known = self._families.get(name)
        if known is None and len(self._families) < _MAX_FAMILIES:
            bare, mark, _ = name.partition("?")
            address = url.partition("?")[0]
            base = self._family(bare, address) if mark else None
            known = self._families[name] = _Family(base, address)
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
    """Tell whether two urls show one thing: the url of a topic, and that of a post within it."""
    (address, _, query), (other, _, other_query) = url.partition("?"), target.partition("?")
    return address == other and (not (query and other_query) or coarse_pattern(url) == coarse_pattern(target))
