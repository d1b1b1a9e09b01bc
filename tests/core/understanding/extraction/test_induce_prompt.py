"""How a small model is asked for a user's fields, and how its copied texts become blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcrawler.core.llm import ModelRequest, estimate_tokens
from llmcrawler.core.llm.answers import misfit
from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator, parse_answer
from llmcrawler.core.understanding.extraction.blocks import Block, Pointed
from llmcrawler.core.understanding.extraction.induce_prompt import InducePrompt, ShownPage, prompt_for
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, requested_fields, schema_of
from llmcrawler.errors import BadAnswer

WANTED = requested_fields("title,price,tags[]")
PROMPT = prompt_for(WANTED, small_model=True)
LONG = "A mug of stoneware that has been in our family for many, many years, and is still dishwasher safe."
BLOCKS = (
    Block(3, "/c/mugs", "a@href"),
    Block(4, "Blue mug", "li.active"),
    Block(5, "Blue mug", "h1"),
    Block(6, "Price: £12.99"),
    Block(7, "£12.99", "p.price"),
    Block(8, LONG),
    Block(9, "kitchen"),
    Block(10, "blue"),
)
PAGE = ShownPage("1", "http://shop.test/mug", "Blue mug | Shop", BLOCKS)


def value(field: Any, quote: Any) -> dict[str, Any]:
    return {"field": field, "quote": quote}


def pointed(*values: Any) -> tuple[Pointed, ...]:
    found: tuple[Pointed, ...] = read({"pages": [{"id": "1", "values": list(values)}]}).values["1"]
    return found


def read(answer: Any) -> Any:
    document = PROMPT.document("product", WANTED, [PAGE], ())
    return parse_answer(document, PROMPT.read(document, answer), WANTED)


def test_only_a_small_model_with_wanted_fields_is_asked_in_another_way() -> None:
    assert prompt_for(WANTED, small_model=False) == InducePrompt()
    assert prompt_for(None, small_model=True) == InducePrompt()
    assert PROMPT.version != InducePrompt().version
    assert PROMPT.most_pages == 1


def test_a_page_is_shown_in_short_each_text_once() -> None:
    document = PROMPT.document("product", WANTED, [PAGE], ())
    assert document["task"] == "induce"
    assert document["schema"] == {"properties": {"title": {}, "price": {}, "tags": {}}}
    page = document["pages"][0]
    assert page["title"] == ""
    assert [block["n"] for block in page["blocks"]] == [5, 6, 7, 8, 9, 10]
    assert page["blocks"][3]["text"].endswith("years, and is …")
    assert estimate_tokens(json.dumps(document)) < 300


def test_addresses_are_shown_where_one_is_wanted() -> None:
    wanted = requested_fields("title,link:url")
    document = prompt_for(wanted, small_model=True).document("product", wanted, [PAGE], ())
    assert document["pages"][0]["blocks"][0]["n"] == 3


def test_descriptions_are_shown() -> None:
    fields = (Field("price", "number", description="with tax"),)
    wanted = RequestedSchema(schema_of(fields), fields)
    document = prompt_for(wanted, small_model=True).document("product", wanted, [PAGE], ())
    assert document["schema"] == {"properties": {"price": {"description": "with tax"}}}


@pytest.mark.parametrize(
    ("field", "quote", "expected"),
    [
        ("title", "Blue mug", Pointed("title", (5,))),
        ("price", "£12.99", Pointed("price", (7,))),
        ("price", "£12.9", Pointed("price", (7,), "£12.9")),
        ("title", "family for  many", Pointed("title", (8,), "family for many")),
    ],
)
def test_a_copied_text_points_at_the_block_that_is_it_or_has_it(field: str, quote: str, expected: Pointed) -> None:
    assert pointed(value(field, quote)) == (expected,)


def test_a_text_that_was_cut_is_all_of_its_block_or_none_of_it() -> None:
    cut = PROMPT.document("product", WANTED, [PAGE], ())["pages"][0]["blocks"][3]["text"]
    assert pointed(value("title", cut)) == (Pointed("title", (8,)),)
    assert pointed(value("title", cut[10:])) == (Pointed("title", ()),)


def test_a_list_has_several_texts() -> None:
    assert pointed(value("tags", "kitchen"), value("tags", "blue")) == (Pointed("tags", (9,)), Pointed("tags", (10,)))


@pytest.mark.parametrize("quote", ["Red mug", "", None, 5])
def test_a_text_that_is_not_on_the_page_is_dropped(quote: Any) -> None:
    found = read({"pages": [{"id": "1", "values": [value("title", quote)]}]})
    assert [one for one in found.values["1"] if one.blocks] == []
    assert found.dropped.total() == 1


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"pages": 5}, {"pages": ["1"]}, {"pages": [{"id": [], "values": []}]}, {"pages": [{"id": "1"}]}],
)
def test_an_answer_of_another_form_is_a_bad_answer(answer: Any) -> None:
    with pytest.raises(BadAnswer):
        read(answer)


def test_the_examples_answer_their_own_questions() -> None:
    for question, answer in PROMPT.examples:
        document = json.loads(question)
        wanted = requested_fields(",".join(document["schema"]["properties"]))
        prompt = prompt_for(wanted, small_model=True)
        assert not misfit(json.loads(answer), prompt.schema(1, wanted))
        found = parse_answer(document, prompt.read(document, json.loads(answer)), wanted)
        assert [one.field for one in found.values["1"]] == [one.key for one in wanted.fields]
        assert not found.dropped


async def test_the_annotator_asks_a_small_model_one_page_a_call() -> None:
    asked: list[tuple[str, dict[str, Any], Any]] = []

    async def ask(ask: ModelRequest) -> Any:
        asked.append((ask.system, ask.document, ask.examples))
        page_id = ask.document["pages"][0]["id"]
        return {"pages": [{"id": page_id, "values": [value("title", "Blue mug")]}]}

    async def name() -> str:
        return "small"

    annotator = LLMAnnotator(ask, name, requested=WANTED, small_model=True)
    pages = [PAGE, ShownPage("2", "http://shop.test/cup", "Cup", BLOCKS)]
    found = await annotator.point("product", pages, ())
    assert [len(document["pages"]) for _, document, _ in asked] == [1, 1]
    assert all(system == PROMPT.system and examples == PROMPT.examples for system, _, examples in asked)
    assert found.values == {"1": (Pointed("title", (5,)),), "2": (Pointed("title", (5,)),)}
