"""Decides which templates of a crawl are learned and when, holds pages that wait for it, and gives records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from llmcrawler.core.understanding.extraction.annotators import Annotator
from llmcrawler.core.understanding.extraction.extraction_runs import Extraction, ExtractionRunner
from llmcrawler.core.understanding.extraction.learner import (
    SAYING_CORE,
    HeldPage,
    Learner,
    LearnerKey,
    Trainer,
    heir_of,
)
from llmcrawler.core.understanding.extraction.learning_outcome import LearningOutcome, outcome_of
from llmcrawler.core.understanding.extraction.record_question import (
    BY_TEMPLATE,
    RecordAnswer,
    RecordQuestion,
    RecordRules,
)
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.extraction.unlearned_records import RecordChecks, UnlearnedRecords
from llmcrawler.core.understanding.extraction.variants import Variant, VariantMatch, best_match
from llmcrawler.errors import STOPPED, TooCostly, WorkGivenBack
from llmcrawler.items import PageError

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05


class Records:
    """Makes the records of one crawl, and learns how from what `annotator` points at: without one no page waits, and
    each has what its template taught an earlier crawl, or what it says of itself. `pressure` gets the number of held
    pages and returns why they must not be held any longer ("idle", "backing_out", "closing", "stopped"), or None; after
    "stopped" nothing is learned. `record_types` are the page types that have a record at all. `on_learned` is called
    with each learner that has a new variant, `count` with the name and number of what is worth a stat; `single` asks
    the model about one page that is left over.
    """

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        annotator: Annotator | None,
        rules: RecordRules,
        *,
        record_types: Container[str],
        pressure: Callable[[int], str | None],
        requested: RequestedSchema | None = None,
        on_learned: Callable[[Learner], None] = lambda _learner: None,
        count: Callable[[str, int], None] = lambda _name, _value: None,
        single: Callable[[RecordQuestion], Awaitable[RecordAnswer]] | None = None,
        place: ExtractionRunner | None = None,
    ) -> None:
        self._rules = rules
        self._record_types = record_types
        self._pressure = pressure
        self._requested = requested
        self._count = count
        self._place = place or ExtractionRunner()
        self._valid = RecordChecks(requested, count)
        self._unlearned = UnlearnedRecords(self._valid, requested, self._place, count, single)
        self._learners: dict[LearnerKey, Learner] = {}
        # By id, the templates of the pages whose records are being made elsewhere.
        self._under_way: dict[str, LearnerKey] = {}
        self._trainer = None
        if annotator is not None:
            self._trainer = Trainer(
                annotator,
                rules.training,
                self.learners,
                requested=requested,
                on_learned=on_learned,
                count=count,
                place=self._place,
            )
        self._poll: asyncio.Task[None] | None = None

    async def record_of(self, question: RecordQuestion) -> RecordAnswer:
        """Return the page's record. It may wait until its template is learned; nothing of model or page raises."""
        if question.page_type not in self._record_types and not question.is_guess:
            return RecordAnswer()
        try:
            return await self._record_of(question)
        except TooCostly as error:
            self._count("too_costly", 1)
            return RecordAnswer(None, PageError("record", error.kind, str(error)))

    async def record_by(self, learner: Learner, html: str, url: str, lang: str) -> dict[str, Any] | None:
        """Return the record of a page as its template is known; None where that finds nothing. Raises TooCostly."""
        variants = list(learner.variants)
        found = await self._place.extractions(learner.extractors, html, url, lang, learner.key.site)
        match = best_match(variants, found)
        return match.extraction.record if match is not None and match.extraction.present else None

    async def _record_of(self, question: RecordQuestion) -> RecordAnswer:
        template = question.template
        while True:
            key = LearnerKey(question.site, template, question.page_type)
            learner = self._learners.setdefault(key, Learner(key))
            variants = list(learner.variants)
            match, now = await self._match(variants, question, template)
            if now != template or learner.variants != variants:
                template = now  # meanwhile its template was learned, or became part of another one
                continue
            may_learn = self._may_learn(learner)
            if match is not None and (match.fits or (match.extraction.present and not may_learn)):
                return await self._taken(learner, match, question)
            if may_learn:
                held = self._hold(learner, question)
                try:
                    look_again = await held.told
                except asyncio.CancelledError:
                    learner.held.pop(held.id, None)
                    raise
                if look_again:
                    template = held.template
                    continue
            return await self._at_home(question) or await self._left(learner, match, question)

    def regroup(self, site: str, aliases: Mapping[str, str], moved: Mapping[str, str]) -> None:
        """Let held pages follow their templates. What was learned of a template that is gone goes to its heir."""
        for url, key in self._under_way.items():
            if key.site == site:
                template = moved.get(url, heir_of(key.template, aliases))
                self._under_way[url] = LearnerKey(site, template, key.page_type)
        for learner in [one for one in self._learners.values() if one.key.site == site]:
            heir = heir_of(learner.key.template, aliases)
            for url, held in list(learner.held.items()):
                template = moved.get(url, heir)
                if template != learner.key.template and not learner.is_learning:
                    held.template = template
                    del learner.held[url]
                    held.told.set_result(True)
            if heir != learner.key.template:
                self._inherit(learner, LearnerKey(site, heir, learner.key.page_type))

    @property
    def held_count(self) -> int:
        """The number of pages that wait for their template."""
        return sum(len(learner.held) for learner in self._learners.values())

    @property
    def all_learners(self) -> Collection[Learner]:
        """The learners of all templates that pages with records were in."""
        return self._learners.values()

    def learner_of(self, site: str, template: str, page_type: str | None) -> Learner | None:
        """Return what is known of a template: its learner for this page type, else any that knows something."""
        known = [one for one in self.learners(site) if one.key.template == template]
        return max(known, key=lambda one: one.key.page_type == page_type, default=None)

    def learners(self, site: str | None = None) -> list[Learner]:
        """Return the learners that know something, of one site or of all."""
        return [one for one in self._learners.values() if one.variants and site in (None, one.key.site)]

    def to_keep(self, site: str) -> list[Learner]:
        """Return the learners for the next crawl: with something learned, or found not worth it."""
        known = [one for one in self._learners.values() if one.key.site == site]
        return [one for one in known if one.variants or (one.gave_up and one.error is None)]

    def outcomes(self) -> list[LearningOutcome]:
        """Return what came of each template that pages with records were in."""
        min_pages = None if self._trainer is None else self._rules.min_pages
        return [outcome_of(one, min_pages, self._requested) for one in self._learners.values()]

    def restore(self, learners: Iterable[Learner]) -> None:
        """Go on with what an earlier crawl has learned."""
        self._learners.update({learner.key: learner for learner in learners})

    def give_back(self, site: str) -> None:
        """Let the held pages of a site go back to the queue, for the worker that learns it from now on."""
        for learner in [one for one in self._learners.values() if one.key.site == site and not one.is_learning]:
            for held in learner.held.values():
                held.told.set_exception(WorkGivenBack())
            learner.held.clear()

    async def close(self) -> None:
        """Stop learning, and let all held pages go."""
        tasks = [task for task in (self._poll, *(one.task for one in self.all_learners)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for learner in self._learners.values():
            learner.tell_all(look_again=False)

    def _may_learn(self, learner: Learner) -> bool:
        if self._trainer is None or learner.gave_up:
            return False
        return learner.is_learning or learner.runs <= self._rules.max_relearned

    async def _taken(self, learner: Learner, match: VariantMatch, question: RecordQuestion) -> RecordAnswer:
        """Return the record by a variant of the page's own template. Fields that it lacks may start a training run."""
        variant, present = match.variant, match.extraction.present
        variant.note(match.extraction)
        self._count("fields", len(present))
        self._count("fields_missing", len(variant.coverage) - len(present))
        if variant.lacks(match.extraction) and self._may_learn(learner):
            learner.lacking.append((question.to_learn_from(), present))
            drifted = variant.drifted()
            pages = learner.pages_without(drifted)
            if len(pages) >= self._rules.min_pages and not learner.is_learning:
                what = f"Template {learner.key.template}: {', '.join(drifted)}"
                logger.info("%s is missing more and more; learning it again", what)
                self._start(learner, pages)
        record = await self._valid(match.extraction.record) if present else None
        return RecordAnswer(record, by=None if record is None else BY_TEMPLATE)

    async def _at_home(self, question: RecordQuestion) -> RecordAnswer | None:
        """Return the record of a page that no variant of its template fits, by another template of its site that fits.

        That one has all of its core on the page, and the core says something. It is of the same page type, unless the
        page has its type from its template only: then that was the wrong one.
        """
        known = [
            (learner.key, variant)
            for learner in self.learners(question.site)
            if learner.key.page_type == question.page_type or not question.is_sure
            for variant in learner.variants
            if len(variant.core) >= SAYING_CORE
        ]
        found = await self._extractions([variant for _, variant in known], question) if known else []
        matches = [
            (key, variant, extraction)
            for (key, variant), extraction in zip(known, found, strict=True)
            if variant.fit(extraction) == 1
        ]
        if not matches:
            return None
        home, _, extraction = max(matches, key=lambda match: (len(match[2].present), match[0].template))
        return RecordAnswer(await self._valid(extraction.record), None, home, BY_TEMPLATE)

    async def _left(self, learner: Learner, match: VariantMatch | None, question: RecordQuestion) -> RecordAnswer:
        """Return the answer for a page whose template could not be learned (or not for such pages)."""
        if match is not None and match.extraction.present:
            return await self._taken(learner, match, question)
        answer = await self._unlearned(question, learner.error)
        learner.unserved += answer.record is None
        return answer

    async def _match(
        self, variants: Sequence[Variant], question: RecordQuestion, template: str
    ) -> tuple[VariantMatch | None, str]:
        """Return the page's record, and its template after that. The page is parsed only here, as its tree is large."""
        if not variants:
            return None, template
        self._under_way[question.key] = LearnerKey(question.site, template, question.page_type)
        try:
            match = best_match(variants, await self._extractions(variants, question))
        finally:
            now = self._under_way.pop(question.key).template
        return match, now

    async def _extractions(self, variants: Sequence[Variant], question: RecordQuestion) -> list[Extraction]:
        extractors = [variant.extractor for variant in variants]
        return await self._place.extractions(extractors, question.html, question.url, question.lang, question.site)

    # -- holding pages --

    def _hold(self, learner: Learner, question: RecordQuestion) -> HeldPage:
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        held = HeldPage(question.to_learn_from(), learner.key.template, told, question.key)
        learner.held[held.id] = held
        enough = max(self._rules.learn_pages, self._rules.min_pages) * learner.patience
        if len(learner.held) >= enough and not learner.is_learning:
            self._start(learner)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.ensure_future(self._watch_pressure())
        return held

    async def _watch_pressure(self) -> None:
        while held := self.held_count:
            if (reason := self._pressure(held)) is not None:
                self._yield_to(is_stopped=reason == "stopped")
            await asyncio.sleep(_POLL_SECONDS)

    def _yield_to(self, *, is_stopped: bool) -> None:
        """Learn from the pages that are held, or let them go."""
        waiting = [one for one in self._learners.values() if one.held and not one.is_learning]
        for learner in waiting:
            if len(learner.held) >= self._rules.min_pages * learner.patience and not is_stopped:
                self._start(learner)
        if not is_stopped and any(one.is_learning for one in self.all_learners):
            return  # when these runs end, bodies are given back, and pages may fit what was learned
        for learner in (one for one in waiting if not one.is_learning):
            if is_stopped:
                learner.give_up(STOPPED, "the crawl was stopped before its template was learned")
            learner.tell_all(look_again=False)

    def _start(self, learner: Learner, pages: Sequence[TrainingPage] | None = None) -> None:
        assert self._trainer is not None
        chosen = list(pages) if pages is not None else [held.page for held in learner.held.values()]
        learner.task = asyncio.ensure_future(self._trainer.train(learner, chosen))

    def _inherit(self, learner: Learner, heir: LearnerKey) -> None:
        """Give what was learned to an heir that does not know it; one that does keeps its own."""
        if not learner.variants or learner.key == heir:
            return
        target = self._learners.setdefault(heir, Learner(heir))
        target.variants += [variant for variant in learner.variants if variant.extractor not in target.extractors]
        target.runs = max(target.runs, learner.runs)
        target.calls += learner.calls
        if not learner.held and not learner.is_learning:
            del self._learners[learner.key]
