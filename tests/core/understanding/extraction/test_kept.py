"""Extractors from crawl to crawl: what is taken up again, and what is learned anew."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from llmcrawler.core.understanding.extraction.annotators import Annotator
from llmcrawler.core.understanding.extraction.blocks import Induced
from llmcrawler.core.understanding.extraction.extractor import FieldRule, TemplateExtractor
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage
from llmcrawler.core.understanding.extraction.learner import Learner, LearnerKey, Variant, read_learners
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, requested_fields
from llmcrawler.core.understanding.extraction.records import RecordQuestion, RecordRules, Records, RecordSerializer
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.items import PageError

SITE, ORIGIN = "site.test", "http://site.test"
TITLE = FieldRule(Field("title", "string"), (Selector("h1", "css", coverage=1.0, agreement=1.0),))
EXTRACTOR = TemplateExtractor("product", (TITLE,))


class Unasked:
    """An annotator that notes what it is asked: nothing, where all is known."""

    def __init__(self) -> None:
        self.asked: list[ShownPage] = []

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        self.asked += pages
        return Induced((), {})


def records(
    *learners: Learner, annotator: Annotator | None = None, requested: RequestedSchema | None = None
) -> Records:
    """Records that learn from the first page on, if they have to."""
    rules = RecordRules(min_pages=1, learn_pages=1, record_types={"product"}, requested=requested)
    made = Records(annotator or Unasked(), rules)
    made.restore(learners)
    return made


def learner(template: str = "t1", **others: Any) -> Learner:
    return Learner(LearnerKey(SITE, template, "product"), [Variant(EXTRACTOR, {"title": 1.0})], calls=3, **others)


def kept(made: Records) -> RecordSerializer:
    return RecordSerializer(made, lambda _site, _template: "product")


def again(first: RecordSerializer, second: RecordSerializer) -> Any:
    value = json.loads(json.dumps(first.to_json(SITE)))
    second.restore(SITE, value, ORIGIN)
    return value


async def test_the_next_crawl_extracts_without_a_training_run() -> None:
    annotator = Unasked()
    next_records = records(annotator=annotator)
    value = again(kept(records(learner())), kept(next_records))
    html = "<html><h1>A lamp</h1></html>"
    question = RecordQuestion(f"{ORIGIN}/1", "", "en", html, frozenset(), SITE, "t1", "product")
    assert (await next_records.record_of(question)).record == {"title": "A lamp"}
    assert not annotator.asked
    assert json.loads(json.dumps(kept(next_records).to_json(SITE))) == value


async def test_without_what_was_learned_the_annotator_is_asked() -> None:
    annotator = Unasked()
    question = RecordQuestion(f"{ORIGIN}/1", "", "en", "<h1>A lamp</h1>", frozenset(), SITE, "t1", "product")
    assert (await records(annotator=annotator).record_of(question)).record is None
    assert [page.url for page in annotator.asked] == [f"{ORIGIN}/1"]


async def test_a_template_that_was_not_worth_it_is_not_tried_again() -> None:
    annotator = Unasked()
    next_records = records(annotator=annotator)
    given_up = Learner(LearnerKey(SITE, "t2", "product"), gave_up=True)
    again(kept(records(given_up)), kept(next_records))
    question = RecordQuestion(f"{ORIGIN}/1", "", "en", "<p>", frozenset(), SITE, "t2", "product")
    assert (await next_records.record_of(question)).record is None
    assert not annotator.asked


def test_a_template_that_the_model_failed_is_tried_again() -> None:
    failed = Learner(LearnerKey(SITE, "t2", "product"), gave_up=True, error=PageError("record", "llm_failed", "500"))
    assert kept(records(failed)).to_json(SITE)["templates"] == []


def test_other_fields_are_learned_anew_with_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    next_records = records(requested=requested_fields("title,price"))
    with caplog.at_level(logging.WARNING):
        again(kept(records(learner())), kept(next_records))
    assert next_records.learners() == []
    assert len(caplog.records) == 1


def test_the_same_fields_are_taken_up() -> None:
    next_records = records(requested=requested_fields("title"))
    again(kept(records(learner(), requested=requested_fields("title"))), kept(next_records))
    assert len(next_records.learners(SITE)) == 1


def test_people_see_schema_selectors_and_cost() -> None:
    described = kept(records(learner())).describe(SITE, "t1")
    assert described["schema"]["properties"].keys() == {"title"}
    assert described["selectors"][0]["css"] == "h1"
    assert described["llm_calls"] == 3
    assert kept(records()).describe(SITE, "t1") == {"schema": None, "selectors": [], "llm_calls": 0}


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"templates": []},
        {"wanted": None, "templates": [{}]},
        {"wanted": None, "templates": [{"template": "t1", "page_type": "x", "variants": [{}]}]},
    ],
)
def test_what_is_no_state_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match="records"):
        read_learners(SITE, value)


def test_a_selector_that_is_none_is_found_at_once() -> None:
    value = json.loads(json.dumps(kept(records(learner())).to_json(SITE)))
    value["templates"][0]["variants"][0]["extractor"]["rules"][0]["selectors"][0]["query"] = "h1[["
    with pytest.raises(ValueError, match=r"\w"):
        read_learners(SITE, value)
