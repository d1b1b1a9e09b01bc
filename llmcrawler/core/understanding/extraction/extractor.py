"""Turns pages into records by selectors, without the LLM; in this process or, where that may cost much, in another.

An extractor has the fields of a template's records, and for each the selectors that find it; it is kept as JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

from lxml import etree

from llmcrawler.core.content import is_cheap
from llmcrawler.core.understanding.extraction.queries import (
    PageSource,
    compile_pattern,
    elements_at,
    is_known,
    nodes_at,
    texts_at,
)
from llmcrawler.core.understanding.extraction.record_schema import FIELD_TYPES, Field, assemble
from llmcrawler.core.understanding.extraction.selectors import LANGUAGES, Selector, outermost
from llmcrawler.core.understanding.extraction.structured_record import PageToRead, may_have_record, structured_record
from llmcrawler.core.understanding.extraction.tree import INLINE_STEPS, PAGE_STEPS, Work, parse_tree
from llmcrawler.core.understanding.extraction.typed_values import Scalar, typed
from llmcrawler.errors import ContentError, TooCostly


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field and its selectors, the best one first; the next is used where those before give nothing.

    The queries of a field with a group are relative to the elements that the group's selectors give. With `joined`, one
    value stands in several places (the paragraphs of a text): they are joined with line feeds. With a `separator`, one
    text holds several values."""

    field: Field
    selectors: tuple[Selector, ...]
    joined: bool = False
    separator: str = ""


@dataclass(frozen=True, slots=True)
class TemplateExtractor:
    """Extractor of one variant of a template: the rules that turn its pages into records without the LLM."""

    page_type: str
    rules: tuple[FieldRule, ...]
    groups: tuple[tuple[str, tuple[Selector, ...]], ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(rule.field for rule in self.rules)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TemplateExtractor:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        try:
            rules = tuple(
                FieldRule(**{**rule, "field": Field(**rule["field"]), "selectors": _selectors(rule["selectors"])})
                for rule in value["rules"]
            )
            groups = tuple((name, _selectors(rows)) for name, rows in value["groups"])
            read = cls(value["page_type"], rules, groups)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an extractor: {error!r}") from error
        for field in read.fields:
            if field.type not in (None, *FIELD_TYPES) or not field.name or not isinstance(field.many, bool):
                raise ValueError(f"not a field: {field!r}")
        if not all(isinstance(rule.joined, bool) and isinstance(rule.separator, str) for rule in read.rules):
            raise ValueError(f"not an extractor: {value!r}")
        of_fields = (text for one in read.fields for text in (one.name, one.description, one.group))
        for text in (read.page_type, *(name for name, _ in groups), *of_fields):
            if not isinstance(text, str):
                raise ValueError(f"not an extractor: {text!r} is not a text")
        return read


def _selectors(values: Iterable[Mapping[str, Any]]) -> tuple[Selector, ...]:
    selectors = tuple(Selector(**value) for value in values)
    for one in selectors:
        texts = (one.attribute or "", one.pattern or "", one.query, one.evidence)
        if one.language not in LANGUAGES or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"not a selector: {one!r}")
    return selectors


T = TypeVar("T")

# Steps that a field costs before its selectors have found anything.
_STEPS_A_FIELD: Final = 10
# Processor time. An honest table of 60,000 rows takes four seconds, a training run on twenty long pages ten.
_PAGE_SECONDS: Final = 20.0
_TRAINING_SECONDS: Final = 60.0
_LOOKED_AT: Final = 200_000  # characters, of which a first look takes a few milliseconds, and 40 at most


@dataclass(frozen=True, slots=True)
class Extraction:
    """The record of a page. It has every field of the extractor, null where the page has no value. `present` are the
    keys of the fields that have one (of a group: its name)."""

    record: dict[str, Any]
    present: frozenset[str]


@dataclass(frozen=True, slots=True)
class SelectorResult:
    """What one selector gives on a page: the texts or numbers it stands for, and the elements that hold them (none in
    JSON-LD). `is_used`: the record has them, as no selector of the field before it gives any. Of an array the field is
    its name."""

    field: str
    selector: Selector
    elements: tuple[etree._Element, ...]
    is_used: bool


