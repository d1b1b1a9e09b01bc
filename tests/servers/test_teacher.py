"""The model that knows the truth points at it."""

import asyncio
import json
from random import Random

import aiohttp
import pytest

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from tests.servers.fake_llm import FakeLLM
from tests.servers.record_sites import SITES, Shown, make_site
from tests.servers.teacher import answer_from_truth, answer_induce, type_of


def document(blocks, schema=None):
    numbered = [{"n": n, "text": text} for n, text in enumerate(blocks, 1)]
    return {"task": "induce", "schema": schema, "pages": [{"id": "1", "url": "http://h/p", "blocks": numbered}]}


def induced(blocks, fields, **options):
    answer = answer_induce(document(blocks, options.pop("schema", None)), {"/p": fields}, rng=Random(1), **options)
    values = [(one["field"], one["blocks"], one["quote"]) for one in answer["pages"][0]["values"]]
    return answer["fields"], values


@pytest.mark.parametrize(
    ("blocks", "fields", "values"),
    [
        (["Price: 12.50 now", "12.50"], {"price": "12.50"}, [("price", [2], "12.50")]),
        (["a long line with 12.50 in it", "Price: 12.50"], {"price": "12.50"}, [("price", [2], "12.50")]),
        (["112.50", "12.505", "x12.50"], {"price": "12.50"}, []),
        (["A", "B", "A"], {"tags": ["B", "A"]}, [("tags", [2], "B"), ("tags", [1], "A")]),
        (["Home", "x", "y", "Sea", "Home"], {"path": ["Sea", "Home"]}, [("path", [4], "Sea"), ("path", [5], "Home")]),
        (["one", "two"], {"text": Shown.paragraphs(["one", "two"])}, [("text", [1, 2], None)]),
        (["one two"], {"text": Shown.paragraphs(["one", "two"])}, [("text", [1], "one two")]),
        (["x"], {"gone": None, "none": [], "missing": "y"}, []),
    ],
)
def test_a_value_is_pointed_at_in_its_block(blocks, fields, values):
    assert induced(blocks, fields)[1] == values


def test_values_of_one_object_stand_together():
    posts = [{"by": "Ann", "year": "2020"}, {"by": "Bo", "year": "2020"}, {"by": "Ann", "year": "2021"}]
    fields, values = induced(["2021", "Ann", "2020", "Bo", "2020", "Ann", "2021"], {"posts": posts})
    assert [(one["name"], one["group"]) for one in fields] == [("by", "posts"), ("year", "posts")]
    assert [(field, blocks[0]) for field, blocks, _ in values] == [
        *(("posts.by", place) for place in (2, 4, 6)),
        *(("posts.year", place) for place in (3, 5, 7)),
    ]


def test_a_users_schema_limits_the_fields():
    schema = {"properties": {"title": {}, "posts": {"type": "array", "items": {"properties": {"by": {}}}}}}
    truth = {"title": "T", "price": "1", "posts": [{"by": "Ann", "year": "2020"}]}
    _, values = induced(["T", "1", "Ann", "2020"], truth, schema=schema)
    assert [field for field, _, _ in values] == ["title", "posts.by"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Shown("£1.50", 1.5), "number"),
        (Shown("3 left", 3), "integer"),
        (Shown("1 May 2024", "2024-05-01"), "date"),
        ("https://a.example/", "url"),
        ("/a.jpg", "url"),
        ("/ per metre", "string"),
        ("2020-1", "string"),
    ],
)
def test_types_come_from_the_truth(value, expected):
    assert type_of(value) == expected


def test_slips_are_as_many_as_asked_for_and_the_same_for_a_seed():
    site = make_site("shop")
    pages = [
        {"id": str(n), "url": page.path, "blocks": [{"n": b.n, "text": b.text} for b in PageBlocks(page.html).blocks]}
        for n, page in enumerate(site.records)
    ]
    fields = {page.path: page.fields for page in site.records}

    def answer(slip):
        rng = Random(5)
        return answer_induce({"task": "induce", "schema": None, "pages": pages}, fields, slip=slip, rng=rng)

    right, wrong = answer(0.0), answer(0.1)
    assert answer(0.1) == wrong
    slipped = [
        value
        for page in wrong["pages"]
        for value in page["values"]
        if value not in right["pages"][int(page["id"])]["values"]
    ]
    total = sum(len({value["field"] for value in page["values"]}) for page in right["pages"])
    assert 0.05 * total < len(slipped) < 0.15 * total


@pytest.mark.parametrize("name", SITES)
def test_blocks_show_what_is_on_the_page(name):
    """All but a few values can be pointed at."""
    site = make_site(name)
    answer = answer_from_truth(site.truth())
    for page in site.records[:10]:
        blocks = [{"n": block.n, "text": block.text} for block in PageBlocks(page.html, page.path).blocks]
        asked = {"task": "induce", "schema": None, "pages": [{"id": "1", "url": page.path, "blocks": blocks}]}
        pointed = {value["field"].partition(".")[0] for value in answer(asked)["pages"][0]["values"]}
        assert pointed == {field for field, value in page.fields.items() if value}, page.path


@pytest.mark.server
def test_both_tasks_over_http_with_faults():
    site = make_site("forum")
    labels = [{"name": name, "description": ""} for name in ("forum_thread", "other")]
    document = {"task": "classify", "labels": labels, "pages": [{"id": "1", "url": site.records[0].path}]}

    async def ask(url, tries):
        outcomes = []
        body = {"model": "m", "messages": [{"role": "user", "content": json.dumps(document)}]}
        async with aiohttp.ClientSession() as session:
            for _ in range(tries):
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    outcomes.append((response.status, await response.json()))
        return outcomes

    with FakeLLM(answer_from_truth(site.truth()), fault_rate=0.3, seed=4).in_thread() as llm:
        outcomes = asyncio.run(ask(llm.base_url, 40))
    statuses = [status for status, _ in outcomes]
    assert 429 in statuses
    assert 500 in statuses
    assert statuses.count(200) > 25
    (first, *_) = [body["choices"][0]["message"]["content"] for status, body in outcomes if status == 200]
    assert json.loads(first) == {"pages": [{"id": "1", "label": "forum_thread", "confidence": 0.95}]}
