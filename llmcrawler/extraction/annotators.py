"""Annotators, who point at the values of pages: the model, or a page's own structured data where there is none."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from llmcrawler.errors import BudgetSpent, LLMStopped, LLMUnavailable
from llmcrawler.extraction.blocks import Block
from llmcrawler.extraction.extractor import Field
from llmcrawler.extraction.induce_answers import Induced, parse_answer, snake_case
from llmcrawler.extraction.induce_prompt import TASK, ShownPage
from llmcrawler.extraction.induce_small_model import prompt_for
from llmcrawler.extraction.record_schema import RequestedSchema
from llmcrawler.extraction.training_set import Pointed
from llmcrawler.llm import AnswerStore, AskLLM, ModelRequest, cache_key, estimate_tokens

_ANSWER_TOKENS_AROUND: Final = 1_500
_ANSWER_TOKENS_PER_PAGE: Final = 1_500

# Types that describe the site or the page's place in it, not the thing that the page is about.
_FRAME: Final = re.compile(
    r"^(?:BreadcrumbList|ListItem|WebPage|WebSite|Organization|SearchAction|ImageObject|\w*Page)$"
)
_JSON_HINT: Final = re.compile(r"^json-ld (\w+)\.(.+)$")
_ITEMPROP_HINT: Final = re.compile(r"^\w+\[itemprop=([\w-]+)\](?:@\w+)?$")
# schema.org's words for what people ask for.
_SYNONYMS: Final = {
    "title": ("name", "headline"),
    "name": ("headline", "title"),
    "price": ("offers_price", "offers_low_price"),
    "currency": ("offers_price_currency", "price_currency"),
    "availability": ("offers_availability",),
    "author": ("author_name",),
    "date": ("date_published", "start_date", "date_posted"),
    "published": ("date_published", "date_posted"),
    "rating": ("aggregate_rating_rating_value", "rating_value"),
    "company": ("hiring_organization_name",),
    "brand": ("brand_name",),
    "ingredients": ("recipe_ingredient",),
}


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
        schema = prompt.schema([page.id for page in pages], self._requested)
        bound = _ANSWER_TOKENS_AROUND + _ANSWER_TOKENS_PER_PAGE * len(pages)
        request = ModelRequest(
            TASK, prompt.system, document, schema, salvage=True, max_answer_tokens=bound, examples=prompt.examples
        )
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
    fixed += [json.dumps(prompt.document("", requested, (), ())), json.dumps(prompt.schema((), requested))]
    return sum(map(estimate_tokens, fixed))


class FallbackAnnotator:
    """Asks the model as long as it can be had, and reads the pages' structured data when it is out for this crawl."""

    def __init__(self, model: Annotator, structured: Annotator) -> None:
        self._model = model
        self._structured = structured

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Raises LLMFailed or BadAnswer, and LLMUnavailable where there is no structured data either."""
        try:
            return await self._model.point(page_type, pages, known_fields)
        except LLMStopped:
            raise  # what stood in would be kept for the next run
        except LLMUnavailable as error:
            found = await self._structured.point(page_type, pages, known_fields)
            if not found.fields:
                raise
            return replace(found, stands_in_for=error) if isinstance(error, BudgetSpent) else found


class StructuredDataAnnotator:
    """Reads JSON-LD and microdata: the properties of the thing a page is about are the fields of its record."""

    def __init__(self, requested: RequestedSchema | None = None) -> None:
        self._requested = requested

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:  # noqa: ARG002 - the interface of annotators
        """Point without asking anybody. Never raises; no fields where no page has structured data."""
        found = {page.id: _properties(page.blocks) for page in pages}
        sources = self._sources({name for properties in found.values() for name in properties})
        values = {
            page_id: tuple(Pointed(key, tuple(properties[name])) for key, name in sources.items() if name in properties)
            for page_id, properties in found.items()
        }
        if self._requested is not None:
            return Induced(tuple(one for one in self._requested.fields if one.key in sources), values)
        many = {one.field for pointed in values.values() for one in pointed if len(one.blocks) > 1}
        return Induced(tuple(Field(key, None, key in many) for key in sources), values)

    def _sources(self, names: set[str]) -> Mapping[str, str]:
        """Return the name of the property for each field, by its key."""
        if self._requested is None:
            return {name: name for name in sorted(names)}
        sources = {}
        for one in self._requested.fields:
            name = snake_case(one.name)
            fitting = [option for option in (name, *_SYNONYMS.get(name, ())) if option in names]
            if fitting:
                sources[one.key] = fitting[0]
        return sources


def _properties(blocks: Sequence[Block]) -> dict[str, list[int]]:
    """Return the numbers of the blocks of each property, by its name."""
    found: dict[str, list[int]] = {}
    for block in blocks:
        in_json, in_html = _JSON_HINT.match(block.hint), _ITEMPROP_HINT.match(block.hint)
        if in_json and not _FRAME.match(in_json[1]):
            found.setdefault(snake_case(in_json[2].replace(".", "_")), []).append(block.n)
        elif in_html:
            found.setdefault(snake_case(in_html[1]), []).append(block.n)
    return found
