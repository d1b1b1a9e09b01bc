"""Samples as small JSON: each feature's name is written once, and a page is a list of numbers of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from llmcrawler.templates.grouping_types import PageSample
from llmcrawler.templates.url_tokens import url_tokens
from llmcrawler.urls import relative_url


class SampleTable:
    """Rows of [url without scheme and host, number of a feature's name, the next one's, ...]."""

    def __init__(self, samples: Mapping[str, PageSample]) -> None:
        self._numbers = {url: number for number, url in enumerate(sorted(samples))}
        # Common names have small numbers, which take fewer digits.
        counts = Counter(name for sample in samples.values() for name in sample.features)
        self._names = {
            name: number for number, name in enumerate(sorted(counts, key=lambda name: (-counts[name], name)))
        }
        self._rows = [
            [relative_url(url), *sorted(self._names[name] for name in samples[url].features)] for url in self._numbers
        ]

    def number(self, url: str) -> int:
        return self._numbers[url]

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self._names), "rows": self._rows}


def samples_from_json(value: Mapping[str, Any], origin: str) -> list[PageSample]:
    """Restore the samples of a SampleTable, in the order of their numbers."""
    names = value["names"]
    return [
        PageSample(origin + path, frozenset(names[number] for number in numbers), url_tokens(origin + path))
        for path, *numbers in value["rows"]
    ]
