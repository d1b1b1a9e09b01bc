"""Which pages of a template are shown to the model: few, and as different as the template allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

# A feature on fewer pages than this share is a page's own oddity, not a variant of the template.
_MIN_SHARE = 0.1
_COMMON_SHARE = 0.15
# What a thing is worth that was shown already, against the first time.
_AGAIN = 0.25


def spread(features: Sequence[frozenset[str]], count: int, taken: Collection[int] = ()) -> list[int]:
    """The places of `count` pages (fewer where there are no more), besides those `taken`.

    First a page as most are, then those that add most of what has not been seen, with and without each feature of their
    DOM. Greedy weighted coverage; the first of equals wins.
    """
    worth = _worth(features)
    shows = [[(name, name in page) for name in worth] for page in features]
    left = {
        (name, shown): value for name, both in worth.items() for shown, value in zip((True, False), both, strict=True)
    }
    chosen: list[int] = []
    free = [place for place in range(len(features)) if place not in taken]
    for place in taken:
        _see(left, shows[place])
    while free and len(chosen) < count:
        best = max(free, key=lambda place: sum(left[one] for one in shows[place]))
        chosen.append(best)
        free.remove(best)
        _see(left, shows[best])
    return chosen


def unseen(features: Sequence[frozenset[str]], shown: Collection[int], count: int) -> list[int]:
    """Up to `count` more pages, for features that a good part of the pages has and none of those shown: a field that is
    on a sixth of the pages only is easily on none of three.
    """
    counts = Counter(name for page in features for name in page)
    seen = frozenset().union(*(features[place] for place in shown))
    missing = {name for name, pages in counts.items() if pages >= max(2.0, _COMMON_SHARE * len(features))} - seen
    chosen: list[int] = []
    while missing and len(chosen) < count:
        best = max(range(len(features)), key=lambda place: len(features[place] & missing))
        chosen.append(best)
        missing -= features[best]
    return chosen


def _see(left: dict[tuple[str, bool], float], shown: Sequence[tuple[str, bool]]) -> None:
    for one in shown:
        left[one] *= _AGAIN


def _worth(features: Sequence[frozenset[str]]) -> dict[str, tuple[float, float]]:
    """What varies between the pages: the share of pages with each feature, and without."""
    total = len(features)
    counts = Counter(name for page in features for name in page)
    least = max(2.0, _MIN_SHARE * total)
    return {
        name: (count / total, 1 - count / total) for name, count in counts.items() if least <= count <= total - least
    }
