"""Runs a training: shows a few pages of a template to an annotator, learns selectors from what it points at, and shows
more where in doubt.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llmcrawler.core.understanding.extraction.blocks import (
    BlockList,
    Pointed,
    TrainingPage,
    is_crowded,
    labels_of,
    main_scores,
    repeated_texts,
    shown_blocks,
)
from llmcrawler.core.understanding.extraction.extractor import Extraction, FieldRule, TemplateExtractor
from llmcrawler.core.understanding.extraction.learner import extract_all
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, reconcile
from llmcrawler.errors import BadAnswer, BudgetSpent

if TYPE_CHECKING:
    from llmcrawler.core.understanding.extraction.annotators import Annotator
    from llmcrawler.core.understanding.extraction.selector_induction import LearnedField, LearnedGroup

logger = logging.getLogger(__name__)

# Selectors are learned from so many characters of all pages.
_MAX_CHARS = 8_000_000
# After the first pages, more are shown so many at a time; twice as many when nothing but the answers keeps the crawl.
_MORE_PAGES = 2
# Useless answers after which the run is given up.
_MAX_BAD_ANSWERS = 3
# A feature on fewer pages than this share is a page's own oddity, not a variant of the template.
_MIN_SHARE = 0.1
# Worth of a feature that was shown already, against the first time: a power of two, which rounds nothing.
_AGAIN = 0.25


@dataclass(frozen=True, slots=True)
class ColumnAnnotator:
    """Stands in for a model in a training run: `learn_by_columns`. `requested` are the fields of a user."""

    requested: RequestedSchema | None = None


@dataclass(frozen=True, slots=True)
class TrainingRules:
    """The limits of a run: `samples` pages are shown first, never more than `max_samples`; `budget_tokens` is for the
    blocks of one page. `shows_cards`: those of other pages of the template are shown too."""

    samples: int = 3
    max_samples: int = 7
    budget_tokens: int = 3_000
    shows_cards: bool = False


Learned = tuple[list["LearnedField"], list["LearnedGroup"]]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The outcome of a run. `extractor` is None where there was nothing to learn, `found` is what it gives on the pages
    of the run. `dropped` counts the model's pointers that were refused, by reason; `abstained` has the fields that no
    selector could be trusted for, and why."""

    extractor: TemplateExtractor | None
    found: Sequence[Extraction] = ()
    pages_shown: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    abstained: Mapping[str, str] = field(default_factory=dict)


