"""Tells with what probability a candidate on the pages of a template is a field, by boosted trees.

What they look at is how the candidate is called, what the scorer of blocks says of it, whether its texts are of the
kind that the field's values are, how all this compares with the other candidates and the other fields, how its texts
vary over the pages, and where they stand. `candidate_scorer.npz` is made by benchmarks/candidate_train.py of
development templates with their truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import islice
from statistics import fmean, median, pstdev
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_trees import BlockTrees
from llmcrawler.core.understanding.extraction.field_names import affinity, usual_kind
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.text_kinds import KINDS, kind_odds, text_kind
from llmcrawler.core.understanding.extraction.typed_values import fits, read_date
from llmcrawler.core.understanding.extraction.value_scorer import FIELDS, NO_SCORE, ScoredPage, says, value_part

Where = tuple[tuple[int, ...], str | None]
"""Blocks of a page, and the part of their text that is the value; None: all of it."""
Spots = dict[int, list[Where]]
"""Where a value stands on each page that has it, by the page's place."""
Floats = NDArray[np.float32]

_TRAINED: Final = 0.7  # a field that means one that the scorer of blocks knows so surely is scored by it
_USUAL: Final = 0.9
_COVERAGE_GAIN: Final = 1.25  # a candidate on four fifths of the pages is on all of them
_ABSENT_LOSS: Final = 3.0
_LEAST: Final = -8.0  # scores below tell no more
_NO_KIND: Final = -9.0
_NEAR: Final = 0.7
_NAMED: Final = 0.3
_SAME: Final = 0.9
_AGREED: Final = 0.5
_TOLD: Final = 0.9
_KINDS_OF_NAMES: Final = ("person", "role", "place", "company", "street")
_MAX_SPOTS: Final = 20  # of a page
_MAX_TEXTS: Final = 8  # that are read as values of a type or kind
_MAX_CHARS: Final = 300
_MAX_LIST_CHARS, _MAX_ITEM_CHARS = 1_000, 40
_BETWEEN_ITEMS: Final = (";", " | ", " · ", " • ", ", ", "、", " / ")
_SEVERAL: Final = 1.3  # blocks a page
_FORMS: Final = (
    {"title"},
    {"description", "instructions"},
    {"date_published", "date_modified", "start_date", "end_date"},
    {"author", "job_title", "company", "brand", "publisher"},
    {"location", "city", "address"},
)


@dataclass(slots=True)
class FieldCandidate:
    """What may be a field: where it stands, and what it is called (name -> weight, 0..1). Where a column has several
    blocks on a page, `spots` has them all. `is_text`: they are paragraphs."""

    spots: Spots = field(default_factory=dict)
    names: dict[str, float] = field(default_factory=dict)
    is_label: bool = False
    is_list: bool = False
    is_text: bool = False

    def weight(self, one: Field) -> float:
        """Return how surely it is called as a field is."""
        return max((weight * affinity(one, name) for name, weight in self.names.items()), default=0.0)

    @property
    def is_several(self) -> bool:
        return fmean(map(len, self.spots.values())) > _SEVERAL


@dataclass(frozen=True, slots=True)
class ScoredTemplate:
    """The pages of a template, and what is known beside them. For each page `said` has what its structured data says,
    without signs and spaces, and `stated` what that gives the fields; `usual` are those that are usual for the page
    type. `has_posts`: the pages are threads, whose first post is what a field is of."""

    pages: Sequence[ScoredPage]
    titles: Sequence[str]
    lang: Sequence[str]
    said: Sequence[set[str]]
    stated: Sequence[Mapping[str, Any]]
    usual: Sequence[Field]
    is_requested: bool
    has_posts: bool
    counts: Counter[str] = field(default_factory=Counter)  # on how many pages a text occurs

    def text(self, place: int, where: Where) -> str:
        blocks, quote = where
        return quote or " ".join(self.pages[place].page.blocks[number - 1].text for number in blocks)


@lru_cache(maxsize=4_096)
def trained_field(one: Field) -> str | None:
    """Return the field that the scorer of blocks knows which a field means."""
    known = {name: weight for name in FIELDS if (weight := affinity(one, name)) >= _TRAINED}
    return max(known, key=lambda name: known[name], default=None)


