"""What a user wants, read from a schema or from names; and the shape that records have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.understanding.extraction.record_schema import (
    Field,
    RecordValidator,
    assemble,
    completed,
    load_schema,
    nullable,
    reconcile,
    requested_fields,
    schema_of,
)
from llmcrawler.errors import ConfigError

PRODUCT: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "x-page-types": ["product"],
    "required": ["title", "offer"],
    "properties": {
        "title": {"type": "string", "description": "its name"},
        "released": {"type": ["string", "null"], "format": "date"},
        "image": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
        "condition": {"enum": ["new", "used"]},
        "rating": {"enum": [1, 2.5, None]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "offer": {"$ref": "#/$defs/Offer", "description": "what it costs"},
        "reviews": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"author": {"$ref": "#/$defs/Person"}, "stars": {"type": "integer"}},
            },
        },
    },
    "$defs": {
        "Offer": {"type": "object", "properties": {"price": {"type": "number"}, "in_stock": {"type": "boolean"}}},
        "Person": {"properties": {"name": {"title": "who wrote it"}}},
    },
}


def schema_file(folder: Path, schema: Any) -> Path:
    path = folder / "record.json"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema), encoding="utf-8")
    return path


def test_a_schema_is_flattened_into_fields(tmp_path: Path) -> None:
    wanted = load_schema(schema_file(tmp_path, PRODUCT))
    assert wanted.fields == (
        Field("title", "string", description="its name"),
        Field("released", "date"),
        Field("image", "url"),
        Field("condition", "string"),
        Field("rating", "number"),
        Field("tags", "string", many=True),
        Field("offer.price", "number"),
        Field("offer.in_stock", "boolean"),
        Field("author.name", None, description="who wrote it", group="reviews"),
        Field("stars", "integer", group="reviews"),
    )
    assert wanted.page_types == ("product",)
    assert wanted.schema == PRODUCT


def test_a_record_may_be_named_by_reference_and_the_same_definition_used_twice(tmp_path: Path) -> None:
    price = {"type": "object", "properties": {"amount": {"type": "number"}}}
    both = {
        "type": "object",
        "properties": {"old": {"$ref": "#/definitions/p"}, "new": {"allOf": [{"$ref": "#/definitions/p"}]}},
    }
    path = schema_file(tmp_path, {"$ref": "#/definitions/r", "definitions": {"p": price, "r": both}})
    assert [one.name for one in load_schema(path).fields] == ["old.amount", "new.amount"]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", ["is not JSON"]),
        ("[" * 100_000, ["is not JSON"]),
        ([1], ["at the top", "properties"][1:]),
        ({"type": "array", "items": of(a={})}, ["at the top", "a record is an object"]),
        ({}, ["at the top", "a record is an object"]),
        ({"type": "object"}, ["at the top", 'needs "properties"']),
        (of(), ["at the top", 'needs "properties"']),
        (of(a=of(b=of())), ["a.b", 'needs "properties"']),
        (of(price={"type": "strin"}), ["price", "'strin'", "string, integer"]),
        (of(price={"type": ["string", "number"]}), ["price", "choose one"]),
        (of(price={"oneOf": [of(a={}), of(b={})]}), ["price", "oneOf of 2 schemas", "choose one"]),
        (of(price=5), ["price", "5 is not a schema"]),
        (of(**{"the price": {}}), ["'the price'", "not a field name"]),
        (of(rows={"type": "array", "items": {"type": "array"}}), ["rows", "list of lists"]),
        (
            of(rows={"type": "array", "items": of(cells={"type": "array", "items": of(x={})})}),
            ["rows[].cells", "move it out"],
        ),
        (of(size={"enum": ["S", 1]}), ["size", "of one type"]),
        (of(a={"$ref": "#/$defs/none"}), ["a: $ref '#/$defs/none' leads nowhere"]),
        (of(a={"$ref": "https://x.test/s.json"}), ["a: $ref 'https://x.test/s.json' leads out of the file"]),
        (of(a={"$ref": "#"}), ["a: $ref '#' leads to itself"]),
        (of(a={"type": "number", "minimum": "x"}), ["properties.a.minimum", '"x" is not of type "number"']),
        (of(a={"type": "string", "pattern": "("}), ["properties.a", "regex"]),
        ({**of(a={}), "$schema": "https://x.test/schema"}, ["$schema", "leave it out"]),
        ({**of(a={}), "x-page-types": "product"}, ["x-page-types", '["product"]']),
        (of(**{f"f{n}": {} for n in range(201)}), ["too many fields", "200"]),
        (
            {  # two to the power of 60 fields
                **of(a={"$ref": "#/$defs/d0"}),
                "$defs": {
                    f"d{n}": of(x={"$ref": f"#/$defs/d{n + 1}"}, y={"$ref": f"#/$defs/d{n + 1}"}) for n in range(60)
                }
                | {"d60": {}},
            },
            ["too many fields", "200"],
        ),
    ],
)
def test_what_is_no_schema_of_a_record_says_where_and_what_to_do(tmp_path: Path, schema: Any, words: list[str]) -> None:
    path = schema_file(tmp_path, schema)
    with pytest.raises(ConfigError) as raised:
        load_schema(path)
    assert str(raised.value).startswith(f"schema={path}: ")
    for word in words:
        assert word in str(raised.value)


def test_a_schema_that_contains_itself_has_no_record(tmp_path: Path) -> None:
    part = of(name={"type": "string"}, parts={"type": "array", "items": {"$ref": "#/$defs/part"}})
    with pytest.raises(ConfigError, match=r"part\.parts\[\]: \$ref '#/\$defs/part' leads to itself"):
        load_schema(schema_file(tmp_path, {**of(part={"$ref": "#/$defs/part"}), "$defs": {"part": part}}))


def test_a_schema_is_not_to_be_read_as_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_schema(tmp_path)


def test_fields_by_name_may_have_types_and_be_lists() -> None:
    wanted = requested_fields(" title, price:number ,published : date,tags[],sizes:integer[],größe")
    assert wanted.fields == (
        Field("title"),
        Field("price", "number"),
        Field("published", "date"),
        Field("tags", None, many=True),
        Field("sizes", "integer", many=True),
        Field("größe"),
    )
    assert wanted.page_types == ()
    assert list(wanted.schema["properties"]) == ["title", "price", "published", "tags", "sizes", "größe"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title,,price", "'' is not a field name"),
        ("the title", "'the title' is not a field name"),
        ("1st", "'1st' is not a field name"),
        ("price:money", "'money' is not a type; there are string, integer"),
        ("price,title,Price", "'Price' occurs twice"),
        ("offer.price", "-a schema=FILE"),
    ],
)
def test_wrong_names_and_types_are_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        requested_fields(text)
    assert words in str(raised.value)
    assert str(raised.value).startswith(f"fields={text!r}: ")


def test_a_record_has_as_many_fields_at_most_as_with_a_schema() -> None:
    assert len(requested_fields(",".join(f"f{number}" for number in range(200))).fields) == 200
    with pytest.raises(ConfigError, match="fields: 201 are too many for one record; the limit is 200"):
        requested_fields(",".join(f"f{number}" for number in range(201)))


FIELDS = (
    Field("title", "string", description="its name"),
    Field("offer.price", "number"),
    Field("image", "url"),
    Field("released", "date"),
    Field("tags", None, many=True),
    Field("author.name", None, group="reviews"),
    Field("stars", "integer", group="reviews"),
)


EMPTY = {"title": None, "offer": {"price": None}, "image": None, "released": None, "tags": None, "reviews": None}


def test_the_schema_of_a_learned_record_allows_null_and_nothing_else() -> None:
    schema = schema_of(FIELDS, "product")
    assert schema["title"] == "product"
    assert schema["properties"]["title"] == {"type": ["string", "null"], "description": "its name"}
    assert schema["properties"]["offer"]["properties"] == {"price": {"type": ["number", "null"]}}
    assert schema["properties"]["tags"] == {"type": ["array", "null"], "items": {}}
    validator = RecordValidator(schema)
    assert not validator.problems(assemble(FIELDS, {}))
    assert [path for path, _ in validator.problems({**assemble(FIELDS, {}), "other": 1})] == [()]


def test_flat_values_become_a_record_with_every_field() -> None:
    flat = {"title": "Mug", "image": "https://x.test/m.png", "released": "2024-05-12T10:00:00", "tags": ["a", "b"]}
    reviews = [{"author.name": "Ann", "stars": 5}, {"author.name": "Bob"}]
    record = assemble(FIELDS, {**flat, "offer.price": 9.5, "reviews": reviews})
    nested = [{"author": {"name": "Ann"}, "stars": 5}, {"author": {"name": "Bob"}, "stars": None}]
    assert record == {**flat, "offer": {"price": 9.5}, "reviews": nested}
    assert not RecordValidator(schema_of(FIELDS)).problems(record)


def test_what_was_not_found_is_null_and_so_is_an_empty_list() -> None:
    assert assemble(FIELDS, {}) == EMPTY
    assert assemble(FIELDS, {"tags": [], "reviews": []}) == EMPTY


def test_a_record_is_completed_down_to_the_objects_of_its_lists() -> None:
    learned = {"title": "Mug", "extra": 1, "offer": {"currency": "EUR"}, "reviews": [{"stars": 5, "place": "Leeds"}]}
    reviews = [{"author": {"name": None}, "stars": 5}]
    assert completed(FIELDS, learned) == EMPTY | {"title": "Mug", "reviews": reviews}


def test_two_answers_agree_on_the_type_that_holds_both() -> None:
    known = (Field("price", "integer"), Field("date", "date"), Field("isbn"), Field("sold", "boolean"))
    price = Field("price", "number", many=True, description="what it costs")
    more = (price, Field("date", "number"), Field("isbn", "integer"), Field("sold", "integer"), Field("size", "url"))
    both = (price, Field("date", "string"), Field("isbn", "integer"), Field("sold", "string"), Field("size", "url"))
    assert reconcile(known, more) == both


def test_null_is_allowed_for_each_property_and_for_nothing_else() -> None:
    sizes = {"type": "array", "items": of(w={"type": "integer"})}
    plain = of(properties=of(type={"type": "string"}), kind={"enum": ["a"]}, fixed={"const": 1}, sizes=sizes)
    schema = {**plain, "required": ["kind"]}
    before = json.dumps(schema)
    validator = RecordValidator(schema)
    empty = {"properties": {"type": None}, "kind": None, "fixed": None, "sizes": [{"w": None}]}
    assert not validator.problems(empty)
    assert validator.problems({**empty, "sizes": [None]})
    assert validator.problems({**empty, "properties": {"type": 5}})
    assert json.dumps(schema) == before
    assert nullable(True) is True


def test_what_a_schema_does_not_allow_becomes_null() -> None:
    schema = of(
        price={"type": "number", "minimum": 0},
        sku={"type": "string", "pattern": "^[A-Z]+$"},
        tags={"type": "array", "items": {"type": "string"}, "minItems": 1},
        rows={"type": "array", "items": of(n={"type": "integer"})},
    )
    record = {"price": -1, "sku": "ABC", "tags": ["a", 5], "rows": [{"n": 1}, {"n": "x"}]}
    cleaned, problems = RecordValidator(schema).clean(record)
    assert cleaned == {"price": None, "sku": "ABC", "tags": None, "rows": [{"n": 1}, {"n": None}]}
    assert {one.partition(":")[0] for one in problems} == {"price", "tags.1", "rows.1.n"}


def test_a_record_that_can_never_fit_is_none() -> None:
    assert RecordValidator({**of(a={"type": "string"}), "not": {}}).clean({"a": "x"})[0] is None


def test_a_day_that_was_asked_for_loses_its_time_and_a_time_needs_no_zone() -> None:
    schema = of(day={"type": "string", "format": "date"}, moment={"type": "string", "format": "date-time"})
    record = {"day": "2024-05-12T10:00:00", "moment": "2024-05-12T10:00:00"}
    assert RecordValidator(schema).clean(record) == ({"day": "2024-05-12", "moment": "2024-05-12T10:00:00"}, [])
    cleaned, _ = RecordValidator(schema).clean({"day": "soon", "moment": "2024-05-12"})
    assert cleaned == {"day": None, "moment": "2024-05-12"}


def test_a_schema_elsewhere_is_never_fetched() -> None:
    with pytest.raises(ConfigError, match="not in the file"):
        RecordValidator(of(a={"items": {"$ref": "http://127.0.0.1:9/x.json"}}))
