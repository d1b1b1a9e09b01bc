"""Counts of pages that a summary needs and stats do not hold: bounded, however long the crawl."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.items import Page, PageError, Template, Url

_MAX_KEYS = 1000
_LATENCIES = 50
_MAX_CHARS = 2000  # of the url and the message of an example
_MAX_DEPTH = 5  # of an object within objects of a record


@dataclass(slots=True)
class TemplateTally:
    page_types: Counter[str] = field(default_factory=Counter)
    confidence_sum: float = 0.0
    confidence_count: int = 0

    @property
    def agreement(self) -> float | None:
        """Share of the pages with a type that have the most frequent one."""
        total = self.page_types.total()
        return max(self.page_types.values()) / total if total else None

    @property
    def confidence(self) -> float | None:
        return self.confidence_sum / self.confidence_count if self.confidence_count else None


class Tally:
    """Counts pages as they come. `types` counts (page type, decided by), `records` by page type, `filled` the records
    that have a field, by (page type, field); `examples` holds one page for each "stage/kind" of error.
    """

    def __init__(self) -> None:
        self.types: Counter[tuple[str, str]] = Counter()
        self.records: Counter[str] = Counter()
        self.filled: Counter[tuple[str, str]] = Counter()
        self.examples: dict[str, tuple[str, str]] = {}
        self.templates: dict[str, Template] = {}
        self.by_template: dict[str, TemplateTally] = {}
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)

    @property
    def pages_by_type(self) -> Counter[str]:
        pages: Counter[str] = Counter()
        for (page_type, _way), count in self.types.items():
            pages[page_type] += count
        return pages

    @property
    def latency_seconds(self) -> float | None:
        """Mean latency of the last pages; None before the first."""
        return sum(self._latencies) / len(self._latencies) if self._latencies else None

    def add_url(self, url: Url) -> None:
        """Count a url of a map; one that was not fetched has no latency and no error."""
        if url.latency_seconds:
            self._latencies.append(url.latency_seconds)
        if url.error is not None:
            self._add_example(url.url, url.error)

    def add_page(self, page: Page) -> None:
        if page.page_type is not None and _has_room(self.types, key := (page.page_type, page.decided_by or "")):
            self.types[key] += 1
        if page.record is not None and page.page_type is not None and _has_room(self.records, page.page_type):
            self._add_record(page.page_type, page.record)
        if page.latency_seconds:
            self._latencies.append(page.latency_seconds)
        if page.error is not None:
            self._add_example(page.url, page.error)
        if page.template is not None and _has_room(self.by_template, page.template):
            self._add_to_template(page, self.by_template.setdefault(page.template, TemplateTally()))

    def add_template(self, template: Template) -> None:
        """Keep a template, instead of what it was before: it comes again when it changes."""
        if _has_room(self.templates, template.template):
            self.templates[template.template] = template

    def _add_record(self, page_type: str, record: Mapping[str, Any]) -> None:
        self.records[page_type] += 1
        for name, is_filled in _fields(record):
            if _has_room(self.filled, key := (page_type, name)):
                self.filled[key] += is_filled

    def _add_example(self, url: str, error: PageError) -> None:
        if _has_room(self.examples, kind := f"{error.stage}/{error.kind}"):
            # Cut here: a message may be as long as a page.
            self.examples.setdefault(kind, (url[:_MAX_CHARS], error.message[:_MAX_CHARS]))

    def _add_to_template(self, page: Page, tally: TemplateTally) -> None:
        if page.page_type is None:
            return
        tally.page_types[page.page_type] += 1
        if page.confidence is not None:
            tally.confidence_sum += page.confidence
            tally.confidence_count += 1


def _fields(record: Mapping[str, Any], depth: int = _MAX_DEPTH) -> Iterator[tuple[str, bool]]:
    """Yield the name of each field, with dots where it is within an object, and whether it has a value."""
    for name, value in record.items():
        if isinstance(value, Mapping) and value and depth:
            yield from ((f"{name}.{inner}", is_filled) for inner, is_filled in _fields(value, depth - 1))
        else:
            yield name, value not in (None, "", [], {})


def _has_room(kept: Collection[Any], key: object) -> bool:
    return len(kept) < _MAX_KEYS or key in kept
