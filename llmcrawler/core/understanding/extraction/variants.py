"""Compares the variants of one template's extractor: how well each does, and what drifts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

from llmcrawler.core.understanding.extraction.extraction_runs import Extraction, extractions
from llmcrawler.core.understanding.extraction.extractor import TemplateExtractor
from llmcrawler.core.understanding.extraction.tree import PAGE_STEPS

# A field on so many of the pages a variant was learned on is at its core: a page without most of them is another kind.
_CORE_COVERAGE = 0.8
_MIN_FIT = 0.5
# Drift: coverage down by 0.2, and less likely by chance than this.
_DROP = 0.2
_CHANCE = 0.001
_WINDOW_PAGES = 30
_MIN_WINDOW_PAGES = 10
_WATCHED_COVERAGE = 0.3
# No field is so sure that its first absence proves anything.
_SUREST = 0.98


@dataclass(slots=True)
class Variant:
    """Variant of a template: one of its extractors. `coverage` is the share of pages that have each field, when it was
    learned."""

    extractor: TemplateExtractor
    coverage: dict[str, float]
    _seen: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=_WINDOW_PAGES))

    @classmethod
    def measured(cls, extractor: TemplateExtractor, pages: Sequence[Extraction]) -> Variant:
        """Make a variant with the coverage that it has on the pages it was learned from, of plain fields and groups."""
        keys = [rule.field.key for rule in extractor.rules if not rule.field.group]
        keys += [name for name, _ in extractor.groups]
        share = {key: sum(key in one.present for one in pages) / max(1, len(pages)) for key in keys}
        return cls(extractor, share)

    @property
    def core(self) -> frozenset[str]:
        """The fields that nearly all of its pages have."""
        return frozenset(key for key, share in self.coverage.items() if share >= _CORE_COVERAGE)

    def fit(self, extraction: Extraction) -> float:
        """Return the share of the core fields that a page has, 0..1; without a core, whether it has any field."""
        core = self.core
        return len(core & extraction.present) / len(core) if core else float(bool(extraction.present))

    def note(self, extraction: Extraction) -> None:
        """Remember what a page had that got its record from this variant."""
        self._seen.append(extraction.present)

    def lacks(self, extraction: Extraction) -> bool:
        """Tell whether a page misses a field that pages like it mostly have."""
        return any(share >= 0.5 and key not in extraction.present for key, share in self.coverage.items())

    def drifted(self) -> tuple[str, ...]:
        """Return the fields whose coverage has fallen since the variant was learned."""
        count = len(self._seen)
        if count < _MIN_WINDOW_PAGES:
            return ()
        return tuple(
            key
            for key, share in self.coverage.items()
            if share >= _WATCHED_COVERAGE and _has_fallen(share, self._seen_with(key), count)
        )

    def watch_anew(self) -> None:
        """Count what pages have anew: from here on another variant may take some of them."""
        self._seen.clear()

    def accept(self) -> None:
        """Take the fields of the latest pages for the usual ones, as training found nothing better."""
        for key in self.drifted():
            self.coverage[key] = self._seen_with(key) / len(self._seen)
        self._seen.clear()

    def _seen_with(self, key: str) -> int:
        return sum(key in one for one in self._seen)


@dataclass(frozen=True, slots=True)
class VariantMatch:
    """A page's record by the variant that fits it best."""

    variant: Variant
    extraction: Extraction

    @property
    def fits(self) -> bool:
        """Tell whether the page is of the kind that the variant was learned on."""
        return self.variant.fit(self.extraction) >= _MIN_FIT


def best_match(variants: Iterable[Variant], found: Iterable[Extraction]) -> VariantMatch | None:
    """Return the match of the variant that finds most, of equals the one whose core the page has; None without any.

    `found` are what each of them gives on the page.
    """
    matches = [VariantMatch(variant, extraction) for variant, extraction in zip(variants, found, strict=True)]
    return max(matches, key=lambda one: (len(one.extraction.present), one.variant.fit(one.extraction)), default=None)


def extract_best(
    variants: Sequence[Variant], html: str, url: str, lang: str = "", limit: int = PAGE_STEPS
) -> dict[str, Any] | None:
    """Return a page's record by the variant that fits it best; None where none finds anything. Raises TooCostly where
    this takes more than `limit` steps.
    """
    match = best_match(variants, extractions([variant.extractor for variant in variants], html, url, lang, limit))
    return match.extraction.record if match is not None and match.extraction.present else None


def _has_fallen(share: float, present: int, count: int) -> bool:
    if share - present / count < _DROP:
        return False
    sure = min(share, _SUREST)
    chance = sum(comb(count, k) * sure**k * (1 - sure) ** (count - k) for k in range(present + 1))
    return chance < _CHANCE
