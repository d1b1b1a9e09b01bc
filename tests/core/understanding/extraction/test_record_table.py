"""The columns of a table of records, and what stands in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcrawler.core.storage.feeds.tables import Column
from llmcrawler.core.understanding.extraction.record_schema import Field, load_schema, requested_fields
from llmcrawler.core.understanding.extraction.record_table import RecordTable, typed_cell
from llmcrawler.core.understanding.extraction.typed_values import read_amount


def table_of(records: list[dict[str, Any]], fields: tuple[Field, ...] = (), **options: Any):
    """The columns and the rows of a table, as they are when all rows are there."""
    table = RecordTable(fields, **options)
    lines = [
        {"url": f"https://a.test/{number}", "page_type": "product", "lang": "en", "record": record}
        for number, record in enumerate(records)
    ]
    rows = [json.loads(json.dumps(table.row_of(line))) for line in lines]
    columns = table.columns
    return columns, [{one.name: typed_cell(one, row.get(one.name), "en") for one in columns} for row in rows]


def column_of(name: str, values: list[Any]) -> tuple[Column, list[Any]]:
    columns, rows = table_of([{name: value} for value in values])
    return columns[2], [row[name] for row in rows]


@pytest.mark.parametrize(
    ("name", "values", "kind", "cells"),
    [
        ("price", ["£10.00", None, "£1,299.50"], "number", [10.0, None, 1299.5]),
        ("price", ["10.00", "9"], "number", [10.0, 9.0]),
        ("price", [10, "£9.50", 8.5], "number", [10.0, 9.5, 8.5]),
        ("price", ["£10.00", "on request"], "text", ["£10.00", "on request"]),
        ("price", ["£10.00", "9.00 €"], "text", ["£10.00", "9.00 €"]),
        ("stock", ["19", "0", "7"], "integer", [19, 0, 7]),
        ("stock", [19, 7], "integer", [19, 7]),
        ("stock", ["In stock (19)", "In stock (7)"], "text", ["In stock (19)", "In stock (7)"]),
        ("weight", ["5 kg", "6 kg"], "text", ["5 kg", "6 kg"]),
        ("number", ["007", "12"], "text", ["007", "12"]),
        ("sku", ["12", "7"], "text", ["12", "7"]),
        ("productId", ["12", "7"], "text", ["12", "7"]),
        ("shop.postal_code", ["90210", "1234"], "text", ["90210", "1234"]),
        ("where", ["90210", "10001"], "text", ["90210", "10001"]),
        ("views", ["90210", "1001"], "integer", [90210, 1001]),
        ("upc_or_so", ["9780451457998", "12"], "text", ["9780451457998", "12"]),
        ("title", ["1984", "2001"], "text", ["1984", "2001"]),
        ("new", [True, False, None], "flag", [True, False, None]),
        ("new", [True, "yes"], "text", ["true", "yes"]),
        ("price", [10, "ten"], "text", ["10", "ten"]),
        ("big", [2**70], "text", [str(2**70)]),
        ("never", [None, None], "text", [None, None]),
        ("offers", [[{"price": 1}], "none"], "json", [[{"price": 1}], "none"]),
    ],
)
def test_a_column_has_the_one_type_that_all_of_its_values_have(name, values, kind, cells):
    column, found = column_of(name, values)
    assert (column.kind, found) == (kind, cells)


def test_a_column_with_lists_has_lists_only():
    column, cells = column_of("sizes", [["1", "2"], "3", None, []])
    assert (column, cells) == (Column("sizes", "integer", many=True), [[1, 2], [3], None, []])


def test_asked_columns_stand_first_and_have_the_types_that_were_asked_for():
    fields = requested_fields("title,price:number,sku:string,tags[],made:date").fields
    columns, rows = table_of([{"colour": "red", "price": "£5", "sku": "7", "tags": ["a"]}], fields)
    kinds = {one.name: one.kind for one in columns}
    texts = dict.fromkeys(["url", "page_type", "title"], "text")
    assert kinds == texts | {"price": "number", "sku": "text", "tags": "text", "made": "text", "colour": "text"}
    assert list(kinds) == ["url", "page_type", "title", "price", "sku", "tags", "made", "colour"]
    assert [one.name for one in columns if one.many] == ["tags"]
    of_page = {"url": "https://a.test/0", "page_type": "product"}
    assert rows == [of_page | {"title": None, "price": 5.0, "sku": "7", "tags": ["a"], "made": None, "colour": "red"}]
    assert [one.name for one in table_of([], fields)[0]] == [one.name for one in columns[:-1]]


def test_nested_fields_are_named_by_their_path_and_lists_of_objects_stay_whole(tmp_path):
    maker = {"type": "object", "properties": {"name": {"type": "string"}}}
    offers = {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}}
    schema = {"type": "object", "properties": {"maker": maker, "offers": offers}}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    fields = load_schema(tmp_path / "schema.json").fields
    columns, rows = table_of([{"maker": {"name": "A"}, "offers": [{"price": 1.5}]}], fields)
    assert [one.name for one in columns[2:]] == ["maker.name", "offers"]
    assert rows[0]["maker.name"] == "A"
    assert rows[0]["offers"] == [{"price": 1.5}]


def test_a_field_called_as_a_column_of_the_page_has_another_name():
    columns, (row,) = table_of([{"url": "https://b.test", "page_type": "x"}])
    assert [one.name for one in columns] == ["url", "page_type", "record.url", "record.page_type"]
    assert (row["url"], row["record.url"]) == ("https://a.test/0", "https://b.test")


def test_names_without_end_share_one_column():
    columns, rows = table_of([{"a": 1, "b": 2, "c": {"d": 3}}, {"a": 1, "n" * 400: 2}], max_found=1)
    assert [one.name for one in columns] == ["url", "page_type", "a", "record"]
    assert [row["record"] for row in rows] == [{"b": 2, "c.d": 3}, {"n" * 400: 2}]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("£1,299.00", (1299.0, "£")),
        ("9.99 EUR", (9.99, "eur")),
        ("US$ 5", (5, "us$")),
        ("1.299,-", (1299, "")),
        ("10 kr.", (10, "kr")),
        ("100 Euro", (100, "euro")),
        ("1 200 руб.", (1200, "руб")),
        ("٩٩٫٥٠ ر.س", (99.5, "ر.س")),
        ("١٬٢٠٠ ريال", (1200, "ريال")),
        ("-5.2", (-5.2, "")),
        ("0.5", (0.5, "")),
        ("A 5", None),
        ("20%", None),
        ("3 left", None),
        ("007", None),
        ("12345678", None),
        ("12:30", None),
        ("2024-01-31", None),
        ("", None),
    ],
)
def test_an_amount_is_a_number_and_nothing_else(text, amount):
    assert read_amount(text, "en") == amount
