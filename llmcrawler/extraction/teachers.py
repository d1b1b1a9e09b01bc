"""Who points at the values of sample pages: the model, or the page's own structured data where there is no model."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from llmcrawler.errors import BudgetSpent, LLMUnavailable
from llmcrawler.extraction.blocks import Block
from llmcrawler.extraction.field_names import snake_case
from llmcrawler.extraction.induction import Teacher
from llmcrawler.extraction.model import Field
from llmcrawler.extraction.prompt import TASK, Induced, ShownPage, parse_answer
from llmcrawler.extraction.samples import Pointed
from llmcrawler.extraction.schema import Wanted
from llmcrawler.extraction.small_model import prompt_for
from llmcrawler.llm import AnswerStore, AskLLM, cache_key, estimate_tokens

_ANSWER_TOKENS_AROUND: Final = 1_500
_ANSWER_TOKENS_PER_PAGE: Final = 1_500

# What describes the page's place in the site, or the site, not the thing that the page is about.
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


class LLMTeacher:
    """Asks the model, each question once: answers that were good stay in the cache."""

    def __init__(  # noqa: PLR0913 - what a crawl decides
        self,
        ask: AskLLM,
        model_name: Callable[[], Awaitable[str]],
        *,
        wanted: Wanted | None = None,
        cache: AnswerStore | None = None,
        pages_a_call: int = 7,
        small_model: bool = False,
    ) -> None:
        self._ask = ask
        self._model_name = model_name
        self._wanted = wanted
        self._cache = cache
        self._prompt = prompt_for(wanted, small_model=small_model)
        self._pages_a_call = self._prompt.most_pages or pages_a_call

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Raises LLMUnavailable, LLMFailed or BadAnswer."""
        answers = [
            await self._point(page_type, pages[start : start + self._pages_a_call], known_fields)
            for start in range(0, len(pages), self._pages_a_call)
        ]
        return answers[0] if len(answers) == 1 else _together(answers)

    async def _point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        prompt = self._prompt
        document = prompt.document(page_type, self._wanted, pages, known_fields)
        key = ""
        if self._cache is not None:
            key = cache_key(await self._model_name(), prompt.version, TASK, document)
            stored = await self._cache.get(key)
            if stored is not None:
                return await self._parsed(document, stored)
        answer = await self._ask(
            TASK,
            prompt.system,
            document,
            prompt.schema([page.id for page in pages], self._wanted),
            salvage=True,
            max_answer_tokens=_ANSWER_TOKENS_AROUND + _ANSWER_TOKENS_PER_PAGE * len(pages),
            examples=prompt.examples,
        )
        induced = await self._parsed(document, answer)
        if self._cache is not None and not induced.missing:
            await self._cache.put(key, answer)
        return induced

    async def _parsed(self, document: dict[str, Any], answer: Any) -> Induced:
        """In a thread: each text that the model takes for a date is read as one."""
        return await asyncio.to_thread(
            lambda: parse_answer(document, self._prompt.read(document, answer), self._wanted)
        )


def lesson_tokens(wanted: Wanted | None, *, small_model: bool = False) -> int:
    """Tokens of a call beside its pages: what the model is told, the wanted fields, and the form of the answer."""
    prompt = prompt_for(wanted, small_model=small_model)
    fixed = [prompt.system, *(text for example in prompt.examples for text in example)]
    fixed += [json.dumps(prompt.document("", wanted, (), ())), json.dumps(prompt.schema((), wanted))]
    return sum(map(estimate_tokens, fixed))


class FallbackTeacher:
    """The model as long as it can be had; the structured data of the pages when it is out for this crawl."""

    def __init__(self, model: Teacher, structured: Teacher) -> None:
        self._model = model
        self._structured = structured

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Raises LLMFailed or BadAnswer, and LLMUnavailable where there is no structured data either."""
        try:
            return await self._model.point(page_type, pages, known_fields)
        except LLMUnavailable as error:
            found = await self._structured.point(page_type, pages, known_fields)
            if not found.fields:
                raise
            return replace(found, stands_in_for=error) if isinstance(error, BudgetSpent) else found


def _together(answers: Sequence[Induced]) -> Induced:
    dropped: Counter[str] = Counter()
    for one in answers:
        dropped += one.dropped
    return Induced(
        tuple(field for one in answers for field in one.fields),
        {page: values for one in answers for page, values in one.values.items()},
        dropped,
        frozenset().union(*(one.missing for one in answers)),
    )


class StructuredTeacher:
    """Reads JSON-LD and microdata: the properties of the thing a page is about are the fields of its record."""

    def __init__(self, wanted: Wanted | None = None) -> None:
        self._wanted = wanted

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:  # noqa: ARG002 - Teacher's interface
        """Never asks anybody, never raises; no fields where no page has structured data."""
        found = {page.id: _properties(page.blocks) for page in pages}
        names = {name for properties in found.values() for name in properties}
        sources = self._sources(names)
        values: dict[str, tuple[Pointed, ...]] = {}
        many: set[str] = set()
        for page_id, properties in found.items():
            pointed = [Pointed(key, tuple(properties[name])) for key, name in sources.items() if name in properties]
            values[page_id] = tuple(pointed)
            many.update(one.field for one in pointed if len(one.blocks) > 1)
        return Induced(self._fields(sources, many), values)

    def _sources(self, names: set[str]) -> dict[str, str]:
        """Field key -> property name."""
        if self._wanted is None:
            return {name: name for name in sorted(names)}
        sources = {}
        for one in self._wanted.fields:
            wanted = snake_case(one.name)
            options = (wanted, *_SYNONYMS.get(wanted, ()))
            fitting = [name for name in options if name in names]
            if fitting:
                sources[one.key] = fitting[0]
        return sources

    def _fields(self, sources: dict[str, str], many: set[str]) -> tuple[Field, ...]:
        if self._wanted is not None:
            return tuple(one for one in self._wanted.fields if one.key in sources)
        return tuple(Field(key, None, key in many) for key in sources)


def _properties(blocks: Sequence[Block]) -> dict[str, list[int]]:
    """Property name -> the numbers of its blocks."""
    found: dict[str, list[int]] = {}
    for block in blocks:
        in_json, in_html = _JSON_HINT.match(block.hint), _ITEMPROP_HINT.match(block.hint)
        if in_json and not _FRAME.match(in_json[1]):
            found.setdefault(snake_case(in_json[2].replace(".", "_")), []).append(block.n)
        elif in_html:
            found.setdefault(snake_case(in_html[1]), []).append(block.n)
    return found
