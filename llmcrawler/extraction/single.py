"""One page's record straight from the model's pointers, for pages that no template speaks for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from llmcrawler.errors import LLMError
from llmcrawler.extraction.blocks import PageBlocks, shown_blocks
from llmcrawler.extraction.induction import LessonPage, Teacher, blocks_of
from llmcrawler.extraction.model import Field
from llmcrawler.extraction.place import Place
from llmcrawler.extraction.prompt import ShownPage
from llmcrawler.extraction.records import RecordAnswer, RecordQuestion
from llmcrawler.extraction.samples import Pointed, Sample, Value, as_one
from llmcrawler.extraction.schema import assemble
from llmcrawler.extraction.values import Scalar, typed
from llmcrawler.items import PageError

logger = logging.getLogger(__name__)


class SingleRecords:
    """One call of the model for each page."""

    def __init__(self, teacher: Teacher, budget_tokens: int, place: Place | None = None) -> None:
        self._teacher = teacher
        self._budget_tokens = budget_tokens
        self._place = place or Place()

    async def __call__(self, question: RecordQuestion) -> RecordAnswer:
        """Raises TooCostly for a page that takes too long."""
        page = LessonPage(question.url, question.title, question.lang, question.html, frozenset())
        (listed,) = await self._place.lesson(blocks_of, [page], site=question.site)
        shown = ShownPage("1", question.url, question.title, shown_blocks(listed, (), self._budget_tokens))
        try:
            answer = await self._teacher.point(question.page_type, [shown], ())
        except LLMError as error:
            return RecordAnswer(None, PageError("record", error.kind, str(error)))
        pointed = answer.values.get("1", ())
        return RecordAnswer(await self._place.lesson(record_of, page, answer.fields, pointed, site=question.site))


def record_of(page: LessonPage, fields: Sequence[Field], pointed: Sequence[Pointed]) -> dict[str, Any] | None:
    """The record of what the model pointed at; None where nothing of it is a value."""
    sample = Sample.of(PageBlocks(page.html, page.url), pointed)
    values: dict[str, Any] = {}
    for one in fields:
        value = _value(one, sample.values.get(one.key, ()), page)
        if value is not None and not one.group:
            values[one.key] = value
    for group in {one.group for one in fields if one.group}:
        values[group] = _objects([one for one in fields if one.group == group], sample, page)
    return assemble(fields, values) if values else None


def _value(one: Field, values: tuple[Value, ...], page: LessonPage) -> Scalar | list[Scalar] | None:
    found = _typed(one, values if one.many else as_one(values), page)
    if one.many:
        return found or None
    if one.type in (None, "string") and len(found) > 1:
        return "\n".join(str(text) for text in found)
    return found[0] if found else None


def _typed(one: Field, values: tuple[Value, ...], page: LessonPage) -> list[Scalar]:
    given = (typed(value.text, one.type, base_url=page.url, lang=page.lang) for value in values)
    return [value for value in given if value is not None]


def _objects(fields: list[Field], sample: Sample, page: LessonPage) -> list[dict[str, Scalar]] | None:
    """The objects of a group, where each field was pointed at as often."""
    columns = {one.name: _typed(one, sample.values.get(one.key, ()), page) for one in fields}
    columns = {name: column for name, column in columns.items() if column}
    if not columns or len({len(column) for column in columns.values()}) > 1:
        return None
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]
