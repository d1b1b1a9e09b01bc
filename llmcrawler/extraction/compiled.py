"""Extractors at work: a page's record without the LLM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urljoin

from lxml import etree

from llmcrawler.extraction.evaluation import outermost
from llmcrawler.extraction.model import Extractor, FieldRule, Selector
from llmcrawler.extraction.patterns import compile_pattern
from llmcrawler.extraction.queries import Source, compile_query, is_bounded, nodes_at, texts_at, texts_within
from llmcrawler.extraction.schema import assemble
from llmcrawler.extraction.tree import parse_tree
from llmcrawler.extraction.values import typed

# What a selector costs before it has found anything.
_STEPS_A_FIELD: Final = 10

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Extraction:
    """`record` has every field of the extractor, null where the page has no value. `present` are the keys of the fields
    that have one (of a group: its name)."""

    record: dict[str, Any]
    present: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Page:
    source: Source
    url: str
    lang: str


class CompiledExtractor:
    """Raises ValueError when a selector or a pattern of the extractor is none."""

    def __init__(self, extractor: Extractor) -> None:
        self.extractor = extractor
        self._rules = [rule for rule in extractor.rules if not rule.field.group]
        self._has_urls = any(field.type == "url" for field in extractor.fields)
        self._groups = [
            (name, rows, [rule for rule in extractor.rules if rule.field.group == name])
            for name, rows in extractor.groups
        ]
        unknown = [one for one in self._selectors() if not is_bounded(one)]
        for selector in unknown:
            compile_query(selector.query, selector.language)
        for pattern in {one.pattern for one in self._selectors() if one.pattern is not None}:
            compile_pattern(pattern)
        # Whether all work on a page is counted, so that no page can make it endless.
        self.is_bounded = not unknown

    def extract(self, html: str, url: str, lang: str = "") -> Extraction:
        """The record of a page. Never raises on malformed HTML; raises TooCostly where it takes too much work."""
        return self.extract_from(Source(parse_tree(html)), url, lang)

    def extract_from(self, source: Source, url: str, lang: str = "") -> Extraction:
        """The same for a page that is parsed already. Raises TooCostly where it takes more work than is left."""
        page = _Page(source, _base_url(source, url) if self._has_urls else url, lang)
        values: dict[str, Any] = {}
        for rule in self._rules:
            value = _value(rule, page)
            if value is not None:
                values[rule.field.key] = value
        for name, rows, rules in self._groups:
            objects = _objects(rows, rules, page)
            if objects:
                values[name] = objects
        record = assemble(self.extractor.fields, values)
        return Extraction(record, frozenset(values))

    def _selectors(self) -> list[Selector]:
        in_rules = [one for rule in self.extractor.rules for one in rule.selectors]
        return in_rules + [selector for _, rows in self.extractor.groups for selector in rows]


@lru_cache(maxsize=512)
def compile_extractor(extractor: Extractor) -> CompiledExtractor:
    """Raises ValueError as CompiledExtractor does."""
    return CompiledExtractor(extractor)


def _value(rule: FieldRule, page: _Page) -> Scalar | list[Scalar] | None:
    """The typed value of a field by the first of its selectors that gives one."""
    for selector in rule.selectors:
        texts = texts_at(page.source, selector)
        if rule.joined and texts:
            texts = ["\n".join(texts)]
        # What is written for machines is written alike in all languages.
        values = _typed(texts, rule, replace(page, lang="") if selector.language == "json-ld" else page)
        if values:
            return values if rule.field.many else values[0]
    return None


def _base_url(source: Source, url: str) -> str:
    base = source.root.find("head/base")
    try:
        return urljoin(url, base.get("href") or "") if base is not None else url
    except ValueError:
        return url


def _objects(rows: Sequence[Selector], rules: Sequence[FieldRule], page: _Page) -> list[dict[str, Any]]:
    for selector in rows:
        elements = _rows(selector, rules, page)
        objects = [_object(element, rules, page) for element in elements]
        objects = [one for one in objects if one]
        if objects:
            return objects
    return []


def _rows(selector: Selector, rules: Sequence[FieldRule], page: _Page) -> list[etree._Element]:
    """The elements that hold one object each."""
    work = page.source.work
    rows = [one for one in nodes_at(page.source.root, selector, work) if isinstance(one, etree._Element)]
    if len(outermost(rows, work)) < len(rows):
        for row in rows:  # each looks through all that are within it, too
            work.charge(len(rules) * sum(1 for _ in row.iter()))
    work.charge(_STEPS_A_FIELD * len(rules) * len(rows))
    return rows


def _object(element: Any, rules: Sequence[FieldRule], page: _Page) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for rule in rules:
        for selector in rule.selectors:
            values = _typed(texts_within(element, selector, page.source.work), rule, page)
            if values:
                found[rule.field.name] = values if rule.field.many else values[0]
                break
    return found


def _typed(texts: Sequence[str], rule: FieldRule, page: _Page) -> list[Scalar]:
    values = (typed(text, rule.field.type, base_url=page.url, lang=page.lang, work=page.source.work) for text in texts)
    return [value for value in values if value is not None]
