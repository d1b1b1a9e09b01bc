"""Tries selectors that other sites of the same software have taught on a site's own pages, before any is trusted.

Each site leaves a lesson, and lessons are compared where they are to be used: those of two sites at least have to give
the same on these pages. What they give has to be there as often as there, to look alike (kind of characters, length,
how often it repeats), to agree with what selectors of another kind of evidence give and with what the pages say of
themselves; and the pages may hold nothing that the model has seen on none of those sites. Where any of this fails, the
template is learned as if nobody had taught it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from llmcrawler.core.understanding.extraction.extraction_runs import Extraction
from llmcrawler.core.understanding.extraction.extractor import FieldRule, Selector, TemplateExtractor
from llmcrawler.core.understanding.extraction.learner import extract_all
from llmcrawler.core.understanding.extraction.lessons import LEAST_AGREEMENT, Lesson, restated_fields
from llmcrawler.core.understanding.extraction.queries import texts_at
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.extraction.tree import fold
from llmcrawler.core.understanding.extraction.value_shapes import FEW, MAX_NAMES, FieldShape, Looks, looks_of
from llmcrawler.core.understanding.extraction.variants import Variant

_MOST_TRIED: Final = 8
_TAUGHT_BY: Final = 2
_FOR_ONE_AGAINST: Final = 4
_GIVEN_UP: Final = 3  # sites without a selector for a field, and it is not waited for
# Fewer may lack what one of three pages has: pages that it is tried on, and those that the model has seen elsewhere.
_LEAST_PAGES: Final = 10
_LEAST_CORE: Final = 2  # fields that nearly all pages have
_LEAST_FIT: Final = 0.9
_LEAST_KNOWN: Final = 0.5  # of the pages' structure, and a lesson is worth trying


def adopted(lessons: Iterable[Lesson], pages: Sequence[TrainingPage]) -> tuple[str, Variant | None]:
    """Return the variant that lessons of other sites make on these pages; else what speaks against it."""
    if len(pages) < _LEAST_PAGES:
        return f"{len(pages)} pages are too few to tell", None
    looks = looks_of(None, pages)
    near = sorted(lessons, key=lambda one: -_share(looks.paths, one.paths))[:_MOST_TRIED]
    near = [one for one in near if _share(looks.paths, one.paths) >= _LEAST_KNOWN]
    tried = [(one, extract_all(one.extractor, pages)) for one in near]
    fitting = [(one, found) for one, found in tried if _fits(one, found)]
    chosen = _agreeing(fitting)
    teachers = {one.teacher for one, _ in chosen}
    against = {one.teacher for one, _ in fitting} - teachers
    if len(teachers) < _TAUGHT_BY or len(teachers) < _FOR_ONE_AGAINST * len(against):
        return f"{len(teachers)} sites agree on such pages, {len(against)} do not", None
    taught = [one for one, _ in chosen]
    if (shown := sum(one.shown for one in taught)) < _LEAST_PAGES:
        return f"the model has seen {shown} pages of such sites, which are too few", None
    if new := _unknown(looks, taught):
        return f"nobody knows {new!r}", None
    if alone := _of_one_site(looks, chosen):
        return f"only one site has told of {alone}", None
    joined = _joined(taught)
    missing = Counter(key for one in taught for key in one.missing)
    if waited := [key for key, count in missing.items() if key not in joined.keys and count < _GIVEN_UP]:
        return f"{waited[0]} may be learned yet", None
    found = extract_all(joined.extractor, pages)
    doubt = _strange(joined, found, pages)
    return doubt, None if doubt else Variant.measured(joined.extractor, found)


def _fits(lesson: Lesson, found: Sequence[Extraction]) -> bool:
    known = Variant(lesson.extractor, dict(lesson.coverage))
    return len(known.core) >= _LEAST_CORE and sum(map(known.fit, found)) >= _LEAST_FIT * len(found)


_Tried = tuple[Lesson, list[Extraction]]


def _agreeing(fitting: Sequence[_Tried]) -> list[_Tried]:
    """Return the lessons that most others give the same as, each of those of one site counted once."""
    groups = [[other for other in fitting if _agree(one, other)] for one in fitting]
    return max(groups, key=lambda group: len({one.teacher for one, _ in group}), default=[])


def _agree(one: _Tried, other: _Tried) -> bool:
    shared = one[0].keys & other[0].keys
    if 2 * len(shared) < min(len(one[0].keys), len(other[0].keys)):
        return False
    for key in shared:
        values = [(_value(mine, key), _value(yours, key)) for mine, yours in zip(one[1], other[1], strict=True)]
        there = [pair for pair in values if any(value is not None for value in pair)]
        if sum(mine == yours for mine, yours in there) < LEAST_AGREEMENT * len(there):
            return False
    return True


def _unknown(looks: Looks, taught: Sequence[Lesson]) -> str:
    """Return a label, or a piece of structure, that the model has seen on none of the sites; "" for none."""
    new = sorted(looks.labels.difference(*(one.labels for one in taught)))
    return next(iter(new or sorted(looks.paths.difference(*(one.paths for one in taught)))), "")


def _of_one_site(looks: Looks, chosen: Sequence[_Tried]) -> str:
    """Return a field that one site only has told of, and that may be here: its selectors give something, or the pages
    hold what the model has seen on no site that has not told of it; "" for none.
    """
    tellers = _tellers([one for one, _ in chosen])
    here = {key for _, found in chosen for extraction in found for key in extraction.present}
    for key in sorted(key for key, count in tellers.items() if count < _TAUGHT_BY):
        if key in here or _unknown(looks, [one for one, _ in chosen if key not in one.keys]):
            return key
    return ""


def _tellers(taught: Sequence[Lesson]) -> Counter[str]:
    """Count the sites that have told of each field."""
    told = {(one.teacher, key) for one in taught for key in one.keys}
    return Counter(key for _, key in told)


def _joined(taught: Sequence[Lesson]) -> Lesson:
    """Return one lesson with the fields that two sites have told of, each with the selectors of the first of them; as
    often as a field is there at least, it has to be.
    """
    tellers = _tellers(taught)
    rules: dict[str, tuple[FieldRule, ...]] = {}
    groups: dict[str, tuple[Selector, ...]] = {}
    for one in taught:
        for key in sorted(one.keys - rules.keys()):
            if tellers[key] >= _TAUGHT_BY:
                rules[key] = tuple(rule for rule in one.extractor.rules if key in (rule.field.key, rule.field.group))
                groups |= {name: rows for name, rows in one.extractor.groups if name == key}
    first = taught[0]
    order = sorted(rules, key=lambda key: list(first.coverage).index(key) if key in first.coverage else MAX_NAMES)
    extractor = TemplateExtractor(
        first.extractor.page_type, tuple(rule for key in order for rule in rules[key]), tuple(groups.items())
    )
    coverage = {key: min(one.coverage.get(key, 0.0) for one in taught) for key in order}
    shapes = {key: FieldShape.joined([one.shapes[key] for one in taught if key in one.shapes]) for key in order}
    restated = {(one.teacher, key) for one in taught for key in one.restated}
    often = Counter(key for _, key in restated)
    return Lesson(
        first.teacher,
        extractor,
        coverage,
        shapes,
        labels=frozenset(),
        paths=frozenset(),
        shown=0,
        restated=frozenset(key for key, count in often.items() if count >= _TAUGHT_BY),
    )


def _strange(joined: Lesson, found: Sequence[Extraction], pages: Sequence[TrainingPage]) -> str:
    """Return what is not here as it was on the sites that have taught it; "" for nothing."""
    known = Variant(joined.extractor, dict(joined.coverage))
    for one in found:
        known.note(one)
    if drifted := known.drifted():
        return f"{drifted[0]} is there less often"
    looks = looks_of(joined.extractor, pages)
    for key, shape in looks.shapes.items():
        if joined.shapes[key].differs_from(shape, looks.counts[key]):
            return f"{key} looks like something else"
    if other := sorted(restated_fields(joined.extractor, pages, found) - joined.restated):
        return f"{other[0]} is not what the pages say of themselves"
    return _disagreement(joined.extractor.rules, pages)


def _disagreement(rules: Iterable[FieldRule], pages: Sequence[TrainingPage]) -> str:
    """Return why two kinds of evidence for one field give different values here, as they did nowhere else."""
    for rule in rules:
        kinds: dict[str, Selector] = {}
        for one in rule.selectors:
            kinds.setdefault(one.evidence, one)
        if rule.field.group or rule.field.many or rule.joined or len(kinds) < 2:
            continue
        first, second = list(kinds.values())[:2]
        if first.agreement is not None and first.agreement < LEAST_AGREEMENT:
            continue
        both = equal = 0
        for page in pages:
            source = page.blocks().source
            texts = [fold(given[0]) for given in (texts_at(source, first), texts_at(source, second)) if given]
            both += len(texts) == 2
            equal += len(texts) == 2 and texts[0] == texts[1]
        if both >= FEW and equal < LEAST_AGREEMENT * both:
            return f"{rule.field.key} stands elsewhere by its {second.evidence}"
    return ""


def _value(extraction: Extraction, key: str) -> Any:
    value: Any = extraction.record if key in extraction.present else None
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _share(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part & whole) / len(part) if part else 0.0
