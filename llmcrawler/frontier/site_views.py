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

from llmcrawler.items import TextBlock
from llmcrawler.urls import family_of

# Priorities of groups. Of a family that is not known yet some pages go out as things do, and the others wait for them.
THINGS: Final = 0
_UNKNOWN: Final = 1
_VIEWS: Final = 2  # and up to two more where they bring few urls of things

_OWN: Final = 1 / 3  # a page with a smaller share of words of its own is a view
_MANY: Final = 4  # new things on each page of a good list
_JUDGED_BY: Final = 2  # so many pages decide on their family; later ones may change that
_WORDS_A_LINK: Final = 10  # a block with more links than one in so many words is a list of links
_SITE_WIDE: Final = 0.5  # of the pages of a host: what stands on as many of them is its frame
_MAX_FAMILIES: Final = 400
_MAX_BLOCKS: Final = 2000  # of one page
_REMEMBERED: Final = 100_000  # blocks of all pages
_TARGET: Final = re.compile(r"\]\(([^()\s]+)\)")


@dataclass(slots=True)
class _Family:
    """Counts of urls and of pages. `base` is what the pages are without their query: a search of a list is a list
    sooner than a thing, so that counts as one page.
    """

    base: _Family | None = None
    found: int = 0
    read: int = 0
    views: int = 0
    brought: int = 0  # urls of no view that were new

    @property
    def is_view(self) -> bool:
        return self.priority >= _VIEWS

    @property
    def priority(self) -> int:
        of_base = self.base is not None and 2 * self.base.views > self.base.read
        read, views = self.read + of_base, self.views + of_base
        if read < _JUDGED_BY:
            return _UNKNOWN
        if 2 * views <= read:
            return THINGS
        return _VIEWS + (self.brought < _MANY * self.read) + (self.brought < self.read)


class SiteViews:
    """Puts urls into groups by their families, and tells the groups' priorities after what was read.

    Past some hundred families all others are the group without a name, which comes with the things.
    """

    def __init__(self) -> None:
        self.ranks = False  # whether any group was told apart from the others
        self._families: dict[str, _Family] = {}
        self._changed: dict[str, int] = {}
        self._pages: dict[str, int] = {}  # that were read, by host
        self._blocks: dict[int, int] = {}  # on how many pages each block stood, by the hash of host and block

    def group_of(self, _link: str, url: str) -> str:
        """Return the frontier's group for a normalised url."""
        family = family_of(url)
        known = self._known(family, url)
        if known is None:
            return ""
        known.found += 1
        if known.found <= _JUDGED_BY:
            return ""
        if known.found == _JUDGED_BY + 1:
            self.ranks = True
            self._changed[family] = known.priority
        return family

    def note_page(self, url: str, blocks: Sequence[TextBlock]) -> None:
        """Learn from a page that was read what the pages of its family are."""
        blocks = blocks[:_MAX_BLOCKS]
        host, family = urlsplit(url).netloc, family_of(url)
        share = self._own_share(host, url, blocks)
        self._remember(host, blocks)
        known = self._known(family, url)
        if known is None or share is None:
            return
        before = known.priority
        known.read += 1
        known.views += share < _OWN
        self._note_change(family, known, before)

    def note_links(self, url: str, groups: Iterable[str]) -> None:
        """Note the groups of the urls that were new on a page: a list that brings things comes before one that repeats
        them.
        """
        family = family_of(url)
        known = self._families.get(family)
        if known is not None:
            before = known.priority
            known.brought += sum(group not in self._families or not self._families[group].is_view for group in groups)
            self._note_change(family, known, before)

    def changed_priorities(self) -> dict[str, int]:
        """Return the priorities of the groups that have others than at the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def _note_change(self, name: str, family: _Family, before: int) -> None:
        if family.priority != before:
            self._changed[name] = family.priority

    def _known(self, family: str, url: str) -> _Family | None:
        known = self._families.get(family)
        if known is None and len(self._families) < _MAX_FAMILIES:
            address, mark, _ = url.partition("?")
            base = self._families.get(family_of(address)) if mark else None
            known = self._families[family] = _Family(base)
        return known

    def _own_share(self, host: str, url: str, blocks: Iterable[TextBlock]) -> float | None:
        """Return the share of a page's words that are its own; None of a page without words but those of all pages."""
        pages, own, others = self._pages.get(host, 0), 0, 0
        is_teaser = False
        for block in blocks:
            targets = [target.partition("#")[0] for target in _TARGET.findall(block.markdown)]
            if block.markdown.startswith("#"):  # a heading that leads elsewhere is above a teaser
                is_teaser = bool(targets) and targets[0] != url
            seen = self._blocks.get(hash((host, block.key)), 0)
            if seen and seen >= _SITE_WIDE * pages:
                continue
            is_list = len(targets) * _WORDS_A_LINK > block.word_count
            if is_list and not self._leads_elsewhere(url, targets):
                continue
            if is_list or is_teaser or seen:
                others += block.word_count
            else:
                own += block.word_count
        return own / (own + others) if own + others else None

    def _leads_elsewhere(self, url: str, targets: Sequence[str]) -> bool:
        """Tell whether links lead to other kinds of pages: a product names products that are like it."""
        family = family_of(url)
        return 2 * sum(family_of(target) == family for target in targets) < len(targets)

    def _remember(self, host: str, blocks: Iterable[TextBlock]) -> None:
        counts = self._blocks
        for key in {hash((host, block.key)) for block in blocks}:
            counts[key] = counts.pop(key, 0) + 1  # at the end: the first key is the one not met for longest
        while len(counts) > _REMEMBERED:
            del counts[next(iter(counts))]
        self._pages[host] = self._pages.pop(host, 0) + 1
        if len(self._pages) > _MAX_FAMILIES:
            del self._pages[next(iter(self._pages))]
