"""Text that repeats over the pages of a site."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from llmcrawler.items import TextBlock

_MAX_KEYS = 20_000
_MIN_PAGES = 3  # a text on two pages may be two copies of one page
_SHARE = 0.2  # of the pages seen since the text was first seen


class Boilerplate:
    """Counts on how many pages of one site each block of text stands. Bounded: texts not met for long are forgotten."""

    def __init__(self) -> None:
        self._pages = 0
        self._counts: OrderedDict[int, tuple[int, int]] = OrderedDict()  # key -> (pages with it, page of first sight)

    def observe(self, blocks: Iterable[TextBlock]) -> None:
        """Once for each page."""
        self._pages += 1
        for key in {block.key for block in blocks}:
            count, first = self._counts.pop(key, (0, self._pages))
            self._counts[key] = (count + 1, first)
        while len(self._counts) > _MAX_KEYS:
            self._counts.popitem(last=False)

    def is_repeated(self, key: int) -> bool:
        count, first = self._counts.get(key, (0, 0))
        return count >= _MIN_PAGES and count >= _SHARE * (self._pages - first + 1)
