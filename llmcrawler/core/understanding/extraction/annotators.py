"""Asks the model to point at values of pages, and checks its answers against what was shown: what fails is dropped."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import inf
from typing import Any, Final, Protocol

from llmcrawler.core.llm.cache import AnswerStore, cache_key
from llmcrawler.core.llm.client import AskLLM
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.usage import estimate_tokens
from llmcrawler.core.understanding.extraction.blocks import Induced, Pointed
from llmcrawler.core.understanding.extraction.field_names import singular, snake_case
from llmcrawler.core.understanding.extraction.induce_prompt import (
    CONSTANT_KEYS,
    MAX_BLOCKS_A_VALUE,
    MAX_VALUES_A_PAGE,
    PROMPT_VERSION,
    SYSTEM,
    TASK,
    ShownPage,
    answer_schema,
    induce_document,
)
from llmcrawler.core.understanding.extraction.record_schema import (
    FIELD_TYPES,
    Field,
    FieldType,
    RequestedSchema,
    reconcile,
)
from llmcrawler.core.understanding.extraction.tree import fold
from llmcrawler.core.understanding.extraction.typed_values import fits as value_fits
from llmcrawler.errors import BadAnswer

_ANSWER_TOKENS_AROUND: Final = 1_500
_ANSWER_TOKENS_PER_PAGE: Final = 1_500


class Annotator(Protocol):
    """Points at the values of pages."""

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        """Name the fields of pages and point at their values. Raises LLMUnavailable, LLMFailed or BadAnswer."""
        ...


class LLMAnnotator:
    """Asks the model, each question once: answers that were good stay in the cache."""

    def __init__(
        self,
        ask: AskLLM,
        model_name: Callable[[], Awaitable[str]],
        *,
        requested: RequestedSchema | None = None,
        cache: AnswerStore | None = None,
        pages_a_call: int = 7,
    ) -> None:
        self._ask = ask
        self._model_name = model_name
        self._requested = requested
        self._cache = cache
        self._pages_a_call = pages_a_call
        self.calls_due = 0  # of what is being asked just now, and how many of these are answered
        self.calls_done = 0

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
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
        return Induced(
            tuple(field for one in answers for field in one.fields),
            {page: values for one in answers for page, values in one.values.items()},
            sum((one.dropped for one in answers), Counter[str]()),
            frozenset().union(*(one.missing for one in answers)),
        )

    async def _point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        document = induce_document(page_type, self._requested, pages, known_fields)
        key = ""
        if self._cache is not None:
            key = cache_key(await self._model_name(), PROMPT_VERSION, TASK, document)
            stored = await self._cache.get(key)
            if stored is not None:
                return await self._parsed(document, stored)
        schema = answer_schema(self._pages_a_call, self._requested)
        bound = _ANSWER_TOKENS_AROUND + _ANSWER_TOKENS_PER_PAGE * len(pages)
        request = ModelRequest(TASK, SYSTEM, document, schema, CONSTANT_KEYS, salvage=True, max_answer_tokens=bound)
        answer = await self._ask(request)
        induced = await self._parsed(document, answer)
        if self._cache is not None and not induced.missing:
            await self._cache.put(key, answer)
        return induced

    async def _parsed(self, document: dict[str, Any], answer: Any) -> Induced:
        return await asyncio.to_thread(parse_answer, document, answer, self._requested)


def annotation_tokens(requested: RequestedSchema | None) -> int:
    """Return the tokens of a call beside its pages: what the model is told, the requested fields, and the form of the
    answer."""
    fixed = SYSTEM, json.dumps(induce_document("", requested, ())), json.dumps(answer_schema(1, requested))
    return sum(map(estimate_tokens, fixed))


_MAX_DESCRIPTION_CHARS: Final = 200
_SLIPS: Final = 2

Values = Mapping[str, tuple[Pointed, ...]]


def parse_answer(document: Mapping[str, Any], answer: Any, requested: RequestedSchema | None) -> Induced:
    """Check an answer to a document. Raises BadAnswer for an answer about none of the pages."""
    if not isinstance(answer, dict) or not isinstance(answer.get("pages"), list):
        raise BadAnswer("the answer has no pages")
    dropped: Counter[str] = Counter()
    known = [str(one.get("name")) for one in document.get("known_fields") or ()]
    fields, keys = _requested_or_named(answer.get("fields"), requested, known, dropped)
    shown = {page["id"]: {block["n"]: block["text"] for block in page["blocks"]} for page in document["pages"]}
    values: dict[str, tuple[Pointed, ...]] = {}
    given_keys: set[tuple[str, str | None]] = set()
    for page in answer["pages"]:
        page_id = page.get("id") if isinstance(page, dict) else None
        if not isinstance(page_id, str) or page_id not in shown or page_id in values:
            dropped["unknown_page"] += 1
            continue
        given = _list(page.get("values"))[:MAX_VALUES_A_PAGE]
        pointing = [one for one in given if isinstance(one, dict) and one.get("blocks")]
        given_keys |= {(page_id, _key_of(one.get("field"), keys)) for one in pointing}
        pointed = (_pointed(one, keys, shown[page_id], dropped) for one in given)
        values[page_id] = tuple(dict.fromkeys(one for one in pointed if one is not None))
    if not values:
        raise BadAnswer("the answer covers none of the requested pages")
    bears: dict[str, float] = {
        ".".join(filter(None, (one.get("group"), str(one.get("name"))))): _SLIPS
        for one in document.get("known_fields") or ()
        if one.get("type")
    }
    if requested is None:
        fields, values = _in_one_number(fields, values, known)
    else:
        bears = {one.key: inf for one in requested.fields if one.type is not None}
    fields, values = _typechecked(fields, values, shown, bears, dropped)
    kept_keys = {(page_id, one.field) for page_id, pointed in values.items() for one in pointed}
    names = {one.key for one in fields}
    for page_id, key in sorted((page_id, key) for page_id, key in given_keys - kept_keys if key in names and key):
        values[page_id] += (Pointed(key, ()),)
    return Induced(fields, values, +dropped, frozenset(shown.keys() - values.keys()))


# -- names of fields --


def _requested_or_named(
    given: Any, requested: RequestedSchema | None, known: Collection[str], dropped: Counter[str]
) -> tuple[tuple[Field, ...], dict[str, str]]:
    """Return the fields of an answer, and the key of each by all the names that the answer may call it. A user's fields
    are taken as they are; where they leave the type open, the answer's holds. A field that is the same as a `known` one
    but for its number gets that name."""
    named = _named(given, dropped)
    if requested is not None:
        answered = {snake_case(one.name): one for one in named}
        asked = [
            replace(one, type=said.type, many=one.many or said.many)
            if one.type is None and (said := answered.get(snake_case(one.name))) is not None
            else one
            for one in requested.fields
        ]
        return tuple(asked), _keys(asked, {})
    names = {one.name for one in named}
    by_singular = {singular(name): name for name in sorted(known)}
    renamed = {name: by_singular.get(singular(name), name) for name in names.difference(known)}
    renamed = {old: new for old, new in renamed.items() if new != old and new not in names}
    groups = {one.group for one in named}
    fields = reconcile((), [replace(one, name=renamed.get(one.name, one.name)) for one in named])
    kept = tuple(one for one in fields if one.group or one.name not in groups)
    dropped["field_is_group"] += len(fields) - len(kept)
    return kept, _keys(kept, renamed)


def _keys(fields: Sequence[Field], renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the key of a field by its names. One of a group may go by its own name where no other has it."""
    counts = Counter(one.name for one in fields)
    keys = {one.name: one.key for one in fields if counts[one.name] == 1}
    keys |= {one.name: one.key for one in fields if not one.group}
    keys |= {old: keys[new] for old, new in renamed.items() if new in keys}
    keys |= {one.key: one.key for one in fields}
    return {_plain(name): key for name, key in keys.items()} | keys