class TrainingRun:
    """Learns the extractor of one template. For one use; `calls` counts how often the annotator was asked. `train` runs
    what may take long, `is_last` tells whether the crawl has nothing else left to do."""

    def __init__(  # noqa: PLR0913 - two by keyword
        self,
        page_type: str,
        annotator: Annotator | ColumnAnnotator,
        rules: TrainingRules,
        known_fields: Sequence[Field] = (),
        *,
        train: Callable[..., Awaitable[Any]] = asyncio.to_thread,
        is_last: Callable[[], bool] = lambda: False,
    ) -> None:
        self.calls = 0
        self._page_type = page_type
        self._annotator = annotator
        self._rules = rules
        self._known = tuple(known_fields)
        self._train = train
        self._is_last = is_last
        self._fields: tuple[Field, ...] = ()
        self._pointed: dict[int, tuple[Pointed, ...]] = {}
        self._dropped: Counter[str] = Counter()
        self._learned: Learned = ([], [])

    async def run(self, pages: Sequence[TrainingPage]) -> TrainingResult:
        """Learn from the pages of one template.

        Raises LLMUnavailable or LLMFailed; BadAnswer where the model only talks nonsense, and TooCostly for pages that
        take too long."""
        chars, first = 0, list[TrainingPage]()
        for page in pages:  # two at least
            chars += page.chars
            if chars > _MAX_CHARS and len(first) > 1:
                break
            first.append(page)
        # In whatever order they came: the same pages make the same question, which the cache may answer.
        pages = sorted(first, key=lambda page: page.url)
        if isinstance(self._annotator, ColumnAnnotator):
            taught: TrainingResult = await self._train(
                learn_by_columns, pages, self._page_type, self._annotator.requested
            )
            return taught
        listed = await self._train(blocks_of, pages, None if self._rules.shows_cards else self._page_type)
        repeated = repeated_texts(listed)
        shown: set[int] = set()
        # Labels tell more than structure: a row that only some pages have looks like any other row.
        features = [page.features | blocks.texts for page, blocks in zip(pages, listed, strict=True)]
        # In a thread, here and below: they compare all texts of all pages.
        chosen = await asyncio.to_thread(spread, features, self._rules.samples)
        labels = await asyncio.to_thread(labels_of, listed)
        # Of each page its structure and its labels.
        named = [page.paths | page.labels | more for page, more in zip(listed, labels, strict=True)]
        room = max(0, self._rules.max_samples - len(chosen))
        chosen += await asyncio.to_thread(unseen, named, chosen, room)
        bad_answers = 0
        while chosen:
            try:
                shown.update(await self._ask(self._annotator, pages, listed, repeated, chosen))
            except (BudgetSpent, BadAnswer) as error:
                bad_answers += 1
                if isinstance(error, BudgetSpent) or bad_answers >= _MAX_BAD_ANSWERS:
                    if self._learned[0]:
                        break  # what is known by now is kept; more would have made it surer
                    raise
                # Perhaps it was these very pages.
                chosen = await asyncio.to_thread(spread, features, len(chosen), {*shown, *chosen}) or chosen
                continue
            if not self._fields:
                break
            self._learned = await self._train(learn, pages, self._pointed, self._fields)
            chosen = await asyncio.to_thread(self._next_pages, features, shown)
        result = result_of(self._page_type, self._fields, self._pointed, self._learned)
        found = await self._train(extract_all, result.extractor, pages) if result.extractor else []
        return replace(result, found=found, pages_shown=len(shown), dropped=self._dropped)

    async def _ask(
        self,
        annotator: Annotator,
        pages: Sequence[TrainingPage],
        listed: Sequence[BlockList],
        repeated: Mapping[str, bool],
        places: Sequence[int],
    ) -> list[int]:
        from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage

        budget = self._rules.budget_tokens
        blocks = {at: listed[at] for at in places}
        crowded = [at for at in places if is_crowded(listed[at], repeated, budget)]
        if crowded:
            scored = await self._train(scores_of, [pages[at] for at in crowded])
            blocks |= {at: replace(listed[at], scores=scores) for at, scores in zip(crowded, scored, strict=True)}
        asked = [
            ShownPage(str(at), pages[at].url, pages[at].title, shown_blocks(blocks[at], repeated, budget))
            for at in places
        ]
        self.calls += 1
        answer = await annotator.point(self._page_type, asked, self._fields or self._known)
        self._dropped += answer.dropped
        answered = [place for place in places if str(place) not in answer.missing]
        if not answered:
            raise BadAnswer("the answer omits every page")
        refused = answer.dropped.total() - answer.dropped["unknown_field"]  # more than was asked for does no harm
        given = sum(bool(one.blocks) for values in answer.values.values() for one in values)
        if refused > given:
            raise BadAnswer(f"{refused} of {refused + given} pointers in the answer lead nowhere")
        self._fields = reconcile(self._fields, answer.fields)
        for place in answered:
            self._pointed[place] = tuple(answer.values.get(str(place), ()))
        return answered

    def _next_pages(self, features: Sequence[frozenset[str]], shown: set[int]) -> list[int]:
        """Return the pages to show next: those on which doubtful selectors differ, else those that vary most."""
        plain, groups = self._learned
        doubtful = [one for one in plain if one.doubt]
        more = 2 * _MORE_PAGES if self._is_last() else _MORE_PAGES
        room = min(more, self._rules.max_samples - len(shown), len(features) - len(shown))
        if room <= 0 or not (doubtful or any(group.doubt for group in groups)):
            return []
        for one in doubtful:
            logger.debug("%s pages, %s: %s", self._page_type, one.field.key, one.doubt)
        others = [place for place in range(len(features)) if place not in self._pointed]
        votes: Counter[int] = Counter()
        for one in doubtful:
            # Fields without a rule need pages most.
            votes.update({others[index]: 1 if one.rule else 3 for index in one.disputed[:5]})
        chosen = [place for place, _ in votes.most_common(room) if place not in shown]
        return chosen + spread(features, room - len(chosen), {*shown, *chosen})


def result_of(
    page_type: str, fields: Sequence[Field], pointed: Mapping[int, Sequence[Pointed]], learned: Learned
) -> TrainingResult:
    plain, groups = learned
    found = [group for group in groups if group.rows and group.rules]
    rules: list[FieldRule] = [one.rule for one in plain if one.rule is not None]
    rules += [rule for group in found for rule in group.rules]
    trusted = {rule.field.key for rule in rules}
    abstained = {one.key: _why_not(one, pointed, learned) for one in fields if one.key not in trusted}
    rows = tuple((group.name, group.rows) for group in found)
    return TrainingResult(TemplateExtractor(page_type, tuple(rules), rows) if rules else None, abstained=abstained)


