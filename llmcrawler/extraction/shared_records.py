"""Tries selectors that other sites of the same software have taught on a site's own pages, before any is trusted.

What they give has to be there as often, to look alike (kind of characters, length, how often it repeats), to agree with
what selectors of another kind of evidence give and with what the pages say of themselves; and the pages may hold
nothing of which those sites knew nothing. Where any of this fails, the template is learned as if nobody had taught it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from llmcrawler.extraction.extraction_runs import Extraction, compile_extractor
from llmcrawler.extraction.extractor import Field, FieldRule, Selector, TemplateExtractor
from llmcrawler.extraction.learner import extract_all
from llmcrawler.extraction.queries import is_bounded, texts_at
from llmcrawler.extraction.stated.stated_record import PageToRead, stated_record
from llmcrawler.extraction.training_set import TrainingPage
from llmcrawler.extraction.tree import fold
from llmcrawler.extraction.value_shapes import FEW, MAX_NAMES, FieldShape, looks_of
from llmcrawler.extraction.variants import Variant

MAX_EXTRACTORS: Final = 8  # of one platform and page type
_MAX_SITES: Final = 8
_TAUGHT_BY: Final = 2
_FOR_ONE_AGAINST: Final = 4
_GIVEN_UP: Final = 3  # sites without a selector for a field, and it is not waited for
_LEAST_CORE: Final = 2  # fields that nearly all pages have
_LEAST_FIT: Final = 0.9
_LEAST_AGREEMENT: Final = 0.9
_COMMON_SHARE: Final = 0.25  # of pages; names and other data that look like labels are on fewer


@dataclass(frozen=True, slots=True)
class SharedExtractor:
    """An extractor that sites of one platform have taught. `labels` and `paths` are all that their pages had; of the
    fields `stated` their pages say the same of themselves. `has_grown`: the last site has found fields that no other
    one had, so there may be more of them. `in_vain` counts sites that named a field and found no selector.
    """

    extractor: TemplateExtractor
    coverage: Mapping[str, float]
    shapes: Mapping[str, FieldShape]
    labels: frozenset[str]
    paths: frozenset[str]
    stated: frozenset[str] = frozenset()
    sites: int = 1
    against: int = 0
    taught_by: tuple[str, ...] = ()
    has_grown: bool = False
    in_vain: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_trusted(self) -> bool:
        if self.has_grown or any(count < _GIVEN_UP for count in self.in_vain.values()):
            return False
        return self.sites >= _TAUGHT_BY and self.sites >= _FOR_ONE_AGAINST * self.against

    def to_json(self) -> dict[str, Any]:
        return {
            "extractor": self.extractor.to_json(),
            "coverage": dict(self.coverage),
            "shapes": {key: [sorted(one.kinds), one.distinct] for key, one in self.shapes.items()},
            "labels": sorted(self.labels),
            "paths": sorted(self.paths),
            "stated": sorted(self.stated),
            "sites": self.sites,
            "against": self.against,
            "taught_by": list(self.taught_by),
            "has_grown": self.has_grown,
            "in_vain": dict(self.in_vain),
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
            return cls(
                extractor,
                {str(key): float(share) for key, share in value["coverage"].items()},
                shapes,
                _names(value["labels"]),
                _names(value["paths"]),
                _names(value["stated"]),
                int(value["sites"]),
                int(value["against"]),
                tuple(map(str, value["taught_by"][:_MAX_SITES])),
                bool(value["has_grown"]),
                {str(key): int(count) for key, count in value["in_vain"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a shared extractor: {error!r}") from error


def learned_from(
    variant: Variant, pages: Sequence[TrainingPage], site: str, missing: Iterable[str] = ()
) -> SharedExtractor:
    """Return what a site teaches with an extractor that it has learned from these pages; the fields `missing` were
    named, and have no selector.
    """
    looks = looks_of(variant.extractor, pages, share=0.0)
    both, equal = _stated_too(variant.extractor, pages, extract_all(variant.extractor, pages))
    stated = frozenset(key for key, count in both.items() if equal[key] >= _LEAST_AGREEMENT * count)
    coverage = dict(variant.coverage)
    return SharedExtractor(
        variant.extractor, coverage, looks.shapes, looks.labels, looks.paths, stated,
        taught_by=(site,), in_vain=dict.fromkeys(missing, 1),
    )  # fmt: skip


def objection(shared: SharedExtractor, pages: Sequence[TrainingPage]) -> tuple[str, Variant | None]:
    """Return what speaks against an extractor of other sites on these pages: "" where nothing does, with the variant
    that it makes here.
    """
    found = extract_all(shared.extractor, pages)
    known = Variant(shared.extractor, dict(shared.coverage))
    if len(known.core) < _LEAST_CORE:
        return "too few fields to tell", None
    if sum(map(known.fit, found)) < _LEAST_FIT * len(pages):
        return "its fields are not there", None
    for one in found:
        known.note(one)
    if drifted := known.drifted():
        return f"{drifted[0]} is there less often", None
    looks = looks_of(shared.extractor, pages, share=_COMMON_SHARE)
    if new := sorted(looks.labels - shared.labels) or sorted(looks.paths - shared.paths):
        return f"nobody knows {new[0]!r}", None
    for key, shape in shared.shapes.items():
        if key in looks.shapes and shape.differs_from(looks.shapes[key], looks.counts[key]):
            return f"{key} looks like something else", None
    doubt = _disagreement(shared.extractor.rules, pages)
    if shared.stated and not doubt:
        both, equal = _stated_too(shared.extractor, pages, found)
        wrong = sorted(key for key in shared.stated if equal[key] < _LEAST_AGREEMENT * both[key])
        doubt = f"{wrong[0]} is not what the pages say of themselves" if wrong else ""
    return doubt, None if doubt else Variant.measured(shared.extractor, found)


def compared(shared: SharedExtractor, own: TemplateExtractor, pages: Sequence[TrainingPage]) -> bool | None:
    """Tell whether what others have taught gives what a site has learned by itself, on its pages: None where it is
    about something else.
    """
    known = Variant(shared.extractor, dict(shared.coverage))
    found, right = extract_all(shared.extractor, pages), extract_all(own, pages)
    if not known.core or sum(map(known.fit, found)) < _LEAST_FIT * len(pages):
        return None
    both = {name for one in found for name in one.present} & {name for one in right for name in one.present}
    if 2 * len(both) < min(len(_keys(shared.extractor)), len(_keys(own))):
        return None
    return all(_agree(found, right, key) for key in both)


def taught(known: Sequence[SharedExtractor], learned: SharedExtractor, same: int | None) -> list[SharedExtractor]:
    """Return the extractors with what one site has learned. `same` is the place of the one that gives the same."""
    (site,) = learned.taught_by
    if same is None:
        return [*known, learned]
    one = known[same]
    if site in one.taught_by:
        return list(known)
    own = {rule.field.key for rule in one.extractor.rules} | {name for name, _ in one.extractor.groups}
    more = tuple(rule for rule in learned.extractor.rules if rule.field.key not in own and not _is_in(rule.field, own))
    groups = tuple(group for group in learned.extractor.groups if group[0] not in own)
    extractor = replace(one.extractor, rules=one.extractor.rules + more, groups=one.extractor.groups + groups)
    tried = Counter(one.in_vain) + Counter(learned.in_vain)
    shapes = dict(learned.shapes)
    for key, shape in one.shapes.items():
        other = shapes.get(key, shape)
        shapes[key] = FieldShape(shape.kinds | other.kinds, (shape.distinct + other.distinct) / 2)
    joined = replace(
        one,
        extractor=extractor,
        coverage={**learned.coverage, **one.coverage},
        shapes=shapes,
        labels=frozenset(sorted(one.labels | learned.labels)[:MAX_NAMES]),
        paths=frozenset(sorted(one.paths | learned.paths)[:MAX_NAMES]),
        stated=one.stated & learned.stated,
        sites=one.sites + 1,
        has_grown=bool(more or groups),
        in_vain={key: count for key, count in tried.items() if key not in {rule.field.key for rule in extractor.rules}},
        taught_by=(*one.taught_by, site)[-_MAX_SITES:],
    )
    return [*known[:same], joined, *known[same + 1 :]]


def spoken_against(known: Sequence[SharedExtractor], place: int, site: str) -> list[SharedExtractor]:
    """Return the extractors with one more site, once, that has learned something else than that at `place`."""
    one = known[place]
    if site in one.taught_by:
        return list(known)
    worse = replace(one, against=one.against + 1, taught_by=(*one.taught_by, site)[-_MAX_SITES:])
    return [*known[:place], worse, *known[place + 1 :]]


def _disagreement(rules: Iterable[FieldRule], pages: Sequence[TrainingPage]) -> str:
    """Return why two kinds of evidence for one field give different values here, as they did nowhere else."""
    for rule in rules:
        kinds: dict[str, Selector] = {}
        for one in rule.selectors:
            kinds.setdefault(one.evidence, one)
        if rule.field.group or rule.field.many or rule.joined or len(kinds) < 2:
            continue
        first, second = list(kinds.values())[:2]
        if first.agreement is not None and first.agreement < _LEAST_AGREEMENT:
            continue
        both = equal = 0
        for page in pages:
            source = page.blocks().source
            texts = [fold(given[0]) for given in (texts_at(source, first), texts_at(source, second)) if given]
            both += len(texts) == 2
            equal += len(texts) == 2 and texts[0] == texts[1]
        if both >= FEW and equal < _LEAST_AGREEMENT * both:
            return f"{rule.field.key} stands elsewhere by its {second.evidence}"
    return ""


def _stated_too(
    extractor: TemplateExtractor, pages: Sequence[TrainingPage], found: Sequence[Extraction]
) -> tuple[Counter[str], Counter[str]]:
    """Count by field the pages that say something of it themselves, and those of them that say what was extracted."""
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
    return both, equal


def _agree(found: Sequence[Extraction], right: Sequence[Extraction], key: str) -> bool:
    pairs = [
        (_value(one, key), _value(other, key))
        for one, other in zip(found, right, strict=True)
        if key in one.present and key in other.present
    ]
    return sum(bool(one == other) for one, other in pairs) >= _LEAST_AGREEMENT * len(pairs)


def _value(extraction: Extraction, key: str) -> Any:
    value: Any = extraction.record
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _keys(extractor: TemplateExtractor) -> set[str]:
    plain = {rule.field.key for rule in extractor.rules if not rule.field.group}
    return plain | {name for name, _ in extractor.groups}


def _is_in(one: Field, names: set[str]) -> bool:
    return one.group in names


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError("names are no list of texts")
    return frozenset(value[:MAX_NAMES])