def _key_of(name: Any, keys: Mapping[str, str]) -> str | None:
    if not isinstance(name, str):
        return None
    return keys.get(name) or keys.get(_plain(name)) or keys.get(snake_case(name))


def _plain(name: str) -> str:
    return ".".join(snake_case(part) for part in name.split("."))


def _named(given: Any, dropped: Counter[str]) -> list[Field]:
    fields = []
    for one in _list(given):
        name = snake_case(one.get("name")) if isinstance(one, dict) else ""
        if not name:
            dropped["nameless_field"] += 1
            continue
        kind, description = one.get("type"), one.get("description")
        known: FieldType | None = next((known for known in FIELD_TYPES if known == kind), "string")
        text = fold(description)[:_MAX_DESCRIPTION_CHARS] if isinstance(description, str) else ""
        fields.append(Field(name, known, bool(one.get("many")) or kind == "list", text, snake_case(one.get("group"))))
    return fields


def _in_one_number(
    fields: tuple[Field, ...], values: Values, known: Collection[str]
) -> tuple[tuple[Field, ...], dict[str, tuple[Pointed, ...]]]:
    """Return the answer with "image" on one page and "images" on another as one field, where no page has both. The one
    whose name is known, else the one on more pages, keeps its name."""
    had = [frozenset(one.field for one in pointed) for pointed in values.values()]
    counts = Counter(key for keys in had for key in keys)
    first: dict[tuple[str, str], str] = {}
    merged: dict[str, str] = {}
    for one in sorted(fields, key=lambda one: (one.name not in known, -counts[one.key])):
        kept = first.setdefault((one.group, singular(one.name)), one.key)
        if kept != one.key and not any({kept, one.key} <= keys for keys in had):
            merged[one.key] = kept
    by_key = {one.key: one for one in fields}
    for gone, kept in merged.items():
        by_key[kept] = reconcile([by_key[kept]], [replace(by_key.pop(gone), name=by_key[kept].name)])[0]
    return tuple(by_key.values()), {
        page: tuple(replace(one, field=merged.get(one.field, one.field)) for one in pointed)
        for page, pointed in values.items()
    }


