"""One template's lesson: show a few pages to the model, learn selectors from its answer, show more where in doubt."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from llmcrawler.errors import BadAnswer, BudgetSpent
from llmcrawler.extraction.blocks import BlockList, PageBlocks, repeated_texts, shown_blocks
from llmcrawler.extraction.ground import Ground
from llmcrawler.extraction.learning import Learned, learn_field
from llmcrawler.extraction.model import Extractor, Field, FieldRule
from llmcrawler.extraction.place import Place
from llmcrawler.extraction.prompt import Induced, ShownPage
from llmcrawler.extraction.rows import LearnedGroup, learn_group
from llmcrawler.extraction.samples import Pointed, Sample
from llmcrawler.extraction.schema import reconcile
from llmcrawler.extraction.variety import spread, unseen

logger = logging.getLogger(__name__)

# More samples than the first ones are asked for so many at a time.
_MORE_SAMPLES = 2
# So many useless answers, and the lesson is given up.
_MAX_BAD_ANSWERS = 3
# Selectors are learned from the first so many characters of a page, and from so many of all pages.
_MAX_PAGE_CHARS = 1_000_000
_MAX_CHARS = 8_000_000


class LessonPage:
    """A page kept for learning; its HTML is packed, and cut where a page is longer than any that is learned from."""

    __slots__ = ("_packed", "chars", "features", "lang", "title", "url")

    def __init__(self, url: str, title: str, lang: str, html: str, features: frozenset[str]) -> None:
        self.url = url
        self.title = title
        self.lang = lang
        self.features = features
        html = html[:_MAX_PAGE_CHARS]
        self.chars = len(html)
        self._packed = zlib.compress(html.encode("utf-8", "replace"), 1)

    @property
    def html(self) -> str:
        return zlib.decompress(self._packed).decode("utf-8")


class Teacher(Protocol):
    """Points at the values of pages."""

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Raises LLMUnavailable, LLMFailed or BadAnswer."""
        ...


@dataclass(frozen=True, slots=True)
class LessonRules:
    """`samples` pages are shown first, never more than `max_samples`; `budget_tokens` is for the blocks of one page."""

    samples: int = 3
    max_samples: int = 7
    budget_tokens: int = 3_000


@dataclass(frozen=True, slots=True)
class Lesson:
    """`extractor` is None where there was nothing to learn. `dropped` counts the model's pointers that were refused, by
    reason; `abstained` are the fields that it named and no selector could be trusted for. `stands_in_for`: the budget
    did not reach for the model's first answer."""

    extractor: Extractor | None
    calls: int
    pages_shown: int
    dropped: Counter[str] = field(default_factory=Counter)
    abstained: tuple[str, ...] = ()
    stands_in_for: BudgetSpent | None = None


