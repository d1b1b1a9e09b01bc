"""Records of pages whose template is not worth learning: the annotator points at the values of each page itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmcrawler.core.understanding.extraction.annotators import Annotator
from llmcrawler.core.understanding.extraction.block_choice import listed_to_show, shown_blocks
from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.extraction_runs import ExtractionRunner
from llmcrawler.core.understanding.extraction.extractor import Field
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage
from llmcrawler.core.understanding.extraction.record_question import BY_MODEL, RecordAnswer, RecordQuestion
from llmcrawler.core.understanding.extraction.record_schema import assemble
from llmcrawler.core.understanding.extraction.training_set import AnnotatedPage, Pointed, TrainingPage, Value, as_one
from llmcrawler.core.understanding.extraction.typed_values import Scalar, typed
from llmcrawler.errors import LLMError
from llmcrawler.items import PageError


class SingleRecords:
    """Makes one call of the model for each page."""

    def __init__(self, annotator: Annotator, budget_tokens: int, place: ExtractionRunner | None = None) -> None:
        self._annotator = annotator
        self._budget_tokens = budget_tokens
        self._place = place or ExtractionRunner()

    async def __call__(self, question: RecordQuestion) -> RecordAnswer:
        """Return the record, or an error where the model fails. Raises TooCostly for a page that takes too long."""
        page = question.to_learn_from()
        listed = await self._place.train(listed_to_show, page.html, page.url, self._budget_tokens, site=question.site)
        shown = ShownPage("1", question.url, question.title, shown_blocks(listed, (), self._budget_tokens))
        try:
            answer = await self._annotator.point(question.page_type, [shown], ())
        except LLMError as error:
            return RecordAnswer(None, PageError("record", error.kind, str(error)))
        pointed = answer.values.get("1", ())
        record = await self._place.train(record_of, page, answer.fields, pointed, site=question.site)
        return RecordAnswer(record, by=None if record is None else BY_MODEL)


def record_of(page: TrainingPage, fields: Sequence[Field], pointed: Sequence[Pointed]) -> dict[str, Any] | None:
    """Return the record of what was pointed at; None where nothing of it is a value."""
    given = AnnotatedPage.of(PageBlocks(page.html, page.url), pointed).values
    values: dict[str, Any] = {}
    for one in fields:
        value = _value(one, given.get(one.key, ()), page)
        if value is not None and not one.group:
            values[one.key] = value
    for group in {one.group for one in fields if one.group}:
        columns = {one.name: _typed(one, given.get(one.key, ()), page) for one in fields if one.group == group}
        values[group] = _objects(columns)
    return assemble(fields, values) if values else None


def _value(one: Field, values: tuple[Value, ...], page: TrainingPage) -> Scalar | list[Scalar] | None:
    found = _typed(one, values if one.many else as_one(values), page)
    if one.many:
        return found or None
    if one.type in (None, "string") and len(found) > 1:
        return "\n".join(str(text) for text in found)
    return found[0] if found else None


def _typed(one: Field, values: tuple[Value, ...], page: TrainingPage) -> list[Scalar]:
    given = (typed(value.text, one.type, base_url=page.url, lang=page.lang) for value in values)
    return [value for value in given if value is not None]


def _objects(columns: dict[str, list[Scalar]]) -> list[dict[str, Scalar]] | None:
    """Return the objects of a group from the values of its fields, where those with any have equally many."""
    filled = {name: column for name, column in columns.items() if column}
    if not filled or len({len(column) for column in filled.values()}) > 1:
        return None
    return [dict(zip(filled, row, strict=True)) for row in zip(*filled.values(), strict=True)]
