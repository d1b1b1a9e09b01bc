"""The user's own page types: what is accepted, and that everything else is refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmcrawler.core.understanding.classification.page_types import (
    DEFAULT_PAGE_TYPES,
    PageType,
    PageTypes,
    load_page_types,
)
from llmcrawler.errors import ConfigError


def test_default_set_has_the_named_types_with_short_descriptions() -> None:
    assert DEFAULT_PAGE_TYPES.names[:4] == ("homepage", "article", "product", "collection")
    assert len(DEFAULT_PAGE_TYPES) == 26
    assert DEFAULT_PAGE_TYPES.fallback == "other"
    assert all(15 <= len(one.description) <= 110 for one in DEFAULT_PAGE_TYPES)


def test_page_types_are_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text('{"product": "one\\n  item", "basket": "", "Category-page": "many items"}', encoding="utf-8-sig")
    assert list(load_page_types(file)) == [
        PageType("product", "one item"),
        PageType("basket", ""),
        PageType("Category-page", "many items"),
    ]
    assert load_page_types(file).fallback is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["product", "listing"]', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("{}", "at least 2"),
        ('{"product": "one item"}', "at least 2"),
        ('{"product": "one item", "listing": 3}', "'listing' is not a string"),
        ('{"product": "one item", "listing": {"a": "b"}}', "'listing' is not a string"),
        ('{"product": "one item", "a page": "x"}', "'a page' is not a name"),
        ('{"product": "one item", "": "x"}', "'' is not a name"),
        ('{"product": "one item", "a/b": "x"}', "'a/b' is not a name"),
        (json.dumps({"product": "x", "y" * 65: "x"}), "is not a name"),
        ('{"product": "one item", "listing": "x", "product": "two"}', "'product' occurs twice"),
        ('{"product": "one item", "Product": "x"}', "'Product' occurs twice"),
        (json.dumps({"product": "x", "listing": "long " * 200}), "has 999 characters"),
    ],
)
def test_bad_page_types_are_refused_with_the_file_and_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "types.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refusal:
        load_page_types(file)
    assert str(file) in str(refusal.value)
    assert reason in str(refusal.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"caf\xe9": "x", "b": "y"}')
    for name in ("missing.json", "latin.json"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load_page_types(tmp_path / name)


def test_page_types_keep_their_order() -> None:
    types = PageTypes([PageType("a", "first"), PageType("b", "second")])
    assert types.names == ("a", "b")
    assert types[1].description == "second"
