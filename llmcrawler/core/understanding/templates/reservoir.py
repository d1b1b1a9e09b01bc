"""The pages of a site that are kept to be clustered again, and samples as small JSON."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Self

from llmcrawler.core.understanding.templates.grouping_types import PageSample
from llmcrawler.core.urls import relative_url

RESERVOIR_PAGES = 256


class Reservoir:
    """Keeps the pages whose urls hash lowest; of each group two pages stay, samples first."""

    def __init__(self) -> None:
        self.pages: dict[str, PageSample] = {}
        self.group_of: dict[str, str] = {}
        self.sampled: set[str] = set()
        self.here: set[str] = set()  # urls that the present crawl has seen
        self._order: list[tuple[bytes, str]] = []  # hashes of the urls, sorted; the highest leaves first

    def keep(self, sample: PageSample, template: str) -> None:
        """Add a page of the present crawl; when there are too many, another page goes, or this one."""
        self._add(sample, template)
        self.here.add(sample.url)
        if len(self.pages) <= RESERVOIR_PAGES:
            return
        gone = self._pop_spare()
        del self.pages[gone], self.group_of[gone]
        self.sampled.discard(gone)
        self.here.discard(gone)

    def _pop_spare(self) -> str:
        """Take the page that leaves out of the order."""
        counts, order = Counter(self.group_of.values()), self._order
        large = {group for group, count in counts.items() if count > 2} or counts.keys()
        spare = (at for at in range(len(order) - 1, -1, -1) if self.group_of[order[at][1]] in large)
        first = next(spare)
        if order[first][1] in self.sampled:
            first = next((at for at in spare if order[at][1] not in self.sampled), first)
        return order.pop(first)[1]

    def _add(self, sample: PageSample, template: str) -> None:
        if sample.url not in self.pages:
            digest = blake2b(sample.url.encode("utf-8", "replace"), digest_size=8).digest()
            insort(self._order, (digest, sample.url))
        self.pages[sample.url] = sample
        self.group_of[sample.url] = template

    def move(self, url: str, template: str) -> None:
        if url in self.group_of:
            self.group_of[url] = template

    def members(self, template: str) -> list[str]:
        """Return the sorted urls of the pages that are kept of a group."""
        return sorted(url for url, group in self.group_of.items() if group == template)

    def to_json(self, number: Callable[[str], int], resolve: Callable[[str], str]) -> list[list[Any]]:
        """Return a row for each page, with the `number` of its sample and its group as `resolve` names it."""
        return [[number(url), resolve(self.group_of[url]), int(url in self.sampled)] for url in sorted(self.pages)]

    @classmethod
    def from_json(cls, value: Iterable[Sequence[Any]], samples: Sequence[PageSample]) -> Self:
        reservoir = cls()
        for number, template, is_sampled in value:
            reservoir._add(samples[number], template)
            if is_sampled:
                reservoir.sampled.add(samples[number].url)
        return reservoir


class SampleTable:
    """Rows of [url without scheme and host, title, number of a feature's name, the next one's, ...]."""

    def __init__(self, samples: Mapping[str, PageSample]) -> None:
        self._numbers = {url: number for number, url in enumerate(sorted(samples))}
        # Common names have small numbers, which take fewer digits.
        counts = Counter(name for sample in samples.values() for name in sample.features)
        self._names = {
            name: number for number, name in enumerate(sorted(counts, key=lambda name: (-counts[name], name)))
        }
        self._rows = [
            [relative_url(url), samples[url].title, *sorted(self._names[name] for name in samples[url].features)]
            for url in self._numbers
        ]

    def number(self, url: str) -> int:
        return self._numbers[url]

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self._names), "rows": self._rows}


def samples_from_json(value: Mapping[str, Any], origin: str) -> list[PageSample]:
    """Restore the samples of a SampleTable, in the order of their numbers."""
    names = value["names"]
    found = []
    for path, title, *numbers in value["rows"]:
        if not isinstance(title, str):
            raise TypeError(f"no title in a row of samples: {title!r}")
        found.append(PageSample.of(origin + path, frozenset(names[number] for number in numbers), title))
    return found
