"""The pages that a lesson is learned on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmcrawler.extraction.blocks import PageBlocks
from llmcrawler.extraction.model import Selector
from llmcrawler.extraction.queries import texts_at
from llmcrawler.extraction.samples import Sample


class Ground:
    """The pages of one lesson: samples and unlabelled ones. Remembers what each selector gives on each of them."""

    def __init__(self, samples: Sequence[Sample], others: Sequence[PageBlocks]) -> None:
        self.samples = samples
        self.others = others
        self._texts: dict[tuple[int, str, str | None], list[str]] = {}

    def forget(self) -> None:
        """Give the texts back: those of one field are of little use for the next, and there are many."""
        self._texts.clear()

    def texts(self, page: PageBlocks, selector: Selector) -> list[str]:
        """All texts of a selector without its pattern."""
        key = (id(page), selector.query, selector.attribute)
        if key not in self._texts:
            self._texts[key] = texts_at(page.source, replace(selector, pattern=None))
        return self._texts[key]
