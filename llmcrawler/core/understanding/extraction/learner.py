"""Keeps what is known of a template's records: variants and their drift, waiting pages, the outcome of learning."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

from llmcrawler.core.understanding.extraction.blocks import TrainingPage
from llmcrawler.core.understanding.extraction.extractor import (
    Extraction,
    TemplateExtractor,
    compile_extractor,
)
from llmcrawler.core.understanding.extraction.queries import PageSource
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, schema_of
from llmcrawler.items import PageError

# A field on so many of the pages a variant was learned on is at its core: a page without most of them is another kind.
_CORE_COVERAGE = 0.8
_MIN_FIT = 0.5
# Drift: coverage down by 0.2, and less likely by chance than this.
_DROP = 0.2
_CHANCE = 0.001
_WINDOW_PAGES = 30
_MIN_WINDOW_PAGES = 10
_WATCHED_COVERAGE = 0.3
# Pages that lack a field, kept to learn from when that turns out to be drift.
_KEPT_PAGES = 24
# No field is so sure that its first absence proves anything.
_SUREST = 0.98


@dataclass(slots=True)
class Variant:
    """Variant of a template: one of its extractors. `coverage` is the share of pages that have each field, when it was
    learned; `seen` are the fields of the latest pages that got their records from it."""

    extractor: TemplateExtractor
    coverage: dict[str, float]
    seen: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=_WINDOW_PAGES))

    @classmethod
    def measured(cls, extractor: TemplateExtractor, pages: Sequence[Extraction]) -> Variant:
        """Make a variant with the coverage that it has on the pages it was learned from, of plain fields and groups."""
        keys = [rule.field.key for rule in extractor.rules if not rule.field.group]
        keys += [name for name, _ in extractor.groups]
        share = {key: sum(key in one.present for one in pages) / max(1, len(pages)) for key in keys}
        return cls(extractor, share)

    @property
    def core(self) -> frozenset[str]:
        return frozenset(key for key, share in self.coverage.items() if share >= _CORE_COVERAGE)

    def fit(self, extraction: Extraction) -> float:
        """Return the share of the core fields that a page has, 0..1; without a core, whether it has any field."""
        core = self.core
        return len(core & extraction.present) / len(core) if core else float(bool(extraction.present))

    def lacks(self, extraction: Extraction) -> bool:
        """Tell whether a page misses a field that pages like it mostly have."""
        return any(share >= 0.5 and key not in extraction.present for key, share in self.coverage.items())

    def drifted(self) -> dict[str, float]:
        """Return the fields whose coverage has fallen since the variant was learned, and what it is now."""
        count, fallen = len(self.seen), {}
        for key, share in self.coverage.items() if count >= _MIN_WINDOW_PAGES else ():
            present = sum(key in one for one in self.seen)
            if share < _WATCHED_COVERAGE or share - present / count < _DROP:
                continue
            sure = min(share, _SUREST)
            chance = sum(comb(count, k) * sure**k * (1 - sure) ** (count - k) for k in range(present + 1))
            if chance < _CHANCE:
                fallen[key] = present / count
        return fallen


@dataclass(frozen=True, slots=True)
class VariantMatch:
    variant: Variant
    extraction: Extraction

    @property
    def fits(self) -> bool:
        """Tell whether the page is of the kind that the variant was learned on."""
        return self.variant.fit(self.extraction) >= _MIN_FIT


def best_match(variants: Iterable[Variant], found: Iterable[Extraction]) -> VariantMatch | None:
    """Return the match of the variant that finds most, of equals the one whose core the page has; None without any.

    `found` are what each of them gives on the page."""
    matches = [VariantMatch(variant, extraction) for variant, extraction in zip(variants, found, strict=True)]
    return max(matches, key=lambda one: (len(one.extraction.present), one.variant.fit(one.extraction)), default=None)


def best_record(variants: Iterable[Variant], found: Iterable[Extraction]) -> dict[str, Any] | None:
    """Return the record of the variant that fits best; None where none finds anything."""
    match = best_match(variants, found)
    return match.extraction.record if match is not None and match.extraction.present else None


@dataclass(frozen=True, slots=True)
class LearnerKey:
    site: str
    template: str
    page_type: str


@dataclass(slots=True)
class WaitingPage:
    """A page that waits for its template to be learned. `look_again` is True when it is to try again, False when
    nothing more will come."""

    page: TrainingPage
    template: str
    look_again: asyncio.Future[bool]
    id: str


@dataclass(slots=True)
class Learner:
    """The pages of one template and page type. `runs` counts training runs, `calls` what they asked the model.

    `patience`: so many times as many pages as usual must fit no variant before another run is tried. `missing` has the
    fields that the last run gave no selector for, and why; `fruitless` says why it brought nothing at all; `unserved`
    counts pages that were let go without a record. `was_restored`: an earlier crawl left it. `is_hasty`: its site
    was given up when too few pages were at hand, and the next owner learns it anew."""

    key: LearnerKey
    variants: list[Variant] = field(default_factory=list)
    waiting: dict[str, WaitingPage] = field(default_factory=dict)
    lacking: deque[tuple[TrainingPage, frozenset[str]]] = field(default_factory=lambda: deque(maxlen=_KEPT_PAGES))
    runs: int = 0
    calls: int = 0
    pages_shown: int = 0
    gave_up: bool = False
    patience: int = 1
    error: PageError | None = None
    missing: dict[str, str] = field(default_factory=dict)
    fruitless: str = ""
    unserved: int = 0
    was_restored: bool = False
    is_hasty: bool = False
    task: asyncio.Task[None] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what `read_learners` reads again."""
        return {
            "template": self.key.template,
            "page_type": self.key.page_type,
            "variants": [
                {"extractor": one.extractor.to_json(), "coverage": dict(sorted(one.coverage.items()))}
                for one in self.variants
            ],
            "calls": self.calls,
            "pages_shown": self.pages_shown,
            "gave_up": self.gave_up and self.error is None,  # what failed may do the next time
        }

    @property
    def is_learning(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def extractors(self) -> list[TemplateExtractor]:
        return [variant.extractor for variant in self.variants]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple({one.key: one for variant in self.variants for one in variant.extractor.fields}.values())

    def add_variant(self, variant: Variant | None) -> bool:
        """Add what a run has learned. None: it found nothing better, so what the latest pages have is the usual from
        here on."""
        for known in self.variants:
            if variant is None:
                known.coverage.update(known.drifted())
            known.seen.clear()  # from here on another variant may take some of its pages
        if variant is None:
            self.gave_up = not self.variants
            return False
        self.variants.append(variant)
        self.lacking.clear()
        return True

    def wake_all(self, *, look_again: bool) -> None:
        """Wake the waiting pages: with `look_again` they try their template anew, else they go without."""
        waiting, self.waiting = self.waiting, {}
        for one in waiting.values():
            if not one.look_again.done():
                one.look_again.set_result(look_again)

    def give_up(self, kind: str, reason: str) -> None:
        """Leave the template alone from here on, with this error on its pages."""
        self.gave_up, self.error = True, PageError("record", kind, reason)


def waiting_by_type(learners: Iterable[Learner]) -> Counter[str]:
    return Counter(one.key.page_type for one in learners for _ in one.waiting)


def successor_of(template: str, aliases: Mapping[str, str]) -> str:
    while template in aliases:
        template = aliases[template]
    return template


def extract_all(extractor: TemplateExtractor, pages: Sequence[TrainingPage]) -> list[Extraction]:
    compiled = compile_extractor(extractor)
    taken_apart = ((page, page.blocks().source) for page in pages)
    return [
        compiled.extract_from(PageSource(source.root, memory=source.memory), page.url, page.lang)
        for page, source in taken_apart
    ]


@dataclass(frozen=True, slots=True)
class LearningOutcome:
    """What is known of one template. `learned` are the names of the fields that have a selector, `missing` has the
    others that were asked for or named, and why. `unserved` pages got no record, for `reason`."""

    page_type: str
    learned: frozenset[str]
    missing: Mapping[str, str]
    unserved: int = 0
    reason: str = ""


def _reason(learner: Learner, min_pages: int | None) -> str:
    if learner.error is not None:
        return f"{learner.error.kind}: {learner.error.message}"
    if learner.fruitless:
        return learner.fruitless
    if learner.was_restored:
        return "an earlier crawl found nothing to learn"
    if min_pages is None:
        return "no structured data, and no model to learn from their text"
    if learner.unserved < min_pages:
        return f"no structured data, fewer than RECORD_MIN_PAGES={min_pages} pages of its template"
    return "the crawl ended before its template was learned"


def outcome_of(learner: Learner, min_pages: int | None, requested: RequestedSchema | None) -> LearningOutcome:
    """`min_pages`: a template with fewer is not learned; None where no model can learn any."""
    known = frozenset(one.key for one in learner.fields)
    reason = "" if known else _reason(learner, min_pages)
    wanted = () if requested is None else tuple(one.key for one in requested.fields)
    unexplained = "not among what was learned before" if learner.was_restored else "pointed at on none of the samples"
    missing = dict.fromkeys(wanted, reason or unexplained) | learner.missing
    missing = {name: why for name, why in missing.items() if name not in known}
    return LearningOutcome(learner.key.page_type, known, missing, learner.unserved, reason)


def read_learners(site: str, value: Any, _origin: str = "") -> list[Learner]:
    """Read what `RecordSerializer.to_json` gave. Raises ValueError for anything else."""
    learners = []
    try:
        if "wanted" not in value:
            raise ValueError("not the records of a site")
        for one in value["templates"]:
            variants = []
            for given in one["variants"]:
                coverage = {str(key): float(share) for key, share in given["coverage"].items()}
                variants.append(Variant(TemplateExtractor.from_json(given["extractor"]), coverage))
                compile_extractor(variants[-1].extractor)  # an invalid selector is found now, not on the first page
            learners.append(
                Learner(
                    LearnerKey(site, str(one["template"]), str(one["page_type"])),
                    variants,
                    runs=1 if variants else 0,  # each crawl may learn a template anew as often as the first one
                    calls=int(one["calls"]),
                    pages_shown=int(one["pages_shown"]),
                    gave_up=bool(one["gave_up"]),
                    was_restored=True,
                )
            )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the records of a site: {error!r}") from error
    return learners


def described_schema(extractors: Sequence[TemplateExtractor]) -> dict[str, Any] | None:
    """Return the JSON Schema of the records of a template, over all of its variants; None without any."""
    fields: dict[str, Field] = {one.key: one for extractor in extractors for one in extractor.fields}
    return schema_of(tuple(fields.values()), extractors[-1].page_type) if extractors else None


def described_selectors(extractors: Sequence[TemplateExtractor]) -> list[dict[str, Any]]:
    """Return one entry a selector: the field, the language of its query, what is taken, and how well it did."""
    found = []
    for number, extractor in enumerate(extractors, 1):
        named = [(name, "rows", selectors) for name, selectors in extractor.groups]
        named += [
            (rule.field.key, (rule.field.type or "string") + "[]" * rule.field.many, rule.selectors)
            for rule in extractor.rules
        ]
        for name, kind, selectors in named:
            for one in selectors:
                taken = {"attribute": one.attribute, "pattern": one.pattern}
                found.append(
                    {
                        "field": name,
                        "type": kind,
                        one.language: one.query,
                        **{key: value for key, value in taken.items() if value is not None},
                        "evidence": one.evidence,
                        "coverage": one.coverage,
                        "agreement": one.agreement,
                        "samples": one.samples,
                        "variant": number,
                    }
                )
    return found