class Induction:
    """Learns the extractor of one template. One use."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a lesson needs
        self,
        page_type: str,
        teacher: Teacher,
        rules: LessonRules,
        known_fields: Sequence[Field],
        place: Place | None = None,
        site: str = "",
    ) -> None:
        self._page_type = page_type
        self._teacher = teacher
        self._rules = rules
        self._known = tuple(known_fields)
        self._place = place or Place()
        self._site = site
        self._fields: tuple[Field, ...] = ()
        self._pointed: dict[int, tuple[Pointed, ...]] = {}
        self._calls = 0
        self._dropped: Counter[str] = Counter()
        self._learned: tuple[list[Learned], list[LearnedGroup]] = ([], [])
        self._stands_in_for: BudgetSpent | None = None

    @property
    def calls(self) -> int:
        """So often the model was asked."""
        return self._calls

    async def run(self, pages: Sequence[LessonPage]) -> Lesson:
        """From the pages of one template. Raises LLMUnavailable or LLMFailed; a model that only talks nonsense
        raises BadAnswer, and pages that take too long TooCostly."""
        pages = _within(pages)
        listed = await self._place.lesson(blocks_of, pages, site=self._site)
        repeated = repeated_texts(listed)
        shown: set[int] = set()
        # Labels tell more than structure: a row that only some pages have looks like any other row.
        features = [page.features | blocks.texts for page, blocks in zip(pages, listed, strict=True)]
        # In a thread, here and below: they compare all texts of all pages.
        wanted = await asyncio.to_thread(spread, features, self._rules.samples)
        named = [blocks.paths | blocks.labels for blocks in listed]
        room = min(_MORE_SAMPLES, self._rules.max_samples - len(wanted))
        wanted += await asyncio.to_thread(unseen, named, wanted, max(0, room))
        bad_answers = 0
        while wanted:
            try:
                shown.update(await self._ask(pages, listed, repeated, wanted))
            except BudgetSpent:
                if self._learned[0]:
                    break  # the first answer has taught something, more would have made it surer
                raise
            except BadAnswer:
                bad_answers += 1
                if bad_answers >= _MAX_BAD_ANSWERS:
                    if self._learned[0]:
                        break  # what is known by now is kept
                    raise
                # Perhaps it was these very pages.
                wanted = await asyncio.to_thread(spread, features, len(wanted), {*shown, *wanted}) or wanted
                continue
            if not self._fields:
                break
            self._learned = await self._place.lesson(learn, pages, self._pointed, self._fields, site=self._site)
            wanted = await asyncio.to_thread(self._wanted_next, features, shown)
        return self._lesson(len(shown))

    async def _ask(
        self, pages: Sequence[LessonPage], listed: Sequence[BlockList], repeated: frozenset[str], places: Sequence[int]
    ) -> list[int]:
        """Asks for some pages; returns those that were answered."""
        asked = [
            ShownPage(
                str(place),
                pages[place].url,
                pages[place].title,
                shown_blocks(listed[place], repeated, self._rules.budget_tokens),
            )
            for place in places
        ]
        self._calls += 1
        answer = await self._teacher.point(self._page_type, asked, self._fields or self._known)
        if answer.stands_in_for is not None and self._pointed and self._stands_in_for is None:
            raise answer.stands_in_for  # what the model has named is not to be mixed with what others call it
        self._stands_in_for = answer.stands_in_for
        self._dropped += answer.dropped
        answered = [place for place in places if str(place) not in answer.missing]
        if not answered:
            raise BadAnswer("the answer leaves out every page")
        refused = answer.dropped.total() - answer.dropped["unknown_field"]  # more than was asked for does no harm
        given = sum(map(len, answer.values.values()))
        if refused > given:
            raise BadAnswer(f"{refused} of {refused + given} pointers of the answer lead nowhere")
        self._fields = reconcile(self._fields, answer.fields)
        for place in answered:
            self._pointed[place] = tuple(answer.values.get(str(place), ()))
        return answered

    def _wanted_next(self, features: Sequence[frozenset[str]], shown: set[int]) -> list[int]:
        """The pages to show next: those on which doubtful selectors differ, else those that vary most."""
        plain, groups = self._learned
        doubtful = [one for one in plain if one.doubt]
        room = min(_MORE_SAMPLES, self._rules.max_samples - len(shown), len(features) - len(shown))
        if room <= 0 or not (doubtful or any(group.doubt for group in groups)):
            return []
        for one in doubtful:
            logger.debug("%s pages, %s: %s", self._page_type, one.field.key, one.doubt)
        others = [place for place in range(len(features)) if place not in self._pointed]
        votes: Counter[int] = Counter()
        for one in doubtful:
            # What has no rule yet needs pages most.
            votes.update({others[index]: 1 if one.rule else 3 for index in one.disputed[:5]})
        chosen = [place for place, _ in votes.most_common(room) if place not in shown]
        return chosen + spread(features, room - len(chosen), {*shown, *chosen})

    def _lesson(self, pages_shown: int) -> Lesson:
        plain, groups = self._learned
        rules: list[FieldRule] = [one.rule for one in plain if one.rule is not None]
        rows = []
        for group in groups:
            if group.rows and group.rules:
                rules += group.rules
                rows.append((group.name, group.rows))
        kept = {rule.field.key for rule in rules}
        abstained = tuple(one.key for one in self._fields if one.key not in kept)
        if abstained:
            logger.info("No selector can be trusted for %s of %s pages", ", ".join(abstained), self._page_type)
        extractor = Extractor(self._page_type, tuple(rules), tuple(rows)) if rules else None
        return Lesson(extractor, self._calls, pages_shown, self._dropped, abstained, self._stands_in_for)


def blocks_of(pages: Sequence[LessonPage]) -> list[BlockList]:
    """What stands on the pages."""
    return [PageBlocks(page.html, page.url).listed() for page in pages]


def learn(
    pages: Sequence[LessonPage], pointed: Mapping[int, Sequence[Pointed]], fields: Sequence[Field]
) -> tuple[list[Learned], list[LearnedGroup]]:
    """The rules of the fields and groups. `pointed` is what the model said of those pages that it was shown."""
    parsed = [PageBlocks(page.html, page.url) for page in pages]
    samples = [Sample.of(parsed[place], given) for place, given in sorted(pointed.items())]
    others = [page for place, page in enumerate(parsed) if place not in pointed]
    ground = Ground(samples, others)
    plain = [learn_field(one, ground) for one in fields if not one.group]
    groups: dict[str, list[Field]] = {}
    for one in fields:
        if one.group:
            groups.setdefault(one.group, []).append(one)
    return plain, [learn_group(name, given, ground) for name, given in groups.items()]


def _within(pages: Sequence[LessonPage]) -> list[LessonPage]:
    """The first pages, which together are no longer than a lesson may be, but two at least."""
    chars, kept = 0, list[LessonPage]()
    for page in pages:
        chars += page.chars
        if chars > _MAX_CHARS and len(kept) > 1:
            break
        kept.append(page)
    return kept
