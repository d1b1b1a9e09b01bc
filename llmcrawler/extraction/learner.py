"""One template's way to its records: its pages are held until there are enough, then learned from."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from llmcrawler.extraction.induction import LessonPage
from llmcrawler.extraction.model import Extractor, Field
from llmcrawler.extraction.variants import Variant
from llmcrawler.items import PageError

# Pages that lack a field, kept to learn from when that turns out to be drift.
_KEPT_PAGES = 24


@dataclass(frozen=True, slots=True)
class LearnerKey:
    site: str
    template: str
    page_type: str


@dataclass(slots=True)
class Held:
    """A page that waits for its template to be learned. The future tells it to look again (True), or that nothing more
    will come (False)."""

    page: LessonPage
    template: str
    told: asyncio.Future[bool]
    id: str


@dataclass(slots=True)
class Learner:
    """The pages of one template and page type. `lessons` counts inductions, `calls` what they asked the model.

    `patience`: so many times as many pages as usual must fit no variant before another lesson is tried.
    """

    key: LearnerKey
    variants: list[Variant] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    lacking: deque[tuple[LessonPage, frozenset[str]]] = field(default_factory=lambda: deque(maxlen=_KEPT_PAGES))
    lessons: int = 0
    calls: int = 0
    pages_shown: int = 0
    gave_up: bool = False
    patience: int = 1
    error: PageError | None = None
    task: asyncio.Task[None] | None = None

    def pages_without(self, keys: Iterable[str]) -> list[LessonPage]:
        """The last pages that lacked one of these fields."""
        wanted = frozenset(keys)
        return [page for page, present in self.lacking if not wanted <= present]

    @property
    def is_learning(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def extractors(self) -> list[Extractor]:
        """Of its variants, the oldest first."""
        return [variant.extractor for variant in self.variants]

    @property
    def proper_variants(self) -> list[Variant]:
        """Without those that stand in for what there was no budget for."""
        return [variant for variant in self.variants if variant.shortcoming is None]

    @property
    def fields(self) -> tuple[Field, ...]:
        known = {one.key: one for variant in self.variants for one in variant.extractor.fields}
        return tuple(known.values())

    def tell_all(self, *, look_again: bool) -> None:
        """Wake the held pages."""
        held, self.held = self.held, {}
        for one in held.values():
            if not one.told.done():
                one.told.set_result(look_again)
