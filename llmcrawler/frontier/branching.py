"""Values of urls for a focused crawl, when every page is worth something and leads to further ones.

Fetching costs 1, a page of class i pays `reward` on average and brings `offspring[j]` new urls of each class j. That is
a branching bandit: the best order fetches by an index of the classes, the highest pay per fetch that can be had from a
url and what it leads to (G. Weiss, "Branching bandit processes", 1988). A list that leads to twenty wanted pages
has an index of 20/21, a wanted page 1, and a page that leads nowhere what it pays itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# A page that leads to a list of lists gets its index in the third round; more than ten levels are rare.
_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Branch:
    """Averages of the pages of one class: the reward, in 0..1, and the number of new urls by their class."""

    reward: float
    offspring: Mapping[str, float]


def branch_values(kinds: Mapping[str, Branch]) -> dict[str, float]:
    """Return the index of each class, in 0..1. Offspring of a class that is not in the table counts for nothing.

    Each round goes from the best class to the worst: following a page's links pays for as long as they are better than
    the page itself.
    """
    found = {name: kind.reward for name, kind in kinds.items()}
    for _ in range(_ROUNDS):
        before = found
        found = _improved(kinds, before)
        if all(abs(found[name] - before[name]) < 0.005 for name in found):
            break
    return found


def _improved(kinds: Mapping[str, Branch], before: Mapping[str, float]) -> dict[str, float]:
    worth: dict[str, tuple[float, float]] = {}  # pay and fetches of a url and all better ones that it leads to
    found = {}
    for name in sorted(kinds, key=lambda name: (-before[name], name)):
        pay, fetches = kinds[name].reward, 1.0
        below = [(*worth[child], count) for child, count in kinds[name].offspring.items() if child in worth]
        for more, cost, count in sorted(below, key=lambda one: -one[0] / one[1]):
            if more * fetches <= pay * cost:
                break
            pay += count * more
            fetches += count * cost
        worth[name] = pay, fetches
        found[name] = pay / fetches
    return found
