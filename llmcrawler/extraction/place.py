"""Where the work of records is done: that of an ordinary page at once, all other where it holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from llmcrawler.content import is_cheap
from llmcrawler.errors import ContentError, TooCostly
from llmcrawler.extraction.compiled import Extraction, compile_extractor
from llmcrawler.extraction.model import Extractor
from llmcrawler.extraction.queries import Source
from llmcrawler.extraction.tree import parse_tree
from llmcrawler.extraction.variants import Match, Variant, best_match
from llmcrawler.extraction.work import INLINE_STEPS, PAGE_STEPS, Work

T = TypeVar("T")

# Of processor time. An honest table of 60,000 rows takes four seconds, a lesson of twenty long pages ten.
_PAGE_SECONDS: Final = 20.0
_LESSON_SECONDS: Final = 60.0


class Apart(Protocol):
    """Runs a pure function in another process, as `BoundedProcesses.run` does."""

    async def __call__(self, function: Callable[..., T], /, *arguments: object, seconds: float, share: str) -> T:
        """Raises ContentError where it takes too much of time or memory."""
        ...


async def in_thread(function: Callable[..., T], /, *arguments: object, seconds: float, share: str) -> T:  # noqa: ARG001 - Apart's interface
    """In a thread of this process, without a limit: for pages that are known."""
    return await asyncio.to_thread(function, *arguments)


class Place:
    """`inline_chars`: the longest page whose record is made in this process, on the event loop, if `is_cheap` says that
    it costs little to parse.
    """

    def __init__(
        self,
        inline_chars: int = 100_000,
        apart: Apart = in_thread,
        is_cheap: Callable[[str], bool] = is_cheap,
    ) -> None:
        self._inline_chars = inline_chars
        self._apart = apart
        self._is_cheap = is_cheap

    async def extractions(
        self, extractors: Sequence[Extractor], html: str, url: str, lang: str, site: str
    ) -> list[Extraction]:
        """What each of the extractors gives on a page. Raises TooCostly where they take too long for any page."""
        if len(html) <= self._inline_chars and self._is_cheap(html):
            try:
                if all(compile_extractor(one).is_bounded for one in extractors):
                    return extractions(extractors, html, url, lang, INLINE_STEPS)
            except TooCostly:
                pass  # it is no ordinary page
        return await self._run(_PAGE_SECONDS, site, extractions, tuple(extractors), html, url, lang)

    async def match(self, variants: Sequence[Variant], html: str, url: str, lang: str, site: str) -> Match | None:
        """A page's record by the variant that fits it best; None without any. Raises as `extractions`."""
        extractors = [variant.extractor for variant in variants]
        return best_match(variants, await self.extractions(extractors, html, url, lang, site)) if variants else None

    async def lesson(self, function: Callable[..., T], /, *arguments: object, site: str) -> T:
        """What a function of the lesson's pages gives. Raises TooCostly where it takes too long for any lesson."""
        return await self._run(_LESSON_SECONDS, site, function, *arguments)

    async def _run(self, seconds: float, site: str, function: Callable[..., T], /, *arguments: object) -> T:
        try:
            return await self._apart(function, *arguments, seconds=seconds, share=site)
        except ContentError as error:
            raise TooCostly(str(error)) from error


def extractions(
    extractors: Sequence[Extractor], html: str, url: str, lang: str, limit: int = PAGE_STEPS
) -> list[Extraction]:
    """What each of the extractors gives on a page. Raises TooCostly where this takes more than `limit` steps."""
    source = Source(parse_tree(html), Work(limit))
    return [compile_extractor(one).extract_from(source, url, lang) for one in extractors]


def extract_best(variants: Sequence[Variant], html: str, url: str, lang: str = "") -> dict[str, Any] | None:
    """A page's record by the variant that fits it best; None where none finds anything. Raises TooCostly."""
    match = best_match(variants, extractions([variant.extractor for variant in variants], html, url, lang))
    return match.extraction.record if match is not None and match.extraction.present else None
