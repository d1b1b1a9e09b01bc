"""Finds the blocks that repeat over the pages of one site."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from llmcrawler.items import TextBlock

_MIN_PAGES: Final = 3
_SHARE: Final = 0.3
_MAX_OBSERVED: Final = 1_000  # at each end of a page


class Boilerplate:
    """Counts, per block key, the pages of one site that show it.

    Memory is bounded: of more than `max_keys` keys the one not seen for longest goes first. A block is
    repeated when it stands on at least three pages and on 30% of the pages seen since it first came up:
    so a block that belongs to one section of a site counts within that section's run, too.
    """

    def __init__(self, max_keys: int = 20_000) -> None:
        self._max_keys = max_keys
        self._pages = 0
        # key -> pages that show it, number of pages seen before the first of them
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def observe(self, blocks: Sequence[TextBlock]) -> None:
        """Count the blocks of one page, each key once. Of a very long page those at its ends, where a site repeats
        itself: else a single page would make the others be forgotten.
        """
        if len(blocks) > 2 * _MAX_OBSERVED:
            blocks = [*blocks[:_MAX_OBSERVED], *blocks[-_MAX_OBSERVED:]]
        for key in {block.key for block in blocks}:
            count, first = self._seen.pop(key, (0, self._pages))
            self._seen[key] = (count + 1, first)
        self._pages += 1
        while len(self._seen) > self._max_keys:
            self._seen.popitem(last=False)

    def is_repeated(self, key: int) -> bool:
        """Tell whether the block of this key is on enough pages to be the site's and not the page's."""
        count, first = self._seen.get(key, (0, 0))
        return count >= _MIN_PAGES and count >= _SHARE * (self._pages - first)
