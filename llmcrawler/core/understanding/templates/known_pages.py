"""Recognises the pages of a site that earlier crawls have grouped, by their urls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from llmcrawler.core.understanding.templates.grouping_types import PageSample
from llmcrawler.core.urls import relative_url

MAX_PAGES = 20_000  # some 16 bytes each in a file
_URL_BYTES = 6  # two of 20,000 pages collide once in a million sites
_FEATURES_BYTES = 3


class PagePlacement(NamedTuple):
    """The group of a page. `template` is empty when the group was parted and the page's side is not known.

    `features` is a hash of its features; `settled` as in Assignment.
    """

    template: str
    features: str
    settled: bool


class KnownPages:
    """Holds hashes, not urls. Of more pages than MAX_PAGES a random part stays, the same in every order of pages."""

    def __init__(self) -> None:
        self._earlier: dict[str, PagePlacement] = {}
        self._now: dict[str, PagePlacement] = {}

    def earlier(self, url: str) -> PagePlacement | None:
        """Return where a page was in an earlier crawl, or where it has been moved since."""
        return self._earlier.get(_key(url)) if self._earlier else None

    def note(self, sample: PageSample, template: str, *, settled: bool) -> None:
        self._now[_key(sample.url)] = PagePlacement(template, features_key(sample.features), settled)
        if len(self._now) > 2 * MAX_PAGES:
            self._now = dict(sorted(self._now.items())[:MAX_PAGES])

    def move(self, url: str, template: str) -> str | None:
        """Move a page of the present crawl to a template; return the one that it was in, None for one not known."""
        key = _key(url)
        known = self._now.get(key)
        if known is not None:
            self._now[key] = known._replace(template=template)
        return known.template if known is not None else None

    def follow(self, moved: Mapping[str, str], parted: Collection[str], resolve: Callable[[str], str]) -> None:
        """Follow a regrouping: `moved` maps urls to new templates; other pages of `parted` groups lose theirs."""
        keys = {_key(url): template for url, template in moved.items()}
        for placements in (self._earlier, self._now):
            for key, known in placements.items():
                if key in keys:
                    placements[key] = known._replace(template=keys[key])
                elif parted and resolve(known.template) in parted:
                    placements[key] = known._replace(template="")

    def templates(self) -> set[str]:
        """Return the templates that pages of earlier crawls were put into."""
        return {known.template for known in self._earlier.values() if known.template}

    def to_json(self, resolve: Callable[[str], str]) -> dict[str, Any]:
        pages = [
            (key, known.features, known.template and resolve(known.template), int(known.settled))
            for key, known in sorted({**self._earlier, **self._now}.items())[:MAX_PAGES]
        ]
        names = sorted({template for _, _, template, _ in pages})
        number = {template: at for at, template in enumerate(names)}
        return {
            "templates": names,
            "pages": [[key + features, number[template], settled] for key, features, template, settled in pages],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KnownPages:
        known, names = cls(), value["templates"]
        for text, at, settled in value["pages"]:
            key, features = text[: 2 * _URL_BYTES], text[2 * _URL_BYTES :]
            known._earlier[key] = PagePlacement(names[at], features, bool(settled))
        return known


@lru_cache(maxsize=256)  # most pages of a site share their features with another one
def features_key(features: frozenset[str]) -> str:
    text = "\n".join(sorted(features))
    return blake2b(text.encode("utf-8", "replace"), digest_size=_FEATURES_BYTES).hexdigest()


def _key(url: str) -> str:
    return blake2b(relative_url(url).encode("utf-8", "replace"), digest_size=_URL_BYTES).hexdigest()
