"""Why a field has no selector, or a page no record: what learning knows is told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from llmcrawler.core.understanding.extraction.annotators import parse_answer
from llmcrawler.core.understanding.extraction.blocks import Induced
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage, induce_document
from llmcrawler.core.understanding.extraction.learner import Learner, LearnerKey, LearningOutcome
from llmcrawler.core.understanding.extraction.record_schema import Field, requested_fields
from llmcrawler.core.understanding.extraction.records import Records
from llmcrawler.errors import LLMUnavailable
from tests.core.understanding.extraction.record_pages import SITE, TruthAnnotator, question
from tests.core.understanding.extraction.test_records import Pressure, ask, make

WANTED = requested_fields("name,price,weight,sku:date,stock")


class Wavering(TruthAnnotator):
    """Points at two letters of another block on each page for `stock`, and for `sku` at the name, which is no date."""

    _places = itertools.count()

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        document = induce_document(page_type, self._wanted, pages, known_fields)
        answers: list[dict[str, Any]] = []
        for page in document["pages"]:
            answer = self._answer(page)
            kept = [one for one in answer["values"] if one["field"] in ("name", "price", "colour")]
            name = next(one for one in kept if one["field"] == "name")
            at = next(self._places)
            block = page["blocks"][at % len(page["blocks"])]
            other = {"field": "stock", "blocks": [block["n"]], "quote": block["text"][at % 3 : at % 3 + 2]}
            answers.append({"id": page["id"], "values": [*kept, {**name, "field": "sku"}, other]})
        return parse_answer(document, {"fields": [], "pages": answers}, self._wanted)


async def outcome_of(records: Records, count: int) -> LearningOutcome:
    await ask(records, [question(number) for number in range(count)])
    (outcome,) = records.outcomes()
    return outcome


async def test_each_field_without_a_selector_has_its_own_reason() -> None:
    wanted = requested_fields("name,price,colour,weight,sku:date,stock")
    records = make(Wavering(wanted=wanted), requested=wanted)
    outcome = await outcome_of(records, 12)
    assert outcome.learned == {"name", "price", "colour"}
    assert outcome.missing == {
        "weight": "pointed at on none of 5 samples",
        "sku": "pointed at on 5 of 5 samples, but never at such a value",
        "stock": "pointed at on 5 of 5 samples, but no selector agrees with that",
    }
    assert (outcome.unserved, outcome.reason) == (0, "")


async def test_too_few_pages_are_the_reason_for_all_fields() -> None:
    outcome = await outcome_of(make(TruthAnnotator(), Pressure("idle"), requested=WANTED), 4)
    assert outcome.unserved == 4
    assert outcome.reason == "no structured data, fewer than RECORD_MIN_PAGES=5 pages of its template"
    assert outcome.missing == dict.fromkeys(["name", "price", "weight", "sku", "stock"], outcome.reason)


@pytest.mark.parametrize(
    ("faults", "pressure", "count", "reason"),
    [
        ([], "stopped", 6, "stopped: the crawl was stopped before its template was learned"),
        ([LLMUnavailable("no credit " * 50)] * 20, None, 12, f"llm_unavailable: {'no credit ' * 50}"),
    ],
)
async def test_what_ended_the_learning_is_the_reason(faults, pressure, count, reason) -> None:
    outcome = await outcome_of(make(TruthAnnotator(faults=faults), Pressure(pressure)), count)
    assert (outcome.unserved, outcome.reason) == (count, reason)


async def test_a_template_that_lacks_what_was_asked_for_says_how_much() -> None:
    wanted = requested_fields("salary,employer,location,name")
    outcome = await outcome_of(make(TruthAnnotator(wanted=wanted), requested=wanted), 12)
    assert outcome.reason == "1 of the 4 requested fields could be learned; half of them are needed"


def test_what_an_earlier_crawl_found_not_worth_it_says_so() -> None:
    records = make(TruthAnnotator())
    records.restore([Learner(LearnerKey(SITE, "t1", "product"), gave_up=True, was_restored=True)])
    (outcome,) = records.outcomes()
    assert outcome.reason == "an earlier crawl found nothing to learn"
