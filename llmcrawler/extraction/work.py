"""The work that one page may cost, counted in steps: an element that is visited, or a few characters that are read."""

from __future__ import annotations

from typing import Final

from llmcrawler.errors import TooCostly

# A step takes up to a microsecond. An ordinary page of 200 kB takes 5,000, and its record is made on the event loop.
INLINE_STEPS: Final = 12_000
# An honest table of 60,000 rows with six fields takes three million.
PAGE_STEPS: Final = 20_000_000
# What a lesson may take of each of its pages: it tries some thousand selectors.
LESSON_STEPS: Final = 100_000_000
# A page of 3,000 blocks takes a tenth of that to be taken apart.
BLOCK_STEPS: Final = 1_000_000
_CHARS_A_STEP: Final = 8


class Work:
    """Counts down from `limit` steps."""

    def __init__(self, limit: int = PAGE_STEPS) -> None:
        self.limit = limit
        self.done = 0

    def charge(self, steps: int) -> None:
        """Raises TooCostly where no so many steps are left."""
        self.done += steps
        if self.done > self.limit:
            raise TooCostly(f"the page's record takes more than {self.limit:,} steps")

    def charge_text(self, chars: int) -> None:
        """Raises TooCostly as `charge` does."""
        self.charge(1 + chars // _CHARS_A_STEP)
