"""What pages look like by themselves, beside a model's samples: who is asked, whom a template speaks for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_types import PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Answer, Question, Verdict
from llmcrawler.core.understanding.classification.template_samples import (
    EXTRA_SAMPLES,
    QUORUM,
    GuessVotes,
    SampleStep,
    TemplateSamples,
)
from llmcrawler.items import PageContent
from tests.core.understanding.classification.test_classifier import Oracle, one_by_one, opened, start

TYPES = PageTypes([PageType(name, "") for name in ("article", "product", "homepage", "other")])
CLASSIFIER_IS_SURE = 0.95


def page(number: int, looks: str | None = "article", sure: float = CLASSIFIER_IS_SURE, **others: Any) -> Question:
    url = others.pop("url", f"http://site.test/t/{number}")
    content = PageContent(kinds={} if looks is None else {looks: sure})
    return Question(url, "", "", content, "site.test", others.pop("template", "t"), number, **others)


async def test_a_lone_verdict_does_not_serve_pages_that_surely_look_like_something_else() -> None:
    """A blog's first post that was taken for its front page."""
    oracle = opened(lambda url: "homepage" if url.endswith("/1") else "article")
    verdicts = await one_by_one(Classifier(TYPES, oracle), [page(number) for number in range(1, 20)])
    assert [verdict.page_type for verdict in verdicts] == ["homepage"] + ["article"] * 18
    assert len(oracle.asked) < 10


async def test_the_front_page_of_a_blog_makes_no_front_pages_of_its_archives() -> None:
    oracle = opened(lambda url: "homepage" if url == "http://site.test/" else "other")
    front = page(1, None, url="http://site.test/")
    classifier = Classifier(TYPES, oracle)
    verdicts = await one_by_one(classifier, [front, *(page(number, None) for number in range(2, 20))])
    assert [verdict.page_type for verdict in verdicts] == ["homepage"] + ["other"] * 18
    assert len(oracle.asked) == 4
    assert classifier.template_verdict("site.test", "t")[0] == "other"


async def test_looks_that_mean_nothing_here_cost_two_questions() -> None:
    oracle = opened(lambda _: "product")
    verdicts = await one_by_one(Classifier(TYPES, oracle), [page(number) for number in range(1, 60)])
    assert {verdict.page_type for verdict in verdicts} == {"product"}
    assert [url.rpartition("/")[2] for url in oracle.asked] == ["1", "2", "4", "16"]


def test_looks_that_mean_nothing_here_cost_no_more_once_no_more_pages_come() -> None:
    guesses = {f"u{number}": Answer("article", CLASSIFIER_IS_SURE) for number in range(9)}
    samples = TemplateSamples(
        labels=dict.fromkeys(["u1", "u2", "u3"], "product"), page_count=9, _round=1, guesses=guesses
    )
    samples.note_asked("u4", patient=False)
    assert samples.step("u5", 9, is_over=True) is SampleStep.WAIT
    samples.note_answer("u4", "product")
    assert samples.step("u5", 9, is_over=True) is SampleStep.TAKE


async def test_pages_that_come_at_once_and_look_like_something_else_wait_for_the_first_of_them() -> None:
    oracle = Oracle(lambda _: "product")
    classifier = Classifier(TYPES, oracle)
    tasks = await start(classifier, [page(1, looks=None)])
    oracle.gate.set()
    await asyncio.gather(*tasks)
    oracle.gate.clear()
    tasks = await start(classifier, [page(number) for number in range(2, 30)])
    assert len(oracle.asked) <= 4
    oracle.gate.set()
    assert {verdict.page_type for verdict in await asyncio.gather(*tasks)} == {"product"}
    assert len(oracle.asked) <= 6


async def test_pages_without_a_group_are_not_asked_about_where_sure_guesses_have_been_right() -> None:
    oracle = opened(lambda _: "article")
    alone = [page(number, settled=False, template=f"t{number}") for number in range(1, 30)]
    verdicts = await one_by_one(Classifier(TYPES, oracle), alone)
    assert len(oracle.asked) == 5
    assert verdicts[-1] == Verdict("article", CLASSIFIER_IS_SURE, "classifier")


@pytest.mark.parametrize(
    ("own_type", "label", "looks", "sure"),
    [
        ("correction", "article", "article", CLASSIFIER_IS_SURE),  # what looks like a known type may be the user's own
        ("product", "product", "article", CLASSIFIER_IS_SURE),  # guesses are wrong
        ("product", "product", "product", 0.7),  # or unsure
    ],
)
async def test_pages_without_a_group_are_all_asked_about_where_guesses_are_worth_nothing(
    own_type: str, label: str, looks: str, sure: float
) -> None:
    types = PageTypes([PageType(name, "") for name in ("article", own_type, "other")])
    oracle = opened(lambda _: label)
    alone = [page(number, looks, sure, settled=False, template=f"t{number}") for number in range(1, 30)]
    await one_by_one(Classifier(types, oracle), alone)
    assert len(oracle.asked) == 29


