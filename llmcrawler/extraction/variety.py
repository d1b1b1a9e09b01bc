"""Which pages of a template are shown to the model: few, and as different as the template allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

# A feature on fewer pages than this share is a page's own oddity, not a variant of the template.
_MIN_SHARE = 0.1


def spread(features: Sequence[frozenset[str]], count: int, taken: Collection[int] = ()) -> list[int]:
    """The places of `count` pages (fewer where there are no more), besides those `taken`, that together show the most
    of what varies: with and without each feature of their DOM. Greedy maximum coverage; the first of equals wins.
    """
    weights = _weights(features)
    unseen = {(name, shown) for name in weights for shown in (True, False)}
    for place in taken:
        unseen -= _shows(features[place], weights)
    chosen: list[int] = []
    free = [place for place in range(len(features)) if place not in taken]
    while free and len(chosen) < count:
        best = max(free, key=lambda place: sum(weights[one[0]] for one in _shows(features[place], weights) & unseen))
        chosen.append(best)
        free.remove(best)
        unseen -= _shows(features[best], weights)
    return chosen


def _weights(features: Sequence[frozenset[str]]) -> dict[str, float]:
    """What varies between the pages, weighed by how evenly it parts them."""
    total = len(features)
    counts = Counter(name for page in features for name in page)
    least = max(2.0, _MIN_SHARE * total)
    return {name: count * (total - count) / total**2 for name, count in counts.items() if least <= count < total}


def _shows(page: frozenset[str], weights: dict[str, float]) -> set[tuple[str, bool]]:
    return {(name, name in page) for name in weights}
