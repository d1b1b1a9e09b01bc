"""Tells which template a page has by what is known of its site, without counting or keeping anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llmcrawler.core.understanding.templates.grouping_types import Assignment, Names, PageSample
from llmcrawler.core.understanding.templates.known_pages import KnownPages, PagePlacement, features_key
from llmcrawler.core.understanding.templates.matching import GroupMatch, Matcher
from llmcrawler.core.understanding.templates.splitting import Splits

# Before anything is known of the site only near-twins are put together.
_TWIN_SIMILARITY: Final = 0.9


class PageLookup:
    """Finds templates. The same page gets the same answer, whatever pages came before it."""

    def __init__(self, matcher: Matcher, known: KnownPages, splits: Splits, resolve: Callable[[str], str]) -> None:
        self._matcher = matcher
        self._known = known
        self._splits = splits
        self._resolve = resolve

    def find(self, url: str, features: Names, words: Names = frozenset(), *, title: str = "") -> Assignment | None:
        """Return what `TemplateGrouper.assign` would; None for a page that is unlike all that are known."""
        sample = PageSample.of(url, features, title, words)
        earlier, is_unchanged = earlier_placement(self._known, sample)
        if earlier is not None and is_unchanged and earlier.template:
            return Assignment(self._resolve(earlier.template), 1, False, earlier.settled, 1.0, (), True)
        match = self._matcher.match(sample)
        if match is None or not is_close(self._matcher, match, is_unchanged=is_unchanged):
            return None
        template = self._splits.part_for(self._resolve(match.template), sample)
        returns = earlier is not None and (self._resolve(earlier.template) or template) == template
        settled = self._matcher.metric is not None and not self._matcher.is_loose(match, template)
        rivals = tuple(sorted({*match.rivals, match.template} - {template}))
        if earlier is not None and returns and earlier.settled:
            settled, rivals = True, ()
        return Assignment(template, 1, False, settled, match.similarity, rivals, returns)


def earlier_placement(known: KnownPages, sample: PageSample) -> tuple[PagePlacement | None, bool]:
    """Return where a page was in an earlier crawl, and whether it still has the features that it had there."""
    earlier = known.earlier(sample.url)
    return earlier, earlier is not None and earlier.features == features_key(sample.features)


def is_close(matcher: Matcher, match: GroupMatch, *, is_unchanged: bool) -> bool:
    """Tell whether a page belongs to the group that it is most similar to. Of one that is as it was before, a part of
    the group that it was in is the best there is.
    """
    return is_unchanged or match.similarity >= (matcher.threshold or _TWIN_SIMILARITY)
