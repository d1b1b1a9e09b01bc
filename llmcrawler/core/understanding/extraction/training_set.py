"""Keeps the pages that selectors are learned from: those whose values an annotator has pointed at, and others."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Spot
from llmcrawler.core.understanding.extraction.extractor import Selector
from llmcrawler.core.understanding.extraction.queries import texts_at
from llmcrawler.core.understanding.extraction.tree import TRAINING_STEPS, Work, fold, line_up, text_of

# Selectors are learned from the first so many characters of a page, and from so many of all pages.
_MAX_PAGE_CHARS = 1_000_000
_MAX_CHARS = 8_000_000
_KEPT_PAGES = 24  # a run has twenty, if the settings are as they come


class TrainingPage:
    """A page kept for learning; its HTML is packed, and cut where a page is longer than any that is learned from."""

    __slots__ = ("_packed", "chars", "features", "lang", "title", "url")

    def __init__(self, url: str, title: str, lang: str, html: str, features: frozenset[str]) -> None:
        self.url = url
        self.title = title
        self.lang = lang
        self.features = features
        html = html[:_MAX_PAGE_CHARS]
        self.chars = len(html)
        self._packed = zlib.compress(html.encode("utf-8", "replace"), 1)

    @property
    def html(self) -> str:
        return zlib.decompress(self._packed).decode("utf-8")

    def blocks(self) -> PageBlocks:
        """Return the page taken apart, with as much work allowed as a run may do on it. The pages of the latest run are
        kept so: it looks at them again after each answer.
        """
        page = _taken_apart(self._packed, self.url)
        page.source.work = Work(TRAINING_STEPS)
        return page


@lru_cache(maxsize=_KEPT_PAGES)
def _taken_apart(packed: bytes, url: str) -> PageBlocks:
    return PageBlocks(zlib.decompress(packed).decode("utf-8"), url)


def first_pages(pages: Sequence[TrainingPage]) -> list[TrainingPage]:
    """Return the first pages, which together are no longer than may be learned from, but two at least."""
    chars, chosen = 0, list[TrainingPage]()
    for page in pages:
        chars += page.chars
        if chars > _MAX_CHARS and len(chosen) > 1:
            break
        chosen.append(page)
    return chosen


@dataclass(frozen=True, slots=True)
class Pointed:
    """Value that an annotator points at: the numbers of its blocks, and the part of their text (None: all)."""

    field: str
    blocks: tuple[int, ...]
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a page, white space folded, and where it stands."""

    text: str
    spot: Spot


@dataclass(frozen=True, slots=True)
class AnnotatedPage:
    """A page and its values by the key of their field, in document order; a field without values is not on the page."""

    page: PageBlocks
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, page: PageBlocks, pointed: Iterable[Pointed]) -> AnnotatedPage:
        """Resolve pointers; those to blocks that the page does not have are left out."""
        values: dict[str, dict[int, Value]] = {}
        for one in pointed:
            for number in one.blocks:
                if number in page.spots:
                    text = fold(one.quote) if one.quote else page.blocks[number - 1].text
                    values.setdefault(one.field, {})[number] = Value(text, page.spots[number])
        return cls(page, {name: tuple(found[n] for n in sorted(found)) for name, found in values.items()})


class TrainingSet:
    """The annotated pages and the others of a template. Remembers what each selector gives on each of them."""

    def __init__(self, annotated: Sequence[AnnotatedPage], others: Sequence[PageBlocks]) -> None:
        self.annotated = annotated
        self.others = others
        self._texts: dict[tuple[int, str, str | None], list[str]] = {}

    def forget(self) -> None:
        """Drop the texts that selectors gave: those of one field are of little use for the next."""
        self._texts.clear()

    def texts(self, page: PageBlocks, selector: Selector) -> list[str]:
        """Return all texts that a selector gives on a page, its pattern left aside."""
        key = (id(page), selector.query, selector.attribute)
        if key not in self._texts:
            plain = selector if selector.pattern is None else replace(selector, pattern=None)
            self._texts[key] = texts_at(page.source, plain)
        return self._texts[key]


def as_one(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return values that are pieces of one text as the element that holds just them, where there is one."""
    elements = [value.spot.element for value in values if value.spot.element is not None]
    if len(values) < 2 or len(elements) < len(values):
        return tuple(values)
    if len({value.text for value in values}) == 1:
        return (values[0],)
    whole = " ".join(value.text for value in values)
    for holder in line_up(elements[0]):
        text = text_of(holder)
        if text.replace(" ", "") == whole.replace(" ", ""):
            return (Value(text, Spot(holder)),)
        if len(text) > 1.2 * len(whole) + 20:
            break
    return tuple(values)
