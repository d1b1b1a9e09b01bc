"""Holds the state of one template's records, and trains on its pages."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llmcrawler.core.understanding.extraction.annotators import Annotator
from llmcrawler.core.understanding.extraction.extraction_runs import Extraction, ExtractionRunner, compile_extractor
from llmcrawler.core.understanding.extraction.extractor import Field, TemplateExtractor
from llmcrawler.core.understanding.extraction.queries import PageSource
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema
from llmcrawler.core.understanding.extraction.training_run import TrainingRules, TrainingRun
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.extraction.variants import Variant
from llmcrawler.errors import LLMError, LLMUnavailable, StorageFailed, TooCostly
from llmcrawler.items import PageError

logger = logging.getLogger(__name__)

# Pages that lack a field, kept to learn from when that turns out to be drift.
_KEPT_PAGES = 24
# Training runs in a row that the model failed, and the template is left alone.
_MAX_FAILURES = 2
# After a run that brought nothing, so many times as many pages are to fit no variant before the next one.
_FRUITLESS_PATIENCE = 4
# A sibling's extractor is taken over without a run where it finds so much of its core on the pages of another template
# of the same page type.
_ADOPTED_FIT = 0.9
SAYING_CORE = 3  # fields: a smaller core fits pages by chance


@dataclass(frozen=True, slots=True)
class LearnerKey:
    site: str
    template: str
    page_type: str


@dataclass(slots=True)
class HeldPage:
    """A page that waits for its template to be learned. The future tells it to look again (True), or that nothing more
    will come (False)."""

    page: TrainingPage
    template: str
    told: asyncio.Future[bool]
    id: str


@dataclass(slots=True)
class Learner:
    """The pages of one template and page type. `runs` counts training runs, `calls` what they asked the model.

    `patience`: so many times as many pages as usual must fit no variant before another run is tried. `missing` has the
    fields that the last run gave no selector for, and why; `fruitless` says why it brought nothing at all; `unserved`
    counts pages that were let go without a record. `was_restored`: an earlier crawl left it.
    """

    key: LearnerKey
    variants: list[Variant] = field(default_factory=list)
    held: dict[str, HeldPage] = field(default_factory=dict)
    lacking: deque[tuple[TrainingPage, frozenset[str]]] = field(default_factory=lambda: deque(maxlen=_KEPT_PAGES))
    runs: int = 0
    calls: int = 0
    pages_shown: int = 0
    gave_up: bool = False
    patience: int = 1
    error: PageError | None = None
    missing: dict[str, str] = field(default_factory=dict)
    fruitless: str = ""
    unserved: int = 0
    was_restored: bool = False
    task: asyncio.Task[None] | None = None

    def pages_without(self, keys: Collection[str]) -> list[TrainingPage]:
        """Return the last pages that lacked one of these fields."""
        return [page for page, present in self.lacking if not present.issuperset(keys)]

    @property
    def is_learning(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def extractors(self) -> list[TemplateExtractor]:
        """The extractors of its variants, the oldest first."""
        return [variant.extractor for variant in self.variants]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of all variants, each key once."""
        return tuple({one.key: one for variant in self.variants for one in variant.extractor.fields}.values())

    def tell_all(self, *, look_again: bool) -> None:
        """Wake the held pages."""
        held, self.held = self.held, {}
        for one in held.values():
            if not one.told.done():
                one.told.set_result(look_again)

    def give_up(self, kind: str, reason: str) -> None:
        """Leave the template alone from here on, with this error on its pages."""
        self.gave_up, self.error = True, PageError("record", kind, reason)


