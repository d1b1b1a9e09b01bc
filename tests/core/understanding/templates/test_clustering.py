"""Clusters are parted where the site declares kinds: a body class that goes with a word of the url."""

import pytest

from llmcrawler.core.understanding.templates.clustering import part_by_declared_kind
from llmcrawler.core.understanding.templates.page_sample import PageSample


def archives(*, with_class: bool = True, with_url: bool = True, of_authors: int = 12) -> list[PageSample]:
    """Archives of tags and authors, alike in all but the class of the body and the first word of the url."""
    samples = []
    for number in range(30 + of_authors):
        kind = "tag" if number < 30 else "author"
        url = f"http://a/{kind if with_url else 'of'}/{'abc'[number % 3]}{number}x/"
        samples.append(PageSample.of(url, frozenset({"body>div", *(["body." + kind] if with_class else [])})))
    return samples


def test_declared_kinds_are_parted() -> None:
    assert part_by_declared_kind(archives(), [0] * 42) == [0] * 30 + [1] * 12


@pytest.mark.parametrize(
    "samples",
    [archives(with_class=False), archives(with_url=False), archives(of_authors=3)],
    ids=["url alone", "class alone", "few pages"],
)
def test_what_one_side_alone_says_or_few_pages_have_parts_nothing(samples: list[PageSample]) -> None:
    assert part_by_declared_kind(samples, [0] * len(samples)) == [0] * len(samples)


def test_one_odd_page_does_not_hide_a_kind() -> None:
    samples = archives(of_authors=25)
    odd = samples[40]
    samples[40] = PageSample.of(odd.url, frozenset({"body>div"}))
    assert part_by_declared_kind(samples, [0] * 55) == [0] * 30 + [1] * 25


def test_clusters_are_numbered_by_their_first_pages_and_none_gives_none() -> None:
    assert part_by_declared_kind(archives(of_authors=0)[:3], [2, 0, 2]) == [0, 1, 0]
    assert part_by_declared_kind([], []) == []
