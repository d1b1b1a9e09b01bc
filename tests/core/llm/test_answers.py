from __future__ import annotations

import contextlib
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcrawler.core.llm.answers import misfit, read_answer
from llmcrawler.errors import BadAnswer

ENTRY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "label"],
    "properties": {"id": {"type": "string"}, "label": {"enum": ["a", "b"]}, "n": {"type": ["integer", "null"]}},
}
SCHEMA = {"type": "object", "required": ["pages"], "properties": {"pages": {"type": "array", "items": ENTRY}}}
WHOLE = {"pages": [{"id": "1", "label": "a"}]}


@pytest.mark.parametrize(
    "text",
    [
        '{"pages": [{"id": "1", "label": "a"}]}',
        '```json\n{"pages": [{"id": "1", "label": "a"}]}\n```',
        'Sure! Here it is: {"pages": [{"id": "1", "label": "a"}]} I hope that [this] helps.',
        '<think>maybe {"pages": []}?</think>{"pages": [{"id": "1", "label": "a"}]}',
        '{oops} {"pages": [{"id": "1", "label": "a"}]}',
        '{"pages": [{"id": "1", "label": "a", "why": "it looks so"}]}',
    ],
)
def test_an_answer_is_read_whatever_stands_around_it(text: str) -> None:
    assert read_answer(text, SCHEMA) == WHOLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I am sorry.",
        '{"pages": [{"id": "1", "label": "a"}',
        '{"pages": [{"id": "1"}]}',
        '{"pages": [{"id": 1, "label": "a"}]}',
        '{"pages": [{"id": "1", "label": "c"}]}',
        '{"sites": []}',
        "[" * 100_000,
    ],
)
def test_an_answer_that_does_not_fit_is_bad(text: str) -> None:
    with pytest.raises(BadAnswer):
        read_answer(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('{"pages": [{"id": "1", "label": "a"}, {"id": "2", "lab', ["1"]),
        ('```json\n{"pages": [{"id": "1", "label": "a"}, {"id": "2", "label": "b"}', ["1", "2"]),
        ('{"pages": [{"id": "}]\\"", "label": "a"}, {"id"', ['}]"']),
        ('{"pages": [{"id": "1", "label": "zzz"}, {"id": "2", "label": "b"}]}', ["2"]),
    ],
)
def test_whole_entries_are_salvaged(text: str, ids: list[str]) -> None:
    assert [page["id"] for page in read_answer(text, SCHEMA, salvage=True)["pages"]] == ids


@pytest.mark.parametrize(
    "text", ['{"pages": [{"id": "1"', '{"pages": [', '{"pages": [{"id": "1", "label": "c"}]}', "no"]
)
def test_where_nothing_is_whole_there_is_nothing_to_salvage(text: str) -> None:
    with pytest.raises(BadAnswer):
        read_answer(text, SCHEMA, salvage=True)


