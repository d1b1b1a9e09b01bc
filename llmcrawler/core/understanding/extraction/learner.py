"""Holds the state of one template's records, and trains on its pages."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

from llmcrawler.core.understanding.extraction.annotators import Annotator
from llmcrawler.core.understanding.extraction.blocks import TrainingPage
from llmcrawler.core.understanding.extraction.extractor import (
    Extraction,
    ExtractionRunner,
    TemplateExtractor,
    compile_extractor,
    extractions,
)
from llmcrawler.core.understanding.extraction.queries import PageSource
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema
from llmcrawler.core.understanding.extraction.training_run import TrainingRules, TrainingRun
from llmcrawler.core.understanding.extraction.tree import PAGE_STEPS
from llmcrawler.errors import LLMError, LLMUnavailable, StorageFailed, TooCostly
from llmcrawler.items import PageError

# A field on so many of the pages a variant was learned on is at its core: a page without most of them is another kind.
_CORE_COVERAGE = 0.8
_MIN_FIT = 0.5
# Drift: coverage down by 0.2, and less likely by chance than this.
_DROP = 0.2
_CHANCE = 0.001
_WINDOW_PAGES = 30
_MIN_WINDOW_PAGES = 10
_WATCHED_COVERAGE = 0.3
# No field is so sure that its first absence proves anything.
_SUREST = 0.98


@dataclass(slots=True)
class Variant:
    """Variant of a template: one of its extractors. `coverage` is the share of pages that have each field, when it was
    learned."""

    extractor: TemplateExtractor
    coverage: dict[str, float]
    _seen: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=_WINDOW_PAGES))

    @classmethod
    def measured(cls, extractor: TemplateExtractor, pages: Sequence[Extraction]) -> Variant:
        """Make a variant with the coverage that it has on the pages it was learned from, of plain fields and groups."""
        keys = [rule.field.key for rule in extractor.rules if not rule.field.group]
        keys += [name for name, _ in extractor.groups]
        share = {key: sum(key in one.present for one in pages) / max(1, len(pages)) for key in keys}
        return cls(extractor, share)

    @property
    def core(self) -> frozenset[str]:
        """The fields that nearly all of its pages have."""
        return frozenset(key for key, share in self.coverage.items() if share >= _CORE_COVERAGE)

    def fit(self, extraction: Extraction) -> float:
        """Return the share of the core fields that a page has, 0..1; without a core, whether it has any field."""
        core = self.core
        return len(core & extraction.present) / len(core) if core else float(bool(extraction.present))

    def note(self, extraction: Extraction) -> None:
        """Remember what a page had that got its record from this variant."""
        self._seen.append(extraction.present)

    def lacks(self, extraction: Extraction) -> bool:
        """Tell whether a page misses a field that pages like it mostly have."""
        return any(share >= 0.5 and key not in extraction.present for key, share in self.coverage.items())

    def drifted(self) -> tuple[str, ...]:
        """Return the fields whose coverage has fallen since the variant was learned."""
        count = len(self._seen)
        if count < _MIN_WINDOW_PAGES:
            return ()
        return tuple(
            key
            for key, share in self.coverage.items()
            if share >= _WATCHED_COVERAGE and _has_fallen(share, self._seen_with(key), count)
        )

    def watch_anew(self) -> None:
        """Count what pages have anew: from here on another variant may take some of them."""
        self._seen.clear()

    def accept(self) -> None:
        """Take the fields of the latest pages for the usual ones, as training found nothing better."""
        for key in self.drifted():
            self.coverage[key] = self._seen_with(key) / len(self._seen)
        self._seen.clear()

    def _seen_with(self, key: str) -> int:
        return sum(key in one for one in self._seen)


@dataclass(frozen=True, slots=True)
class VariantMatch:
    """A page's record by the variant that fits it best."""

    variant: Variant
    extraction: Extraction

    @property
    def fits(self) -> bool:
        """Tell whether the page is of the kind that the variant was learned on."""
        return self.variant.fit(self.extraction) >= _MIN_FIT


def best_match(variants: Iterable[Variant], found: Iterable[Extraction]) -> VariantMatch | None:
    """Return the match of the variant that finds most, of equals the one whose core the page has; None without any.

    `found` are what each of them gives on the page.
    """
    matches = [VariantMatch(variant, extraction) for variant, extraction in zip(variants, found, strict=True)]
    return max(matches, key=lambda one: (len(one.extraction.present), one.variant.fit(one.extraction)), default=None)