def probabilities(template: ScoredTemplate, candidates: Sequence[FieldCandidate], wanted: Sequence[Field]) -> Floats:
    """Return with what probability each candidate is each field: a row per field, a column per candidate."""
    if not candidates or not wanted:
        return np.zeros((len(wanted), len(candidates)), np.float32)
    first, second = two_steps("candidate_scorer.npz")
    tables = list(feature_tables(template, candidates, wanted))
    odds = np.array([first.log_odds([table]) for table in tables])
    found = []
    for table, others in zip(tables, compared(odds), strict=True):
        chances = 1 / (1 + np.exp(-second.log_odds([table, others])))
        told = "label,name,fits many,agrees,requested,usual".split(",")
        label, name, fits_many, agrees, requested, usual = (table[:, FEATURES.index(feature)] for feature in told)
        # It is what its label or the structured data says, though it be the same on all pages.
        is_labelled = (label > 0) & (name >= _SAME) & ((requested > 0) | (usual > 0))
        is_told = (is_labelled | (agrees > _AGREED)) & (fits_many > 0)
        found.append(np.where(is_told, np.maximum(chances, _TOLD), chances))
    return np.array(found)


def compared(odds: NDArray[Any]) -> Iterator[Floats]:
    """Yield for each field what the second step sees of the first one's log odds, a row per candidate: its own, those
    of the field that it is else most likely, and of the candidate that is else most likely the field; and its rank.
    """
    for number, own in enumerate(odds):
        fields = np.delete(odds, number, 0).max(0) if len(odds) > 1 else np.full(len(own), _LEAST)
        others = best_other(own)
        yield np.column_stack([own, fields, own - fields, others, own - others, _above(own)]).astype(np.float32)


def feature_tables(
    template: ScoredTemplate, candidates: Sequence[FieldCandidate], wanted: Sequence[Field]
) -> Iterator[Floats]:
    """Yield for each field the numbers that tell which candidate it is: a row per candidate, a column per FEATURES."""
    headings = [_heading(page) for page in template.pages]
    own = [_own_features(template, headings, one) for one in candidates]
    of_candidates = np.array([[row[name] for name in OWN] for row in own], np.float32)
    scores = _Scores(template, candidates)
    texts = (
        [template.text(place, spots[0])[:_MAX_CHARS] for place, spots in islice(one.spots.items(), _MAX_TEXTS)]
        for one in candidates
    )
    names, kinds = _Names(candidates), TextKinds(texts)
    may_be_many = [_may_be_many(template, one) for one in candidates]
    for one in wanted:
        trained = trained_field(one)
        told = {
            **names.features(one, wanted),
            **scores.features(one, trained),
            **kinds.features(one),
            **_form_features(template, candidates, one, trained),
            **_stated_features(template, candidates, trained, [page.get(one.name) for page in template.stated]),
            "many": one.many,
            "fits many": [one.many in many for many in may_be_many],
            "requested": template.is_requested,
            "usual": any(affinity(one, other.name) >= _USUAL for other in template.usual),
            "pages": np.log2(len(template.pages)),
            **{f"is {min(form)}": trained in form for form in _FORMS},
        }
        columns = [np.broadcast_to(np.asarray(told[name], np.float32), len(candidates)) for name in COMPARED]
        yield np.column_stack([of_candidates, *columns])


def _own_features(template: ScoredTemplate, headings: Sequence[int], one: FieldCandidate) -> dict[str, float]:
    """Return what tells something of a candidate, whatever the field."""
    firsts = [(place, spots[0]) for place, spots in one.spots.items()]
    said = [template.text(place, where) for place, where in firsts]
    total, count = len(template.pages), len(firsts)
    often = Counter(said)
    sizes = [len(text) for text in said]
    kinds = Counter((text_kind(text) or KINDS)[0] for text in said[:_MAX_TEXTS])
    numbers = [(place, blocks[0]) for place, (blocks, _) in firsts]
    place, number = numbers[0]
    column = template.pages[place].columns[number - 1]
    gap = median(number - headings[place] if headings[place] else 0 for place, number in numbers)
    return {
        "coverage": count / total,
        "spots": np.log2(fmean(map(len, one.spots.values()))),
        "distinct": len(often) / count,
        "most often": max(often.values()) / count,
        "on pages": min(3.0, fmean(template.counts[text] for text in said) / total),
        "chars": np.log2(1 + fmean(sizes)),
        "chars vary": pstdev(sizes) / (1 + fmean(sizes)),
        "words": np.log2(1 + fmean(text.count(" ") for text in said)),
        "digits": fmean(sum(map(str.isdigit, text[:60])) / max(1, len(text[:60])) for text in said),
        "capital": fmean(text[:1].isupper() for text in said),
        "label": one.is_label,
        "list": one.is_list,
        "paragraphs": one.is_text,
        "part": fmean(where[1] is not None for _, where in firsts),
        "blocks": np.log2(fmean(len(where[0]) for _, where in firsts)),
        "place": fmean(number / len(template.pages[place].page.blocks) for place, number in numbers),
        "gap": float(np.sign(gap) * np.log2(1 + abs(gap))),
        "in title": fmean(text in template.titles[place] for text, (place, _) in zip(said, firsts, strict=True)),
        "attribute": column is not None and column.key[1] is not None,
        "image": column is not None and column.key[1] == "src",
        "said": fmean(plain(text) in template.said[place] for text, (place, _) in zip(said, firsts, strict=True)),
        **{kind: kinds[kind] / min(count, _MAX_TEXTS) for kind in _KINDS_OF_NAMES},
    }


