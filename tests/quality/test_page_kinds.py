"""How many kinds of page the package's model gets right on built sites of a family that it was not trained on."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.page_kind_sites import HELD_OUT, SITES_OF_A_FAMILY, SiteBuilder, built_pages
from llmcrawler.core.content import read_page

# Shares of pages that are right, of each kind's; of those that are at least .8 sure.
FLOORS = {"product": 0.9, "collection": 0.9}
SURE = 0.8


@pytest.fixture(scope="module")
def judged() -> list[tuple[str, str, float]]:
    """The kind, the likeliest kind and its probability, of each page."""
    found = []
    for number in range(SITES_OF_A_FAMILY):
        for page in SiteBuilder(HELD_OUT, number).pages():
            kinds = read_page(page.html, page.url).kinds
            likeliest = max(kinds, key=lambda kind: kinds[kind])
            found.append((page.kind, likeliest, kinds[likeliest]))
    return found


def test_the_family_is_held_out() -> None:
    assert HELD_OUT not in {page.family for page in built_pages()}


@pytest.mark.parametrize(("kind", "floor"), FLOORS.items())
def test_kinds_are_found_on_sites_of_unseen_software(
    judged: list[tuple[str, str, float]], kind: str, floor: float
) -> None:
    found = Counter(likeliest for true, likeliest, _ in judged if true == kind)
    assert found[kind] / found.total() >= floor, found


def test_what_is_sure_is_right(judged: list[tuple[str, str, float]]) -> None:
    sure = [true == likeliest for true, likeliest, probability in judged if probability >= SURE]
    assert len(sure) / len(judged) >= 0.5
    assert sum(sure) / len(sure) >= 0.9
