"""Numbers from the address of a page: its form, ids and dates, and words that tell what stands there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

ADDRESS_WORDS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "article": "blog news article articles story stories post posts insights magazine opinion resources press "
        "learn tips",
        "product": "product products p dp item itm pd prod",
        "shelf": "collection collections category categories shop c browse catalog store sale women men b cat "
        "department departments",
        "list": "tag tags archive archives topics topic category list directory search index best latest all section "
        "page events jobs videos explore",
        "docs": "docs doc documentation guide guides manual tutorial tutorials help reference api wiki kb hc en-us "
        "latest stable learn library support man section",
        "forum": "forum forums thread threads t viewtopic showthread discussion discussions community questions topic "
        "r comments boards showtopic q answers",
        "service": "services service solutions solution treatments about industries platform features pricing "
        "practice-areas what-we-do locations products",
    }.items()
}
HOST_WORDS: Final[dict[str, frozenset[str]]] = {
    "docs": frozenset("docs doc developer developers help support wiki kb api dev learn documentation".split()),
    "forum": frozenset("forum forums community discuss discussion board boards talk answers ask".split()),
    "blog": frozenset("blog blogs news magazine journal".split()),
    "shop": frozenset("shop store outlet".split()),
}
# Names of sites have them within a word.
HOST_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "forum": ("forum", "community", "discuss", "board", "talk", "stackexchange", "answers"),
    "blog": ("blog", "news", "times", "post", "magazine", "journal"),
    "shop": ("shop", "store", "outlet"),
}
# The kinds that a word of an address stands for.
KINDS_OF_WORD: Final[dict[str, tuple[str, ...]]] = {
    word: tuple(kind for kind, words in ADDRESS_WORDS.items() if word in words)
    for word in frozenset().union(*ADDRESS_WORDS.values())
}


_SUFFIX: Final = re.compile(r"\.\w{2,5}$")
_LONG_ID: Final = re.compile(r"\d{5,}")
_YEAR: Final = re.compile(r"/(?:19|20)\d\d/")
_MONTH: Final = re.compile(r"(?:19|20)\d\d[-/]\d\d")
_HOST_LABEL: Final = re.compile(r"[.-]")
_WORD: Final = re.compile(r"[a-z]+|[0-9]+")
_MAX_CHARS: Final = 2000


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address, in lower case; `stems` are the segments of the path without a file's suffix."""

    host: str
    path: str
    query: str
    segments: list[str]
    stems: list[str]


def read_address(url: str) -> Address:
    """Take an address apart; one that cannot be read has empty parts."""
    try:
        parts = urlsplit(url[:_MAX_CHARS])
        host = parts.hostname or ""
    except ValueError:
        parts, host = SplitResult("", "", "", "", ""), ""
    path = unquote(parts.path).lower()
    segments = [segment for segment in path.split("/") if segment]
    return Address(host, path, parts.query, segments, [_SUFFIX.sub("", segment) for segment in segments])


def address_numbers(url: str, title: str) -> dict[str, float]:
    """Return the numbers by name; with the title, as many addresses are made of it."""
    address = read_address(url)
    host, path, segments, stems = address.host, address.path, address.segments, address.stems
    last, stem = (segments[-1], stems[-1]) if segments else ("", "")
    found: dict[str, float] = {
        "url depth": len(segments),
        "url path chars": len(path),
        "url last chars": len(last),
        "url last hyphens": _hyphens(last),
        "url most hyphens": max(map(_hyphens, segments), default=0),
        "url digits": sum(map(str.isdigit, path)),
        "url last digits": sum(map(str.isdigit, last)),
        "url long id": _LONG_ID.search(path + address.query) is not None,
        "url year": _YEAR.search(path) is not None,
        "url month": _MONTH.search(path) is not None,
        "url recent year": "/20" in path or "-20" in path,
        "url html": path.endswith((".html", ".htm")),
        "url script": ".php" in path or ".asp" in path,
        "url query chars": len(address.query),
        "url ends with slash": path.endswith("/"),
        "url is root": not segments,
        "host dots": host.count("."),
        "host www": host.startswith("www."),
        "host public": host.endswith((".org", ".edu", ".gov")),
        "host technical": host.endswith((".io", ".dev", ".ai")),
    }
    labels = set(_HOST_LABEL.split(host))
    for kind, words in HOST_WORDS.items():
        found[f"host word {kind}"] = not words.isdisjoint(labels)
    for kind, parts in HOST_PARTS.items():
        found[f"host part {kind}"] = any(part in host for part in parts)
    for kind, words in ADDRESS_WORDS.items():
        found[f"url words {kind}"] = sum(name in words for name in stems)
        found[f"url last {kind}"] = stem in words
        found[f"url first {kind}"] = bool(stems) and stems[0] in words
    slug = set(stem.replace("_", "-").split("-"))
    found["url slug in title"] = len(slug.intersection(_WORD.findall(title.lower()))) / len(slug)
    return found


def _hyphens(segment: str) -> int:
    return segment.count("-") + segment.count("_")
