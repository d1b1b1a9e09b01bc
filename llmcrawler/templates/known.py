"""The pages of a site that earlier crawls have put into a group: found again by url, unchanged or changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from llmcrawler.templates.values import Sample
from llmcrawler.urls import relative_url

MAX_PAGES = 20_000  # some 16 bytes each in a file
_URL_BYTES = 6  # two of 20,000 pages collide once in a million sites
_FEATURES_BYTES = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page was put. `template` is empty when its group was parted and nobody knows on which side it is.

    `features` is a hash of what it looked like. `settled` is what `Assignment.settled` was.
    """

    template: str
    features: str
    settled: bool


class KnownPages:
    """Holds hashes, not urls. Of more pages than MAX_PAGES a random part stays, the same in every order of pages."""

    def __init__(self) -> None:
        self._earlier: dict[str, Place] = {}
        self._now: dict[str, Place] = {}

    def earlier(self, url: str) -> Place | None:
        """Where a page was in an earlier crawl, or where it has been moved since."""
        return self._earlier.get(_key(url)) if self._earlier else None

    def note(self, sample: Sample, template: str, *, settled: bool) -> None:
        key = _key(sample.url)
        self._now[key] = Place(template, features_key(sample.features), settled)
        if len(self._now) > 2 * MAX_PAGES:
            self._now = dict(sorted(self._now.items())[:MAX_PAGES])

    def follow(self, moved: Mapping[str, str], parted: Collection[str], resolve: Callable[[str], str]) -> None:
        """Go with a regrouping: `moved` says where some pages are now (url -> template); of `parted` groups' other
        pages nobody knows.
        """
        keys = {_key(url): template for url, template in moved.items()}
        for places in (self._earlier, self._now):
            for key, place in places.items():
                if key in keys:
                    places[key] = replace(place, template=keys[key])
                elif parted and resolve(place.template) in parted:
                    places[key] = replace(place, template="")

    def templates(self) -> set[str]:
        """The templates that pages of earlier crawls were put into."""
        return {place.template for place in self._earlier.values() if place.template}

    def to_json(self, resolve: Callable[[str], str]) -> dict[str, Any]:
        pages = sorted({**self._earlier, **self._now}.items())[:MAX_PAGES]
        templates = {place.template and resolve(place.template) for _, place in pages}
        names = sorted(templates)
        number = {template: at for at, template in enumerate(names)}
        return {
            "templates": names,
            "pages": [
                [key + place.features, number[place.template and resolve(place.template)], int(place.settled)]
                for key, place in pages
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KnownPages:
        known = cls()
        names = value["templates"]
        for text, at, settled in value["pages"]:
            key, features = text[: 2 * _URL_BYTES], text[2 * _URL_BYTES :]
            known._earlier[key] = Place(names[at], features, bool(settled))
        return known


def features_key(features: frozenset[str]) -> str:
    text = "\n".join(sorted(features))
    return blake2b(text.encode("utf-8", "replace"), digest_size=_FEATURES_BYTES).hexdigest()


def _key(url: str) -> str:
    return blake2b(relative_url(url).encode("utf-8", "replace"), digest_size=_URL_BYTES).hexdigest()