def _why_not(one: Field, pointed: Mapping[int, Sequence[Pointed]], learned: Learned) -> str:
    plain, groups = learned
    shown = len(pointed)
    given = [[value for value in values if value.field == one.key] for values in pointed.values()]
    refused = sum(bool(values) and not any(value.blocks for value in values) for values in given)
    hits = sum(any(value.blocks for value in values) for values in given)
    if not hits and refused:
        return f"pointed at on {refused} of {shown} samples, but never at such a value"
    if not hits:
        return f"pointed at on none of {shown} samples"
    doubts = [other.doubt for other in plain if other.field.key == one.key]
    doubts += [group.doubt for group in groups if group.name == one.group]
    doubt = next(filter(None, doubts), "no selector agrees with that")
    return f"pointed at on {hits} of {shown} samples, but {doubt}"


def learn_by_columns(
    pages: Sequence[TrainingPage], page_type: str, requested: RequestedSchema | None
) -> TrainingResult:
    """Run the whole of a training without a model: in one piece, as pages are taken apart anew in each process."""
    from llmcrawler.core.understanding.extraction.column_annotator import annotate

    answer = annotate(pages, page_type, requested)
    pointed = {place: answer.values[str(place)] for place in range(len(pages))}
    result = result_of(page_type, answer.fields, pointed, learn(pages, pointed, answer.fields))
    return replace(result, found=extract_all(result.extractor, pages) if result.extractor else [])


def blocks_of(pages: Sequence[TrainingPage], page_type: str | None) -> list[BlockList]:
    """Take pages apart. With a page type, cards of other pages of the template are left out."""
    from llmcrawler.core.understanding.extraction.repeated_parts import cards_of_others

    parsed = [page.blocks() for page in pages]
    cards = [frozenset[int]()] * len(parsed) if page_type is None else cards_of_others(parsed, page_type)
    return [page.listed(cards=numbers) for page, numbers in zip(parsed, cards, strict=True)]


def scores_of(pages: Sequence[TrainingPage]) -> list[tuple[float, ...]]:
    return [page.blocks().listed(main_scores(page.html, page.url)).scores for page in pages]


def learn(pages: Sequence[TrainingPage], pointed: Mapping[int, Sequence[Pointed]], fields: Sequence[Field]) -> Learned:
    """Learn the rules of the fields and groups. `pointed` has what was pointed at, by the place of the page."""
    # Loaded in the processes that learn alone.
    from llmcrawler.core.understanding.extraction.selector_induction import (
        AnnotatedPage,
        TrainingSet,
        learn_field,
        learn_group,
    )

    parsed = [page.blocks() for page in pages]
    annotated = [AnnotatedPage.of(parsed[place], given) for place, given in sorted(pointed.items())]
    training_set = TrainingSet(annotated, [page for place, page in enumerate(parsed) if place not in pointed])
    plain = [learn_field(one, training_set) for one in fields if not one.group]
    names = dict.fromkeys(one.group for one in fields if one.group)
    return plain, [learn_group(name, [one for one in fields if one.group == name], training_set) for name in names]


def spread(features: Sequence[frozenset[str]], count: int, taken: Collection[int] = ()) -> list[int]:
    """Choose the places of `count` pages (fewer where there are no more), besides those `taken`.

    First a page as most are, then those that add most of what has not been seen, with and without each feature of their
    DOM. Greedy weighted coverage; the first of equals wins."""
    total = len(features)
    counts = Counter(name for page in features for name in page)
    least = max(2.0, _MIN_SHARE * total)
    varying = {name: number for name, number in counts.items() if least <= number <= total - least}
    # Whole numbers, and later quarters of them: such sums are exact, so the order of a set cannot decide between pages.
    left = {(name, True): float(number) for name, number in varying.items()}
    left |= {(name, False): float(total - number) for name, number in varying.items()}
    shows = [[(name, name in page) for name in varying] for page in features]
    chosen: list[int] = []
    free = [place for place in range(total) if place not in taken]
    waiting = list(taken)
    while waiting or (free and len(chosen) < count):
        if waiting:
            best = waiting.pop(0)
        else:
            best = max(free, key=lambda place: sum(left[one] for one in shows[place]))
            chosen.append(best)
            free.remove(best)
        for one in shows[best]:
            left[one] *= _AGAIN
    return chosen


def unseen(features: Sequence[frozenset[str]], shown: Collection[int], count: int) -> list[int]:
    """Choose up to `count` more pages, for features that a tenth of the pages has and none of those shown: a field that
    is on a sixth of the pages only is easily on none of three. Of ten pages each may be the only one with a field."""
    counts = Counter(name for page in features for name in page)
    seen = frozenset().union(*(features[place] for place in shown))
    missing = {name for name, pages in counts.items() if pages >= _MIN_SHARE * len(features)} - seen
    chosen: list[int] = []
    while missing and len(chosen) < count:
        best = max(range(len(features)), key=lambda place: len(features[place] & missing))
        chosen.append(best)
        missing -= features[best]
    return chosen
