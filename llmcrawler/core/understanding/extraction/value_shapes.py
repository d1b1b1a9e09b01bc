"""Describes what the values of fields look like on a site's pages, and what these pages hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.extractor import Field, TemplateExtractor
from llmcrawler.core.understanding.extraction.queries import texts_at
from llmcrawler.core.understanding.extraction.training_set import TrainingPage
from llmcrawler.core.understanding.extraction.tree import fold

MAX_NAMES: Final = 1_000
FEW: Final = 3  # pages that tell nothing
_MAX_CHARS: Final = 200
_STRANGE_SHARE: Final = 0.2  # of a field's values may look like none of those that were seen
_REPEATED_MORE: Final = 0.5
_LONG: Final = (8, 60, 400)
_TEXTS_A_PAGE: Final = 3
_PATH_SHARE: Final = 0.1  # of pages: a training shows the model what so many have
_LABEL_SHARE: Final = 0.25  # names and other data that look like labels are on fewer

_LABEL_TAGS: Final = frozenset("th dt b strong label legend".split())
_CURRENCY: Final = re.compile(r"[$€£¥₹₽₩₺₴]|\b(?:USD|EUR|GBP|CHF|JPY|kr|zł|Kč|лв|R\$)", re.IGNORECASE)
_UNIT: Final = re.compile(r"\d\s?(kg|g|mg|lb|oz|km|m|cm|mm|ml|cl|l|min|h|%|kb|mb|gb|w|v)\b", re.IGNORECASE)
_LETTER: Final = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class FieldShape:
    """What values of a field look like: kinds of text, and the share of pages whose value no other page has."""

    kinds: frozenset[str]
    distinct: float

    @classmethod
    def joined(cls, shapes: Sequence[FieldShape]) -> Self:
        """Return the shape of a field that several sites have."""
        kinds = frozenset().union(*(one.kinds for one in shapes))
        return cls(kinds, sum(one.distinct for one in shapes) / max(1, len(shapes)))

    def differs_from(self, here: FieldShape, counts: Mapping[str, int]) -> bool:
        """Tell whether values of another site (`here`, with their kinds counted) are hardly values of this field."""
        total = sum(counts.values())
        strange = sum(count for kind, count in counts.items() if kind not in self.kinds)
        return total >= FEW and (
            strange > _STRANGE_SHARE * total or abs(self.distinct - here.distinct) > _REPEATED_MORE
        )


@dataclass(frozen=True, slots=True)
class Looks:
    """What the pages of a site show for an extractor."""

    shapes: Mapping[str, FieldShape]
    counts: Mapping[str, Counter[str]]
    labels: frozenset[str]
    paths: frozenset[str]


def looks_of(extractor: TemplateExtractor | None, pages: Sequence[TrainingPage]) -> Looks:
    """Look at all values of each field, and at labels and paths. With an extractor, which the pages have taught, these
    are all that the pages have; else those that so many have that a training would show one of them to the model.
    """
    kinds: dict[str, Counter[str]] = {}
    values: dict[str, list[str]] = {}
    labels, paths = Counter[str](), Counter[str]()
    for page in pages:
        blocks = page.blocks()
        labels.update(_labels(blocks))
        paths.update(blocks.listed().paths)
        for rule in () if extractor is None else extractor.rules:
            if rule.field.group:
                continue
            texts = next((given for one in rule.selectors if (given := texts_at(blocks.source, one))), [])
            for text in texts[:_TEXTS_A_PAGE]:
                kinds.setdefault(rule.field.key, Counter())[_kind(text, rule.field)] += 1
            if texts:
                values.setdefault(rule.field.key, []).append(fold(" ".join(texts))[:_MAX_CHARS])
    is_taught = extractor is not None
    return Looks(
        {key: FieldShape(frozenset(kinds[key]), len(set(found)) / len(found)) for key, found in values.items()},
        kinds,
        _often(labels, 1 if is_taught else _LABEL_SHARE * len(pages)),
        _often(paths, 1 if is_taught else _PATH_SHARE * len(pages)),
    )


def _labels(page: PageBlocks) -> set[str]:
    """Return the texts of elements that name what stands beside them. Headings and links are none: they may be data."""
    elements = ((block.text, page.spots[block.n].element) for block in page.blocks)
    named = ((text, one) for text, one in elements if one is not None and one.tag in _LABEL_TAGS)
    return {text for text, one in named if one.find(".//a") is None and next(one.iterancestors("a"), None) is None}


def _kind(text: str, field: Field) -> str:
    """Return what a value looks like: which characters it has, a currency, a unit, and how long a text it is."""
    text = fold(text[: _LONG[-1] + 1])
    unit = _UNIT.search(text)
    marks = [
        "9" if any(map(str.isdigit, text)) else "",
        "$" if _CURRENCY.search(text) else "",
        unit[1].lower() if unit and len(text) <= _LONG[0] + 8 else "",
    ]
    if field.type in ("number", "integer"):
        return " ".join(["number", *marks])
    if field.type in ("date", "url", "boolean"):
        return str(field.type)
    letters = "a" if _LETTER.search(text) else ""
    if len(text) > _LONG[1]:
        return "text" if len(text) <= _LONG[2] else "long text"
    return " ".join(["words", letters, *marks])


def _often(counts: Counter[str], least: float) -> frozenset[str]:
    chosen: Iterator[str] = (name for name, count in counts.items() if count >= least and len(name) <= _MAX_CHARS)
    return frozenset(sorted(chosen)[:MAX_NAMES])
