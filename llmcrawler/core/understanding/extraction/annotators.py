"""Annotators, who point at the values of pages: the model, which remembers what it has answered."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from llmcrawler.core.llm import AnswerStore, AskLLM, EarlierCall, ModelRequest, cache_key, estimate_tokens
from llmcrawler.core.llm.answers import read_answer
from llmcrawler.core.understanding.extraction.extractor import Field
from llmcrawler.core.understanding.extraction.induce_answers import Induced, parse_answer
from llmcrawler.core.understanding.extraction.induce_prompt import CONSTANT_KEYS, TASK, ShownPage
from llmcrawler.core.understanding.extraction.induce_small_model import prompt_for
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema
from llmcrawler.errors import BadAnswer

_ANSWER_TOKENS_AROUND: Final = 1_500
_ANSWER_TOKENS_PER_PAGE: Final = 1_500


class Annotator(Protocol):
    """Points at the values of pages."""

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Name the fields of pages and point at their values. Raises LLMUnavailable, LLMFailed or BadAnswer."""
        ...

    async def shown_before(self, page_type: str, urls: Sequence[str]) -> list[int]:
        """Return the places of pages that a call of an earlier run was about, if all of these are among `urls`: its
        answer is paid, and `point` gives it for them.
        """
        ...


async def _none() -> Sequence[EarlierCall]:
    """Return no calls of earlier runs."""
    return ()


class LLMAnnotator:
    """Asks the model, each question once: answers that were good stay in the cache, and those of an earlier run's calls
    hold for the same pages.
    """

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        ask: AskLLM,
        model_name: Callable[[], Awaitable[str]],
        *,
        requested: RequestedSchema | None = None,
        cache: AnswerStore | None = None,
        pages_a_call: int = 7,
        small_model: bool = False,
        earlier_calls: Callable[[], Awaitable[Sequence[EarlierCall]]] = _none,
    ) -> None:
        self._ask = ask
        self._model_name = model_name
        self._requested = requested
        self._cache = cache
        self._earlier_calls = earlier_calls
        self._prompt = prompt_for(requested, small_model=small_model)
        self._pages_a_call = self._prompt.most_pages or pages_a_call
        self.calls_due = 0  # of what is being asked just now, and how many of these are answered
        self.calls_done = 0

    async def shown_before(self, page_type: str, urls: Sequence[str]) -> list[int]:
        """Do what Annotator.shown_before does. Raises LLMStopped."""
        for call in await self._earlier_calls():
            shown = [page["url"] for page in call.document["pages"]]
            if call.document["page_type"] == page_type and set(shown) <= set(urls):
                return [urls.index(url) for url in shown]
        return []

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
        earlier = await self._pointed_before(page_type, pages)
        if earlier is not None:
            return earlier
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

    async def _pointed_before(self, page_type: str, pages: Sequence[ShownPage]) -> Induced | None:
        """Return what an earlier run's call has brought for just these pages, whose blocks have the same numbers."""
        ids = {page.url: page.id for page in pages}
        for call in await self._earlier_calls():
            shown = call.document["pages"]
            if call.document["page_type"] != page_type or {page["url"] for page in shown} != ids.keys():
                continue
            try:
                answer = read_answer(call.text, self._prompt.schema(self._pages_a_call, self._requested), salvage=True)
                found = await self._parsed(call.document, answer)
            except BadAnswer:
                continue
            now = {page["id"]: ids[page["url"]] for page in shown}
            values = {now[page]: pointed for page, pointed in found.values.items()}
            return replace(found, values=values, missing=frozenset(now[page] for page in found.missing))
        return None

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