@dataclass(frozen=True, slots=True)
class _Page:
    source: PageSource
    url: str  # that relative ones are of
    lang: str


class CompiledExtractor:
    """Makes records. Raises ValueError when a selector or a pattern of the extractor is none."""

    def __init__(self, extractor: TemplateExtractor) -> None:
        self.extractor = extractor
        self._rules = [rule for rule in extractor.rules if not rule.field.group]
        self._has_urls = any(field.type == "url" for field in extractor.fields)
        self._groups = [
            (name, rows, [rule for rule in extractor.rules if rule.field.group == name])
            for name, rows in extractor.groups
        ]
        selectors = [one for rule in extractor.rules for one in rule.selectors]
        selectors += [one for _, rows in extractor.groups for one in rows]
        if unknown := next((one for one in selectors if not is_known(one)), None):
            raise ValueError(f"not a {unknown.language} selector: {unknown.query!r}")
        for pattern in {one.pattern for one in selectors if one.pattern is not None}:
            compile_pattern(pattern)

    def extract(self, html: str, url: str, lang: str = "") -> Extraction:
        """Make the record of a page. Never raises on malformed HTML; raises TooCostly where it takes too much work."""
        return self.extract_from(PageSource(parse_tree(html)), url, lang)

    def extract_from(self, source: PageSource, url: str, lang: str = "") -> Extraction:
        """Make the record of a page that is parsed already. Raises TooCostly where it takes more work than is left."""
        page = _Page(source, self._base_url(source, url), lang)
        found: dict[str, Any] = {rule.field.key: _value(rule, page) for rule in self._rules}
        found |= {name: _objects(rows, rules, page) or None for name, rows, rules in self._groups}
        values = {name: value for name, value in found.items() if value is not None}
        return Extraction(assemble(self.extractor.fields, values), frozenset(values))

    def results(self, source: PageSource, url: str, lang: str = "") -> list[SelectorResult]:
        """Return each selector that gives a value on a page, also those whose value the record does not need. Raises
        TooCostly as `extract_from` does."""
        page = _Page(source, self._base_url(source, url), lang)
        found: list[SelectorResult] = []

        def add(field: str, giving: Sequence[Selector], within: Sequence[etree._Element], most: int | None) -> None:
            for number, selector in enumerate(giving):
                elements = [one for part in within for one in elements_at(source, selector, part)]
                found.append(SelectorResult(field, selector, tuple(elements[:most]), number == 0))

        for rule in self._rules:
            giving = [one for one in rule.selectors if _values(one, rule, page)]
            add(rule.field.key, giving, [source.root], None if rule.field.many or rule.joined else 1)
        for name, selectors, rules in self._groups:
            giving = [one for one in selectors if any(_objects([one], rules, page))]
            add(name, giving, [source.root], None)
            rows = _rows(giving[0], rules, page) if giving else []
            for rule in rules:
                inner = [one for one in rule.selectors if any(_values(one, rule, page, row) for row in rows)]
                add(rule.field.key, inner, rows, None)
        return found

    def _base_url(self, source: PageSource, url: str) -> str:
        base = source.root.find("head/base") if self._has_urls else None
        try:
            return urljoin(url, base.get("href") or "") if base is not None else url
        except ValueError:
            return url


@lru_cache(maxsize=512)
def compile_extractor(extractor: TemplateExtractor) -> CompiledExtractor:
    """Compile an extractor, once. Raises ValueError as CompiledExtractor does."""
    return CompiledExtractor(extractor)


def _value(rule: FieldRule, page: _Page, row: etree._Element | None = None) -> Scalar | list[Scalar] | None:
    for selector in rule.selectors:
        values = _values(selector, rule, page, row)
        if values:
            return values if rule.field.many else values[0]
    return None


def _values(selector: Selector, rule: FieldRule, page: _Page, row: etree._Element | None = None) -> list[Scalar]:
    texts = texts_at(page.source, selector, row)
    if rule.joined and texts and row is None:
        texts = ["\n".join(texts)]
    if rule.separator:
        texts = [part for text in texts for part in text.split(rule.separator)]
    # Values for machines are written alike in all languages.
    lang = "" if selector.is_of_data and row is None else page.lang
    given = (typed(text, rule.field.type, base_url=page.url, lang=lang, work=page.source.work) for text in texts)
    return [value for value in given if value is not None]


