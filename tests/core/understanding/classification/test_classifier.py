"""The cascade with a model that is perfect, wrong or broken: what is asked, what is shared, what is said of faults."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_asker import PageView
from llmcrawler.core.understanding.classification.page_types import PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Answer, Question, Verdict
from llmcrawler.core.understanding.templates.grouping import Changes
from llmcrawler.errors import BadAnswer, BudgetSpent, LLMFailed, LLMUnavailable
from llmcrawler.items import Link, PageContent, PageError

TYPES = PageTypes([PageType("product", "one item"), PageType("listing", "many"), PageType("other", "the rest")])


@dataclass
class Oracle:
    """Answers `label_of(url)` once `gate` is open; keeps what it was shown."""

    label_of: Callable[[str], str | Exception] = lambda _: "product"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)
    patient: list[str] = field(default_factory=list)

    async def submit(self, question: PageView, *, patient: bool = False) -> Answer:
        url = question["url"]
        self.asked.append(url)
        if patient:
            self.patient.append(url)
        await self.gate.wait()
        label = self.label_of(url)
        if isinstance(label, Exception):
            raise label
        return Answer(label, 1.0)


def opened(label_of: Callable[[str], str | Exception] = lambda _: "product") -> Oracle:
    oracle = Oracle(label_of)
    oracle.gate.set()
    return oracle


def page(number: int, template: str = "t1", **others: Any) -> Question:
    url = others.pop("url", f"http://site.test/{template}/{number}")
    content = PageContent(structured_data=others.pop("data", ()))
    return Question(url, f"Page {number}", "", content, "site.test", template, number, **others)


async def start(classifier: Classifier, questions: list[Question]) -> list[asyncio.Task[Verdict]]:
    tasks = [asyncio.ensure_future(classifier.classify(question)) for question in questions]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def one_by_one(classifier: Classifier, questions: list[Question]) -> list[Verdict]:
    return [await classifier.classify(question) for question in questions]


async def test_when_the_budget_is_spent_known_answers_and_verdicts_serve_and_other_pages_say_so() -> None:
    """The asker has a cache: only what is not in it costs, and is refused."""
    known = {"http://site.test/t1/1", "http://site.test/t2/3"}
    oracle = opened(lambda url: "product" if url in known else BudgetSpent("LLM_MAX_TOKENS=1"))
    classifier = Classifier(TYPES, oracle)
    (_first, second) = await one_by_one(classifier, [page(1), page(2)])
    assert (second.page_type, second.decided_by, second.error) == ("product", "template", None)
    alone, unsettled = await one_by_one(classifier, [page(1, "t2"), page(3, settled=False)])
    assert alone.decided_by == "rule"
    assert unsettled.decided_by == "template"
    assert {one.error.kind for one in (alone, unsettled) if one.error} == {"budget"}
    (later,) = await one_by_one(classifier, [page(3, "t2")])
    assert (later.page_type, later.decided_by, later.error) == ("product", "llm", None)


async def test_structured_data_comes_before_the_model() -> None:
    oracle = opened()
    data = ({"@type": "Product", "name": "Page 1", "sku": "1"},)
    verdict = await Classifier(TYPES, oracle).classify(page(1, data=data))
    assert (verdict.page_type, verdict.decided_by, oracle.asked) == ("product", "structured-data", [])


async def test_without_a_model_rules_decide_and_there_is_no_error() -> None:
    verdict = await Classifier(TYPES, None).classify(page(1, url="http://site.test/category/shoes"))
    assert (verdict.page_type, verdict.decided_by, verdict.error) == ("listing", "rule", None)


async def test_few_pages_of_a_template_are_shown_and_the_rest_take_its_verdict() -> None:
    oracle = opened()
    verdicts = await one_by_one(Classifier(TYPES, oracle), [page(number) for number in range(1, 201)])
    assert [url.rpartition("/")[2] for url in oracle.asked] == ["1", "4", "16", "64"]
    assert oracle.patient == oracle.asked[1:]
    assert Counter(verdict.decided_by for verdict in verdicts) == {"llm": 4, "template": 196}
    assert verdicts[0] == Verdict("product", 0.95, "llm")
    assert verdicts[1].confidence == pytest.approx(2 / 3)
    assert verdicts[-1].confidence == pytest.approx(5 / 6)


async def test_pages_wait_for_one_first_verdict_of_their_template() -> None:
    oracle = Oracle()
    tasks = await start(Classifier(TYPES, oracle), [page(number) for number in range(1, 4)])
    assert len(oracle.asked) == 1
    oracle.gate.set()
    assert [verdict.decided_by for verdict in await asyncio.gather(*tasks)] == ["llm", "template", "template"]


async def test_once_no_more_pages_come_those_that_wait_are_asked_along_with_the_first() -> None:
    oracle, is_over = Oracle(lambda _: "other"), False
    classifier = Classifier(TYPES, oracle, is_over=lambda: is_over)
    tasks = await start(classifier, [page(number) for number in range(1, 4)])
    assert len(oracle.asked) == 1
    is_over = True
    while len(oracle.asked) < 3:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    oracle.gate.set()
    assert {verdict.decided_by for verdict in await asyncio.gather(*tasks)} == {"llm"}


async def test_an_answer_that_comes_when_its_page_is_gone_serves_the_pages_that_follow() -> None:
    oracle = Oracle()
    classifier = Classifier(TYPES, oracle)
    (first, second) = await start(classifier, [page(1), page(2)])
    for late in (first, second):  # as STAGE_TIMEOUT_SECONDS does
        late.cancel()
    await asyncio.wait([first, second])
    assert classifier.waiting_count == 0
    (third,) = await start(classifier, [page(3)])
    assert not third.done(), "it waits for the answer that is out"
    oracle.gate.set()
    verdict = await third
    assert (verdict.page_type, verdict.decided_by, len(oracle.asked)) == ("product", "template", 1)


async def test_pages_without_a_settled_group_are_asked_themselves_and_tell_what_is_in_it() -> None:
    oracle = opened(lambda url: "product" if url.endswith("1") else "listing")
    classifier = Classifier(TYPES, oracle)
    verdicts = await one_by_one(classifier, [page(1, settled=False), page(2, settled=False), page(3)])
    assert [verdict.page_type for verdict in verdicts] == ["product", "listing", "listing"]
    assert len(oracle.asked) == 3, "those before do not agree"


async def test_a_page_between_two_templates_is_asked_where_their_verdicts_differ() -> None:
    oracle = opened(lambda url: "product" if "/t1/" in url else "listing")
    classifier = Classifier(TYPES, oracle)
    await one_by_one(classifier, [page(1, "t1"), page(1, "t2"), page(1, "t3", url="http://site.test/t1/other")])
    agreeing = await classifier.classify(page(2, "t1", rivals=("t3", "t9")))
    doubtful = await classifier.classify(page(3, "t1", rivals=("t2",)))
    assert (agreeing.decided_by, doubtful.decided_by) == ("template", "llm")


async def test_when_a_sample_fails_the_next_waiting_page_is_asked_and_only_that_page_has_an_error() -> None:
    oracle = Oracle(lambda url: BadAnswer("cut") if url.endswith("/1") else "product")
    tasks = await start(Classifier(TYPES, oracle), [page(number) for number in (1, 2, 3)])
    oracle.gate.set()
    verdicts = await asyncio.gather(*tasks)
    assert len(oracle.asked) == 2
    # Its template came to a verdict, but only after this page was given up or taken along.
    assert [verdict.page_type for verdict in verdicts[1:]] == ["product", "product"]
    assert [verdict.error for verdict in verdicts[1:]] == [None, None]


async def test_a_model_that_always_fails_costs_few_calls_and_gives_errors() -> None:
    oracle = Oracle(lambda _: LLMFailed("HTTP 500"))
    tasks = await start(Classifier(TYPES, oracle), [page(number) for number in range(1, 101)])
    oracle.gate.set()
    verdicts = await asyncio.gather(*tasks)
    assert len(oracle.asked) <= 8
    for verdict in verdicts:
        assert verdict.decided_by == "rule"
        assert verdict.error == PageError("classify", "llm_failed", "HTTP 500")


async def test_when_the_model_is_gone_rules_decide_with_an_error_and_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    oracle = opened(lambda _: LLMUnavailable("wrong key"))
    with caplog.at_level(logging.WARNING):
        verdicts = await one_by_one(Classifier(TYPES, oracle), [page(1, f"t{number}") for number in range(50)])
    assert len(oracle.asked) == 1
    assert len(caplog.records) == 1
    assert {verdict.error.kind for verdict in verdicts if verdict.error} == {"llm_unavailable"}
    assert {(verdict.decided_by, verdict.error is None) for verdict in verdicts} == {("rule", False)}


async def test_a_templates_verdict_outlives_the_model() -> None:
    oracle = opened(lambda url: "product" if url.endswith("/1") else LLMUnavailable("gone"))
    verdicts = await one_by_one(Classifier(TYPES, oracle), [page(number) for number in range(1, 30)])
    assert {(verdict.page_type, verdict.error) for verdict in verdicts} == {("product", None)}


async def test_a_fault_of_our_own_is_not_hidden_and_the_waiting_pages_go_on() -> None:
    oracle = Oracle(lambda url: ZeroDivisionError("a bug") if url.endswith("/1") else "product")
    tasks = await start(Classifier(TYPES, oracle), [page(1), page(2)])
    oracle.gate.set()
    with pytest.raises(ZeroDivisionError):
        await tasks[0]
    assert (await tasks[1]).page_type == "product"


async def test_a_cancelled_sample_leaves_its_place_to_the_next_page() -> None:
    oracle = Oracle()
    tasks = await start(Classifier(TYPES, oracle), [page(1), page(2), page(3)])
    tasks[0].cancel()
    tasks[1].cancel()
    oracle.gate.set()
    assert (await tasks[2]).page_type == "product"


async def test_one_wrong_first_answer_does_not_poison_hundreds_of_pages() -> None:
    for together in (True, False):
        oracle = Oracle(lambda url: "listing" if url.endswith("/1") else "product")
        classifier = Classifier(TYPES, oracle)
        questions = [page(number) for number in range(1, 301)]
        if together:
            tasks = await start(classifier, questions)
            oracle.gate.set()
            verdicts = list(await asyncio.gather(*tasks))
        else:
            oracle.gate.set()
            verdicts = await one_by_one(classifier, questions)
        assert sum(verdict.page_type != "product" for verdict in verdicts) <= 3
        assert len(oracle.asked) <= 14


async def test_samples_that_disagree_lead_to_a_split_and_each_part_gets_its_own_verdict() -> None:
    oracle = opened(lambda url: "product" if int(url.rpartition("/")[2]) % 2 else "listing")
    classifier: Classifier
    splits: list[Mapping[str, str]] = []

    def split(site: str, template: str, labels: Mapping[str, str]) -> Changes:
        assert (site, template) == ("site.test", "t1")
        splits.append(labels)
        return Changes(moved={url: "t2" for url, label in labels.items() if label == "listing"})

    classifier = Classifier(TYPES, oracle, split=split)
    await one_by_one(classifier, [page(number) for number in range(1, 12)])
    assert len(splits) == 1
    asked = len(oracle.asked)
    parted = [page(number, "t2" if number % 2 == 0 else "t1") for number in range(20, 24)]
    verdicts = await one_by_one(classifier, parted)
    assert [verdict.page_type for verdict in verdicts] == ["listing", "product"] * 2
    assert sum(verdict.decided_by == "template" for verdict in verdicts) >= 2
    assert len(oracle.asked) - asked <= 2


async def test_sections_of_documentation_in_one_template_are_told_apart_by_few_answers() -> None:
    sections = {"guides": "listing", "reference": "product", "releases": "other"}
    oracle = opened(lambda url: sections[url.split("/")[3]])
    chance = random.Random(1)
    names = [chance.choice(list(sections)) for _ in range(400)]
    questions = [page(n, url=f"http://site.test/{name}/{chance.random()}/") for n, name in enumerate(names, 1)]
    verdicts = await one_by_one(Classifier(TYPES, oracle), questions)
    right = sum(verdict.page_type == sections[name] for verdict, name in zip(verdicts, names, strict=True))
    assert right >= 0.98 * len(verdicts)
    assert len(oracle.asked) <= 0.2 * len(verdicts)
    assert {verdict.decided_by for verdict in verdicts[100:]} <= {"classifier", "llm"}


async def test_pages_that_lead_to_addresses_below_their_own_are_told_from_the_pages_there() -> None:
    chance = random.Random(1)
    questions, indexes = [], set[str]()
    for number in range(1, 401):
        url = f"http://site.test/docs/{chance.random()}/"
        others = (f"http://site.test/docs/{chance.random()}/" for _ in range(5))
        below = [f"{url}{chance.random()}/" for _ in range(chance.choice((0, 0, 3)))]
        indexes.update({url} if below else ())
        links = tuple(Link(target) for target in (*others, *below))
        questions.append(replace(page(number, url=url), content=PageContent(links=links)))
    oracle = opened(lambda url: "listing" if url in indexes else "product")
    verdicts = await one_by_one(Classifier(TYPES, oracle), questions)
    listed = [verdict.page_type == "listing" for verdict in verdicts]
    right = sum(told == (one.url in indexes) for told, one in zip(listed, questions, strict=True))
    assert right >= 0.97 * len(questions)
    assert len(oracle.asked) <= 0.2 * len(questions)


async def test_samples_follow_their_pages_when_groups_change() -> None:
    oracle = opened(lambda url: "product" if url.endswith(("/1", "/3")) else "listing")
    classifier = Classifier(TYPES, oracle)
    early = [page(number, "t0", settled=False) for number in (1, 2, 3, 4)]
    await one_by_one(classifier, early)
    classifier.regroup("site.test", Changes(moved={one.url: "t1" if one.member % 2 else "t2" for one in early}))
    assert classifier.template_verdict("site.test", "t1") == ("product", 3 / 4)
    assert classifier.template_verdict("site.test", "t2") == ("listing", 3 / 4)
    classifier.regroup("site.test", Changes(aliases={"t1": "t3"}))
    assert classifier.template_verdict("site.test", "t1") == classifier.template_verdict("site.test", "t3")
    verdict = await classifier.classify(page(3, "t3", url="http://site.test/new"))
    assert (verdict.page_type, verdict.decided_by) == ("product", "template")
    assert len(oracle.asked) == 4


async def test_pages_that_wait_find_their_group_again_after_it_was_merged() -> None:
    oracle = Oracle()
    classifier = Classifier(TYPES, oracle)
    tasks = await start(classifier, [page(1, "t1"), page(2, "t1"), page(1, "t2"), page(2, "t2")])
    classifier.regroup("site.test", Changes(aliases={"t2": "t1"}))
    oracle.gate.set()
    verdicts = await asyncio.gather(*tasks)
    assert [verdict.decided_by for verdict in verdicts] == ["llm", "template", "llm", "template"]
    assert verdicts[3].confidence >= 2 / 3


async def test_verdicts_are_not_shared_between_sites() -> None:
    oracle = opened(lambda url: "product" if "site.test" in url else "listing")
    classifier = Classifier(TYPES, oracle)
    await one_by_one(classifier, [page(1), page(2)])
    other = replace(page(2, url="http://else.test/t1/2"), site="else.test")
    assert (await classifier.classify(other)).page_type == "listing"


async def test_a_page_whose_folder_was_judged_otherwise_is_asked_and_does_not_take_its_templates_verdict() -> None:
    def at(number: int, folder: str, template: str = "t1") -> Question:
        return page(number, template, url=f"http://site.test/{folder}/{number}")

    oracle = opened(lambda url: "other" if "/faq/" in url else "product")
    classifier = Classifier(TYPES, oracle)
    pages = [at(1, "items"), at(2, "items"), at(1, "faq", "t2"), at(3, "faq")]
    verdicts = await one_by_one(classifier, pages)
    assert [verdict.page_type for verdict in verdicts] == ["product", "product", "other", "other"]
    assert oracle.asked == [pages[at].url for at in (0, 2, 3)]


async def test_an_index_of_a_section_is_asked_until_answers_on_such_pages_agree_with_what_it_would_be_given() -> None:
    def index(number: int, name: str) -> Question:
        url = f"http://site.test/t1/{name}.html"
        links = tuple(Link(f"http://site.test/t1/{name}/{one}", "") for one in range(3))
        return replace(page(number, url=url), content=PageContent(links=links))

    oracle = opened(lambda url: "listing" if url.endswith("s.html") else "product")
    classifier = Classifier(TYPES, oracle)
    await one_by_one(classifier, [page(number, settled=False) for number in range(1, 12)])
    names = ["teas", "cups", "pots", "lamps"]
    verdicts = await one_by_one(classifier, [index(number, name) for number, name in enumerate(names, 12)])
    assert {verdict.page_type for verdict in verdicts} == {"listing"}
    assert all(f"http://site.test/t1/{name}.html" in oracle.asked for name in names[:2])
