"""The records of a crawl: which template has to be learned, when, and which pages wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.errors import TooCostly
from llmcrawler.extraction.compiled import Extraction
from llmcrawler.extraction.induction import LessonPage, LessonRules, Teacher
from llmcrawler.extraction.learner import Held, Learner, LearnerKey
from llmcrawler.extraction.lessons import SAYING_CORE, Lessons
from llmcrawler.extraction.place import Place
from llmcrawler.extraction.schema import Wanted, completed
from llmcrawler.extraction.validation import Validator
from llmcrawler.extraction.variants import Match, Variant, best_match
from llmcrawler.items import PageError

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_LONG_LIST = 500  # of rows; more take long to validate


@dataclass(frozen=True, slots=True)
class RecordRules:
    """When a template is learned: from `learn_pages` pages on, or from `min_pages` when no more are to come; and how
    often it is learned anew."""

    min_pages: int = 5
    learn_pages: int = 20
    max_relearned: int = 2
    lesson: LessonRules = field(default_factory=LessonRules)


@dataclass(frozen=True, slots=True)
class RecordQuestion:
    """A page that is to get its record. `site` and `template` are the grouper's; `is_sure` where the page type is the
    page's own verdict and not its template's. `id`: where several pages may have the url.
    """

    url: str
    title: str
    lang: str
    html: str
    features: frozenset[str]
    site: str
    template: str
    page_type: str
    is_sure: bool = True
    id: str | None = None


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """`home` is set where a page fits another template of its site than the one it was put into."""

    record: dict[str, Any] | None = None
    error: PageError | None = None
    home: LearnerKey | None = None


class Records:
    """One for a crawl. `pressure` is told how many pages are held and says why they must not be held any longer
    ("idle", "backing_out", "closing", "stopped"), or None; after "stopped" nothing is learned. `record_types` are the
    page types that have a record at all. `on_learned` hears of every new variant; `count` of what is worth a stat;
    `single` makes records of pages that are left over.
    """

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        teacher: Teacher,
        rules: RecordRules,
        *,
        record_types: Container[str],
        pressure: Callable[[int], str | None],
        wanted: Wanted | None = None,
        on_learned: Callable[[Learner], None] = lambda _learner: None,
        count: Callable[[str, int], None] = lambda _name, _value: None,
        single: Callable[[RecordQuestion], Awaitable[RecordAnswer]] | None = None,
        place: Place | None = None,
    ) -> None:
        self._rules = rules
        self._record_types = record_types
        self._pressure = pressure
        self._wanted = wanted
        self._validator = Validator(wanted.schema) if wanted is not None else None
        self._count = count
        self._single = single
        self._place = place or Place()
        self._learners: dict[LearnerKey, Learner] = {}
        # By id, the templates of the pages whose records are being made elsewhere.
        self._under_way: dict[str, LearnerKey] = {}
        self._lessons = Lessons(
            teacher,
            rules.lesson,
            self.learners,
            wanted=wanted,
            on_learned=on_learned,
            count=count,
            place=self._place,
        )
        self._poll: asyncio.Task[None] | None = None

    async def record_of(self, question: RecordQuestion) -> RecordAnswer:
        """The page's record. It may wait until its template is learned; no failure of the model raises, and no page
        that takes too long."""
        if question.page_type not in self._record_types:
            return RecordAnswer()
        try:
            return await self._record_of(question)
        except TooCostly as error:
            self._count("too_costly", 1)
            return RecordAnswer(None, PageError("record", error.kind, str(error)))

    async def record_by(self, learner: Learner, html: str, url: str, lang: str) -> dict[str, Any] | None:
        """What is known of a template makes this record of a page; None where it finds nothing. Raises TooCostly."""
        match = await self._place.match(list(learner.variants), html, url, lang, learner.key.site)
        return match.extraction.record if match is not None and match.extraction.present else None

    async def _record_of(self, question: RecordQuestion) -> RecordAnswer:
        template = question.template
        while True:
            learner = self._learner(LearnerKey(question.site, template, question.page_type))
            variants = list(learner.variants)
            match, now = await self._match(variants, question, template)
            if now != template or learner.variants != variants:
                template = now  # meanwhile its template was learned, or became part of another one
                continue
            if match is not None and (match.fits or not self._may_learn(learner)):
                return await self._taken(learner, match, question)
            if not self._may_learn(learner):
                return await self._at_home(question) or await self._left(learner, None, question)
            held = self._hold(learner, question)
            if not await self._told(learner, held):
                return await self._at_home(question) or await self._left(learner, match, question)
            template = held.template

    def regroup(self, site: str, aliases: Mapping[str, str], moved: Mapping[str, str]) -> None:
        """Held pages follow their templates. What was learned of a template that is gone goes to its heir."""
        for url, key in self._under_way.items():
            if key.site == site:
                template = moved.get(url, self._resolve(key.template, aliases))
                self._under_way[url] = LearnerKey(site, template, key.page_type)
        for learner in [one for one in self._learners.values() if one.key.site == site]:
            heir = self._resolve(learner.key.template, aliases)
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
        """Pages that wait for their template."""
        return sum(len(learner.held) for learner in self._learners.values())

    def learner_of(self, site: str, template: str, page_type: str | None) -> Learner | None:
        """What is known of a template: its learner for this page type, else any that knows something."""
        known = [one for one in self.learners(site) if one.key.template == template]
        fitting = [one for one in known if one.key.page_type == page_type]
        return next(iter([*fitting, *known]), None)

    def learners(self, site: str | None = None) -> list[Learner]:
        """Those that know something, of one site or of all."""
        return [one for one in self._learners.values() if one.variants and site in (None, one.key.site)]

    def to_keep(self, site: str) -> list[Learner]:
        """What the next crawl should know: what was learned (not what stands in for it), and what was not worth it."""
        known = [one for one in self._learners.values() if one.key.site == site]
        return [one for one in known if one.proper_variants or (one.gave_up and one.error is None)]

    def restore(self, learners: Iterable[Learner]) -> None:
        """What an earlier crawl has kept."""
        self._learners.update({learner.key: learner for learner in learners})

    async def close(self) -> None:
        tasks = [one.task for one in self._learners.values() if one.task is not None and not one.task.done()]
        for task in [*tasks, *([self._poll] if self._poll is not None else [])]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for learner in self._learners.values():
            learner.tell_all(look_again=False)

    def _learner(self, key: LearnerKey) -> Learner:
        if key not in self._learners:
            self._learners[key] = Learner(key)
        return self._learners[key]

    def _may_learn(self, learner: Learner) -> bool:
        return not learner.gave_up and (learner.is_learning or learner.lessons <= self._rules.max_relearned)

    async def _taken(self, learner: Learner, match: Match, question: RecordQuestion) -> RecordAnswer:
        match.variant.note(match.extraction)
        self._count("fields", len(match.extraction.present))
        self._count("fields_missing", len(match.variant.coverage) - len(match.extraction.present))
        if match.variant.lacks(match.extraction) and self._may_learn(learner):
            learner.lacking.append((_lesson_page(question), match.extraction.present))
            drifted = match.variant.drifted()
            pages = learner.pages_without(drifted)
            if len(pages) >= self._rules.min_pages and not learner.is_learning:
                logger.info("Template %s: %s is missing more and more; learning it again", *_named(learner, drifted))
                self._start(learner, pages)
        record = await self._valid(match.extraction.record) if match.extraction.present else None
        return RecordAnswer(record, match.variant.shortcoming)

    async def _valid(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """With all fields of the user's schema, and without the values that it does not allow."""
        if self._validator is None or self._wanted is None:
            return record
        whole = completed(self._wanted.fields, record)
        is_long = any(isinstance(one, list) and len(one) > _LONG_LIST for one in record.values())
        clean = self._validator.clean
        cleaned, problems = await asyncio.to_thread(clean, whole) if is_long else clean(whole)
        if problems:
            self._count("invalid_values", len(problems))
        return cleaned

    async def _at_home(self, question: RecordQuestion) -> RecordAnswer | None:
        """The record of a page that no variant of its template fits, by the template of its site that it does fit.

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
        extractions = await self._extractions([variant for _, variant in known], question) if known else []
        matches = [
            (key, Match(variant, extraction))
            for (key, variant), extraction in zip(known, extractions, strict=True)
            if variant.fit(extraction) == 1
        ]
        if not matches:
            return None
        home, match = max(matches, key=lambda pair: (len(pair[1].extraction.present), pair[0].template))
        return RecordAnswer(await self._valid(match.extraction.record), match.variant.shortcoming, home)

    async def _left(self, learner: Learner, match: Match | None, question: RecordQuestion) -> RecordAnswer:
        """What a page gets whose template could not be learned (or not for such pages)."""
        if match is not None and match.extraction.present:
            return await self._taken(learner, match, question)
        if learner.error is None and self._single is not None:
            self._count("singletons", 1)
            return await self._single(question)
        return RecordAnswer(None, learner.error)

    async def _match(
        self, variants: Sequence[Variant], question: RecordQuestion, template: str
    ) -> tuple[Match | None, str]:
        """The page's record, and its template after that. Parsed here, and not before: a page may wait long, and its
        tree is ten times its HTML."""
        if not variants:
            return None, template
        key = question.id or question.url
        self._under_way[key] = LearnerKey(question.site, template, question.page_type)
        try:
            match = best_match(variants, await self._extractions(variants, question))
        finally:
            now = self._under_way.pop(key).template
        return match, now

    async def _extractions(self, variants: Sequence[Variant], question: RecordQuestion) -> list[Extraction]:
        extractors = [variant.extractor for variant in variants]
        return await self._place.extractions(extractors, question.html, question.url, question.lang, question.site)

    # -- holding pages --

    def _hold(self, learner: Learner, question: RecordQuestion) -> Held:
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        held = Held(_lesson_page(question), learner.key.template, told, question.id or question.url)
        learner.held[question.id or question.url] = held
        enough = max(self._rules.learn_pages, self._rules.min_pages) * learner.patience
        if len(learner.held) >= enough and not learner.is_learning:
            self._start(learner)
        if self._poll is None or self._poll.done():
            self._poll = asyncio.ensure_future(self._watch_pressure())
        return held

    async def _told(self, learner: Learner, held: Held) -> bool:
        try:
            return await held.told
        except asyncio.CancelledError:
            learner.held.pop(held.id, None)
            raise

    async def _watch_pressure(self) -> None:
        while held := self.held_count:
            reason = self._pressure(held)
            if reason is not None:
                self._yield_to(reason)
            await asyncio.sleep(_POLL_SECONDS)

    def _yield_to(self, reason: str) -> None:
        waiting = [one for one in self._learners.values() if one.held and not one.is_learning]
        for learner in waiting:
            if len(learner.held) >= self._rules.min_pages * learner.patience and reason != "stopped":
                self._start(learner)
        if reason != "stopped" and any(one.is_learning for one in self._learners.values()):
            return  # when these lessons end, bodies are given back, and pages may fit what was learned
        for learner in waiting:
            if not learner.is_learning:
                learner.tell_all(look_again=False)

    def _start(self, learner: Learner, pages: Sequence[LessonPage] | None = None) -> None:
        chosen = list(pages) if pages is not None else [held.page for held in learner.held.values()]
        learner.task = asyncio.ensure_future(self._lessons.teach(learner, chosen))

    def _inherit(self, learner: Learner, heir: LearnerKey) -> None:
        """An heir that knows nothing yet gets what was learned; one that does keeps its own."""
        if not learner.variants or learner.key == heir:
            return
        target = self._learner(heir)
        known = [variant.extractor for variant in target.variants]
        target.variants += [variant for variant in learner.variants if variant.extractor not in known]
        target.lessons = max(target.lessons, learner.lessons)
        target.calls += learner.calls
        if not learner.held and not learner.is_learning:
            del self._learners[learner.key]

    @staticmethod
    def _resolve(template: str, aliases: Mapping[str, str]) -> str:
        while template in aliases:
            template = aliases[template]
        return template


def _lesson_page(question: RecordQuestion) -> LessonPage:
    return LessonPage(question.url, question.title, question.lang, question.html, question.features)


def _named(learner: Learner, fields: Sequence[str]) -> tuple[str, str]:
    return learner.key.template, ", ".join(fields)
