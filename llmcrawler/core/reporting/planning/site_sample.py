"""A sample of a site for its plan: which urls are fetched, what pages showed, and what kinds of urls there are."""

from __future__ import annotations

import re
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llmcrawler.core.frontier.protocol import FIRST, UrlTask
from llmcrawler.core.urls import dedup_key, normalise, url_pattern

# Fewer urls than this say nothing of how many there are.
_ENOUGH = 3
# A shape of which so many pages were fetched speaks for itself.
_WELL_KNOWN = 5
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")


@dataclass(frozen=True, slots=True)
class SampledPage:
    """A sampled page. `pattern` is its stratum (strata_of), `links` are urls of the site. `is_sure`: structured data
    tells its type; `is_settled`: its template could speak for it. `shown_tokens` would be shown to classify it,
    `block_tokens` to learn its fields.
    """

    url: str
    pattern: str
    links: frozenset[str] = frozenset()
    error: str | None = None
    template: str = ""
    page_type: str = "other"
    is_sure: bool = False
    is_settled: bool = True
    shown_tokens: int = 0
    block_tokens: int = 0
    latency_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SiteSample:
    """A sample in the order of arrival. `known` maps every discovered url to its stratum; `listed` were in sitemaps."""

    pages: Sequence[SampledPage]
    known: Mapping[str, str]
    listed: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Tell whether all urls that are known were fetched."""
        return len(self.known) <= len(self.pages)


def strata_of(patterns: Iterable[str], templates: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the stratum of each pattern, named for its most frequent pattern. `patterns` are of all known urls,
    `templates` are (pattern, template) of the fetched ones.

    Where paths are plain words, as in documentation, each url has a shape of its own: rare shapes are taken for those
    of their depth and last part. Of shapes with few fetched pages, those of one depth and template are one stratum;
    shapes without any join them.
    """
    counts = Counter(patterns)
    shapes = {name: name if count >= _ENOUGH else _blanked(name) for name, count in counts.items()}
    sizes: Counter[str] = Counter()
    for name, count in counts.items():
        sizes[shapes[name]] += count
    fetched: defaultdict[str, list[str]] = defaultdict(list)
    for pattern, template in templates:
        fetched[shapes.get(pattern, pattern)].append(template)
    groups: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for shape in sizes:
        of = sorted(fetched[shape])
        is_well_known = len(of) >= _WELL_KNOWN
        groups[_depth(shape), statistics.mode(of) if of else "", shape * is_well_known].append(shape)
    strata: dict[str, str] = {}
    for (depth, template, _shape), members in groups.items():
        known = [key for key in groups if key[0] == depth and key[1]]
        home = members
        if known and not template:
            home = groups[max(known, key=lambda key: (not key[2], sum(sizes[name] for name in groups[key])))]
        strata |= dict.fromkeys(members, max(sorted(home), key=sizes.__getitem__))
    return {pattern: strata[shape] for pattern, shape in shapes.items()}


def _blanked(pattern: str, last: str | None = None) -> str:
    """Return the shape with "*" for each part of the path but the last, which is `last` where that is given."""
    path, mark, query = pattern.partition("?")
    head, _, own = path.removesuffix("/").rpartition("/")
    above = "/".join("*" * bool(part) for part in head.split("/"))
    end = "/" * (path.endswith("/") and bool(own))
    return f"{above}/{own if last is None else last}{end}{mark}{query}"


def _depth(pattern: str) -> str:
    """Return the shape with "*" for each part of the path, but for the extension of the last."""
    own = pattern.partition("?")[0].removesuffix("/").rpartition("/")[2]
    extension = _EXTENSION.search(own)
    return _blanked(pattern, "*" * bool(own) + (extension[0] if extension else ""))


class Sampler:
    """Collects what a plan needs of the pages of one crawl. `failures` has why pages failed, by the kind of error."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self._tasks: dict[str, UrlTask] = {}
        self._pages: list[tuple[SampledPage, Callable[[], str | None]]] = []
        self._links: dict[str, frozenset[str]] = {}
        self._addresses: set[str] = set()

    @property
    def page_count(self) -> int:
        return sum(page.error is None for page, _template in self._pages)

    @property
    def url_count(self) -> int:
        return max(len(self._tasks), len(self._pages))

    def add_urls(self, tasks: Iterable[UrlTask]) -> None:
        for task in tasks:
            self._tasks.setdefault(dedup_key(task.url), task)

    def add_links(self, url: str, links: Iterable[str]) -> None:
        """Keep the links of a page, each url in the one spelling that tells urls apart."""
        self._links[url] = frozenset(dedup_key(link) for link in map(normalise, links) if link is not None)

    def add_page(
        self, page: SampledPage, final_url: str | None = None, template: Callable[[], str | None] = lambda: None
    ) -> None:
        """Add a page; `template` tells the one that it has when all pages have come."""
        self._addresses.update({page.url, final_url or page.url})
        self._pages.append((page, template))

    def sample(self) -> SiteSample:
        """Return the sample when the last page has come, with the templates as they are grouped now."""
        known = {key: url_pattern(task.url) for key, task in self._tasks.items()}
        known |= {dedup_key(page.url): page.pattern for page, _template in self._pages}
        pages = [
            replace(
                page,
                template=template() or page.template,
                links=(self._links.get(page.url, frozenset()) & self._tasks.keys()) - {dedup_key(page.url)},
            )
            for page, template in self._pages
        ]
        strata = strata_of(known.values(), ((page.pattern, page.template or str(page.error)) for page in pages))
        # A page's links have it as their referer; what has another one stood in a list.
        addresses = {None, *self._addresses}
        listed = (key for key, task in self._tasks.items() if task.referer not in addresses)
        return SiteSample(
            pages=[replace(page, pattern=strata[page.pattern]) for page in pages],
            known={key: strata[pattern] for key, pattern in known.items()},
            listed=frozenset(listed),
        )


class Draw:
    """Ranks urls so that url patterns take turns, as in a crawl, but in any order within one: those found first are
    alike. The same site gives the same sample.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, task: UrlTask) -> UrlTask:
        if task.priority <= FIRST:  # the user's own
            return task
        pattern = url_pattern(task.url)
        self._counts[pattern] += 1
        place = zlib.crc32(task.url.encode()) % self._counts[pattern]
        return replace(task, priority=place.bit_length(), group="")  # lists lead to what is not known yet
