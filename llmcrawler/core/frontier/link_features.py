"""Features of a link before its page is known: its url's shape, its place on the page, its stock phrase."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.core.urls import url_pattern
from llmcrawler.items import Link

_JOINT: Final = "\t"
_MAX_GROUPS: Final = 400
_MAX_TEXTS: Final = 10_000
_MAX_TEXT_CHARS: Final = 30
_STOCK_TIMES: Final = 3
_NUMBERS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class LinkFeatures:
    """Features that similar links share. Links of equal features form a group of the frontier, called `name`.

    `shape` is the url pattern without its last word, so that /breads/rye and /breads/hot-cross-bun are alike. `region`
    is coarser: the first word of the path, and the number and form of the others.
    """

    shape: str
    region: str
    place: str
    phrase: str

    @property
    def name(self) -> str:
        return _JOINT.join((self.shape, self.region, self.place, self.phrase))

    @staticmethod
    def is_name(name: str) -> bool:
        return _JOINT in name

    @classmethod
    def of_name(cls, name: str) -> LinkFeatures:
        """Parse a `name`. Raises ValueError for anything else."""
        shape, region, place, phrase = name.split(_JOINT)
        return cls(shape, region, place, phrase)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return names of region, place and shape, which links of other groups share."""
        return (f"region {self.region}", f"place {self.place} {self.phrase}", f"shape {self.shape}")


class LinkFeatureTable:
    """Sorts links into some hundred groups at most; past that, all new ones of a region are one group."""

    def __init__(self) -> None:
        self._texts: Counter[str] = Counter()
        self.known: dict[str, LinkFeatures] = {}  # by their names

    def features_of(self, url: str, link: Link) -> LinkFeatures:
        """Return the features of a link to a normalised url. A text that many links have is a stock phrase ("next")."""
        shape, region = shape_of(url)
        features = LinkFeatures(shape, region, _clean(link.place), self._phrase(link.text))
        if features.name not in self.known and len(self.known) >= _MAX_GROUPS:
            features = LinkFeatures(region, region, "", "")
        return self.known.setdefault(features.name, features)

    def restore(self, name: str) -> LinkFeatures:
        """Restore the features of a group of an earlier run. Raises ValueError for a malformed name."""
        return self.known.setdefault(name, LinkFeatures.of_name(name))

    def _phrase(self, text: str) -> str:
        folded = _NUMBERS.sub("0", _clean(text).lower())
        if not folded or len(folded) > _MAX_TEXT_CHARS:
            return ""
        if len(self._texts) >= _MAX_TEXTS:
            self._texts = Counter({text: times for text, times in self._texts.items() if times >= _STOCK_TIMES})
        self._texts[folded] += 1
        return folded if self._texts[folded] >= _STOCK_TIMES else ""


@lru_cache(maxsize=4096)
def shape_of(url: str) -> tuple[str, str]:
    """Return (shape, region) of a normalised url, see LinkFeatures."""
    return _shape_of(urlsplit(url).netloc, url_pattern(url))


@lru_cache(maxsize=4096)
def _shape_of(host: str, pattern: str) -> tuple[str, str]:
    path, mark, query = pattern.partition("?")
    end = "/" if path.endswith("/") and path != "/" else ""
    segments = path.strip("/").split("/")
    if segments != [""] and not mark:
        segments[-1] = _folded(segments[-1])
    keys = ",".join(sorted({part.partition("=")[0] for part in query.split("&")})) if mark else ""
    first = segments[0] if len(segments) > 1 or mark else "*"
    region = f"{host}/{first} {len(segments)} {_folded(segments[-1])} {keys}"
    return f"{host}/{'/'.join(segments)}{end}{mark}{query}", region


def _folded(segment: str) -> str:
    stem, dot, extension = segment.rpartition(".")
    if not dot:
        stem, extension = segment, ""
    return f"*{dot}{extension}" if stem == "{slug}" or "{" not in stem else segment


def _clean(text: str) -> str:
    return " ".join(text.split())
