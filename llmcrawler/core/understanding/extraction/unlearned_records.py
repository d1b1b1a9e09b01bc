"""Records of pages whose template teaches nothing: of what the model says of one page, and the page of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from llmcrawler.core.understanding.extraction.extraction_runs import ExtractionRunner
from llmcrawler.core.understanding.extraction.extractor import Field
from llmcrawler.core.understanding.extraction.record_question import BY_STRUCTURED_DATA, RecordAnswer, RecordQuestion
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema, completed, filled_up
from llmcrawler.core.understanding.extraction.record_validation import RecordValidator
from llmcrawler.items import PageError

_LONG_LIST: Final = 500  # of rows; more take long to validate

Count = Callable[[str, int], None]


class RecordChecks:
    """Checks records against the user's schema; without one, they are as they are."""

    def __init__(self, requested: RequestedSchema | None, count: Count) -> None:
        self._requested = requested
        self._validator = RecordValidator(requested.schema) if requested is not None else None
        self._count = count

    async def __call__(self, record: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record with all fields of the user's schema, and without the values that it does not allow."""
        if self._validator is None or self._requested is None:
            return record
        whole = completed(self._requested.fields, record)
        is_long = any(isinstance(one, list) and len(one) > _LONG_LIST for one in record.values())
        clean = self._validator.clean
        cleaned, problems = await asyncio.to_thread(clean, whole) if is_long else clean(whole)
        if problems:
            self._count("invalid_values", len(problems))
        return cleaned


class UnlearnedRecords:
    """Makes records without selectors. `single` asks the model about a page, where that is wanted."""

    def __init__(
        self,
        checks: RecordChecks,
        requested: RequestedSchema | None,
        place: ExtractionRunner,
        count: Count,
        single: Callable[[RecordQuestion], Awaitable[RecordAnswer]] | None,
    ) -> None:
        self._checks = checks
        self._fields = None if requested is None else requested.fields
        self._place = place
        self._count = count
        self._single = single

    async def __call__(self, question: RecordQuestion, error: PageError | None) -> RecordAnswer:
        """Return what the model finds, completed by what the page says of itself, or that alone. `error` says why the
        page's template was not learned: then the model is not asked, and the page keeps it. Raises TooCostly.
        """
        answer = RecordAnswer(None, error)
        if error is None and self._single is not None:
            self._count("singletons", 1)
            answer = await self._single(question)
        found = answer.record
        fields = self._fields
        if found is not None and fields is None:
            fields = tuple(Field(name) for name, value in found.items() if value is None)
        stated = await self._place.stated(question.to_read(), fields, question.site)
        if found is not None:
            return replace(answer, record=await self._checks(filled_up(found, stated or {})))
        record = await self._checks(stated) if stated is not None else None
        if record is None:
            return answer
        self._count("from_structured_data", 1)
        return replace(answer, record=record, by=BY_STRUCTURED_DATA)
