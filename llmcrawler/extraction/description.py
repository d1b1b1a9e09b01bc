"""What was learned of a template, in the words of the feed: a JSON Schema and selectors to read and to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llmcrawler.extraction.model import Extractor, Field, Selector
from llmcrawler.extraction.schema import schema_of


def described_schema(extractors: Sequence[Extractor]) -> dict[str, Any] | None:
    """The schema of the records of a template, over all of its variants; None without any."""
    fields: dict[str, Field] = {one.key: one for extractor in extractors for one in extractor.fields}
    return schema_of(tuple(fields.values()), extractors[-1].page_type) if extractors else None


def described_selectors(extractors: Sequence[Extractor]) -> list[dict[str, Any]]:
    """One entry a selector: the field, "css", "xpath" or "json-ld", what is taken, and how well it did."""
    return [
        {**entry, "variant": number} for number, extractor in enumerate(extractors, 1) for entry in _entries(extractor)
    ]


def _entries(extractor: Extractor) -> Iterator[dict[str, Any]]:
    for name, rows in extractor.groups:
        for selector in rows:
            yield {"field": name, "type": "rows", **_selector(selector)}
    for rule in extractor.rules:
        kind = rule.field.type or "string"
        for selector in rule.selectors:
            yield {"field": rule.field.key, "type": f"{kind}[]" if rule.field.many else kind, **_selector(selector)}


def _selector(selector: Selector) -> dict[str, Any]:
    taken = {"attribute": selector.attribute, "pattern": selector.pattern}
    return {
        selector.language: selector.query,
        **{name: value for name, value in taken.items() if value is not None},
        "evidence": selector.evidence,
        "coverage": selector.coverage,
        "agreement": selector.agreement,
    }
