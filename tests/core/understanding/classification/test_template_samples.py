"""When a template's pages are asked, wait, or take its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from llmcrawler.core.understanding.classification.question import Answer
from llmcrawler.core.understanding.classification.template_samples import (
    EXTRA_SAMPLES,
    MAX_FAILURES,
    TRUSTED_ALONE,
    SampleStep,
    SiteVerdicts,
    TemplateSamples,
)


def walk(samples: TemplateSamples, first: int, last: int, label: str = "a", learned: Answer | None = None) -> list[int]:
    """Pages come one after the other and each question is answered at once; returns the members that were asked."""
    asked = []
    for member in range(first, last + 1):
        url = f"u{member}"
        step = samples.step(url, member, learned=learned)
        if step in (SampleStep.ASK, SampleStep.ASK_PATIENTLY):
            asked.append(member)
            samples.note_asked(url, patient=step is SampleStep.ASK_PATIENTLY)
            samples.note_answer(url, label, learned)
        else:
            assert step is SampleStep.TAKE
            samples.note_taken(url)
    return asked


def ask(samples: TemplateSamples, member: int) -> str:
    url = f"u{member}"
    assert samples.step(url, member) is SampleStep.ASK
    samples.note_asked(url, patient=False)
    return url


def test_samples_are_due_at_pages_1_4_16_64_256() -> None:
    assert walk(TemplateSamples(), 1, 1000) == [1, 4, 16, 64, 256]


def test_a_sample_is_due_only_where_there_are_fewer_than_rounds_and_the_site_tells_no_better() -> None:
    labels = {f"u{number}": "a" for number in range(4)}
    for learned, step in ((Answer("a", 0.9), SampleStep.TAKE), (None, SampleStep.ASK_PATIENTLY)):
        samples = TemplateSamples(labels=dict(labels), page_count=15, _round=1)
        assert samples.step("u16", 16, learned=learned) is step
        assert samples.step("u256", 256, learned=learned) is SampleStep.ASK_PATIENTLY


def test_a_batch_of_answers_chooses_no_more_samples_than_the_quorum_lacks() -> None:
    samples = TemplateSamples()
    waiting = [f"u{number}" for number in range(3, 3 + TRUSTED_ALONE)]
    for url in ("u1", "u2"):
        samples.note_asked(url, patient=url == "u2")
    samples.waiting.update(dict.fromkeys(waiting))
    for url in ("u1", "u2"):
        samples.note_answer(url, "a")
    assert [samples.step(url, 11) for url in waiting].count(SampleStep.ASK) == 1


def test_a_page_of_a_template_with_enough_samples_does_not_go_through_all_that_wait() -> None:
    class Waiting(dict[str, None]):
        def __iter__(self) -> Iterator[str]:
            pytest.fail("gone through")

    samples = TemplateSamples(labels={"u1": "a", "u2": "a", "u3": "a"}, _round=1)
    samples.waiting = Waiting.fromkeys(f"u{number}" for number in range(4, 40))
    assert samples.step("u4", 4) is SampleStep.TAKE


def test_a_schedule_survives_member_numbers_that_jump() -> None:
    samples = TemplateSamples()
    walk(samples, 1, 1)
    assert samples.step("u40", 40) is SampleStep.ASK_PATIENTLY
    samples.note_asked("u40", patient=True)
    assert samples.step("u41", 41) is SampleStep.TAKE


@pytest.mark.parametrize("learned", [Answer("b", 0.9), Answer("a", 0.4)])
def test_what_a_site_wrongly_foretells_of_a_template_is_asked_about_four_times(learned: Answer) -> None:
    samples = TemplateSamples()
    assert walk(samples, 1, 60, learned=learned) == [1, 2, 3, 4, 5, 16]
    samples.note_asked("other", patient=False)
    samples.note_answer("other", "b", learned)
    assert samples.step("next", 61, learned=learned) is SampleStep.ASK, "some are otherwise, so it may be right"


def test_one_answer_does_not_decide_for_many_that_wait() -> None:
    samples = TemplateSamples()
    first = ask(samples, 1)
    samples.waiting = {f"w{number}": None for number in range(TRUSTED_ALONE)}
    samples.note_answer(first, "wrong")
    chosen = [url for url in list(samples.waiting) if samples.step(url, 2) is SampleStep.ASK]
    assert len(chosen) == 2
    for url in chosen:
        samples.note_asked(url, patient=False)
    assert {samples.step(url, 2) for url in samples.waiting} == {SampleStep.WAIT}


def test_one_answer_has_to_be_confirmed_before_it_decides_for_many() -> None:
    samples = TemplateSamples(page_count=300)
    ask(samples, 300)
    samples.note_answer("u300", "a")
    for number in range(TRUSTED_ALONE):
        assert samples.step(f"v{number}", 300) is SampleStep.TAKE
        samples.note_taken(f"v{number}")
    assert samples.step("next", 300) is SampleStep.ASK


def test_a_sample_that_disagrees_asks_for_six_more_and_the_rest_wait() -> None:
    samples = TemplateSamples()
    assert walk(samples, 1, 3) == [1]
    samples.note_asked("u4", patient=True)
    samples.note_answer("u4", "b")
    extra = [ask(samples, member) for member in range(5, 5 + EXTRA_SAMPLES)]
    assert samples.step("u11", 11) is SampleStep.WAIT
    for url in extra[:-1]:
        samples.note_answer(url, "a")
    assert samples.take_settled_doubt() is None
    samples.note_answer(extra[-1], "a")
    # One odd page of eight is no second kind of page.
    assert samples.take_settled_doubt() is None
    assert samples.step("u12", 12) is SampleStep.TAKE
    assert samples.majority == "a"
    assert samples.confidence == pytest.approx(8 / 10)


def test_two_of_a_kind_that_disagree_are_reason_to_split() -> None:
    samples = TemplateSamples(labels={"u1": "a"}, page_count=10, _round=1)
    samples.note_answer("u4", "b")
    extra = [ask(samples, member) for member in range(5, 5 + EXTRA_SAMPLES)]
    for number, url in enumerate(extra):
        samples.note_answer(url, "ab"[number % 2])
    labels = samples.take_settled_doubt()
    assert sorted(labels.values()) == list("aaaabbbb")
    assert samples.take_settled_doubt() is None


def test_extra_samples_are_spread_over_the_pages_that_wait() -> None:
    samples = TemplateSamples(labels={"u1": "a"}, page_count=200, _round=3)
    samples.waiting = {f"w{n:02}": None for n in range(60)}
    samples.note_answer("u2", "b")
    chosen = [url for url in samples.waiting if samples.step(url, 5) is SampleStep.ASK]
    assert chosen == ["w00", "w10", "w20", "w30", "w40", "w50"]


def test_a_failed_sample_is_followed_by_the_next_page_but_not_by_all() -> None:
    samples = TemplateSamples()
    for member in range(1, 1 + MAX_FAILURES):
        url = ask(samples, member)
        assert samples.step("u9", 9) is SampleStep.ASK_PATIENTLY if member == 1 else SampleStep.WAIT
        samples.note_failure(url)
    assert samples.step("u9", 9) is SampleStep.FAIL
    assert samples.step("u17", 17) is SampleStep.FAIL
    assert samples.step("u18", 18) is SampleStep.ASK


def test_pages_wait_for_samples_that_are_out_while_nothing_is_known_for_sure() -> None:
    samples = TemplateSamples(page_count=9)
    for member in range(1, 6):
        samples.note_asked(f"u{member}", patient=False)
    steps = []
    for member in range(1, 6):
        samples.note_answer(f"u{member}", "a")
        steps.append((samples.step("u9", 9), samples.step("u9", 9, learned=Answer("a", 0.9))))
    assert steps == [(SampleStep.WAIT, SampleStep.TAKE)] * 4 + [(SampleStep.TAKE, SampleStep.TAKE)]
    grown = TemplateSamples(labels={"u1": "a", "u2": "a", "u3": "a", "u4": "b"}, page_count=60)
    grown.note_asked("u5", patient=False)
    assert grown.step("u9", 9) is SampleStep.WAIT
    grown.note_answer("u5", "a")
    assert grown.step("u9", 9) is SampleStep.TAKE


def test_on_a_mixed_site_each_folder_of_a_template_has_a_sample_up_to_a_bound() -> None:
    samples = TemplateSamples(
        labels={"http://s.test/guide/1": "a", "http://s.test/guide/2": "a"}, page_count=127, _round=3
    )
    assert samples.step("http://s.test/faq/1", 126) is SampleStep.TAKE
    assert samples.step("http://s.test/guide/3", 127, by_folder=True) is SampleStep.TAKE
    assert samples.step("http://s.test/faq/1", 127, by_folder=True) is SampleStep.ASK
    samples.note_asked("http://s.test/faq/1", patient=False)
    assert samples.step("http://s.test/faq/2", 127, by_folder=True) is SampleStep.WAIT
    samples.note_answer("http://s.test/faq/1", "a")
    assert samples.step("http://s.test/faq/2", 127, by_folder=True) is SampleStep.TAKE
    samples.labels |= {f"http://s.test/{number}/1": "a" for number in range(4)}
    assert samples.step("http://s.test/blog/1", 127, by_folder=True) is SampleStep.TAKE


def test_a_template_keeps_exactly_the_samples_that_are_its_own() -> None:
    labels = {"u1": "a", "u2": "b", "u3": "a"}
    part, grown = (TemplateSamples(labels=dict(labels), page_count=90, _round=3) for _ in range(2))
    part.follow({"u2": "b"}, {"u7": True})
    assert (part.majority, part.page_count) == ("b", 2)
    assert part.step("u5", 20) is SampleStep.ASK_PATIENTLY
    grown.follow({**labels, "x": "a"}, {})
    assert grown.step("u5", 91) is SampleStep.TAKE


async def test_pages_do_not_wait_for_samples_that_have_moved_to_another_template() -> None:
    site = SiteVerdicts()
    urls = [f"http://shop.test/p/{number}" for number in range(12)]
    for url in urls:
        site.enter(url, "t1")
    samples = site.samples("t1")
    assert samples.step(urls[0], len(urls)) is SampleStep.ASK
    samples.note_asked(urls[0], patient=False)
    waits = [asyncio.create_task(site.samples("t1").wait(url)) for url in urls[1:]]
    await asyncio.sleep(0)
    site.note_answer(urls[0], Answer("product", 0.9))
    steps = {url: samples.step(url, len(urls)) for url in urls[1:]}
    chosen = [url for url, step in steps.items() if step is SampleStep.ASK]
    others = [url for url, step in steps.items() if step is SampleStep.WAIT]
    assert chosen
    assert others
    site.regroup({}, dict.fromkeys(chosen, "t2"))
    await asyncio.gather(*waits)
    samples = site.samples("t1")
    assert SampleStep.ASK in [samples.step(url, len(urls)) for url in others], "samples are chosen anew"
    assert site.samples("t2").step(chosen[0], 1) is SampleStep.ASK
