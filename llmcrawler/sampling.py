"""Looks at a few pages of a site, drawn from what links lead to, and keeps what a plan needs of them."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler

from llmcrawler.frontier.protocol import FIRST, UrlTask
from llmcrawler.planning import SampledPage, SiteSample, strata_of
from llmcrawler.scheduler import FrontierScheduler
from llmcrawler.templates import TemplateGrouper
from llmcrawler.urls import dedup_key, normalise, url_pattern
from llmcrawler.wiring import Crawl, crawl_of

SAMPLE_PAGES = "PLAN_SAMPLE_PAGES"


@dataclass(slots=True)
class _Seen:
    """A page, and what its template is told by when all pages have come."""

    page: SampledPage
    grouper: TemplateGrouper | None
    features: frozenset[str]


class Sampler:
    """Of one crawl."""

    def __init__(self) -> None:
        self._tasks: dict[str, UrlTask] = {}
        self._seen: list[_Seen] = []
        self._links: dict[str, frozenset[str]] = {}
        self._addresses: set[str] = set()

    def note_urls(self, tasks: Iterable[UrlTask]) -> None:
        for task in tasks:
            self._tasks.setdefault(dedup_key(task.url), task)

    def note_links(self, url: str, links: Iterable[str]) -> None:
        """Of a page; by what tells urls apart, however they are written."""
        self._links[url] = frozenset(dedup_key(link) for link in map(normalise, links) if link is not None)

    def note_page(
        self,
        page: SampledPage,
        final_url: str | None = None,
        grouper: TemplateGrouper | None = None,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self._addresses.update({page.url, final_url or page.url})
        self._seen.append(_Seen(page, grouper, features))

    def sample(self) -> SiteSample:
        """When the last page has come: with the templates as they are grouped now."""
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
        template = one.grouper.match(one.page.url, one.features) if one.grouper is not None else None
        links = (self._links.get(one.page.url, frozenset()) & self._tasks.keys()) - {dedup_key(one.page.url)}
        return replace(one.page, template=template or one.page.template, links=links)


_samplers: WeakKeyDictionary[Crawler, Sampler] = WeakKeyDictionary()


def sampler_of(crawler: Crawler) -> Sampler:
    return _samplers.setdefault(crawler, Sampler())


class Draw:
    """Gives urls ranks such that kinds of url take turns, as in a crawl, but of one kind any may be next: those that
    were found first are not like the rest, and tell what their neighbours tell. The same site gives the same sample.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, task: UrlTask) -> UrlTask:
        if task.rank <= FIRST:  # the user's own
            return task
        pattern = url_pattern(task.url)
        self._counts[pattern] += 1
        place = zlib.crc32(task.url.encode()) % self._counts[pattern]
        return replace(task, rank=place.bit_length())


class SamplingScheduler(FrontierScheduler):
    """Notes what it hears of, and ends after PLAN_SAMPLE_PAGES pages."""

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        super().__init__(crawler, crawl)
        self._sampler = sampler_of(crawler)
        self._draw = Draw()
        self._max_pages = self._refundable = min(self._max_pages, crawler.settings.getint(SAMPLE_PAGES))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawl_of(crawler))

    async def add(self, tasks: Iterable[UrlTask]) -> int:
        tasks = list(tasks)
        self._sampler.note_urls(tasks)
        return await super().add(map(self._draw, tasks))