def _may_be_many(template: ScoredTemplate, one: FieldCandidate) -> tuple[bool, ...]:
    """Tell whether a candidate may be a list, may be no list, or both: a text that signs part into items."""
    place, spots = next(iter(one.spots.items()))
    if one.is_list or len(spots) > 1:
        return (True,)
    return (True, False) if items_of(template.text(place, spots[0])) else (False,)


def _heading(page: ScoredPage) -> int:
    """Return the number of the block that is the page's heading, 0 where none is."""
    return next((at for at, one in enumerate(page.columns, 1) if one and one.key[1] is None and "h1" in one.frame), 0)


class _Names:
    """How candidates are called, as fields are."""

    def __init__(self, candidates: Sequence[FieldCandidate]) -> None:
        self._candidates = candidates
        self._weights: dict[Field, NDArray[np.float64]] = {}

    def _weights_of(self, one: Field) -> NDArray[np.float64]:
        """Return the weight of the name that fits best, how well it fits, and the weight of the name that fits best
        without regard to its weight: three rows."""
        if one not in self._weights:
            fit = [
                [(weight, affinity(one, name)) for name, weight in other.names.items()] or [(0.0, 0.0)]
                for other in self._candidates
            ]
            best = [max(pairs, key=lambda pair: (pair[1], pair[0])) for pairs in fit]
            weights = [max(weight * near for weight, near in pairs) for pairs in fit]
            self._weights[one] = np.array([weights, [near for _, near in best], [weight for weight, _ in best]])
        return self._weights[one]

    def features(self, one: Field, wanted: Sequence[Field]) -> dict[str, Any]:
        weights, near, of_name = self._weights_of(one)
        others = [self._weights_of(other)[0] for other in wanted if other.key != one.key]
        return {
            "name": weights,
            "name fits": near,
            "weight of name": of_name,
            "name of others": best_other(weights),
            "name for another field": np.max(others, axis=0) if others else 0.0,
            "named so": np.log2(1 + np.count_nonzero(weights > _NAMED)),
        }


class _Scores:
    """What the scorer of blocks says of candidates: over their pages, by the best spot of each."""

    def __init__(self, template: ScoredTemplate, candidates: Sequence[FieldCandidate]) -> None:
        mean, low, positive, possible, coverage = [], [], [], [], []
        for one in candidates:
            rows = np.array(
                [
                    template.pages[place]
                    .scores[[where[0][0] - 1 for where in spots[: 1 if template.has_posts else _MAX_SPOTS]]]
                    .max(0)
                    for place, spots in one.spots.items()
                ]
            )
            mean.append(np.maximum(rows, _LEAST).mean(0))
            low.append(rows.min(0))
            positive.append((rows > 0).mean(0))
            possible.append((rows > NO_SCORE).mean(0))
            coverage.append(len(rows) / len(template.pages))
        self._mean, self._low = np.array(mean), np.array(low)
        self._positive, self._possible = np.array(positive), np.array(possible)
        share = np.minimum(1, _COVERAGE_GAIN * np.array(coverage))[:, None]
        # On pages of which a candidate says nothing it counts as one that is no such field.
        self._worth = self._mean * share + np.minimum(-_ABSENT_LOSS, self._mean - _ABSENT_LOSS) * (1 - share)

    def features(self, one: Field, trained: str | None) -> dict[str, Any]:
        names = ("score", "low score", "positive", "possible", "over others", "rank", "near")
        if trained is None:
            return {"trained": 0.0, **dict.fromkeys(names, -9.0), "over other fields": -self._mean.max(1)}
        at = FIELDS.index(trained)
        worth = self._worth[:, at]
        others = [number for number, name in enumerate(FIELDS) if affinity(one, name) < _TRAINED]
        return {
            "trained": affinity(one, trained),
            "score": self._mean[:, at],
            "low score": self._low[:, at],
            "positive": self._positive[:, at],
            "possible": self._possible[:, at],
            "over others": worth - best_other(worth),
            "rank": np.log2(1 + _above(worth)),
            "near": _above(worth, worth - _NEAR),
            "over other fields": self._mean[:, at] - self._mean[:, others].max(1),
        }


