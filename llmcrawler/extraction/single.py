"""One page's record straight from the model's pointers, for pages that no template speaks for."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from llmcrawler.errors import LLMError
from llmcrawler.extraction.blocks import PageBlocks, shown_blocks
from llmcrawler.extraction.induction import Teacher
from llmcrawler.extraction.model import Field
from llmcrawler.extraction.prompt import ShownPage
from llmcrawler.extraction.records import RecordAnswer, RecordQuestion
from llmcrawler.extraction.samples import Sample, Value, as_one
from llmcrawler.extraction.schema import assemble
from llmcrawler.extraction.values import Scalar, typed
from llmcrawler.items import PageError

logger = logging.getLogger(__name__)


class SingleRecords:
    """One call of the model for each page."""

    def __init__(self, teacher: Teacher, budget_tokens: int) -> None:
        self._teacher = teacher
        self._budget_tokens = budget_tokens

    async def __call__(self, question: RecordQuestion) -> RecordAnswer:
        page = await asyncio.to_thread(PageBlocks, question.html, question.url)
        shown = ShownPage("1", question.url, question.title, shown_blocks(page, (), self._budget_tokens))
        try:
            answer = await self._teacher.point(question.page_type, [shown], ())
        except LLMError as error:
            return RecordAnswer(None, PageError("record", error.kind, str(error)))
        sample = Sample.of(page, answer.values.get("1", ()))
        values: dict[str, Any] = {}
        for one in answer.fields:
            value = _value(one, sample.values.get(one.key, ()), question)
            if value is not None and not one.group:
                values[one.key] = value
        for group in {one.group for one in answer.fields if one.group}:
            values[group] = _objects([one for one in answer.fields if one.group == group], sample, question)
        return RecordAnswer(assemble(answer.fields, values) if values else None)


def _value(one: Field, values: tuple[Value, ...], question: RecordQuestion) -> Scalar | list[Scalar] | None:
    found = _typed(one, values if one.many else as_one(values), question)
    if one.many:
        return found or None
    if one.type in (None, "string") and len(found) > 1:
        return "\n".join(str(text) for text in found)
    return found[0] if found else None


def _typed(one: Field, values: tuple[Value, ...], question: RecordQuestion) -> list[Scalar]:
    given = (typed(value.text, one.type, base_url=question.url, lang=question.lang) for value in values)
    return [value for value in given if value is not None]


def _objects(fields: list[Field], sample: Sample, question: RecordQuestion) -> list[dict[str, Scalar]] | None:
    """The objects of a group, where each field was pointed at as often."""
    columns = {one.name: _typed(one, sample.values.get(one.key, ()), question) for one in fields}
    columns = {name: column for name, column in columns.items() if column}
    if not columns or len({len(column) for column in columns.values()}) > 1:
        return None
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]
