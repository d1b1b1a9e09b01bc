"""Verdicts of an earlier crawl: what they spare the model, and what they must not hide."""

from __future__ import annotations

import json
import logging
from collections import Counter

import pytest

from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_types import PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Question, Verdict
from tests.core.understanding.classification.test_classifier import TYPES, Oracle, one_by_one, opened, page

SITE, ORIGIN = "site.test", "http://site.test"


def again(classifier: Classifier, oracle: Oracle | None, types: PageTypes = TYPES, origin: str = ORIGIN) -> Classifier:
    """The classifier of the next crawl, by way of JSON."""
    value = json.loads(json.dumps(classifier.to_json(SITE)))
    kept = Classifier(types, oracle)
    kept.restore(SITE, value, origin)
    return kept


async def learned(count: int = 200, oracle: Oracle | None = None) -> Classifier:
    classifier = Classifier(TYPES, oracle or opened())
    await one_by_one(classifier, [page(number) for number in range(1, count + 1)])
    return classifier


async def test_known_pages_are_not_asked_again_and_get_the_same_verdicts() -> None:
    oracle, unused = opened(), opened()
    first = Classifier(TYPES, oracle)
    before = await one_by_one(first, [page(number) for number in range(1, 201)])
    kept = again(first, unused)
    after = await one_by_one(kept, [page(number, is_known=True) for number in reversed(range(1, 201))])
    assert unused.asked == []
    assert [one.page_type for one in reversed(after)] == [one.page_type for one in before]
    assert [one.decided_by for one in reversed(after)] == [one.decided_by for one in before]
    assert kept.to_json(SITE) == first.to_json(SITE)


async def test_a_page_that_was_judged_itself_keeps_its_verdict_by_its_url() -> None:
    oracle, unused = opened(lambda url: "listing" if url.endswith("9") else "product"), opened()
    first = Classifier(TYPES, oracle)
    await one_by_one(first, [page(number, settled=number < 9) for number in range(1, 10)])
    odd = await again(first, unused).classify(page(9, settled=False))
    assert odd == Verdict("listing", 0.95, "llm")
    assert await again(first, unused).classify(page(3, is_known=True)) == Verdict("product", 0.6, "template")
    assert unused.asked == []


@pytest.mark.parametrize(
    "asked",
    [page(201, settled=False), page(999, settled=False, is_known=True), page(1, "t2")],
    ids=["odd page with a new url", "odd page that nobody has judged", "new template"],
)
async def test_what_nobody_has_judged_is_asked(asked: Question) -> None:
    oracle = opened(lambda _: "listing")
    verdict = await again(await learned(), oracle).classify(asked)
    assert (verdict.page_type, verdict.decided_by, len(oracle.asked)) == ("listing", "llm", 1)


async def test_the_schedule_of_samples_goes_on_where_it_was() -> None:
    oracle = opened()
    kept = again(await learned(100), oracle)
    await one_by_one(kept, [page(number) for number in range(101, 301)])
    assert [url.rpartition("/")[2] for url in oracle.asked] == ["256"]


async def test_a_template_judged_once_is_not_confirmed_for_pages_that_are_known() -> None:
    oracle = opened()
    kept = again(await learned(3), oracle)
    await one_by_one(kept, [page(2, url=f"{ORIGIN}/t1/{number}", is_known=True) for number in range(2, 40)])
    assert oracle.asked == []


async def test_without_a_model_what_was_learned_decides() -> None:
    kept = again(await learned(), None)
    verdicts = await one_by_one(kept, [page(201), page(1), page(1, "t2", url=f"{ORIGIN}/category/shoes")])
    assert [(one.page_type, one.decided_by) for one in verdicts] == [
        ("product", "template"),
        ("product", "llm"),
        ("listing", "rule"),
    ]
    assert {one.error for one in verdicts} == {None}


async def test_other_page_types_are_asked_anew_with_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    types = PageTypes([PageType("product", "one item"), PageType("listing", "many"), PageType("wish", "a list")])
    oracle = opened()
    with caplog.at_level(logging.WARNING):
        kept = again(await learned(), oracle, types)
    await one_by_one(kept, [page(number, is_known=True) for number in range(1, 30)])
    assert len(caplog.records) == 1
    assert "Page types" in caplog.text
    assert 1 <= len(oracle.asked) <= 3


async def test_the_order_and_the_descriptions_of_page_types_may_change_and_the_host() -> None:
    types = PageTypes([PageType(one.name, "in other words") for one in reversed(TYPES)])
    oracle, first = opened(), await learned()
    await one_by_one(again(first, oracle, types), [page(number, is_known=True) for number in range(1, 9)])
    assert SITE not in json.dumps(first.to_json(SITE))
    moved = again(first, oracle, origin="https://staging.test:8443")
    assert (await moved.classify(page(4, url="https://staging.test:8443/t1/4"))).decided_by == "llm"
    assert oracle.asked == []


async def test_samples_follow_their_pages_in_the_next_crawl_too() -> None:
    oracle = opened(lambda url: "listing" if int(url.rpartition("/")[2]) % 2 else "product")
    first = Classifier(TYPES, oracle)
    await one_by_one(first, [page(number) for number in range(1, 20)])
    kept = again(first, opened())
    labels = {url: answer for url, answer, *_ in first.to_json(SITE)["answers"]}
    odd = {ORIGIN + path: "t2" for path, label in labels.items() if label == "listing"}
    kept.regroup(SITE, type("Moved", (), {"aliases": {}, "moved": odd})())
    assert kept.template_verdict(SITE, "t2")[0] == "listing"
    assert kept.template_verdict(SITE, "t1")[0] == "product"
    assert Counter(labels.values()).keys() == {"listing", "product"}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"page_types": [], "groups": {}, "answers": [["/a", "x"]]},
        {"page_types": [], "groups": [], "answers": []},
        {"page_types": [], "groups": {"t1": [1, "x", 0, 0]}, "answers": []},
        {"page_types": [], "groups": {"t1": None}, "answers": []},
        {"page_types": [], "groups": {}, "answers": [["/a", "x", "much", "t1", 0]]},
    ],
)
def test_what_is_no_state_is_a_value_error(value) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Classifier(TYPES, None).restore(SITE, value, ORIGIN)
