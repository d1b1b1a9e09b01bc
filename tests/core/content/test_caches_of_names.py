"""What pages leave in memory for the next ones is bounded, and what is cached is what a plain search finds."""

from __future__ import annotations

import re
from itertools import product

import pytest

from llmcrawler.core.content import block_markdown, fingerprint, hints, layout, metadata, page, scoring
from llmcrawler.core.content.scoring import WordValues

_OF_WORDS = vars(WordValues({}))
_CACHES = [
    hints._word_bits, hints._name_bits, hints._cached_part, layout._name, fingerprint.fold_class, fingerprint._label,
    fingerprint._kept_pair,
    metadata._place, page._cached_prices, page._cached_hash, scoring._cached_numbers,
    scoring._cached_places, *map(_OF_WORDS.__getitem__, ("_of_text", "_of_names", "_of_part")),
]  # fmt: skip


@pytest.mark.parametrize("cache", _CACHES)
def test_caches_are_bounded(cache: object) -> None:
    assert 0 < cache.cache_parameters()["maxsize"] <= 16384  # type: ignore[attr-defined]


def test_texts_are_forgotten_before_they_are_too_many() -> None:
    for number in range(20_000):
        assert block_markdown.folded(f" word  {number}") == (f"word {number}", 2)
    assert len(block_markdown._folded) <= 8192
    assert block_markdown.folded(" one\n " + "long " * 100) == ("one" + " long" * 100, 101)
    assert max(map(len, block_markdown._folded)) <= block_markdown.KEPT_CHARS


def test_paths_of_containers_are_forgotten_before_they_are_too_many() -> None:
    known = layout.Regions(most=10)
    kept = [known.inside(known.root, f"div{number}", 0).path for number in range(25)]
    assert known.count <= 10
    assert kept == [layout.Regions().inside(layout.Regions().root, f"div{number}", 0).path for number in range(25)]


def test_names_are_told_by_their_words_as_by_a_search_in_the_whole() -> None:
    whole = re.compile("|".join(f"({hint})" for hint in hints.PART_NAMES))
    parts = ("ad", "ads", "tag", "tags", "more-", "col-", "cross", "sell", "comments", "-", "_", "7", "date", "é", "x")
    for name in map("".join, product(parts, repeat=3)):
        wanted = 0
        for match in whole.finditer(name):
            wanted |= 1 << ((match.lastindex or 1) - 1)
        assert hints.part_bits(f' class="{name}"') == wanted, name


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("nav", "nav"),
        ("nav-item_12", "nav-item_0"),
        ("is-ACTIVE", ""),
        ("first", ""),
        ("Button_root__3xY2z", "Button_root"),
    ],
)
def test_class_names_are_folded(name: str, folded: str) -> None:
    assert fingerprint.fold_class(name) == folded
