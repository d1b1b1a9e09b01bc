"""Values, names, front matter and tables for pages of every kind, broken ones included."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmcrawler.core.storage.feeds.markdown_files import file_name, front_matter
from llmcrawler.core.storage.feeds.tables import MAX_DEPTH, Column, FlatTable, clean, columns_of, fitted, flatten
from llmcrawler.items import Page

TEXT = st.text(st.characters(codec=None), max_size=20)  # lone surrogates and control characters too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_a_front_matter_is_read_as_what_was_written_whatever_it_was(facts):
    cleaned = clean(facts)
    text = front_matter(cleaned)
    assert text.startswith("---\n")
    assert text.endswith("---\n")
    assert (yaml.safe_load(text[4:-4]) or {}) == cleaned
    text.encode()


def test_names_that_yaml_could_not_take_are_cut():
    assert list(yaml.safe_load(front_matter({"n" * 2000: 1, "a": {"m" * 2000: 1}})[4:-4])) == ["n" * 200, "a"]


@given(VALUES)
def test_clean_values_are_json_in_utf_8(value):
    text = json.dumps(clean(value), ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode()) == clean(value)


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        (float("nan"), None),
        (float("inf"), None),
        ({1: (1, 2)}, {"1": [1, 2]}),
        (date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_what_json_cannot_say_becomes_what_it_can(value, cleaned):
    assert clean(value) == cleaned


@pytest.mark.parametrize(
    ("value", "flat"),
    [
        ({"a": {"b": 1, "c": ["x", {"d": None}]}}, {"r.a.b": 1, "r.a.c": '["x", {"d": null}]'}),
        ({"a.b": 1, "a": {"b": 2}}, {"r.a.b": 1, "r.a.b_": 2}),
        ({"a.b": 1, "a": {"b": 2, "b_": 3}}, {"r.a.b": 1, "r.a.b_": 2, "r.a.b__": 3}),
        ({"x" * 250: {"y": {"z": 1}}}, {"r." + "x" * 250: '{"y": {"z": 1}}'}),
        ({}, {}),
        ("text", {"r": "text"}),
        (None, {"r": None}),
    ],
)
def test_nested_values_are_flattened(value, flat):
    assert flatten("r", value) == flat


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("https://a.test/Shop/Lamp.html?id=1", "shop-lamp-html-id-1"),
        ("https://a.test/", "a-test"),
        ("https://a.test", "a-test"),
        ("https://a.test/../../etc/passwd", "etc-passwd"),
        ("https://a.test/%2e%2e%2f%00\\", ""),
        ("https://a.test/con", "con"),
        ("https://a.test/caf%C3%A9/%E5%95%86%E5%93%81/", "café-商品"),
        ("https://a.test/%FF%FE", ""),
        ("not a url", "not-a-url"),
        ("http://[half/x", "x"),
        ("https://a.test/" + "x" * 200, "x" * 80),
        ("https://a.test/" + "é" * 200, "é" * 40),
        ("https://a.test/\ud800x", "x"),
    ],
)
def test_file_names_say_the_url_and_suit_every_file_system(url, slug):
    name = file_name(url)
    assert name.removesuffix(".md")[:-12].rstrip("-") == slug
    assert len(name.encode()) < 100
    assert not set('/\\:*?"<>|\0') & set(name)


def test_urls_that_differ_only_in_case_or_query_have_names_that_differ_without_case():
    urls = ["https://a.test/Lamp", "https://a.test/lamp", "https://a.test/lamp?a=1", "https://a.test/lamp?a-1"]
    assert len({file_name(url).lower() for url in urls}) == len(urls)


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("text", 5, "5"),
        ("text", {"a": 1}, '{"a": 1}'),
        ("json", "x", '"x"'),
        ("number", 5, 5.0),
        ("integer", None, None),
        ("integer", 2**63, ValueError),
        ("integer", True, ValueError),
        ("integer", "5", ValueError),
        ("flag", 1, ValueError),
        ("struct", "x", ValueError),
    ],
)
def test_a_cell_has_the_type_of_its_column_or_is_refused(kind, value, cell):
    if cell is ValueError:
        with pytest.raises(ValueError, match="c is no"):
            fitted(Column("c", kind), value)
    else:
        assert fitted(Column("c", kind), value) == cell


def test_names_that_collide_cost_no_more_than_others():
    """The same name in 2**12 ways: looking through all of its namesakes would take eight million steps."""

    def split(parts: list[str]) -> dict[str, object]:
        found: dict[str, object] = {".".join(parts): 1}
        for at in range(1, len(parts)):
            found[".".join(parts[:at])] = split(parts[at:])
        return found

    flat = flatten("r", split(list("abcdefghijklm")))
    assert len(flat) == 2**12
    assert max(map(len, flat)) < 40


def test_values_are_cut_at_a_depth():
    value: object = 1
    for _level in range(100_000):
        value = {"a": value}
    cleaned = clean({"deep": value, "list": [1]})
    assert cleaned["list"] == [1]
    depth = 0
    while isinstance(cleaned, dict):
        cleaned, depth = cleaned.get("deep", cleaned.get("a")), depth + 1
    assert (cleaned, depth) == (None, MAX_DEPTH)


def test_a_name_of_a_record_that_no_header_should_hold_goes_into_the_rest():
    table = FlatTable(columns_of(Page))
    row = table.row_of(Page(url="u", record={"n" * 1000: 1, "a": 2}).as_line())
    assert (row["record.a"], row["record"]) == (2, json.dumps({"n" * 1000: 1}))


def test_the_columns_of_a_record_that_was_asked_for_are_there_without_any_record():
    table = FlatTable(columns_of(Page), {"price": None, "size": {"width": None}})
    table.row_of(Page(url="u", record={"size": {"width": 2}, "more": 1}).as_line())
    assert table.columns[-3:] == ("record.price", "record.size.width", "record.more")


def test_a_table_has_the_record_columns_of_all_its_rows_and_loses_none_beyond_its_width():
    table = FlatTable(columns_of(Page), max_found=2)
    assert "record" not in table.columns
    assert "error.kind" in table.columns
    records: list[Any] = [{"a": 1}, {"b": {"c": "x"}}, {"a": "one", "d": 2, "rest": 3}, ["no", "object"]]
    rows = [table.row_of(Page(url="https://a.test/", record=record).as_line()) for record in records]
    assert table.columns[-3:] == ("record.a", "record.b.c", "record")
    assert [row.get("record.a") for row in rows] == [1, None, "one", None]
    assert [row.get("record") for row in rows] == [None, None, '{"d": 2, "rest": 3}', '["no", "object"]']
