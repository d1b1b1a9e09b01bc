"""Draws a sample of a site's urls for its plan, and keeps what is needed of their pages."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from llmcrawler.core.frontier.protocol import FIRST, UrlTask
from llmcrawler.core.reporting.planning import SampledPage, SiteSample, strata_of
from llmcrawler.core.understanding.templates import TemplateGrouper
from llmcrawler.core.urls import dedup_key, normalise, url_pattern

SAMPLE_PAGES: Final = "PLAN_SAMPLE_PAGES"


@dataclass(slots=True)
class _Seen:
    """A page, and the features and title that tell its template when all pages have come."""

    page: SampledPage
    grouper: TemplateGrouper | None
    features: frozenset[str]
    title: str


class Sampler:
    """Collects what a plan needs of the pages of one crawl. `failures` has why pages failed, by the kind of error."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self._tasks: dict[str, UrlTask] = {}
        self._seen: list[_Seen] = []
        self._links: dict[str, frozenset[str]] = {}
        self._addresses: set[str] = set()

    @property
    def page_count(self) -> int:
        return sum(one.page.error is None for one in self._seen)

    @property
    def url_count(self) -> int:
        return max(len(self._tasks), len(self._seen))

    def add_urls(self, tasks: Iterable[UrlTask]) -> None:
        for task in tasks:
            self._tasks.setdefault(dedup_key(task.url), task)

    def add_links(self, url: str, links: Iterable[str]) -> None:
        """Keep the links of a page, each url in the one spelling that tells urls apart."""
        self._links[url] = frozenset(dedup_key(link) for link in map(normalise, links) if link is not None)

    def add_page(
        self,
        page: SampledPage,
        final_url: str | None = None,
        grouper: TemplateGrouper | None = None,
        features: frozenset[str] = frozenset(),
        title: str = "",
    ) -> None:
        self._addresses.update({page.url, final_url or page.url})
        self._seen.append(_Seen(page, grouper, features, title))

    def sample(self) -> SiteSample:
        """Return the sample when the last page has come, with the templates as they are grouped now."""
        known = {key: url_pattern(task.url) for key, task in self._tasks.items()}
        known |= {dedup_key(one.page.url): one.page.pattern for one in self._seen}
        pages = [self._grouped(one) for one in self._seen]
        strata = strata_of(known.values(), ((page.pattern, page.template or str(page.error)) for page in pages))
        known = {key: strata[pattern] for key, pattern in known.items()}
        # A page's links have it as their referer; what has another one stood in a list.
        listed = {
            key for key, task in self._tasks.items() if task.referer is not None and task.referer not in self._addresses
        }
        pages = [replace(page, pattern=strata[page.pattern]) for page in pages]
        return SiteSample(pages, known, frozenset(listed))

    def _grouped(self, one: _Seen) -> SampledPage:
        template = one.grouper.match(one.page.url, one.features, title=one.title) if one.grouper is not None else None
        links = (self._links.get(one.page.url, frozenset()) & self._tasks.keys()) - {dedup_key(one.page.url)}
        return replace(one.page, template=template or one.page.template, links=links)


class Draw:
    """Ranks urls such that url patterns take turns, as in a crawl, but of one pattern any url may be next: those that
    were found first are alike. The same site gives the same sample.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, task: UrlTask) -> UrlTask:
        if task.priority <= FIRST:  # the user's own
            return task
        pattern = url_pattern(task.url)
        self._counts[pattern] += 1
        place = zlib.crc32(task.url.encode()) % self._counts[pattern]
        return replace(task, priority=place.bit_length())
