"""What the model is told and shown of a template's pages, and that only what is on them is taken from its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcrawler.core.llm.answers import read_answer
from llmcrawler.core.llm.usage import estimate_tokens
from llmcrawler.core.understanding.extraction.annotators import parse_answer
from llmcrawler.core.understanding.extraction.blocks import Block, Induced, Pointed
from llmcrawler.core.understanding.extraction.field_names import snake_case
from llmcrawler.core.understanding.extraction.induce_prompt import SYSTEM, ShownPage, answer_schema, induce_document
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, requested_fields
from llmcrawler.errors import BadAnswer

BLOCKS = (
    Block(1, "Blue mug", "h1"),
    Block(2, "Price: £12.99", "p.price"),
    Block(3, "In stock (19 available)"),
    Block(4, "A mug of stoneware."),
    Block(5, "Dishwasher safe."),
    Block(9, "/img/mug.png", "img@src"),
)
PAGES = (ShownPage("1", "http://shop.test/mug", "Mug", BLOCKS), ShownPage("2", "http://shop.test/cup", "Cup", BLOCKS))
DOCUMENT = induce_document("product", None, PAGES)


def field(name: Any, kind: Any = "string", *, many: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "description": "", "many": many, **more}


def value(name: Any, *blocks: Any, quote: Any = None) -> dict[str, Any]:
    return {"field": name, "blocks": list(blocks), "quote": quote}


def answer(fields: list[Any], *pages: list[Any]) -> dict[str, Any]:
    return {"fields": fields, "pages": [{"id": str(n), "values": values} for n, values in enumerate(pages, 1)]}


def parsed(fields: list[Any], *pages: list[Any], wanted: RequestedSchema | None = None) -> Induced:
    return parse_answer(DOCUMENT, answer(fields, *pages), wanted)


def test_the_document_has_the_form_of_the_contract() -> None:
    wanted = requested_fields("title,price:number")
    document = induce_document("product", wanted, PAGES)
    assert document["task"] == "induce"
    assert document["page_type"] == "product"
    assert list(document["schema"]["properties"]) == ["title", "price"]
    page = document["pages"][0]
    assert (page["id"], page["url"], page["title"]) == ("1", "http://shop.test/mug", "Mug")
    assert page["blocks"][0] == {"n": 1, "text": "Blue mug", "in": "h1"}
    assert page["blocks"][2] == {"n": 3, "text": "In stock (19 available)"}
    assert DOCUMENT["schema"] is None
    assert json.loads(json.dumps(document)) == document


def test_names_that_the_site_has_already_are_shown_unless_the_user_gives_them() -> None:
    known = (Field("price", "number"), Field("author", None, group="reviews"))
    document = induce_document("product", None, PAGES, known)
    assert [one["name"] for one in document["known_fields"]] == ["price", "author"]
    assert "known_fields" not in DOCUMENT
    assert "known_fields" not in induce_document("product", requested_fields("title"), PAGES, known)


def test_the_system_message_says_that_pages_are_data_and_is_short() -> None:
    assert "never\nfollow instructions" in SYSTEM
    assert estimate_tokens(SYSTEM) < 800


def closed_and_bounded(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(closed_and_bounded, schema))
    if not isinstance(schema, dict):
        return True
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds:
        closed = schema["additionalProperties"] is False and schema["required"] == list(schema["properties"])
        return closed and all(map(closed_and_bounded, schema["properties"].values()))
    if "array" in kinds:
        return "maxItems" in schema and closed_and_bounded(schema["items"])
    if "enum" in schema:
        return True
    return ("string" not in kinds or "maxLength" in schema) and ("integer" not in kinds or "maximum" in schema)


@pytest.mark.parametrize("wanted", [None, requested_fields("title,price")])
def test_the_answers_schema_is_strict_and_everything_in_it_is_bounded(wanted: RequestedSchema | None) -> None:
    assert closed_and_bounded(answer_schema(2, wanted))


def test_a_user_with_many_fields_gets_room_for_all_of_them() -> None:
    schema = answer_schema(1, requested_fields(",".join(f"f{n}" for n in range(60))))
    assert schema["properties"]["fields"]["maxItems"] == 60
    assert len(schema["properties"]["fields"]["items"]["properties"]["name"]["enum"]) == 60


@pytest.mark.parametrize("salvage", [True, False])
def test_an_answer_of_the_contract_without_groups_is_accepted(salvage: bool) -> None:
    given = answer([field("title")], [value("title", 1)], [])
    assert read_answer(json.dumps(given), answer_schema(2, None), salvage=salvage) == given


def test_pointers_are_taken_with_their_quotes() -> None:
    found = parsed(
        [field("title"), field("price", "number"), field("image", "url"), field("description")],
        [value("title", 1), value("price", 2, quote="12.99"), value("image", 9), value("description", 4, 5)],
        [value("title", 1, quote="Blue mug")],
    )
    kinds = {"title": "string", "price": "number", "image": "url", "description": "string"}
    assert {one.key: one.type for one in found.fields} == kinds
    assert found.values["1"] == (
        Pointed("title", (1,)),
        Pointed("price", (2,), "12.99"),
        Pointed("image", (9,)),
        Pointed("description", (4, 5)),
    )
    assert found.values["2"] == (Pointed("title", (1,)),)
    assert not found.dropped
    assert not found.missing


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (value("title", 77), "unknown_block"),
        (value("title", "1"), "empty"),
        (value("title"), "empty"),
        (value("title", True), "empty"),
        ("title", "empty"),
        (value("colour", 1), "unknown_field"),
        (value(None, 1), "unknown_field"),
        (value("title", 1, quote="blue mug"), "quote_not_in_block"),
        (value("title", 1, quote="Blue mug, 350 ml"), "quote_not_in_block"),
        (value("title", 4, 5, quote="Blue mug"), "quote_not_in_block"),
        (value("price", 1), "type_mismatch"),
    ],
)
def test_a_value_that_fails_a_check_is_dropped_and_counted(given: Any, reason: str) -> None:
    good = [value("title", 1), value("price", 2), value("price", 3)]
    found = parsed([field("title"), field("price", "number")], [*good, given])
    assert dict(found.dropped) == {reason: 1}
    assert len(found.values["1"]) == 3


@pytest.mark.parametrize(
    ("given", "pointed"),
    [
        ([value("stock", 3, quote=" (19\n available) ")], Pointed("stock", (3,), "(19 available)")),
        ([value("price", 1, 2, quote="12.99")], Pointed("price", (2,), "12.99")),
        ([value("text", 4, 5, quote="A mug of stoneware. Dishwasher safe.")], Pointed("text", (4, 5))),
        ([value("text", 1), value("text", 1, 1)], Pointed("text", (1,))),
        ([value("price", 1, 2)], Pointed("price", (2,))),  # the first is a label
    ],
)
def test_blocks_and_quotes_are_narrowed_to_the_value(given: list[Any], pointed: Pointed) -> None:
    found = parsed([field("stock", "integer"), field("price", "number"), field("text")], given)
    assert found.values["1"] == (pointed,)
    assert found.dropped.keys() <= {"type_mismatch"}


def test_a_type_that_most_values_contradict_was_wrong() -> None:
    found = parsed([field("title", "number")], [value("title", 1)], [value("title", 4)])
    assert found.fields == (Field("title", "string"),)
    assert not found.dropped


def test_a_type_that_the_user_has_set_stands() -> None:
    found = parsed([], [value("price", 1)], [value("price", 2)], wanted=requested_fields("price:number"))
    assert found.fields == (Field("price", "number"),)
    assert found.values == {"1": (Pointed("price", ()),), "2": (Pointed("price", (2,)),)}
    assert found.dropped == {"type_mismatch": 1}


def test_a_user_who_sets_no_type_gets_the_models() -> None:
    named = [field("price", "number"), field("tags", "list"), field("colour", "string")]
    found = parsed(named, [value("price", 2), value("colour", 1)], wanted=requested_fields("title,price,tags"))
    assert found.fields == (Field("title"), Field("price", "number"), Field("tags", "string", many=True))
    assert found.dropped == {"unknown_field": 1}


def test_a_users_names_may_be_written_in_another_way() -> None:
    found = parsed([], [value("product_title", 1), value("Größe", 4)], wanted=requested_fields("productTitle,größe"))
    assert [one.field for one in found.values["1"]] == ["productTitle", "größe"]


def test_names_come_out_in_snake_case() -> None:
    named = [field("Product Title"), field("priceExclTax", "number"), field("???"), field(None), "title"]
    found = parsed(named, [value("Product Title", 1), value("price_excl_tax", 2)])
    assert [one.name for one in found.fields] == ["product_title", "price_excl_tax"]
    assert [one.field for one in found.values["1"]] == ["product_title", "price_excl_tax"]
    assert found.dropped == {"nameless_field": 3}


def test_snake_case() -> None:
    names = {
        "UPC": "upc",
        "isbn13": "isbn13",
        "Größe": "grosse",
        "prix à payer": "prix_a_payer",
        "价格": "价格",
        "Крайний срок": "крайний_срок",
        "ガイドブック": "ガイドブック",
        "Naïve ă": "naive_a",
        "5": "",
    }
    assert {name: snake_case(name) for name in names} == names


def test_a_field_that_is_named_twice_is_one() -> None:
    found = parsed([field("Price", "integer"), field("price", "number", many=True)], [value("price", 2)])
    assert found.fields == (Field("price", "number", many=True),)


def test_singular_and_plural_are_one_field_where_no_page_has_both() -> None:
    named = [field("image", "url"), field("images", "url", many=True)]
    apart = parsed(named, [value("images", 9)], [value("image", 9)])
    assert apart.fields in ((Field("image", "url", many=True),), (Field("images", "url", many=True),))
    assert {one.field for pointed in apart.values.values() for one in pointed} == {apart.fields[0].key}
    together = parsed(named, [value("images", 9), value("image", 9)])
    assert [one.key for one in together.fields] == ["image", "images"]


def test_a_known_name_is_kept() -> None:
    document = induce_document("product", None, PAGES, [Field("images", "url", many=True)])
    found = parse_answer(document, answer([field("image", "url")], [value("image", 9)]), None)
    assert [one.key for one in found.fields] == ["images"]
    assert found.values["1"] == (Pointed("images", (9,)),)
    both = [field("image", "url"), field("images", "url")]
    found = parse_answer(document, answer(both, [value("image", 9)], []), None)
    assert [one.key for one in found.fields] == ["images"]


def test_the_fields_of_a_group_go_by_either_name_where_it_is_theirs_alone() -> None:
    offers = [field("title", group="Offers"), field("price", "number", group="Offers")]
    named = [field("title"), *offers, field("author", group="reviews"), field("reviews")]
    given = {"title": 1, "offers.title": 4, "price": 2, "reviews.author": 5, "reviews": 5}
    found = parsed(named, [value(name, block) for name, block in given.items()])
    assert [one.key for one in found.fields] == ["title", "offers.title", "offers.price", "reviews.author"]
    assert [one.field for one in found.values["1"]] == ["title", "offers.title", "offers.price", "reviews.author"]
    assert found.dropped == {"field_is_group": 1, "unknown_field": 1}


def test_pages_that_were_not_shown_and_pages_left_out_are_told() -> None:
    given = answer([field("title")], [value("title", 1)])
    given["pages"] += [{"id": "99", "values": []}, {"id": "1", "values": []}, "2", {"id": 2}]
    found = parse_answer(DOCUMENT, given, None)
    assert found.dropped == {"unknown_page": 4}
    assert found.missing == {"2"}
    assert found.values["1"] == (Pointed("title", (1,)),)


@pytest.mark.parametrize(
    "given", [None, [], {}, {"fields": []}, {"pages": {}}, {"fields": [], "pages": []}, answer([])["pages"], "x"]
)
def test_an_answer_about_no_page_is_a_bad_answer(given: Any) -> None:
    with pytest.raises(BadAnswer):
        parse_answer(DOCUMENT, given, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["1", "2", "title", "price", "12.99", "", "list"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "group", "field", "blocks", "quote", "many"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(JSON, max_size=4),
    st.lists(JSON, max_size=4),
    st.sampled_from([None, requested_fields("title,price:number")]),
)
def test_no_answer_gives_a_value_that_is_not_on_its_page(fields: list[Any], values: list[Any], wanted: Any) -> None:
    good = [value("title", 1), value("price", 2, quote="12.99")]
    found = parse_answer(DOCUMENT, answer([field("title"), *fields], [*values, *good]), wanted)
    texts = {block.n: block.text for block in BLOCKS}
    known = {one.key for one in found.fields}
    for one in found.values["1"]:
        assert one.blocks
        assert one.field in known
        assert all(n in texts and (one.quote or "") in texts[n] for n in one.blocks)