class TextKinds:
    """What the texts of each candidate are: names of people, prices, colours ..."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self._odds = np.array([np.mean([kind_odds(text) for text in some], 0) for some in texts])
        self._best = np.sort(self._odds, 1)[:, -2:]

    def features(self, one: Field) -> dict[str, Any]:
        kind = usual_kind(one.name)
        found = {"no kind": self._odds[:, 0]}
        if kind is None:
            return found | dict.fromkeys(("kind", "kind over other kinds", "kind over other candidates"), _NO_KIND)
        own = self._odds[:, KINDS.index(kind)]
        other = np.where(own >= self._best[:, 1], self._best[:, 0], self._best[:, 1])
        return found | {
            "kind": own,
            "kind over other kinds": own - other,
            "kind over other candidates": own - best_other(own),
        }


def _above(numbers: NDArray[Any], limits: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return for each number how many are above it, or above its limit."""
    ordered = np.sort(numbers)
    return len(numbers) - np.searchsorted(ordered, numbers if limits is None else limits, side="right")


def best_other(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return for each candidate the best number of another one."""
    if len(numbers) < 2:
        return np.full(len(numbers), _LEAST)
    second, best = np.sort(numbers)[-2:]
    return np.asarray(np.where(numbers == best, second, best))


def _form_features(
    template: ScoredTemplate, candidates: Sequence[FieldCandidate], one: Field, trained: str | None
) -> dict[str, Any]:
    kind = one.type or "string"
    found = {"date": kind == "date", "number": kind in ("number", "integer"), "url": kind == "url"}
    if kind == "string":
        return {**found, "fits": 1.0}

    def is_fit(place: int, where: Where) -> bool:
        text = template.text(place, where)[:_MAX_CHARS]
        if kind == "date" and read_date(text, template.lang[place]):
            return True
        part = value_part(trained, text) if trained else text
        return part is not None and (kind == "date" or fits(part, kind))

    shares = (
        [is_fit(place, spots[0]) for place, spots in islice(other.spots.items(), _MAX_TEXTS)] for other in candidates
    )
    return {**found, "fits": [fmean(share) for share in shares]}


def _stated_features(
    template: ScoredTemplate, candidates: Sequence[FieldCandidate], trained: str | None, stated: Sequence[Any]
) -> dict[str, Any]:
    """Return on what share of the pages structured data states the field, and whether candidates agree there."""
    values = {
        place: value if isinstance(value, list) else [value] for place, value in enumerate(stated) if value is not None
    }

    def agreement(one: FieldCandidate) -> float:
        """Return from -1, it says other things, to 1; 0 where nothing is stated."""
        both = [place for place in one.spots if place in values]
        agreed = sum(
            any(
                says(trained, text, str(value), template.lang[place]) if trained else plain(text) == plain(str(value))
                for where in one.spots[place][:_MAX_SPOTS]
                for text in (template.text(place, where),)
                for value in values[place]
            )
            for place in both
        )
        return (2 * agreed - len(both)) / max(1, len(both))

    agrees = [agreement(one) for one in candidates] if values else 0.0
    return {"stated": len(values) / len(template.pages), "agrees": agrees}


def items_of(text: str) -> list[str]:
    """Return the items of a list in one text: parted by signs, short, and no sentences."""
    sign = next((one for one in _BETWEEN_ITEMS if one in text), "")
    items = [item.strip() for item in text.split(sign)] if sign and len(text) <= _MAX_LIST_CHARS else []
    is_list = len(set(items)) == len(items) and all(0 < len(one) <= _MAX_ITEM_CHARS for one in items)
    return items if is_list and not text.endswith((".", "!", "?")) else []


def plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


OWN: Final = (
    *"coverage,spots,distinct,most often,on pages,chars,chars vary,words,digits,capital,label,list,paragraphs".split(
        ","
    ),
    *"part,blocks,place,gap,in title,attribute,image,said".split(","),
    *_KINDS_OF_NAMES,
)
COMPARED: Final = (
    *"name,name fits,weight of name,name of others,name for another field,named so,trained,score,low score".split(","),
    *"positive,possible,over others,rank,near,over other fields,date,number,url,fits,stated,agrees,many".split(","),
    *"fits many,requested,usual,pages,kind,kind over other kinds,kind over other candidates,no kind".split(","),
    *(f"is {min(form)}" for form in _FORMS),
)
FEATURES: Final = (*OWN, *COMPARED)


@cache
def two_steps(file: str) -> tuple[BlockTrees, BlockTrees]:
    """Return the trees of both steps that a file beside this has."""
    with np.load(BytesIO(files(__package__).joinpath(file).read_bytes())) as arrays:
        first, second = ({name: arrays[f"{step} {name}"] for name in BlockTrees.ARRAYS} for step in ("first", "second"))
    return BlockTrees(first), BlockTrees(second)
