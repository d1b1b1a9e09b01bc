"""The model that knows the truth points at it."""

from random import Random

import pytest

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from tests.servers.record_sites import SITES, Shown, make_site
from tests.servers.teacher import answer_from_truth, answer_induce


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
