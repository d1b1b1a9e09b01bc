"""Pages on which the model has pointed at the values of fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lxml import etree

from llmcrawler.extraction.blocks import PageBlocks, Spot
from llmcrawler.extraction.tree import fold, text_of


@dataclass(frozen=True, slots=True)
class Pointed:
    """What the model says of one value: the numbers of its blocks, and the part of the text that it is (None: all)."""

    field: str
    blocks: tuple[int, ...]
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a sample, white space folded, and where it stands."""

    text: str
    spot: Spot


@dataclass(frozen=True, slots=True)
class Sample:
    """A page and its values by the key of their field, in document order; a field without values is not on the page."""

    page: PageBlocks
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, page: PageBlocks, pointed: Iterable[Pointed]) -> Sample:
        """Pointers to blocks that the page does not have are left out."""
        values: dict[str, dict[int, Value]] = {}
        for one in pointed:
            for number in one.blocks:
                if number in page.spots:
                    text = fold(one.quote) if one.quote else page.blocks[number - 1].text
                    values.setdefault(one.field, {})[number] = Value(text, page.spots[number])
        return cls(page, {name: tuple(found[n] for n in sorted(found)) for name, found in values.items()})


def as_one(values: Sequence[Value]) -> tuple[Value, ...]:
    """Values that are pieces of one text, as the element that holds just them, where there is one."""
    elements = [value.spot.element for value in values if value.spot.element is not None]
    if len(values) < 2 or len(elements) < len(values):
        return tuple(values)
    if len({value.text for value in values}) == 1:
        return (values[0],)
    whole = " ".join(value.text for value in values)
    for holder in _holders(elements):
        text = text_of(holder)
        if text.replace(" ", "") == whole.replace(" ", ""):
            return (Value(text, Spot(holder)),)
        if len(text) > 1.2 * len(whole) + 20:
            break
    return tuple(values)


def _holders(elements: Sequence[etree._Element]) -> Iterable[etree._Element]:
    yield elements[0]
    yield from elements[0].iterancestors()
