"""Decides which templates of a crawl are learned and when, keeps pages that wait for it, and gives records."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from llmcrawler.core.understanding.extraction.blocks import (
    Pointed,
    TrainingPage,
    listed_to_show,
    shown_blocks,
)
from llmcrawler.core.understanding.extraction.corrections import Correction
from llmcrawler.core.understanding.extraction.extractor import Extraction, ExtractionRunner, TemplateExtractor
from llmcrawler.core.understanding.extraction.learner import (
    Learner,
    LearnerKey,
    LearningOutcome,
    Variant,
    VariantMatch,
    WaitingPage,
    best_match,
    best_record,
    described_schema,
    described_selectors,
    extract_all,
    outcome_of,
    read_learners,
    successor_of,
)
from llmcrawler.core.understanding.extraction.record_schema import (
    Field,
    RecordTypes,
    RecordValidator,
    RequestedSchema,
    assemble,
    completed,
    filled_up,
)
from llmcrawler.core.understanding.extraction.structured_record import PageToRead, not_stated_in
from llmcrawler.core.understanding.extraction.training_run import ColumnAnnotator, TrainingRules, TrainingRun
from llmcrawler.core.understanding.extraction.typed_values import Scalar, typed
from llmcrawler.errors import STOPPED, LLMError, LLMUnavailable, StorageFailed, TooCostly, WorkGivenBack
from llmcrawler.items import PageError

if TYPE_CHECKING:
    from llmcrawler.core.understanding.extraction.annotators import Annotator
    from llmcrawler.core.understanding.extraction.selector_induction import Value

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
# After so many training runs in a row that the model failed, the template is left alone.
_MAX_FAILURES = 2
# So many pages must have lost a field before it is learned again.
_RELEARN_PAGES = 5
# After so many pages, what the first of them taught without a model is learned once more.
_EARLY_PAGES = 24
# So many templates, the latest ones, keep pages that lack a field: of each up to 24, packed to some 6 KB.
_MOST_LACKING = 100
# Templates whose pages have so much of their features in common were parted by what is on some pages only.
_ALIKE = 0.6
_MIN_FIT = 0.5
# After a run that brought nothing, so many times as many pages are to fit no variant before the next one.
_FRUITLESS_PATIENCE = 4
# A sibling's extractor is taken over without a run where it finds so much of its core on the pages of another template
# of the same page type.
_ADOPTED_FIT = 0.9
_MIN_CORE = 3  # fields: a smaller core fits pages by chance
_LONG_LIST: Final = 500  # of rows; more take long to validate

# What made a record: selectors of a template, the page's structured data, a call of the model for that page, or what a
# ColumnAnnotator found on that page alone.
BY_TEMPLATE: Final = "template"
BY_STRUCTURED_DATA: Final = "structured-data"
BY_MODEL: Final = "llm"
BY_ANNOTATOR: Final = "annotator"


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The rules for records of a crawl. A template is learned from `learn_pages` pages on, or from `min_pages` when no
    more are to come, and at most `max_relearned` times again. `record_types` are the page types that have a record at
    all, and those in `goal` are learned first. `requested` are the user's fields. With `singletons` the model is asked
    about each page that is left over, with `tries_guesses` a record is also looked for on pages whose type is a guess.
    """

    min_pages: int = 2
    learn_pages: int = 20
    max_relearned: int = 2
    training: TrainingRules = field(default_factory=TrainingRules)
    record_types: Container[str] = field(default_factory=RecordTypes)
    requested: RequestedSchema | None = None
    goal: Collection[str] = ()
    singletons: bool = False
    tries_guesses: bool = False


@dataclass(frozen=True, slots=True)
class RecordQuestion:
    """A page that is to get its record. `site` and `template` are the grouper's; `is_sure` where the page type is the
    page's own verdict and not its template's, `is_guess` where it may be of a type with records all the same. `id`:
    where several pages may have the url."""

    url: str
    title: str
    lang: str
    html: str
    features: frozenset[str]
    site: str
    template: str
    page_type: str
    is_sure: bool = True
    is_guess: bool = False
    id: str | None = None

    @property
    def key(self) -> str:
        return self.id or self.url

    def to_learn_from(self) -> TrainingPage:
        return TrainingPage(self.url, self.title, self.lang, self.html, self.features)

    def to_read(self) -> PageToRead:
        return PageToRead(self.html, self.url, self.title, self.lang, self.page_type, not self.is_guess)


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """The record of a page, and what made it (`by`, one of those above), or why there is none. `home` is set where a
    page fits another template of its site than the one it was put into."""

    record: dict[str, Any] | None = None
    error: PageError | None = None
    home: LearnerKey | None = None
    by: str | None = None