class Trainer:
    """Gives learners their variants. `learners_of` gives the learners of a site that know something; `on_learned` is
    called with each that has a new variant, `count` with the name and number of what is worth a stat.
    """

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        annotator: Annotator,
        rules: TrainingRules,
        learners_of: Callable[[str], Sequence[Learner]],
        *,
        requested: RequestedSchema | None,
        on_learned: Callable[[Learner], None],
        count: Callable[[str, int], None],
        place: ExtractionRunner,
    ) -> None:
        self._annotator = annotator
        self._rules = rules
        self._learners_of = learners_of
        self._requested = requested
        self._on_learned = on_learned
        self._count = count
        self._place = place

    async def train(self, learner: Learner, pages: Sequence[TrainingPage]) -> None:
        """Learn from pages of the template. Never raises: the pages that it holds are told, whatever comes of it."""
        name = f"{learner.key.template} of {learner.key.site}"
        try:
            variant = await self._adopted(learner, pages) or await self._trained(learner, pages)
        except LLMError as error:
            learner.error = PageError("record", error.kind, str(error))
            learner.gave_up |= isinstance(error, LLMUnavailable) or learner.runs >= _MAX_FAILURES
            # What stops a crawl, or keeps the model from all of it, was said once.
            level = logging.INFO if isinstance(error, LLMUnavailable) else logging.WARNING
            logger.log(level, "Template %s could not be learned: %s", name, error)
        except TooCostly as error:
            learner.give_up(error.kind, str(error))
            logger.warning("Template %s is not learned: %s", name, error)
        except StorageFailed as error:  # the crawl is being closed, and says why
            learner.give_up("storage_failed", str(error))
        except Exception as error:  # a bug of ours must not leave pages waiting for ever
            logger.exception("Learning template %s failed", name)
            learner.give_up("internal", f"{type(error).__name__}: {error}")
        else:
            self._note(learner, variant)
        learner.task = None
        learner.tell_all(look_again=True)

    def _siblings(self, learner: Learner) -> list[Learner]:
        """Return the learners of the site's templates of the same page type."""
        known = self._learners_of(learner.key.site)
        return [other for other in known if other.key.page_type == learner.key.page_type]

    async def _adopted(self, learner: Learner, pages: Sequence[TrainingPage]) -> Variant | None:
        """Return a variant of another template of the same page type that does as well here."""
        others = [variant for other in self._siblings(learner) if other is not learner for variant in other.variants]
        for variant in others:
            if len(variant.core) < SAYING_CORE:
                continue
            found = await self._place.train(extract_all, variant.extractor, pages, site=learner.key.site)
            if sum(map(variant.fit, found)) >= _ADOPTED_FIT * len(pages):
                logger.info("Template %s: its pages fit what was learned of another one", learner.key.template)
                return Variant.measured(variant.extractor, found)
        return None

    async def _trained(self, learner: Learner, pages: Sequence[TrainingPage]) -> Variant | None:
        site = learner.key.site
        learner.runs += 1
        self._count("lessons", 1)
        # Names stay the same over a site.
        known = learner.fields or tuple(
            {field.key: field for other in self._siblings(learner) for field in other.fields}.values()
        )
        run = TrainingRun(learner.key.page_type, self._annotator, self._rules, known, self._place, site)
        try:
            result = await run.run(pages)
        finally:
            learner.calls += run.calls
        learner.pages_shown += result.pages_shown
        self._count("pages_shown", result.pages_shown)
        self._count("fields_abstained", len(result.abstained))
        learner.missing = dict(result.abstained)
        for reason, pointers in result.dropped.items():
            self._count(f"dropped/{reason}", pointers)
        learner.fruitless = self._why_fruitless(result.extractor)
        if result.extractor is None or learner.fruitless:
            return None
        found = await self._place.train(extract_all, result.extractor, pages, site=site)
        return Variant.measured(result.extractor, found)

    def _why_fruitless(self, extractor: TemplateExtractor | None) -> str:
        """Say why an extractor is of no use: a template is to have half of the fields of the user's schema at least."""
        found = 0 if extractor is None else len(extractor.rules)
        if self._requested is None:
            return "" if found else "no field could be learned from the samples"
        asked = len(self._requested.fields)
        if found and 2 * found >= asked:
            return ""
        return f"{found} of the {asked} fields that were asked for could be learned; half of them are needed"

    def _note(self, learner: Learner, variant: Variant | None) -> None:
        """Add a new variant; without one, take things as they are and be more patient."""
        for known in learner.variants:
            if variant is None:
                known.accept()
            else:
                known.watch_anew()
        if variant is None:
            learner.gave_up = not learner.variants
            learner.patience *= _FRUITLESS_PATIENCE
            return
        learner.variants.append(variant)
        learner.lacking.clear()
        self._on_learned(learner)


def held_by_type(learners: Iterable[Learner]) -> Counter[str]:
    """Count the pages that wait for their template, by page type."""
    counted: Counter[str] = Counter()
    for one in learners:
        counted[one.key.page_type] += len(one.held)
    return counted


def heir_of(template: str, aliases: Mapping[str, str]) -> str:
    """Return the template that this one has become."""
    while template in aliases:
        template = aliases[template]
    return template


def extract_all(extractor: TemplateExtractor, pages: Sequence[TrainingPage]) -> list[Extraction]:
    """Return what an extractor gives on each of the pages."""
    compiled = compile_extractor(extractor)
    taken_apart = ((page, page.blocks().source) for page in pages)
    return [
        compiled.extract_from(PageSource(source.root, memory=source.memory), page.url, page.lang)
        for page, source in taken_apart
    ]
