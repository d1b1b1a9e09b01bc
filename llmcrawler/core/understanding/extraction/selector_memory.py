"""Remembers what selectors find on a page that thousands of them are tried on: most of them begin alike, or end in the
same elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lxml import etree

from llmcrawler.core.understanding.extraction.paths import PathStep
from llmcrawler.core.understanding.extraction.tree import Work, text_of

# Of one page, before all is forgotten: an ordinary one has two thousand elements.
_MAX_NODES: Final = 20_000
_MAX_TEXT_CHARS: Final = 300


@dataclass(slots=True)
class StepsTaken:
    """The nodes that the steps so far lead to, and what each further step leads to from there."""

    nodes: Sequence[Any]
    then: dict[PathStep, StepsTaken] = field(default_factory=dict)


class SelectorMemory:
    """The memory of one page. It only ever saves work: what it has forgotten is looked for anew."""

    def __init__(self) -> None:
        self._begun: dict[str, StepsTaken] = {}
        self._texts: dict[etree._Element, str] = {}
        self._held = 0  # nodes and texts

    def begun(self, start: str, top: etree._Element) -> StepsTaken:
        """Return what is known of selectors that start so ("document", "within") at the page's root."""
        if self._held > _MAX_NODES:
            self._begun.clear()
            self._texts.clear()
            self._held = 0
        return self._begun.setdefault(start, StepsTaken([top]))

    def note(self, taken: StepsTaken, step: PathStep, nodes: Sequence[Any]) -> StepsTaken:
        """Note the nodes that one more step leads to."""
        taken.then[step] = further = StepsTaken(nodes)
        self._held += 1 + len(nodes)
        return further

    def text_of(self, element: etree._Element, work: Work) -> str:
        """Return what `tree.text_of` returns."""
        text = self._texts.get(element)
        if text is None:
            text = text_of(element, work)
            if len(text) <= _MAX_TEXT_CHARS:
                self._texts[element] = text
                self._held += 1
        return text