class Records:
    """Makes the records of one crawl, and learns how from what `annotator` points at: without one no page waits, and
    each has what its template taught an earlier crawl, or its structured data. `pressure` gets the number of waiting
    pages and returns why they must not wait any longer ("idle", "backing_out", "closing", "leaving", "stopped"), or
    None; after "stopped" nothing is learned, and after "leaving" what too few pages teach is for these alone.
    `on_learned` is called with each learner that has a new variant, `count` with the name and number of what is worth a
    stat. `correction_of` a template of a site is what a person has corrected of its fields."""

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        annotator: Annotator | ColumnAnnotator | None,
        rules: RecordRules,
        runner: ExtractionRunner | None = None,
        *,
        pressure: Callable[[int], str | None] = lambda _waiting: None,
        on_learned: Callable[[Learner], None] = lambda _learner: None,
        count: Callable[[str, int], None] = lambda _name, _value: None,
        correction_of: Callable[[str, str], Correction | None] = lambda _site, _template: None,
    ) -> None:
        self.correction_of = correction_of
        self.rules = rules
        self._annotator = annotator
        self._runner = runner or ExtractionRunner()
        self._pressure = pressure
        self._on_learned = on_learned
        self._count = count
        self._validator = None if rules.requested is None else RecordValidator(rules.requested.schema)
        self._learners: dict[LearnerKey, Learner] = {}
        self._lacking: dict[LearnerKey, Learner] = {}
        # By id, the templates of the pages whose records are being made in another process.
        self._under_way: dict[str, LearnerKey] = {}
        self._poll: asyncio.Task[None] | None = None

    async def record_of(self, question: RecordQuestion) -> RecordAnswer:
        """Return the page's record. It may wait until its template is learned; nothing of model or page raises."""
        if question.page_type not in self.rules.record_types and not question.is_guess:
            return RecordAnswer()
        try:
            return await self._corrected(await self._record_of(question), question)
        except TooCostly as error:
            self._count("too_costly", 1)
            return RecordAnswer(None, PageError("record", error.kind, str(error)))

    async def _corrected(self, answer: RecordAnswer, question: RecordQuestion) -> RecordAnswer:
        """Return the answer with the fields that a person has corrected for its template. Raises TooCostly."""
        template = question.template if answer.home is None else answer.home.template
        correction = self.correction_of(question.site, template)
        if correction is None:
            return answer
        if self.rules.requested is not None:  # who asks for fields has named them
            correction = replace(correction, names={})
        found = Extraction({}, frozenset())
        if own := correction.extractors([]):
            (found,) = await self._runner.extractions(own, question.html, question.url, question.lang, question.site)
        record = correction.record(answer.record, found)
        valid = None if record is None else await self._valid_record(record)
        return replace(answer, record=valid, by=None if valid is None else answer.by or BY_TEMPLATE)

    async def record_by(self, learner: Learner, html: str, url: str, lang: str) -> dict[str, Any] | None:
        """Return the record of a page as its template is known; None where that finds nothing. Raises TooCostly."""
        variants = list(learner.variants)
        return best_record(
            variants, await self._runner.extractions(learner.extractors, html, url, lang, learner.key.site)
        )

    async def _record_of(self, question: RecordQuestion) -> RecordAnswer:
        template = question.template
        while True:
            key = LearnerKey(question.site, template, question.page_type)
            learner = self._learners.setdefault(key, Learner(key))
            variants = list(learner.variants)
            match, now = None, template
            if variants:
                self._under_way[question.key] = key
                try:
                    match = best_match(variants, await self._extractions(variants, question))
                finally:
                    now = self._under_way.pop(question.key).template
            if now != template or learner.variants != variants:
                template = now  # meanwhile its template was learned, or became part of another one
                continue
            may_learn = self._may_learn(learner) and (question.is_guess or self._is_turn_of(learner))
            if match is not None and (match.fits or (match.extraction.present and not may_learn)):
                return await self._taken(learner, match, question)
            if may_learn:
                page = self._wait_for_template(learner, question)
                try:
                    look_again = await page.look_again
                except asyncio.CancelledError:
                    learner.waiting.pop(page.id, None)
                    raise
                if look_again:
                    template = page.template
                    continue
            answer = await self._by_other_template(question)
            if answer is None and match is not None and match.extraction.present:
                answer = await self._taken(learner, match, question)
            if answer is None:
                answer = await self._without_selectors(question, learner.error)
                learner.unserved += answer.record is None
            return answer

    def regroup(self, site: str, aliases: Mapping[str, str], moved: Mapping[str, str]) -> None:
        """Let waiting pages follow their templates; what was learned of one that is gone goes to its successor."""
        for url, key in self._under_way.items():
            if key.site == site:
                template = moved.get(url, successor_of(key.template, aliases))
                self._under_way[url] = LearnerKey(site, template, key.page_type)
        for learner in [one for one in self._learners.values() if one.key.site == site]:
            successor = successor_of(learner.key.template, aliases)
            for url, page in list(learner.waiting.items()):
                template = moved.get(url, successor)
                if template != learner.key.template and not learner.is_learning:
                    page.template = template
                    del learner.waiting[url]
                    page.look_again.set_result(True)
            if successor != learner.key.template and learner.variants:
                # A successor that knows an extractor keeps its own.
                key = LearnerKey(site, successor, learner.key.page_type)
                target = self._learners.setdefault(key, Learner(key))
                target.variants += [one for one in learner.variants if one.extractor not in target.extractors]
                target.runs = max(target.runs, learner.runs)
                target.calls += learner.calls
                if not learner.waiting and not learner.is_learning:
                    del self._learners[learner.key]

    @property
    def waiting_count(self) -> int:
        return sum(len(learner.waiting) for learner in self._learners.values())

    @property
    def all_learners(self) -> Collection[Learner]:
        """The learners of all templates that pages with records were in."""
        return self._learners.values()

    def learner_of(self, site: str, template: str, page_type: str | None) -> Learner | None:
        """Return what is known of a template: its learner for this page type, else any that knows something."""
        known = [one for one in self.learners(site) if one.key.template == template]
        return max(known, key=lambda one: one.key.page_type == page_type, default=None)

    def learners(self, site: str | None = None) -> list[Learner]:
        return [one for one in self._learners.values() if one.variants and site in (None, one.key.site)]

    def to_keep(self, site: str) -> list[Learner]:
        """Return the learners for the next crawl: with something learned, or found not worth it."""
        known = [one for one in self._learners.values() if one.key.site == site]
        return [one for one in known if not one.is_hasty and (one.variants or (one.gave_up and one.error is None))]

    def outcomes(self) -> list[LearningOutcome]:
        """Return what came of each template that pages with records were in."""
        min_pages = None if self._annotator is None else self.rules.min_pages
        return [outcome_of(one, min_pages, self.rules.requested) for one in self._learners.values()]

    def restore(self, learners: Iterable[Learner]) -> None:
        """Go on with what an earlier crawl has learned."""
        self._learners.update({learner.key: learner for learner in learners})

    def hurry(self, site: str) -> None:
        """Let the pages of a site that is given up wait for no others."""
        self._let_go([one for one in self._learners.values() if one.key.site == site], "leaving")

    def forget(self, site: str) -> None:
        """Leave a site to another worker; pages that wait here go back to the queue."""
        for key, learner in [(key, one) for key, one in self._learners.items() if key.site == site]:
            if learner.is_learning:
                continue
            for page in learner.waiting.values():
                page.look_again.set_exception(WorkGivenBack())
            learner.waiting.clear()
            del self._learners[key]
            self._lacking.pop(key, None)

    async def close(self) -> None:
        tasks = [task for task in (self._poll, *(one.task for one in self.all_learners)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for learner in self._learners.values():
            learner.wake_all(look_again=False)

    def _may_learn(self, learner: Learner) -> bool:
        if self._annotator is None or learner.gave_up:
            return False
        return learner.is_learning or learner.runs <= self.rules.max_relearned

    def _is_turn_of(self, learner: Learner) -> bool:
        """Tell whether the templates that the goal is about leave the model to this one: a slow one may take minutes
        for each, and until then no page is to wait for what nobody has asked for.
        """
        if not self.rules.goal or learner.key.page_type in self.rules.goal:
            return True
        wanted = [one for one in self.all_learners if one.key.page_type in self.rules.goal]
        return any(one.variants or one.gave_up for one in wanted) and not any(one.is_learning for one in wanted)

    async def _taken(self, learner: Learner, match: VariantMatch, question: RecordQuestion) -> RecordAnswer:
        """Return the record by a variant of the page's own template. Fields that it lacks may start a training run."""
        variant, present = match.variant, match.extraction.present
        variant.seen.append(present)
        self._count("fields", len(present))
        self._count("fields_missing", len(variant.coverage) - len(present))
        is_early = self._is_early(learner)
        if (is_early or variant.lacks(match.extraction)) and self._may_learn(learner):
            learner.lacking.append((question.to_learn_from(), present))
            self._lacking.pop(learner.key, None)
            self._lacking[learner.key] = learner
            if len(self._lacking) > _MOST_LACKING:
                self._lacking.pop(next(iter(self._lacking))).lacking.clear()
            drifted = {} if is_early else variant.drifted()
            pages = [page for page, present in learner.lacking if is_early or not present.issuperset(drifted)]
            enough = _EARLY_PAGES if is_early else max(self.rules.min_pages, _RELEARN_PAGES)
            if len(pages) >= enough and not learner.is_learning:
                what = f"missing on more and more pages: {', '.join(drifted)}" if drifted else "more pages have come"
                logger.info("Template %s is learned again, %s", learner.key.template, what)
                learner.task = asyncio.ensure_future(self._train(learner, pages))
        found = match.extraction.record
        if present and isinstance(self._annotator, ColumnAnnotator):
            found = await self._with_structured_data(found, question)
        record = await self._valid_record(found) if present else None
        return RecordAnswer(record, by=None if record is None else BY_TEMPLATE)

    async def _with_structured_data(self, record: dict[str, Any], question: RecordQuestion) -> dict[str, Any]:
        """Return a record that no model has named the fields of with what the page's structured data says: of the
        fields that a user asks for what is missing, else all of it."""
        page, requested = question.to_read(), self.rules.requested
        if requested is not None:
            return filled_up(record, await self._runner.structured(page, requested.fields, question.site) or {})
        shown = [name for name, value in record.items() if value is not None]
        structured = await self._runner.structured(page, None, question.site, shown) or {}
        return filled_up(structured, not_stated_in(structured, record))

    def _is_early(self, learner: Learner) -> bool:
        """Tell whether a template was learned without a model, from its first pages: what more pages teach takes the
        place of that."""
        return isinstance(self._annotator, ColumnAnnotator) and learner.runs == 1 and not learner.was_restored

    async def _by_other_template(self, question: RecordQuestion) -> RecordAnswer | None:
        """Return the record by another template of the site, where the page has all of that one's core, and the core
        says something. It is of the same page type, unless the page has its type from its template only: then that was
        the wrong one."""
        known = [
            (learner.key, variant)
            for learner in self.learners(question.site)
            if learner.key.page_type == question.page_type or not question.is_sure
            for variant in learner.variants
            if len(variant.core) >= _MIN_CORE
        ]
        found = await self._extractions([variant for _, variant in known], question) if known else []
        matches = [
            (key, extraction)
            for (key, variant), extraction in zip(known, found, strict=True)
            if variant.fit(extraction) == 1
        ]
        if not matches:
            return None
        home, extraction = max(matches, key=lambda match: (len(match[1].present), match[0].template))
        return RecordAnswer(await self._valid_record(extraction.record), None, home, BY_TEMPLATE)

    async def _without_selectors(self, question: RecordQuestion, error: PageError | None) -> RecordAnswer:
        """Return what the model finds on the page, completed by its structured data, or that alone. `error` says why
        the template was not learned: then the model is not asked, and the page keeps it."""
        answer, requested = RecordAnswer(None, error), self.rules.requested
        annotator = self._annotator
        if isinstance(annotator, ColumnAnnotator) or annotator is None:
            pass
        elif error is None and self.rules.singletons:
            self._count("singletons", 1)
            answer = await self._by_model(annotator, question)
        found, fields = answer.record, None if requested is None else requested.fields
        if found is not None and fields is None:
            fields = tuple(Field(name) for name, value in found.items() if value is None)
        structured = await self._runner.structured(question.to_read(), fields, question.site)
        if found is not None:
            return replace(answer, record=await self._valid_record(filled_up(found, structured or {})))
        if isinstance(annotator, ColumnAnnotator):
            with suppress(TooCostly):  # its structured data is read all the same
                page, train = question.to_learn_from(), self._runner.train
                found = await train(record_by_columns, page, question.page_type, requested, site=question.site)
        if requested is None:
            found = not_stated_in(structured or {}, found or {})
        record = filled_up(structured or {}, found or {}) or None
        record = None if record is None else await self._valid_record(record)
        if record is None:
            return answer
        if structured is None:
            return replace(answer, record=record, by=BY_ANNOTATOR)
        self._count("from_structured_data", 1)
        return replace(answer, record=record, by=BY_STRUCTURED_DATA)

    async def _by_model(self, annotator: Annotator, question: RecordQuestion) -> RecordAnswer:
        from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage

        page, budget = question.to_learn_from(), self.rules.training.budget_tokens
        train = partial(self._runner.train, site=question.site)
        blocks = shown_blocks(await train(listed_to_show, page.html, page.url, budget), {}, budget)
        shown = ShownPage("1", question.url, question.title, blocks)
        try:
            answer = await annotator.point(question.page_type, [shown], ())
        except LLMError as error:
            return RecordAnswer(None, PageError("record", error.kind, str(error)))
        record = await train(record_of, page, answer.fields, answer.values.get("1", ()))
        return RecordAnswer(record, by=None if record is None else BY_MODEL)

    async def _valid_record(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record with all fields of the user's schema, and without the values that it does not allow."""
        if self._validator is None or self.rules.requested is None:
            return record
        whole, clean = completed(self.rules.requested.fields, record), self._validator.clean
        is_long = any(isinstance(one, list) and len(one) > _LONG_LIST for one in record.values())
        cleaned, problems = await asyncio.to_thread(clean, whole) if is_long else clean(whole)
        if problems:
            self._count("invalid_values", len(problems))
        return cleaned

    async def _extractions(self, variants: Sequence[Variant], question: RecordQuestion) -> list[Extraction]:
        extractors = [variant.extractor for variant in variants]
        return await self._runner.extractions(extractors, question.html, question.url, question.lang, question.site)

    # -- waiting pages --

    def _wait_for_template(self, learner: Learner, question: RecordQuestion) -> WaitingPage:
        look_again: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        page = WaitingPage(question.to_learn_from(), learner.key.template, look_again, question.key)
        learner.waiting[page.id] = page
        enough = max(self.rules.learn_pages, self.rules.min_pages) * learner.patience
        if len(learner.waiting) >= enough and not learner.is_learning:
            self._start(learner, self._mates(learner, self._learners.values()))
        if self._poll is None or self._poll.done():
            self._poll = asyncio.ensure_future(self._watch_pressure())
        return page

    async def _watch_pressure(self) -> None:
        while count := self.waiting_count:
            if (reason := self._pressure(count)) is not None:
                self._let_go(self.all_learners, reason)
            await asyncio.sleep(_POLL_SECONDS)

    def _let_go(self, learners: Collection[Learner], reason: str) -> None:
        """Learn from the waiting pages, or let them go."""
        waiting, is_stopped = [one for one in learners if one.waiting and not one.is_learning], reason == "stopped"
        for learner in waiting if reason == "leaving" else ():
            learner.is_hasty |= not learner.variants and len(learner.waiting) < self.rules.training.max_samples
        by_site = defaultdict[str, list[Learner]](list)
        for learner in waiting:
            by_site[learner.key.site].append(learner)
        for learner in sorted(waiting, key=lambda one: -len(one.waiting)) if not is_stopped else ():
            if learner.is_learning:  # as a mate of one before
                continue
            mates = self._mates(learner, by_site[learner.key.site])
            if sum(len(one.waiting) for one in (learner, *mates)) >= self.rules.min_pages * learner.patience:
                self._start(learner, mates)
        if not is_stopped and any(one.is_learning for one in learners):
            return  # when these runs end, bodies are given back, and pages may fit what was learned
        for learner in (one for one in waiting if not one.is_learning):
            if is_stopped:
                learner.give_up(STOPPED, "the crawl was stopped before its template was learned")
            learner.wake_all(look_again=False)

    # -- training --

    def _start(self, learner: Learner, mates: Sequence[Learner]) -> None:
        """Learn a template from the pages that wait for it and for its mates; these wait until it is learned."""
        rows = [[one.page for one in part.waiting.values()] for part in (learner, *mates)]
        mixed = [page for row in zip_longest(*rows) for page in row if page is not None]
        limit = self.rules.learn_pages * (2 if mates else 1)
        pages = mixed[: max(limit, len(rows[0]))]
        learner.task = asyncio.ensure_future(self._train(learner, pages, mates))
        for one in mates:
            one.task = learner.task

    def _mates(self, learner: Learner, among: Iterable[Learner]) -> list[Learner]:
        """Return those of the same site and page type that wait to be learned and have pages as this template has: a
        price that is on some pages only, or a list of another length, may part what one selector fits."""
        others = [
            one
            for one in among
            if one is not learner
            and one.waiting
            and not one.is_learning
            and not one.variants
            and (one.key.site, one.key.page_type) == (learner.key.site, learner.key.page_type)
        ]
        own = _common_features(learner) if others else frozenset()
        features = {one.key: _common_features(one) for one in others}
        return [one for one in others if len(own & features[one.key]) >= _ALIKE * max(1, len(own | features[one.key]))]

    async def _train(self, learner: Learner, pages: Sequence[TrainingPage], mates: Sequence[Learner] = ()) -> None:
        """Learn from pages of the template. Never raises: the waiting pages are woken, whatever comes of it."""
        is_early = self._is_early(learner)
        name = f"{learner.key.template} of {learner.key.site}"
        try:
            of_site = [learner] if is_early else self.learners(learner.key.site)
            siblings = [one for one in of_site if one.key.page_type == learner.key.page_type]
            variant = await self._adopted(learner, siblings, pages) or await self._trained(
                learner, siblings, pages, mates
            )
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
            if is_early and variant is not None:
                learner.variants.clear()
            if learner.add_variant(variant):
                self._on_learned(learner)
            else:
                learner.patience *= _FRUITLESS_PATIENCE
            if variant is not None:
                await self._share(variant, mates)
        for one in (learner, *mates):
            one.task = None
            one.wake_all(look_again=True)

    async def _share(self, variant: Variant, mates: Sequence[Learner]) -> None:
        """Give templates what their mate has learned, where it fits their pages."""
        for mate in mates:
            own = [one.page for one in mate.waiting.values()]
            found = await self._runner.train(extract_all, variant.extractor, own, site=mate.key.site)
            if found and sum(map(variant.fit, found)) >= _MIN_FIT * len(found):
                mate.add_variant(Variant.measured(variant.extractor, found))
                self._on_learned(mate)

    async def _adopted(
        self, learner: Learner, siblings: Sequence[Learner], pages: Sequence[TrainingPage]
    ) -> Variant | None:
        """Return a variant of another template of the same page type that does as well here."""
        for variant in [one for other in siblings if other is not learner for one in other.variants]:
            if len(variant.core) < _MIN_CORE:
                continue
            found = await self._runner.train(extract_all, variant.extractor, pages, site=learner.key.site)
            if sum(map(variant.fit, found)) >= _ADOPTED_FIT * len(pages):
                logger.info("Template %s: its pages fit what was learned for another one", learner.key.template)
                return Variant.measured(variant.extractor, found)
        return None

    async def _trained(
        self, learner: Learner, siblings: Sequence[Learner], pages: Sequence[TrainingPage], mates: Sequence[Learner]
    ) -> Variant | None:
        learner.runs += 1
        self._count("lessons", 1)
        # Names stay the same over a site.
        known = learner.fields or tuple({one.key: one for other in siblings for one in other.fields}.values())
        assert self._annotator is not None
        train = partial(self._runner.train, site=learner.key.site)
        # A user may have asked for what is like a page.
        rules = replace(self.rules.training, shows_cards=self.rules.requested is not None)
        if mates:
            rules = replace(rules, max_samples=2 * rules.max_samples)
        run = TrainingRun(
            learner.key.page_type,
            self._annotator,
            rules,
            known,
            train=train,
            is_last=lambda: self._pressure(self.waiting_count) is not None,
        )
        try:
            result = await run.run(pages)
        finally:
            learner.calls += run.calls
        learner.pages_shown += result.pages_shown
        self._count("pages_shown", result.pages_shown)
        self._count("fields_abstained", len(result.abstained))
        learner.missing = dict(result.abstained)
        if learner.missing:
            missing = ", ".join(learner.missing)
            logger.info("No reliable selector was found for %s of %s pages", missing, learner.key.page_type)
        for reason, pointers in result.dropped.items():
            self._count(f"dropped/{reason}", pointers)
        by_model = not isinstance(self._annotator, ColumnAnnotator)
        learner.fruitless = _why_fruitless(result.extractor, self.rules.requested, by_model=by_model)
        if result.extractor is None or learner.fruitless:
            return None
        return Variant.measured(result.extractor, result.found)


def _common_features(learner: Learner) -> frozenset[str]:
    """Return the features that most of the waiting pages of a template have."""
    pages = [one.page.features for one in learner.waiting.values()]
    counts = Counter(name for features in pages for name in features)
    return frozenset(name for name, count in counts.items() if 2 * count >= len(pages))


def _why_fruitless(extractor: TemplateExtractor | None, requested: RequestedSchema | None, *, by_model: bool) -> str:
    """Say why an extractor is of no use. A template is to have half of the fields of the user's schema at least: a
    model finds what is there. Without one two are enough."""
    found = 0 if extractor is None else len(extractor.rules)
    if requested is None:
        return "" if found else "no field could be learned from the samples"
    asked = len(requested.fields)
    if found and (2 * found >= asked or (found > 1 and not by_model)):
        return ""
    return f"{found} of the {asked} requested fields could be learned; half of them are needed"


def record_by_columns(page: TrainingPage, page_type: str, requested: RequestedSchema | None) -> dict[str, Any] | None:
    """Return the record of what can be pointed at on a page that stands alone, without a model."""
    from llmcrawler.core.understanding.extraction.column_annotator import annotate

    answer = annotate([page], page_type, requested)
    return record_of(page, answer.fields, answer.values["0"])


def record_of(page: TrainingPage, fields: Sequence[Field], pointed: Sequence[Pointed]) -> dict[str, Any] | None:
    """Return the record of what was pointed at; None where nothing of it is a value."""
    from llmcrawler.core.understanding.extraction.selector_induction import AnnotatedPage, as_one

    given = AnnotatedPage.of(page.blocks(), pointed).values

    def typed_values(one: Field, values: Sequence[Value]) -> list[Scalar]:
        read = (typed(value.text, one.type, base_url=page.url, lang=page.lang) for value in values)
        return [value for value in read if value is not None]

    values: dict[str, Any] = {}
    for one in fields:
        if one.group:
            continue
        pointed_at = given.get(one.key, ())
        found = typed_values(one, pointed_at if one.many else as_one(pointed_at))
        if one.many and found:
            values[one.key] = found
        elif found:
            is_text = one.type in (None, "string") and len(found) > 1
            values[one.key] = "\n".join(map(str, found)) if is_text else found[0]
    for group in {one.group for one in fields if one.group}:
        columns = {one.name: typed_values(one, given.get(one.key, ())) for one in fields if one.group == group}
        filled = {name: column for name, column in columns.items() if column}
        # Values make objects only where each field has equally many.
        is_table = len({len(column) for column in filled.values()}) == 1
        rows = zip(*filled.values(), strict=True) if is_table else ()
        values[group] = [dict(zip(filled, row, strict=True)) for row in rows] or None
    return assemble(fields, values) if values else None


class RecordSerializer:
    """Turns the extractors of `records` into JSON and back. `page_type_of` a template says which of its records people
    are shown. What was learned for other fields than are requested now is learned anew."""

    def __init__(self, records: Records, page_type_of: Callable[[str, str], str | None]) -> None:
        self._records = records
        self._page_type_of = page_type_of
        requested = records.rules.requested
        self._requested = None if requested is None else [dict(requested.schema), list(requested.page_types)]

    def to_json(self, site: str) -> dict[str, Any]:
        learners = self._records.to_keep(site)
        learners.sort(key=lambda one: (len(one.key.template), one.key.template, one.key.page_type))
        return {"wanted": self._requested, "templates": [learner.to_json() for learner in learners]}

    def restore(self, site: str, value: Any, origin: str) -> None:
        learners = read_learners(site, value, origin)
        if value["wanted"] != self._requested:
            logger.warning("Other fields are requested of %s than were learned before: they are learned again", site)
        else:
            self._records.restore(learners)

    def describe(self, site: str, template: str) -> dict[str, Any]:
        """Return what people may want to know of a template's records."""
        learner = self._records.learner_of(site, template, self._page_type_of(site, template))
        return {
            "schema": described_schema(learner.extractors) if learner else None,
            "selectors": described_selectors(learner.extractors) if learner else [],
            "llm_calls": learner.calls if learner else 0,
        }