# -- pointers --


def _pointed(given: Any, keys: Mapping[str, str], texts: Mapping[int, str], dropped: Counter[str]) -> Pointed | None:
    if not isinstance(given, dict):
        dropped["empty"] += 1
        return None
    key = _key_of(given.get("field"), keys)
    if key is None:
        dropped["unknown_field"] += 1
        return None
    numbers = [one for one in _list(given.get("blocks"))[:MAX_BLOCKS_A_VALUE] if type(one) is int]
    blocks = tuple(n for n in dict.fromkeys(numbers) if n in texts)
    dropped["unknown_block"] += len(set(numbers)) - len(blocks)
    if not blocks:
        dropped["empty"] += not numbers
        return None
    quote = fold(given["quote"]) if isinstance(given.get("quote"), str) else ""
    # The part of a long text that was cut off is no part of the value.
    having = tuple(n for n in blocks if quote in texts[n] and (quote == texts[n] or not quote.endswith("…")))
    if not quote or (not having and len(blocks) > 1 and quote in " ".join(texts[n] for n in blocks)):
        return Pointed(key, blocks)
    if not having:
        dropped["quote_not_in_block"] += 1
        return None
    return Pointed(key, having, None if all(quote == texts[n] for n in having) else quote)


def _typechecked(
    fields: tuple[Field, ...],
    values: Values,
    shown: Mapping[str, Mapping[int, str]],
    bears: Mapping[str, float],
    dropped: Counter[str],
) -> tuple[tuple[Field, ...], dict[str, tuple[Pointed, ...]]]:
    """Return the answer without the blocks that are no values of their field's type. A field that all of its values
    contradict is a string. `bears`: so many values do not make it one, where earlier answers had values of its type, or
    the user has fixed it."""
    types = {one.key: one.type for one in fields}
    fits = cache(value_fits)  # an answer may point at a block as often as it likes
    fitting: dict[tuple[str, Pointed], Pointed | None] = {}
    for page, pointed in values.items():
        for one in pointed:
            if one.quote:
                fitting[page, one] = one if fits(one.quote, types[one.field]) else None
            else:
                blocks = tuple(n for n in one.blocks if fits(shown[page][n], types[one.field]))
                fitting[page, one] = replace(one, blocks=blocks) if blocks else None
    counts = Counter(one.field for _, one in fitting)
    bad = Counter(one.field for (_, one), kept in fitting.items() if kept is None)
    wrong = {key for key, count in bad.items() if count == counts[key] and count > bears.get(key, 1)}
    dropped["type_mismatch"] += sum(kept != one for (_, one), kept in fitting.items() if one.field not in wrong)
    checked = {
        page: [one if one.field in wrong else fitting[page, one] for one in pointed] for page, pointed in values.items()
    }
    return (
        tuple(replace(one, type="string") if one.key in wrong else one for one in fields),
        {page: tuple(one for one in pointed if one is not None) for page, pointed in checked.items()},
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