def extract_best(
    variants: Sequence[Variant], html: str, url: str, lang: str = "", limit: int = PAGE_STEPS
) -> dict[str, Any] | None:
    """Return a page's record by the variant that fits it best; None where none finds anything. Raises TooCostly where
    this takes more than `limit` steps.
    """
    match = best_match(variants, extractions([variant.extractor for variant in variants], html, url, lang, limit))
    return match.extraction.record if match is not None and match.extraction.present else None


def _has_fallen(share: float, present: int, count: int) -> bool:
    if share - present / count < _DROP:
        return False
    sure = min(share, _SUREST)
    chance = sum(comb(count, k) * sure**k * (1 - sure) ** (count - k) for k in range(present + 1))
    return chance < _CHANCE


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
MIN_CORE = 3  # fields: a smaller core fits pages by chance


@dataclass(frozen=True, slots=True)
class LearnerKey:
    site: str
    template: str
    page_type: str


@dataclass(slots=True)
class WaitingPage:
    """A page that waits for its template to be learned. `look_again` is True when it is to try again, False when
    nothing more will come."""

    page: TrainingPage
    template: str
    look_again: asyncio.Future[bool]
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
    waiting: dict[str, WaitingPage] = field(default_factory=dict)
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

    def wake_all(self, *, look_again: bool) -> None:
        """Wake the waiting pages: with `look_again` they try their template anew, else they go without."""
        waiting, self.waiting = self.waiting, {}
        for one in waiting.values():
            if not one.look_again.done():
                one.look_again.set_result(look_again)

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
        runner: ExtractionRunner,
    ) -> None:
        self._annotator = annotator
        self._rules = rules
        self._learners_of = learners_of
        self._requested = requested
        self._on_learned = on_learned
        self._count = count
        self._runner = runner

    async def train(self, learner: Learner, pages: Sequence[TrainingPage]) -> None:
        """Learn from pages of the template. Never raises: the waiting pages are woken, whatever comes of it."""
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
        learner.wake_all(look_again=True)

    def _siblings(self, learner: Learner) -> list[Learner]:
        """Return the learners of the site's templates of the same page type."""
        known = self._learners_of(learner.key.site)
        return [other for other in known if other.key.page_type == learner.key.page_type]

    async def _adopted(self, learner: Learner, pages: Sequence[TrainingPage]) -> Variant | None:
        """Return a variant of another template of the same page type that does as well here."""
        others = [variant for other in self._siblings(learner) if other is not learner for variant in other.variants]
        for variant in others:
            if len(variant.core) < MIN_CORE:
                continue
            found = await self._runner.train(extract_all, variant.extractor, pages, site=learner.key.site)
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
        run = TrainingRun(learner.key.page_type, self._annotator, self._rules, known, self._runner, site)
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
        found = await self._runner.train(extract_all, result.extractor, pages, site=site)
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


def waiting_by_type(learners: Iterable[Learner]) -> Counter[str]:
    """Count the pages that wait for their template, by page type."""
    counted: Counter[str] = Counter()
    for one in learners:
        counted[one.key.page_type] += len(one.waiting)
    return counted


def successor_of(template: str, aliases: Mapping[str, str]) -> str:
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


@dataclass(frozen=True, slots=True)
class LearningOutcome:
    """What is known of one template. `learned` are the names of the fields that have a selector, `missing` has the
    others that were asked for or named, and why. `unserved` pages got no record, for `reason`.
    """

    page_type: str
    learned: frozenset[str]
    missing: Mapping[str, str]
    unserved: int = 0
    reason: str = ""


def outcome_of(learner: Learner, min_pages: int | None, requested: RequestedSchema | None) -> LearningOutcome:
    """`min_pages`: a template with fewer is not learned; None where no model can learn any."""
    known = frozenset(one.key for one in learner.fields)
    reason = "" if known else _reason(learner, min_pages)
    wanted = () if requested is None else tuple(one.key for one in requested.fields)
    unexplained = "not among what was learned before" if learner.was_restored else "pointed at on none of the samples"
    missing = dict.fromkeys(wanted, reason or unexplained) | learner.missing
    missing = {name: why for name, why in missing.items() if name not in known}
    return LearningOutcome(learner.key.page_type, known, missing, learner.unserved, reason)


def _reason(learner: Learner, min_pages: int | None) -> str:
    if learner.error is not None:
        return f"{learner.error.kind}: {learner.error.message}"
    if learner.fruitless:
        return learner.fruitless
    if learner.was_restored:
        return "an earlier crawl found nothing to learn"
    if min_pages is None:
        return "no structured data, and no model to learn from their text"
    if learner.unserved < min_pages:
        return f"no structured data, fewer than RECORD_MIN_PAGES={min_pages} pages of its template"
    return "the crawl ended before its template was learned"
