"""What is known of one template's records: the variants of its extractor, how well they do, and what drifts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb

from llmcrawler.extraction.compiled import CompiledExtractor, Extraction, compile_extractor
from llmcrawler.extraction.model import Extractor
from llmcrawler.items import PageError

# A field on so many of the pages a variant was learned on is at its core: a page without most of them is another kind.
_CORE_COVERAGE = 0.8
_MIN_FIT = 0.5
# Drift: coverage down by 0.2, and less likely by chance than this (DESIGN, "Records").
_DROP = 0.2
_CHANCE = 0.001
_WINDOW_PAGES = 30
_MIN_WINDOW_PAGES = 10
_WATCHED_COVERAGE = 0.3
# No field is so sure that its first absence proves anything.
_SUREST = 0.98


@dataclass(slots=True)
class Variant:
    """One extractor of a template. `coverage` is the share of pages that have each field, when it was learned.
    `shortcoming` is said on each page that it serves.
    """

    extractor: Extractor
    coverage: dict[str, float]
    pages: int = 0
    shortcoming: PageError | None = None
    _seen: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=_WINDOW_PAGES))

    @classmethod
    def measured(cls, extractor: Extractor, pages: Iterable[Extraction]) -> Variant:
        """A variant with the coverage that it has on the pages it was learned from."""
        present = [one.present for one in pages]
        keys = coverage_keys(extractor)
        share = {key: sum(key in one for one in present) / max(1, len(present)) for key in keys}
        return cls(extractor, share)

    @property
    def compiled(self) -> CompiledExtractor:
        return compile_extractor(self.extractor)

    @property
    def core(self) -> frozenset[str]:
        return frozenset(key for key, share in self.coverage.items() if share >= _CORE_COVERAGE)

    def fit(self, extraction: Extraction) -> float:
        """The share of the core fields that a page has, 0..1; without a core, whether it has any field."""
        core = self.core
        return len(core & extraction.present) / len(core) if core else float(bool(extraction.present))

    def fits(self, extraction: Extraction) -> bool:
        return self.fit(extraction) >= _MIN_FIT

    def note(self, extraction: Extraction) -> None:
        """Count a page that got its record from this variant."""
        self.pages += 1
        self._seen.append(extraction.present)

    def lacks(self, extraction: Extraction) -> bool:
        """Whether a page misses a field that pages like it mostly have."""
        return any(share >= 0.5 and key not in extraction.present for key, share in self.coverage.items())

    def drifted(self) -> tuple[str, ...]:
        """The fields whose coverage has fallen since the variant was learned."""
        count = len(self._seen)
        if count < _MIN_WINDOW_PAGES:
            return ()
        return tuple(
            key
            for key, share in self.coverage.items()
            if share >= _WATCHED_COVERAGE and _has_fallen(share, sum(key in one for one in self._seen), count)
        )

    def watch_anew(self) -> None:
        """Forget what was seen: from here on another variant may take some of the pages."""
        self._seen.clear()

    def accept(self) -> None:
        """Take what was seen last as the way things are: nothing better was found."""
        count = len(self._seen)
        for key in self.drifted():
            self.coverage[key] = sum(key in one for one in self._seen) / count
        self._seen.clear()


def coverage_keys(extractor: Extractor) -> list[str]:
    """Keys of the plain fields, and the names of the groups."""
    plain = [rule.field.key for rule in extractor.rules if not rule.field.group]
    return [*plain, *(name for name, _ in extractor.groups)]


@dataclass(frozen=True, slots=True)
class Match:
    """A page's record by the variant that fits it best."""

    variant: Variant
    extraction: Extraction

    @property
    def fits(self) -> bool:
        return self.variant.fits(self.extraction)


def best_match(variants: Sequence[Variant], extractions: Sequence[Extraction]) -> Match | None:
    """By the variant that finds most, of equals the one whose core the page has; None without any. `extractions` are
    what each of them gives on the page."""
    matches = [Match(variant, extraction) for variant, extraction in zip(variants, extractions, strict=True)]
    return max(
        matches, key=lambda match: (len(match.extraction.present), match.variant.fit(match.extraction)), default=None
    )


def _has_fallen(share: float, present: int, count: int) -> bool:
    if share - present / count < _DROP:
        return False
    sure = min(share, _SUREST)
    chance = sum(comb(count, k) * sure**k * (1 - sure) ** (count - k) for k in range(present + 1))
    return chance < _CHANCE
