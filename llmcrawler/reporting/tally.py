"""Counts of pages that a summary needs and stats do not hold: bounded, however long the crawl."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.items import Page, PageError, Template, Url

_MAX_KEYS = 1000
_LATENCIES = 50


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
    """Counts pages as they come. `types` counts (page type, decided by); `examples` holds one page for each
    "stage/kind" of error.
    """

    def __init__(self) -> None:
        self.types: Counter[tuple[str, str]] = Counter()
        self.examples: dict[str, tuple[str, str]] = {}
        self.templates: dict[str, Template] = {}
        self.by_template: dict[str, TemplateTally] = {}
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)

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

    def _add_example(self, url: str, error: PageError) -> None:
        if _has_room(self.examples, kind := f"{error.stage}/{error.kind}"):
            # Cut here: a message may be as long as a page.
            self.examples.setdefault(kind, (url[:500], error.message[:500]))

    def _add_to_template(self, page: Page, tally: TemplateTally) -> None:
        if page.page_type is None:
            return
        tally.page_types[page.page_type] += 1
        if page.confidence is not None:
            tally.confidence_sum += page.confidence
            tally.confidence_count += 1


def _has_room(kept: Collection[Any], key: object) -> bool:
    return len(kept) < _MAX_KEYS or key in kept
