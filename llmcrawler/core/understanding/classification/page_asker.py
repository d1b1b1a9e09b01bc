"""Asks the model for the page types of pages: what is known comes from the cache, the rest goes out in batches. Answers
are checked page by page."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from llmcrawler.core.llm import (
    AnswerStore,
    AskLLM,
    Batcher,
    BatchReport,
    BatchRules,
    CachedAsker,
    ModelRequest,
    cache_key,
    estimate_tokens,
)
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.understanding.classification.classify_prompt import (
    CONSTANT_KEYS,
    COUNTS,
    PROMPT_VERSION,
    TASK,
    answer_schema,
    classify_document,
    parse_answers,
    prompt_of,
)
from llmcrawler.core.understanding.classification.page_type_rules import PageTypeRules
from llmcrawler.core.understanding.classification.page_types import PageTypes
from llmcrawler.core.understanding.classification.question import UNSURE, Answer, Question
from llmcrawler.core.urls import site_name
from llmcrawler.errors import BadAnswer, BudgetSpent, LLMError
from llmcrawler.items import PageContent

logger = logging.getLogger(__name__)

# As `describe_page` gives it.
PageView = Mapping[str, Any]

# Tokens of one entry of an answer, with room for spaces and for long labels.
_ANSWER_TOKENS_PER_PAGE = 40
_ANSWER_TOKENS_AROUND = 60
_UNSURE = 0.5
# So sure rules are right for three pages in four; of several pages that they are sure about, and all of which they are
# to be wrong about, in one direction, it is more likely that the model was talked into something.
_SURE = UNSURE
# The name of the first question in stats; to the model it is one of the usual ones.
CHECK_TASK = "check"
_CHECK_SYSTEM = """\
Choose one of `labels` for the page, by its url. Answer in JSON: \
{"pages": [{"id": "1", "label": "...", "confidence": 0.5}]}"""
_CHECK_ANSWER_TOKENS = 1_000  # with thoughts
_NOT_CONFIRMED = "the model says the same of all pages of a batch, and something else of single ones"


class PageAsker(Protocol):
    """Takes the classifier's questions: a Batcher over `ClassifyWorker`, or a CachedAsker before one."""

    def submit(self, question: PageView, *, patient: bool = False) -> Awaitable[Answer]: ...


class QuestionWatch(Protocol):
    """Tells when pages must not wait for their batch any longer, as Batcher's `pressure` and `is_ending`."""

    def reason_to_flush(self) -> str | None: ...

    def is_ending(self) -> bool: ...