@pytest.mark.parametrize("looks", [None, "by itself"])
async def test_nobody_takes_a_verdict_from_a_template_of_several_kinds(looks: str | None) -> None:
    """Products are among the articles, and nothing separates them: each page is asked about, unless its looks tell."""
    products = {4, *random.Random(1).sample(range(2, 101), 40)}

    def truth(url: str) -> str:
        return "product" if int(url.rpartition("/")[2]) in products else "article"

    def looks_of(number: int) -> str | None:
        return None if looks is None else truth(f"/{number}")

    oracle = opened(truth)
    pages = [page(number, looks_of(number)) for number in range(1, 101)]
    verdicts = await one_by_one(Classifier(TYPES, oracle), pages)
    right = [verdict.page_type == truth(question.url) for verdict, question in zip(verdicts, pages, strict=True)]
    assert all(right[20:])
    assert all(verdict.decided_by != "template" for verdict in verdicts[20:])
    assert len(oracle.asked) < 20 if looks else len(oracle.asked) > 80


async def test_without_a_model_unsure_pages_get_what_their_template_looks_like() -> None:
    pages = [page(number) for number in range(1, 8)]
    odd = [page(8, "product", 0.55), page(9, "product", 0.9)]
    *_, unsure, sure = await one_by_one(Classifier(TYPES, None), pages + odd)
    assert (unsure.page_type, unsure.decided_by) == ("article", "classifier")
    assert 0.55 < unsure.confidence < CLASSIFIER_IS_SURE
    assert (sure.page_type, sure.decided_by) == ("product", "classifier")


async def test_without_a_model_the_template_has_the_type_that_its_pages_look_like() -> None:
    classifier = Classifier(TYPES, None)
    await one_by_one(classifier, [page(number) for number in range(1, 8)] + [page(8, "product", 0.9)])
    verdict = classifier.template_verdict("site.test", "t")
    assert verdict[0] == "article"
    assert classifier.purity("site.test", "t") == pytest.approx(7 * 0.95 / (7 * 0.95 + 0.9))
    again = Classifier(TYPES, None)
    again.restore("site.test", classifier.to_json("site.test"), "http://site.test")
    assert again.template_verdict("site.test", "t") == pytest.approx(verdict)


class CountedLooks(dict[str, float]):
    """Kinds of a page that count how often somebody asks for them."""

    looks = 0

    def items(self) -> Any:
        CountedLooks.looks += 1
        return super().items()


@pytest.mark.parametrize("asker", [None, opened(lambda _: "article")])
async def test_pages_of_a_template_that_surely_look_alike_are_hardly_looked_at(
    asker: Oracle | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedLooks, "looks", 0)
    pages = [page(number) for number in range(1, 201)]
    pages = [replace(one, content=PageContent(kinds=CountedLooks(article=0.95))) for one in pages]
    verdicts = await one_by_one(Classifier(TYPES, asker), pages)
    assert {verdict.page_type for verdict in verdicts} == {"article"}
    assert min(verdict.confidence for verdict in verdicts) >= 0.66
    assert 12 <= CountedLooks.looks < 80  # a page that is looked at may be asked more than once


def samples_of(looks: Callable[[int], str], count: int) -> TemplateSamples:
    guesses = {f"u{n}": Answer(looks(n), CLASSIFIER_IS_SURE) for n in range(count)}
    samples = TemplateSamples(guesses=guesses)
    for guess in guesses.values():
        samples.votes.note(guess)
    return samples


def test_after_an_odd_answer_pages_that_look_odd_are_shown_first() -> None:
    samples = samples_of(lambda n: "product" if n in (1, 17, 23, 31) else "article", 40)
    for url in ("u0", "u1"):
        samples.note_asked(url, patient=False)
    samples.note_answer("u0", "article")
    samples.waiting = dict.fromkeys(f"u{n}" for n in range(2, 40))
    samples.note_answer("u1", "product")
    chosen = {url for url in samples.waiting if samples.step(url, 2) is SampleStep.ASK}
    assert {"u17", "u23", "u31"} <= chosen
    assert len(chosen) == EXTRA_SAMPLES


def test_confidence_counts_what_all_pages_look_like_as_one_more_sample() -> None:
    def confidence(looks: str) -> float:
        samples = samples_of(lambda _: looks, 20)
        for n in range(QUORUM):
            samples.note_asked(f"u{n}", patient=False)
            samples.note_answer(f"u{n}", "article")
        return samples.confidence

    assert confidence("article") == pytest.approx(5 / 6)
    assert confidence("product") == pytest.approx(4 / 6)


def test_votes_of_merged_templates_are_added() -> None:
    one, other = GuessVotes(), GuessVotes()
    one.note(Answer("article", 0.9))
    other.note(Answer("product", 0.8))
    other.note(Answer("product", 0.3))  # too unsure for a vote
    one.add(other)
    assert one.page_count == 3
    assert one.winner == "article"
    assert one.share_of("product") == pytest.approx(0.8 / 1.7)
    assert GuessVotes.from_json(one.to_json()) == one


@pytest.mark.parametrize("value", [None, [], [1], [1, []], ["x", {}], [1, {"a": "x"}]])
def test_votes_that_are_none_are_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        GuessVotes.from_json(value)
