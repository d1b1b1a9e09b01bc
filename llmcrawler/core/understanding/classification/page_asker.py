"""Asks the model for the page types of pages: what is known comes from the cache, the rest goes out in batches. Answers
are checked page by page."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from llmcrawler.core.llm.batching import BatchCache, Batcher, BatchReport, BatchRules, BatchWatch
from llmcrawler.core.llm.cache import AnswerStore, cache_key
from llmcrawler.core.llm.client import AskLLM, LanguageModel
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.usage import estimate_tokens
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
_ANSWER_TOKENS_PER_PAGE: Final = 40
_ANSWER_TOKENS_AROUND: Final = 60
_FALLBACK_CONFIDENCE: Final = 0.5
# The name of the first question in stats; to the model it is one of the usual ones.
_CHECK_TASK: Final = "check"
_CHECK_SYSTEM: Final = """\
Choose one of `labels` for the page, by its url. Answer in JSON: \
{"pages": [{"id": "1", "label": "...", "confidence": 0.5}]}"""
_CHECK_ANSWER_TOKENS: Final = 1_000  # with thoughts
_NOT_CONFIRMED: Final = "the model says the same of all pages of a batch, and something else of single ones"


def page_batcher(  # noqa: PLR0913 - by keyword
    model: LanguageModel,
    page_types: PageTypes,
    rules: BatchRules,
    *,
    answers: AnswerStore | None,
    watch: BatchWatch,
    on_batch: Callable[[BatchReport], None] = lambda _: None,
    on_shown: Callable[[int], None] = lambda _: None,
) -> Batcher[PageView, Answer]:
    """Return what asks a model for page types in batches. `answers` is None where none are kept; `on_shown` is called
    with the number of pages that each call shows.
    """

    async def key_of(page: PageView) -> str:
        return page_key(await model.name(), page_types, page)

    cache = None
    if answers is not None:
        cache = BatchCache(answers, key_of, answer_to_json, answer_from_json, model.usage)
    worker = ClassifyWorker(model.ask, page_types, on_shown)
    return Batcher(worker, rules, tokens_of=tokens_of, group_of=site_of, watch=watch, on_batch=on_batch, cache=cache)


class ClassifyWorker:
    """Classifies a batch of pages, for a Batcher.

    An answer that says the same of pages which rules are sure to be something else is only taken when two of these
    pages get that label alone too: one page of a batch may have told the model what to say of all.
    """

    def __init__(self, ask: AskLLM, page_types: PageTypes, on_shown: Callable[[int], None] = lambda _: None) -> None:
        self._ask = ask
        self._page_types = page_types
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
        site, label = site_of(pages[0]), good[doubted[0]].label
        if label == self._page_types.fallback:
            # Rules have no cues for it, and so are often wrong about it: not worth a call, and not much trust.
            for place in doubted:
                answers[place] = Answer(label, min(good[place].confidence, _FALLBACK_CONFIDENCE))
            return answers
        if (site, label) in self._confirmed_labels:
            return answers
        alone = {place: await self._alone(pages[place]) for place in {doubted[0], doubted[-1]}}
        if all(isinstance(answer, Answer) and answer.label == label for answer in alone.values()):
            self._confirmed_labels.add((site, label))
            return answers
        refused = [place for place, answer in good.items() if answer.label == label]
        logger.warning(
            "The model called %d of %d pages of %s %s, but not those of them that it was asked about alone: one of the "
            "pages may have told it to. They are asked about again, in other batches",
            len(refused),
            len(pages),
            site,
            label,
        )
        return {**answers, **{place: BadAnswer(_NOT_CONFIRMED) for place in refused}, **alone}

    async def _alone(self, page: PageView) -> Answer | Exception:
        try:
            return (await self._answers([page]))[0]
        except LLMError:
            return BadAnswer(_NOT_CONFIRMED)

    async def _answers(self, pages: Sequence[PageView]) -> dict[int, Answer | Exception]:
        prompt, schema = prompt_of(self._page_types), answer_schema(self._page_types)
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
        ids = enumerate(page["id"] for page in document["pages"])
        return {place: verdicts[one] if one in verdicts else BadAnswer(faults[one]) for place, one in ids}


def doubted_answers(rules: PageTypeRules, pages: Sequence[PageView], answers: Mapping[int, Answer]) -> list[int]:
    """Return the positions of pages that cannot be what the answers say, if rules of thumb are right.

    A page of a batch may have told the model what to say of its neighbours: none, unless most of the pages that rules
    are sure about got the same other label. Rules are sure where they are right for three pages in four.
    """
    if len(answers) < 2:
        return []
    label, count = Counter(answer.label for answer in answers.values()).most_common(1)[0]
    sure: dict[int, str] = {}
    for place in answers:
        page, counts = pages[place], pages[place].get("counts", {})
        content = PageContent(cues={cue: float(counts[word]) for cue, word in COUNTS.items() if word in counts})
        question = Question(page["url"], page.get("title", ""), page.get("text", ""), content, "", "", 1)
        found, confidence = rules.decide(question)
        if found is not None and confidence >= UNSURE:
            sure[place] = found
    against = [
        place
        for place, found in sure.items()
        if answers[place].label == label != found and not rules.may_both_be(label, found)
    ]
    enough = 1 if count == len(answers) else 2
    return against if len(against) >= enough and 2 * len(against) > len(sure) else []


def check_question(page_types: PageTypes, url: str) -> ModelRequest:
    """Return a tiny question of the kind that a crawl asks: it shows whether the model answers, and in the form asked
    for.
    """
    document = {
        "task": TASK,
        "labels": [{"name": name} for name in page_types.names[:2]],
        "pages": [{"id": "1", "url": url}],
    }
    schema = answer_schema(page_types)
    return ModelRequest(
        _CHECK_TASK, _CHECK_SYSTEM, document, schema, max_answer_tokens=_CHECK_ANSWER_TOKENS, is_urgent=True
    )


def call_tokens(page_types: PageTypes) -> int:
    """Return the tokens of a call beside its pages: what the model is told, the labels, and the form of the answer."""
    fixed = map(json.dumps, (classify_document(page_types, ()), answer_schema(page_types)))
    return estimate_tokens(prompt_of(page_types).system) + sum(map(estimate_tokens, fixed))


def tokens_of(page: PageView) -> int:
    return estimate_tokens(json.dumps(page, ensure_ascii=False))


def site_of(page: PageView) -> str:
    """Return the site whose pages may share a call: what a page says can reach no other site's verdicts."""
    return site_name(page["url"])


def page_key(model: str, page_types: PageTypes, page: PageView) -> str:
    """Return the cache key of a page, of all that decides the answer. The url is among what is shown: it serves its
    site only.
    """
    labels = [[one.name, one.description] for one in page_types]
    return cache_key(model, PROMPT_VERSION, labels, dict(prompt_of(page_types).shorten(page)))


def answer_to_json(answer: Answer) -> Any:
    return [answer.label, answer.confidence]


def answer_from_json(value: Any) -> Answer:
    """Read what `answer_to_json` gave. Raises ValueError for anything else."""
    match value:
        case [str(label), float() | int() as confidence] if 0 <= confidence <= 1:
            return Answer(label, float(confidence))
    raise ValueError("not an answer")