def _objects(rows: Sequence[Selector], rules: Sequence[FieldRule], page: _Page) -> list[dict[str, Any]]:
    for selector in rows:
        objects = []
        for row in _rows(selector, rules, page):
            found = {rule.field.name: _value(rule, page, row) for rule in rules}
            objects.append({name: value for name, value in found.items() if value is not None})
        if any(objects):
            return [one for one in objects if one]
    return []


def _rows(selector: Selector, rules: Sequence[FieldRule], page: _Page) -> list[etree._Element]:
    work = page.source.work
    rows = [one for one in nodes_at(page.source, selector) if isinstance(one, etree._Element)]
    if len(outermost(rows, work)) < len(rows):
        for row in rows:  # each looks through all that are within it, too
            work.charge(len(rules) * sum(1 for _ in row.iter()))
    work.charge(_STEPS_A_FIELD * len(rules) * len(rows))
    return rows


def extractions(
    extractors: Sequence[TemplateExtractor], html: str, url: str, lang: str, limit: int = PAGE_STEPS
) -> list[Extraction]:
    """Return what each extractor gives on a page. Raises TooCostly where this takes more than `limit` steps."""
    source = PageSource(parse_tree(html), Work(limit))
    return [compile_extractor(one).extract_from(source, url, lang) for one in extractors]


async def _in_thread(function: Callable[..., T], /, *arguments: object, seconds: float, share: str) -> T:  # noqa: ARG001
    """Run a function without a limit: for pages that are known."""
    return await asyncio.to_thread(function, *arguments)


class ExtractionRunner:
    """Decides where extractors run. `inline_chars`: the longest page whose record is made in this process, on the event
    loop, if `is_cheap` says that it costs little to parse. `apart` is `BoundedProcesses.run`, or a function like it."""

    def __init__(
        self,
        inline_chars: int = 100_000,
        apart: Callable[..., Awaitable[Any]] = _in_thread,
        is_cheap: Callable[[str], bool] = is_cheap,
    ) -> None:
        self._inline_chars = inline_chars
        self._apart = apart
        self._is_cheap = is_cheap

    async def extractions(
        self, extractors: Sequence[TemplateExtractor], html: str, url: str, lang: str, site: str
    ) -> list[Extraction]:
        """Return what each extractor gives on a page. Raises TooCostly where they take too long for any page."""
        if self._is_inline(html):
            with suppress(TooCostly):  # it is no ordinary page
                return extractions(extractors, html, url, lang, INLINE_STEPS)
        return await self._run(_PAGE_SECONDS, site, extractions, tuple(extractors), html, url, lang)

    async def structured(
        self, page: PageToRead, fields: Sequence[Field] | None, site: str, shown: Collection[str] = ()
    ) -> dict[str, Any] | None:
        """Return the record as `structured_record`. Raises TooCostly where that takes too long for any page."""
        if len(page.html) <= _LOOKED_AT and not may_have_record(page.html, of_metas=page.is_sure):
            return None
        if self._is_inline(page.html):
            with suppress(TooCostly):
                return structured_record(page, fields, INLINE_STEPS, shown)
        return await self._run(_PAGE_SECONDS, site, structured_record, page, fields, PAGE_STEPS, frozenset(shown))

    def _is_inline(self, html: str) -> bool:
        return len(html) <= self._inline_chars and self._is_cheap(html)

    async def train(self, function: Callable[..., T], /, *arguments: object, site: str) -> T:
        """Run a function of a training run's pages. Raises TooCostly where it takes too long for any such run."""
        return await self._run(_TRAINING_SECONDS, site, function, *arguments)

    async def _run(self, seconds: float, site: str, function: Callable[..., T], /, *arguments: object) -> T:
        try:
            result: T = await self._apart(function, *arguments, seconds=seconds, share=site)
        except ContentError as error:
            raise TooCostly(str(error)) from error
        return result