class BatchingAsker:
    """Asks a model in batches, within one event loop. `cache` keeps answers, and is None where none are kept."""

    def __init__(  # noqa: PLR0913 - by keyword, with defaults
        self,
        model: LanguageModel,
        page_types: PageTypes,
        cache: AnswerStore | None,
        rules: BatchRules,
        *,
        watch: QuestionWatch,
        on_batch: Callable[[BatchReport], None] = lambda _: None,
        on_shown: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._model = model
        self._page_types = page_types
        self._batcher: Batcher[PageView, Answer] = Batcher(
            ClassifyWorker(model.ask, page_types, on_shown),
            rules=rules,
            tokens_of=tokens_of,
            group_of=site_of,
            pressure=watch.reason_to_flush,
            is_ending=watch.is_ending,
            on_batch=on_batch,
        )
        self._cache = cache
        self._cached: CachedAsker[PageView, Answer] | None = None

    async def submit(self, question: PageView, *, patient: bool = False) -> Answer:
        if self._cache is None:
            return await self._batcher.submit(question, patient=patient)
        if self._cached is None:
            self._cached = CachedAsker(
                self._batcher,
                self._cache,
                key_of=page_key(await self._model.name(), self._page_types),
                to_json=answer_to_json,
                from_json=answer_from_json,
                usage=self._model.usage,
            )
        return await self._cached.submit(question, patient=patient)

    async def close(self) -> None:
        await self._batcher.close()


class ClassifyWorker:
    """Classifies a batch of pages, for a Batcher. `on_shown` is called with the number of pages that each call shows.

    An answer that says the same of pages which rules are sure to be something else is only taken when two of these
    pages get that label alone too: one page of a batch may have told the model what to say of all.
    """

    def __init__(
        self,
        ask: AskLLM,
        page_types: PageTypes,
        on_shown: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._ask = ask
        self._page_types = page_types
        self._prompt = prompt_of(page_types)
        self._on_shown = on_shown
        self._rules = PageTypeRules(page_types)
        # Labels that rules exclude and the model gives all the same, by site: once a site is enough.
        self._confirmed_labels: set[tuple[str, str]] = set()

    async def __call__(self, pages: Sequence[PageView]) -> Mapping[int, Answer | Exception]:
        """Return answers by position; BadAnswer for what is missing, wrong or unconfirmed. Raises as `AskLLM` does."""
        answers = await self._answers(pages)
        good = {place: answer for place, answer in answers.items() if isinstance(answer, Answer)}
        doubted = doubted_answers(self._rules, pages, good)
        if not doubted:
            return answers
        label = good[doubted[0]].label
        if label == self._page_types.fallback:
            # Rules have no cues for it, and so are often wrong about it: not worth a call, and not much trust.
            unsure = {place: Answer(label, min(good[place].confidence, _UNSURE)) for place in doubted}
            return {**answers, **unsure}
        return await self._confirmed(pages, answers, label, {doubted[0], doubted[-1]})

    async def _confirmed(
        self, pages: Sequence[PageView], answers: Mapping[int, Answer | Exception], label: str, samples: set[int]
    ) -> Mapping[int, Answer | Exception]:
        """Return the answers, if the samples get this label alone too; else without those that have it."""
        site = site_of(pages[0])
        if (site, label) in self._confirmed_labels:
            return answers
        alone = {place: await self._alone(pages[place]) for place in samples}
        if all(isinstance(answer, Answer) and answer.label == label for answer in alone.values()):
            self._confirmed_labels.add((site, label))
            return answers
        refused = {
            place: BadAnswer(_NOT_CONFIRMED)
            for place, answer in answers.items()
            if isinstance(answer, Answer) and answer.label == label
        }
        logger.warning(
            "The model called %d of %d pages of %s %s, but not those of them that it was asked about alone: one of the "
            "pages may have told it to. They are asked about again, in other company",
            len(refused),
            len(pages),
            site,
            label,
        )
        return {**answers, **refused, **alone}

    async def _alone(self, page: PageView) -> Answer | Exception:
        try:
            return (await self._answers([page]))[0]
        except LLMError:
            return BadAnswer(_NOT_CONFIRMED)

    async def _answers(self, pages: Sequence[PageView]) -> Mapping[int, Answer | Exception]:
        prompt, schema = self._prompt, answer_schema(self._page_types)
        document = classify_document(self._page_types, [prompt.shorten(page) for page in pages])
        bound = _ANSWER_TOKENS_AROUND + _ANSWER_TOKENS_PER_PAGE * len(pages)
        request = ModelRequest(
            TASK, prompt.system, document, schema, CONSTANT_KEYS, salvage=True, max_answer_tokens=bound
        )
        try:
            answer = await self._ask(request)
        except BudgetSpent:
            raise  # nothing was shown
        except LLMError:
            self._on_shown(len(pages))
            raise
        self._on_shown(len(pages))
        verdicts, faults = parse_answers(document, answer)
        if faults:
            logger.debug("Faults in an answer for %d pages: %s", len(pages), faults)
        return {
            position: verdicts[page["id"]] if page["id"] in verdicts else BadAnswer(faults[page["id"]])
            for position, page in enumerate(document["pages"])
        }


def doubted_answers(rules: PageTypeRules, pages: Sequence[PageView], answers: Mapping[int, Answer]) -> list[int]:
    """Return the positions of pages that cannot be what the answers say, if rules of thumb are right.

    A page of a batch may have told the model what to say of its neighbours: none, unless most of the pages that rules
    are sure about got the same other label.
    """
    if len(answers) < 2:
        return []
    label, count = Counter(answer.label for answer in answers.values()).most_common(1)[0]
    judged = {place: rules.decide(_question(pages[place])) for place in answers}
    sure = {place: found for place, (found, confidence) in judged.items() if found is not None and confidence >= _SURE}
    against = [
        place
        for place, found in sure.items()
        if answers[place].label == label != found and not rules.may_both_be(label, found)
    ]
    enough = 1 if count == len(answers) else 2
    return against if len(against) >= enough and 2 * len(against) > len(sure) else []


def _question(page: PageView) -> Question:
    counts = page.get("counts", {})
    cues = {cue: float(counts[word]) for cue, word in COUNTS.items() if word in counts}
    return Question(page["url"], page.get("title", ""), page.get("text", ""), PageContent(cues=cues), "", "", 1)


def check_question(page_types: PageTypes, url: str) -> ModelRequest:
    """Return a tiny question of the kind that a crawl asks, with its schema, which the server then knows: it shows
    whether the model answers, and in the form asked for. What it says of the url does not matter.
    """
    document = {
        "task": TASK,
        "labels": [{"name": name} for name in page_types.names[:2]],
        "pages": [{"id": "1", "url": url}],
    }
    schema = answer_schema(page_types)
    return ModelRequest(
        CHECK_TASK, _CHECK_SYSTEM, document, schema, max_answer_tokens=_CHECK_ANSWER_TOKENS, is_urgent=True
    )


def call_tokens(page_types: PageTypes) -> int:
    """Return the tokens of a call beside its pages: what the model is told, the labels, and the form of the answer."""
    fixed = map(json.dumps, (classify_document(page_types, ()), answer_schema(page_types)))
    return estimate_tokens(prompt_of(page_types).system) + sum(map(estimate_tokens, fixed))


def tokens_of(page: PageView) -> int:
    """Return the tokens that a page adds to a call."""
    return estimate_tokens(json.dumps(page, ensure_ascii=False))


def site_of(page: PageView) -> str:
    """Return the site whose pages may share a call: what a page says can reach no other site's verdicts."""
    return site_name(page["url"])


def page_key(model: str, page_types: PageTypes) -> Callable[[PageView], str]:
    """Return what makes the cache key of a page: a change of the model, the prompt, the labels or of what is shown
    asks anew.

    The url is among what is shown, so an answer serves its own site only.
    """
    prompt = prompt_of(page_types)
    labels = [[one.name, one.description] for one in page_types]
    return lambda page: cache_key(model, PROMPT_VERSION, labels, dict(prompt.shorten(page)))


def answer_to_json(answer: Answer) -> Any:
    return [answer.label, answer.confidence]


def answer_from_json(value: Any) -> Answer:
    """Read what `answer_to_json` gave. Raises ValueError for anything else."""
    match value:
        case [str(label), float() | int() as confidence] if 0 <= confidence <= 1:
            return Answer(label, float(confidence))
    raise ValueError("not an answer")
