"""A lesson: what makes the records of a template is taken over from another template, or learned from the model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from llmcrawler.errors import BudgetSpent, LLMError, LLMUnavailable, StorageFailed, TooCostly
from llmcrawler.extraction.compiled import Extraction, compile_extractor
from llmcrawler.extraction.induction import Induction, LessonPage, LessonRules, Teacher
from llmcrawler.extraction.learner import Learner
from llmcrawler.extraction.model import Extractor, Field
from llmcrawler.extraction.place import Place
from llmcrawler.extraction.schema import Wanted
from llmcrawler.extraction.variants import Variant
from llmcrawler.items import PageError

logger = logging.getLogger(__name__)

# Lessons in a row that the model failed, and the template is left alone.
_MAX_FAILURES = 2
# After a lesson that brought nothing, so many times as many pages are to fit no variant before the next one.
_FRUITLESS_PATIENCE = 4
# A sibling's extractor is taken over without a lesson where it finds so much of its core on the pages of another
# template of the same page type.
_ADOPTED_FIT = 0.9
SAYING_CORE = 3  # fields: a smaller core fits pages by chance


class Lessons:
    """`learners_of` gives the learners of a site that know something. `on_learned` hears of every new variant; `count`
    of what is worth a stat.
    """

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        teacher: Teacher,
        rules: LessonRules,
        learners_of: Callable[[str], Sequence[Learner]],
        *,
        wanted: Wanted | None,
        on_learned: Callable[[Learner], None],
        count: Callable[[str, int], None],
        place: Place,
    ) -> None:
        self._teacher = teacher
        self._rules = rules
        self._learners_of = learners_of
        self._wanted = wanted
        self._on_learned = on_learned
        self._count = count
        self._place = place

    async def teach(self, learner: Learner, pages: Sequence[LessonPage]) -> None:
        """The pages that it holds hear of it, whatever comes of it."""
        try:
            variant = await self._adopted(learner, pages) or await self._induced(learner, pages)
        except LLMError as error:
            self._note_failure(learner, error)
        except TooCostly as error:
            learner.gave_up, learner.error = True, PageError("record", error.kind, str(error))
            logger.warning("Template %s of %s is not learned: %s", learner.key.template, learner.key.site, error)
        except StorageFailed as error:  # the crawl is being closed, and says why
            learner.gave_up, learner.error = True, PageError("record", "storage_failed", str(error))
        except Exception as error:  # a bug of ours must not leave pages waiting for ever
            logger.exception("Learning template %s of %s failed", learner.key.template, learner.key.site)
            learner.gave_up = True
            learner.error = PageError("record", "internal", f"{type(error).__name__}: {error}")
        else:
            self._note_variant(learner, variant)
        learner.task = None
        learner.tell_all(look_again=True)

    async def _adopted(self, learner: Learner, pages: Sequence[LessonPage]) -> Variant | None:
        """A variant of another template of the same page type that does as well here."""
        siblings = [
            variant
            for other in self._learners_of(learner.key.site)
            if other is not learner and other.key.page_type == learner.key.page_type
            for variant in other.variants
            if len(variant.core) >= SAYING_CORE
        ]
        for variant in siblings:
            extractions = await self._place.lesson(extract_all, variant.extractor, pages, site=learner.key.site)
            if sum(map(variant.fit, extractions)) >= _ADOPTED_FIT * len(pages):
                logger.info("Template %s: its pages fit what was learned of another one", learner.key.template)
                adopted = Variant.measured(variant.extractor, extractions)
                adopted.shortcoming = variant.shortcoming
                return adopted
        return None

    async def _induced(self, learner: Learner, pages: Sequence[LessonPage]) -> Variant | None:
        learner.lessons += 1
        self._count("lessons", 1)
        known: Sequence[Field] = learner.fields or self._known_fields(learner)
        induction = Induction(learner.key.page_type, self._teacher, self._rules, known, self._place, learner.key.site)
        try:
            lesson = await induction.run(pages)
        finally:
            learner.calls += induction.calls
        learner.pages_shown += lesson.pages_shown
        self._count("pages_shown", lesson.pages_shown)
        self._count("fields_abstained", len(lesson.abstained))
        for reason, pointers in lesson.dropped.items():
            self._count(f"dropped/{reason}", pointers)
        if lesson.extractor is None or not self._is_wanted(lesson.extractor):
            return None
        extractions = await self._place.lesson(extract_all, lesson.extractor, pages, site=learner.key.site)
        variant = Variant.measured(lesson.extractor, extractions)
        if lesson.stands_in_for is not None:
            what = f"{lesson.stands_in_for}; the record is from the page's structured data"
            variant.shortcoming = PageError("record", BudgetSpent.kind, what)
        return variant

    def _known_fields(self, learner: Learner) -> tuple[Field, ...]:
        """The fields of the site's other templates of this page type: names stay the same over a site."""
        known = {
            one.key: one
            for other in self._learners_of(learner.key.site)
            if other.key.page_type == learner.key.page_type
            for one in other.fields
        }
        return tuple(known.values())

    def _is_wanted(self, extractor: Extractor) -> bool:
        """A user's schema fits a template that has at least half of its fields."""
        return self._wanted is None or 2 * len(extractor.rules) >= len(self._wanted.fields)

    def _note_variant(self, learner: Learner, variant: Variant | None) -> None:
        if variant is None:
            learner.gave_up = not learner.variants
            learner.patience *= _FRUITLESS_PATIENCE
            for known in learner.variants:
                known.accept()
            return
        for known in learner.variants:
            known.watch_anew()
        learner.variants.append(variant)
        learner.lacking.clear()
        self._on_learned(learner)

    def _note_failure(self, learner: Learner, error: LLMError) -> None:
        learner.error = PageError("record", error.kind, str(error))
        if isinstance(error, LLMUnavailable) or learner.lessons >= _MAX_FAILURES:
            learner.gave_up = True
        logger.warning("Template %s of %s could not be learned: %s", learner.key.template, learner.key.site, error)


def extract_all(extractor: Extractor, pages: Sequence[LessonPage]) -> list[Extraction]:
    """What an extractor gives on each of the pages."""
    compiled = compile_extractor(extractor)
    return [compiled.extract(page.html, page.url, page.lang) for page in pages]