def test_an_entry_whose_own_list_was_cut_is_not_taken_for_whole() -> None:
    values = {"type": "array", "items": {"type": "object"}}
    page = {"type": "object", "required": ["id", "values"], "properties": {"values": values}}
    schema: dict[str, Any] = {"required": ["pages"], "properties": {"pages": {"type": "array", "items": page}}}
    cut = '{"pages": [{"id": "1", "values": [{"n": 1}]}, {"id": "2", "values": [{"n": 1}, {"n'
    assert read_answer(cut, schema, salvage=True) == {"pages": [{"id": "1", "values": [{"n": 1}]}]}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"pages": [{"id": "1", "label": "a"}, {"id": 2, "label": "a"}]}, r"answer\.pages\[1\]\.id: .*string"),
        ({"pages": [{"id": "1", "label": "Ignore all rules"}]}, r"answer\.pages\[0\]\.label: .*\"a\" or \"b\""),
        ({"pages": [{"id": "1"}]}, r"answer\.pages\[0\]: \"label\" is a required property"),
        ({"sites": []}, r"answer: \"pages\" is a required property"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place_and_never_in_the_answers_words(answer: Any, told: str) -> None:
    found = misfit(answer, SCHEMA)
    assert re.match(told, found)
    assert "Ignore" not in found
    assert len(misfit({"pages": "x" * 1_000_000}, SCHEMA)) < 100


def test_what_may_be_null_may_be_missing() -> None:
    fields = {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}
    schema = {"type": "object", "required": ["a", "b"], "properties": fields}
    assert misfit({"b": "x"}, schema) == ""
    assert '"b" is a required' in misfit({"a": "x"}, schema)


def test_a_value_that_nests_deep_fits_nowhere() -> None:
    with pytest.raises(BadAnswer, match=r"[Rr]ecursion"):
        read_answer('{"pages":' * 500 + "[]" + "}" * 500, SCHEMA)


def test_a_pattern_takes_no_time_in_any_text() -> None:
    before = time.process_time()
    assert misfit("a" * 10_000 + "!", {"type": "string", "pattern": "^(a+)+$"})
    assert time.process_time() - before < 5


def test_a_whole_number_is_given_as_one() -> None:
    answer = read_answer('{"pages": [{"id": "1", "label": "a", "n": 2.0}]}', SCHEMA)
    assert repr(answer["pages"][0]["n"]) == "2.0", "a union of types is left as it is"
    assert repr(read_answer('{"n": 2.0}', {"properties": {"n": {"type": "integer"}}})["n"]) == "2"


@given(st.text(alphabet='{}[]",:\\ab1 ', max_size=60))
def test_what_is_read_of_any_text_fits_the_schema(text: str) -> None:
    with contextlib.suppress(BadAnswer):
        assert misfit(read_answer(text, SCHEMA, salvage=True), SCHEMA) == ""


ENTRIES = {"type": "object", "properties": {"pages": {"type": "array", "items": ENTRY, "maxItems": 4}}}


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 140_000,
        "<think>a</think>" * 60_000,
        '{"pages": [' + '{"id": "1"},' * 100_000 + "0]}",
        '{"pages": [' + "0," * 400_000 + "0]}",
        '{"pages": [' + '{"id": "1", "label": "a"},' * 4_000 + "0]}",
        "{" + '"' * 900_000,
        '{"' + '\\"' * 450_000,
        '{"' + "\\" * 900_001,
        '{"a":' * 200_000,
        "[" * 1_000_000,
        "[[[[[" + "1.2345678901234567e-300," * 40_000,
        "[" + "9" * 1_000_000 + "]",
        "{" + " " * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_the_longest_answers_are_read_in_no_time_or_refused(text: str) -> None:
    """Under the code before, the first of these took minutes. 5 s is far more than any may take, on any machine."""
    before = time.process_time()
    with pytest.raises(BadAnswer):
        read_answer(text, ENTRIES, salvage=True)
    assert time.process_time() - before < 5


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "9" * 5_000, "1" + "0" * 30, "1e999", "true"])
def test_a_number_that_is_none_fits_nowhere(number: str) -> None:
    schema = {"properties": {"n": {"type": "number", "minimum": 0, "maximum": 1}}}
    with pytest.raises(BadAnswer):
        read_answer(f'{{"n": {number}}}', schema)


def test_half_a_surrogate_pair_in_an_answer_can_be_written_to_a_file() -> None:
    answer = read_answer('{"name": "caf\\u00e9 \\ud800", "names": ["\\udfff"]}', {"properties": NAMES})
    assert answer == {"name": "caf\xe9 ?", "names": ["?"]}


def test_brackets_and_quotes_in_strings_of_a_cut_answer_close_nothing() -> None:
    cut = '{"pages": [{"id": "a\\\\\\"}]", "label": "a"}, {"id": "2", "label": "b"}, {"id": "}]'
    assert [page["id"] for page in read_answer(cut, SCHEMA, salvage=True)["pages"]] == ['a\\"}]', "2"]


NAMES = {"name": {"type": "string"}, "names": {"type": "array", "items": {"type": "string"}}}
