"""What one site has taught about its pages of a type, for other sites that the same software has made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Self

from llmcrawler.core.understanding.extraction.extraction_runs import Extraction, compile_extractor
from llmcrawler.core.understanding.extraction.extractor import TemplateExtractor
from llmcrawler.core.understanding.extraction.learner import extract_all
from llmcrawler.core.understanding.extraction.queries import is_bounded
from llmcrawler.core.understanding.extraction.stated.stated_record import PageToRead, stated_record
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.extraction.tree import fold
from llmcrawler.core.understanding.extraction.value_shapes import FEW, MAX_NAMES, FieldShape, looks_of
from llmcrawler.core.understanding.extraction.variants import Variant

MAX_LESSONS: Final = 16  # of one platform and page type
LEAST_AGREEMENT: Final = 0.9


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one site has taught about its pages of a type. `teacher` is whose site it is; `labels` and `paths` are all
    that the pages had which the model saw, `shown` so many. The fields `missing` were named, and have no
    selector; of those `restated` the pages say something else themselves (PT20M for 20 minutes).
    """

    teacher: str
    extractor: TemplateExtractor
    coverage: Mapping[str, float]
    shapes: Mapping[str, FieldShape]
    labels: frozenset[str]
    paths: frozenset[str]
    shown: int
    missing: frozenset[str] = frozenset()
    restated: frozenset[str] = frozenset()

    @property
    def keys(self) -> frozenset[str]:
        """Plain fields, and the names of groups."""
        return frozenset(self.coverage)

    def to_json(self) -> dict[str, Any]:
        return {
            "teacher": self.teacher,
            "extractor": self.extractor.to_json(),
            "coverage": dict(self.coverage),
            "shapes": {key: [sorted(one.kinds), one.distinct] for key, one in self.shapes.items()},
            "labels": sorted(self.labels),
            "paths": sorted(self.paths),
            "shown": self.shown,
            "missing": sorted(self.missing),
            "restated": sorted(self.restated),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave. Raises ValueError for anything else, and for a selector whose work has no bound."""
        try:
            extractor = TemplateExtractor.from_json(value["extractor"])
            selectors = [one for rule in extractor.rules for one in rule.selectors]
            selectors += [one for _, rows in extractor.groups for one in rows]
            if not all(map(is_bounded, selectors)):
                raise ValueError("a selector whose work has no bound")
            compile_extractor(extractor)
            shapes = {
                str(key): FieldShape(frozenset(map(str, kinds)), float(distinct))
                for key, (kinds, distinct) in value["shapes"].items()
            }
            coverage = {str(key): float(share) for key, share in value["coverage"].items()}
            labels, paths, missing, restated = (
                _names(value[name]) for name in ("labels", "paths", "missing", "restated")
            )
            shown = int(value["shown"])
            return cls(str(value["teacher"]), extractor, coverage, shapes, labels, paths, shown, missing, restated)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a lesson: {error!r}") from error


def lesson_of(
    variant: Variant, pages: Sequence[TrainingPage], teacher: str, *, shown: Iterable[str], missing: Iterable[str]
) -> Lesson:
    """Return what a site teaches with an extractor that it has learned from these pages; those `shown` to the model are
    named by their urls.
    """
    looks = looks_of(variant.extractor, pages)
    seen_pages = [page for page in pages if page.url in set(shown)]
    seen = looks_of(variant.extractor, seen_pages)
    restated = restated_fields(variant.extractor, pages, extract_all(variant.extractor, pages))
    return Lesson(
        teacher,
        variant.extractor,
        dict(variant.coverage),
        looks.shapes,
        seen.labels,
        seen.paths,
        len(seen_pages),
        frozenset(missing),
        restated,
    )


def with_lesson(lessons: Sequence[Lesson], learned: Lesson) -> list[Lesson]:
    """Return the lessons with one more. Of too many, those that differ most stay, and the older of two that do not: so
    nobody's are pushed out by many of somebody else's.
    """
    kept = [*lessons, learned]
    while len(kept) > MAX_LESSONS:
        pairs = combinations(range(len(kept)), 2)
        _, newer = max(pairs, key=lambda pair: _resemblance(kept[pair[0]].paths, kept[pair[1]].paths))
        del kept[newer]
    return kept


def restated_fields(
    extractor: TemplateExtractor, pages: Sequence[TrainingPage], found: Sequence[Extraction]
) -> frozenset[str]:
    """Return the fields of which the pages say something else themselves."""
    fields = [one for one in extractor.fields if not one.group and not one.many]
    both, equal = Counter[str](), Counter[str]()
    for page, extraction in zip(pages, found, strict=True):
        to_read = PageToRead(page.html, page.url, page.title, page.lang, extractor.page_type)
        stated = stated_record(to_read, fields) or {}
        for one in fields:
            said, taken = stated.get(one.key), extraction.record.get(one.key)
            if isinstance(said, str | int | float) and taken is not None:
                both[one.key] += 1
                equal[one.key] += fold(str(said)).casefold() == fold(str(taken)).casefold()
    return frozenset(key for key, count in both.items() if count >= FEW and equal[key] < LEAST_AGREEMENT * count)


def _resemblance(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError("names are no list of texts")
    return frozenset(value[:MAX_NAMES])
