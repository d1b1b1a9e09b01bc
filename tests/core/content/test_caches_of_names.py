"""What pages leave in memory for the next ones is bounded, and what is cached is what a plain search finds."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from llmcrawler.core.content import block_markdown, fingerprint, layout, metadata, page, part_names, scoring
from llmcrawler.core.content.caching import ShortTexts, cached_if_short
from llmcrawler.core.content.scoring import WordValues

_OF_WORDS = vars(WordValues({}))
_CACHES = [
    part_names._word_bits, part_names._name_bits, part_names.part_of, layout._name, fingerprint.fold_class,
    fingerprint._label, fingerprint._pair, metadata._place, page._prices, page._key, scoring._text_numbers,
    block_markdown.folded, block_markdown.folded_markdown,
    *map(_OF_WORDS.__getitem__, ("_of_text", "_of_names", "_of_part")),
]  # fmt: skip


@pytest.mark.parametrize("cache", _CACHES)
def test_caches_are_bounded(cache: Any) -> None:
    kept = getattr(cache, "__self__", None)
    size = kept.size if isinstance(kept, ShortTexts) else cache.cache_parameters()["maxsize"]
    assert 0 < size <= 16384


def test_texts_are_cached_only_where_they_are_short() -> None:
    asked = []

    @cached_if_short(4, size=2)
    def upper(of: tuple[str, str]) -> str:
        asked.append(of[1])
        return f"{of[0]}{of[1].upper()}"

    assert [upper(("-", text)) for text in ("a", "a", "longer", "longer", "b", "c", "a")] == [
        "-A", "-A", "-LONGER", "-LONGER", "-B", "-C", "-A",
    ]  # fmt: skip
    assert asked == ["a", "longer", "longer", "b", "c", "a"]


def test_paths_of_containers_are_forgotten_before_they_are_too_many() -> None:
    known = layout.Regions(most=10)
    kept = [known.inside(known.root, f"div{number}", 0).path for number in range(25)]
    assert known.count <= 10
    assert kept == [layout.Regions().inside(layout.Regions().root, f"div{number}", 0).path for number in range(25)]


def test_names_are_told_by_their_words_as_by_a_search_in_the_whole() -> None:
    whole = re.compile("|".join(f"({hint})" for hint in part_names.PART_NAMES.values()))
    parts = ("ad", "ads", "tag", "tags", "more-", "col-", "cross", "sell", "comments", "-", "_", "7", "date", "é", "x")
    for name in map("".join, product(parts, repeat=3)):
        wanted = 0
        for match in whole.finditer(name):
            wanted |= 1 << ((match.lastindex or 1) - 1)
        assert part_names.part_bits(f' class="{name}"') == wanted, name


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
