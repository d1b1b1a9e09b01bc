"""Which kind of page to fetch next, when every page is worth something and leads to further ones.

Fetching costs 1, a page of kind i pays `reward` on average and brings `offspring[j]` new urls of each kind j. That is
a branching bandit: the best order fetches by an index of the kinds, the highest rate of pay per fetch that can be had
from a url and what it leads to (G. Weiss, "Branching bandit processes", 1988). A list that leads to twenty wanted pages
has an index of 20/21, a wanted page 1, and a page that leads nowhere what it pays itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# A way to a list of lists gets its index from the third round on; more than ten levels of ways are rare.
_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Kind:
    """Averages of one page: what it pays, in 0..1, and how many new urls of which kinds it has."""

    reward: float
    offspring: Mapping[str, float]


def rates(kinds: Mapping[str, Kind]) -> dict[str, float]:
    """The index of each kind, in 0..1. Offspring of a kind that is not in the table counts for nothing.

    Each round works the kinds off from the best to the worst: a page is worth going on from for as long as what it
    leads to is better than itself.
    """
    found = {name: kind.reward for name, kind in kinds.items()}
    for _ in range(_ROUNDS):
        before = found
        found = _improved(kinds, before)
        if all(abs(found[name] - before[name]) < 0.005 for name in found):
            break
    return found


def _improved(kinds: Mapping[str, Kind], before: Mapping[str, float]) -> dict[str, float]:
    worth: dict[str, tuple[float, float]] = {}  # pay and fetches of a url with all that is better below it
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
