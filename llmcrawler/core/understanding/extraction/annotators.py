"""Annotators, who point at the values of pages: the model, which remembers what it has answered."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from llmcrawler.core.llm import AnswerStore, AskLLM, ModelRequest, cache_key, estimate_tokens
from llmcrawler.core.understanding.extraction.extractor import Field
from llmcrawler.core.understanding.extraction.induce_answers import Induced, parse_answer
from llmcrawler.core.understanding.extraction.induce_prompt import CONSTANT_KEYS, TASK, ShownPage
from llmcrawler.core.understanding.extraction.induce_small_model import prompt_for
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema

_ANSWER_TOKENS_AROUND: Final = 1_500
_ANSWER_TOKENS_PER_PAGE: Final = 1_500


class Annotator(Protocol):
    """Points at the values of pages."""

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Name the fields of pages and point at their values. Raises LLMUnavailable, LLMFailed or BadAnswer."""
        ...


class LLMAnnotator:
    """Asks the model, each question once: answers that were good stay in the cache."""

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        ask: AskLLM,
        model_name: Callable[[], Awaitable[str]],
        *,
        requested: RequestedSchema | None = None,
        cache: AnswerStore | None = None,
        pages_a_call: int = 7,
        small_model: bool = False,
    ) -> None:
        self._ask = ask
        self._model_name = model_name
        self._requested = requested
        self._cache = cache
        self._prompt = prompt_for(requested, small_model=small_model)
        self._pages_a_call = self._prompt.most_pages or pages_a_call
        self.calls_due = 0  # of what is being asked just now, and how many of these are answered
        self.calls_done = 0

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Raises LLMUnavailable, LLMFailed or BadAnswer."""
        most = self._pages_a_call
        calls = [pages[start : start + most] for start in range(0, len(pages), most)]
        answers: list[Induced] = []
        self.calls_due += len(calls)
        try:
            for shown in calls:
                answers.append(await self._point(page_type, shown, known_fields))
                self.calls_done += 1
        finally:
            self.calls_due -= len(calls)
            self.calls_done -= len(answers)
        if len(answers) == 1:
            return answers[0]
        return Induced(
            tuple(field for one in answers for field in one.fields),
            {page: values for one in answers for page, values in one.values.items()},
            sum((one.dropped for one in answers), Counter[str]()),
            frozenset().union(*(one.missing for one in answers)),
            sum((one.refused for one in answers), Counter[str]()),
        )

    async def _point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        prompt = self._prompt
        document = prompt.document(page_type, self._requested, pages, known_fields)
        key = ""
        if self._cache is not None:
            key = cache_key(await self._model_name(), prompt.version, TASK, document)
            stored = await self._cache.get(key)
            if stored is not None:
                return await self._parsed(document, stored)
        schema = prompt.schema(self._pages_a_call, self._requested)
        bound = _ANSWER_TOKENS_AROUND + _ANSWER_TOKENS_PER_PAGE * len(pages)
        request = ModelRequest(
            TASK, prompt.system, document, schema, CONSTANT_KEYS,
            salvage=True, max_answer_tokens=bound, examples=prompt.examples,
        )  # fmt: skip
        answer = await self._ask(request)
        induced = await self._parsed(document, answer)
        if self._cache is not None and not induced.missing:
            await self._cache.put(key, answer)
        return induced

    async def _parsed(self, document: dict[str, Any], answer: Any) -> Induced:
        """Check an answer, in a thread: each text that the model takes for a date is read as one."""
        read = self._prompt.read
        return await asyncio.to_thread(lambda: parse_answer(document, read(document, answer), self._requested))


def annotation_tokens(requested: RequestedSchema | None, *, small_model: bool = False) -> int:
    """Return the tokens of a call beside its pages: what the model is told, the requested fields, and the form of the
    answer."""
    prompt = prompt_for(requested, small_model=small_model)
    fixed = [prompt.system, *(text for example in prompt.examples for text in example)]
    fixed += [json.dumps(prompt.document("", requested, (), ())), json.dumps(prompt.schema(1, requested))]
    return sum(map(estimate_tokens, fixed))
