"""Batches: when they go out, and that every question gets its own answer or its own error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from llmcrawler.core.llm.batching import Batcher, BatchReport, BatchRules, call_bound
from llmcrawler.core.llm.call_limits import Clock
from llmcrawler.errors import BadAnswer, LLMFailed, LLMUnavailable
from tests.core.llm.clients import Watch

Answers = Mapping[int, int | Exception]


class FakeTime:
    """Time that `tick` moves; every sleeper wakes up once a tick."""

    def __init__(self) -> None:
        self.now = 0.0
        self._wake = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self._wake.wait()

    async def settle(self) -> None:
        """Let everything that can go on do so."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def tick(self, seconds: float = 0.05) -> None:
        await self.settle()
        self.now += seconds
        self._wake.set()
        self._wake = asyncio.Event()
        await self.settle()


class Worker:
    """Doubles numbers; keeps what it was asked. `spoil` may change or refuse an answer."""

    def __init__(self, spoil: Callable[[Sequence[int], dict[int, Any], int], Answers] | None = None) -> None:
        self.asked: list[list[int]] = []
        self.spoil = spoil
        self.gate: asyncio.Event | None = None

    async def __call__(self, questions: Sequence[int]) -> Answers:
        self.asked.append(list(questions))
        if self.gate is not None:
            await self.gate.wait()
        answers: dict[int, Any] = {position: 2 * question for position, question in enumerate(questions)}
        return self.spoil(questions, answers, len(self.asked)) if self.spoil else answers

    @property
    def sizes(self) -> list[int]:
        return [len(asked) for asked in self.asked]


class Crawl:
    """A batcher with its time, worker, reports and watch."""

    def __init__(self, worker: Worker, **options: Any) -> None:
        self.time = FakeTime()
        self.worker = worker
        self.reports: list[BatchReport] = []
        self.pressure: str | None = None
        rules = BatchRules(**{"max_questions": 4, **options.pop("rules", {})})
        self.batcher: Batcher[int, int] = Batcher(
            worker,
            rules=rules,
            watch=Watch(lambda: self.pressure, options.pop("is_ending", lambda: False)),
            on_batch=self.reports.append,
            clock=Clock(monotonic=lambda: self.time.now, sleep=self.time.sleep),
            **options,
        )

    def submit(self, *questions: int, patient: bool = False) -> list[asyncio.Task[int]]:
        return [asyncio.ensure_future(self.batcher.submit(question, patient=patient)) for question in questions]

    async def outcomes(self, tasks: list[asyncio.Task[int]], ticks: int = 400) -> list[Any]:
        """Run until all have an outcome: an answer, or the error."""
        for _ in range(ticks):
            if all(task.done() for task in tasks):
                break
            await self.time.tick()
        assert all(task.done() for task in tasks), "a question hangs"
        await self.time.settle()
        return await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def reasons(self) -> list[str]:
        return [report.reason for report in self.reports]


async def test_a_full_batch_goes_at_once() -> None:
    crawl = Crawl(Worker())
    tasks = crawl.submit(1, 2, 3, 4, 5)
    await crawl.time.settle()
    assert crawl.worker.asked == [[1, 2, 3, 4]]
    assert crawl.reasons == ["full"]
    assert await crawl.outcomes(tasks) == [2, 4, 6, 8, 10]
    assert crawl.reasons == ["full", "waited"]
    await crawl.time.tick()
    assert crawl.batcher._poller is None, "nothing polls while nothing waits"
    assert not crawl.batcher._waiting
    assert not crawl.batcher._in_flight


async def test_a_batch_is_full_by_tokens_too_and_one_large_question_goes_alone() -> None:
    crawl = Crawl(Worker(), rules={"max_questions": 10, "max_tokens": 10}, tokens_of=lambda question: question)
    tasks = crawl.submit(4, 4, 4, 25)
    await crawl.outcomes(tasks)
    assert crawl.worker.asked == [[4, 4], [4], [25]]
    assert [report.tokens for report in crawl.reports] == [8, 4, 25]
    assert crawl.reasons == ["tokens", "tokens", "tokens"]


async def test_the_oldest_waits_no_longer_than_asked() -> None:
    crawl = Crawl(Worker(), rules={"wait_seconds": 1.0})
    first = crawl.submit(1)
    await crawl.time.tick(0.6)
    second = crawl.submit(2)
    await crawl.time.tick(0.3)
    assert crawl.worker.asked == []
    await crawl.time.tick(0.2)
    assert crawl.worker.asked == [[1, 2]]
    assert await crawl.outcomes(first + second) == [2, 4]


@pytest.mark.parametrize("reason", ["backing_out", "closing", "idle"])
async def test_pressure_sends_all_that_waits_patient_ones_too(reason: str) -> None:
    crawl = Crawl(Worker())
    tasks = crawl.submit(1) + crawl.submit(2, patient=True)
    await crawl.time.tick()
    assert crawl.worker.asked == []
    crawl.pressure = reason
    assert await crawl.outcomes(tasks) == [2, 4]
    assert crawl.worker.asked == [[1, 2]]
    assert crawl.reasons == [reason]


async def test_a_moment_without_other_work_sends_nothing() -> None:
    crawl = Crawl(Worker(), rules={"max_questions": 10, "wait_seconds": 60.0})
    tasks = []
    for page in (1, 2, 3):  # each links to the next
        tasks += crawl.submit(page)
        crawl.pressure = "idle"
        await crawl.time.tick()
        crawl.pressure = None
        await crawl.time.tick()
    crawl.pressure = "idle"
    assert await crawl.outcomes(tasks, ticks=10) == [2, 4, 6]
    assert crawl.worker.asked == [[1, 2, 3]]


async def test_patient_questions_ride_along_or_go_after_their_own_wait() -> None:
    crawl = Crawl(Worker(), rules={"wait_seconds": 1.0, "patient_seconds": 15.0})
    patient = crawl.submit(1, patient=True)
    await crawl.time.tick(10)
    assert crawl.worker.asked == []
    urgent = crawl.submit(2)
    await crawl.time.tick(1.0)
    assert crawl.worker.asked == [[2, 1]]
    lonely = crawl.submit(3, patient=True)
    await crawl.time.tick(14)
    assert crawl.worker.asked == [[2, 1]]
    await crawl.time.tick(2)
    assert await crawl.outcomes(patient + urgent + lonely) == [2, 4, 6]
    assert crawl.reasons == ["waited", "patience"]


async def test_at_the_end_patient_questions_wait_no_longer_than_others() -> None:
    is_ending = False
    crawl = Crawl(Worker(), rules={"wait_seconds": 1.0, "patient_seconds": 15.0}, is_ending=lambda: is_ending)
    tasks = crawl.submit(1, patient=True)
    await crawl.time.tick(10)
    assert crawl.worker.asked == []
    is_ending = True
    await crawl.time.tick()
    assert crawl.worker.asked == [[1]]
    tasks += crawl.submit(2, patient=True)
    await crawl.time.tick(0.9)
    assert crawl.worker.asked == [[1]]
    await crawl.time.tick(0.2)
    assert await crawl.outcomes(tasks) == [2, 4]
    assert crawl.reasons == ["ending", "ending"]


async def test_no_more_batches_are_out_than_allowed_and_the_rest_gathers() -> None:
    worker = Worker()
    worker.gate = asyncio.Event()
    crawl = Crawl(worker, rules={"max_in_flight": 1})
    tasks = crawl.submit(*range(4)) + crawl.submit(4)
    await crawl.time.tick(5)
    tasks += crawl.submit(5)
    await crawl.time.tick(5)
    assert worker.sizes == [4]
    worker.gate.set()
    assert await crawl.outcomes(tasks) == [0, 2, 4, 6, 8, 10]
    assert worker.sizes == [4, 2]


def leave_out(*left_out: int, times: int) -> Callable[[Sequence[int], dict[int, Any], int], Answers]:
    """A `spoil` that leaves these questions out of the first so many answers that they are asked in."""
    asked: dict[int, int] = {}

    def spoil(questions: Sequence[int], answers: dict[int, Any], call: int) -> Answers:
        for position, question in enumerate(questions):
            asked[question] = asked.get(question, 0) + 1
            if question in left_out and asked[question] <= times:
                del answers[position]
        return answers

    return spoil


async def test_what_an_answer_leaves_out_is_asked_again_with_the_next_batch() -> None:
    crawl = Crawl(Worker(leave_out(2, times=1)))
    tasks = crawl.submit(1, 2, 3, 4)
    await crawl.time.settle()
    tasks += crawl.submit(5, 6, 7)
    await crawl.time.settle()
    assert crawl.worker.asked == [[1, 2, 3, 4], [2, 5, 6, 7]]
    assert await crawl.outcomes(tasks) == [2, 4, 6, 8, 10, 12, 14]


async def test_a_question_that_fails_alone_gets_its_error_and_its_mates_their_answers() -> None:
    crawl = Crawl(Worker(leave_out(3, times=99)))
    outcomes = await crawl.outcomes(crawl.submit(1, 2, 3, 4))
    assert outcomes[:2] == [2, 4]
    assert isinstance(outcomes[2], BadAnswer)
    assert outcomes[3] == 8
    assert crawl.worker.asked == [[1, 2, 3, 4], [3], [3], [3]]


async def test_questions_that_are_left_out_twice_are_asked_in_smaller_company() -> None:
    def at_most_two(questions: Sequence[int], answers: dict[int, Any], call: int) -> Answers:
        return {position: answer for position, answer in answers.items() if position < 2}

    crawl = Crawl(Worker(at_most_two), rules={"max_questions": 8})
    assert await crawl.outcomes(crawl.submit(*range(8))) == [2 * n for n in range(8)]
    assert crawl.worker.sizes == [8, 6, 3, 1, 1]


def poison(*bad: int) -> Callable[[Sequence[int], dict[int, Any], int], Answers]:
    """A `spoil` for which one bad question spoils the whole answer."""

    def spoil(questions: Sequence[int], answers: dict[int, Any], call: int) -> Answers:
        if set(bad) & set(questions):
            raise BadAnswer("cut")
        return answers

    return spoil


@pytest.mark.parametrize("bad", [(0,), (13,), (19,), (3, 4), (2, 17)])
async def test_a_question_that_spoils_the_whole_answer_is_found_by_halves(bad: tuple[int, ...]) -> None:
    crawl = Crawl(Worker(poison(*bad)), rules={"max_questions": 20})
    outcomes = await crawl.outcomes(crawl.submit(*range(20)))
    assert {n for n, outcome in enumerate(outcomes) if isinstance(outcome, BadAnswer)} == set(bad)
    assert len(crawl.worker.asked) <= call_bound(20)
    assert set(crawl.reasons[1:]) == {"halved"}


@pytest.mark.parametrize("size", [1, 2, 7, 20, 64])
async def test_a_model_that_answers_nothing_right_costs_a_bounded_number_of_calls(size: int) -> None:
    useless: list[Callable[..., Answers]] = [lambda *_: {}, poison(*range(size))]
    for spoil in useless:
        crawl = Crawl(Worker(spoil), rules={"max_questions": size})
        outcomes = await crawl.outcomes(crawl.submit(*range(size)))
        assert all(isinstance(outcome, BadAnswer) for outcome in outcomes)
        assert len(crawl.worker.asked) <= call_bound(size)


@pytest.mark.parametrize("error", [LLMFailed("503"), LLMUnavailable("401"), ZeroDivisionError("a bug")])
async def test_a_call_that_failed_for_good_is_not_repeated_in_parts_and_a_bug_is_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Answers:
        raise error

    crawl = Crawl(Worker(fail))
    outcomes = await crawl.outcomes(crawl.submit(1, 2, 3, 4))
    assert [type(outcome) for outcome in outcomes] == [type(error)] * 4
    assert crawl.worker.sizes == [4]
    assert str(error) in crawl.reports[0].outcome
    assert ("ZeroDivisionError" in caplog.text) is isinstance(error, ZeroDivisionError)


async def test_a_bug_in_the_pressure_reaches_those_who_wait() -> None:
    def broken() -> str | None:
        raise AttributeError("slot")

    crawl = Crawl(Worker())
    crawl.batcher._reason_to_flush = broken
    (outcome,) = await crawl.outcomes(crawl.submit(1))
    assert isinstance(outcome, AttributeError)


async def test_a_batch_that_breaks_off_leaves_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    def broken(report: BatchReport) -> None:
        raise KeyError("stats")

    crawl = Crawl(Worker(poison(1, 2, 3, 4)))
    crawl.batcher._on_batch = broken
    outcomes = await crawl.outcomes(crawl.submit(1, 2, 3, 4))
    assert [type(outcome) for outcome in outcomes] == [LLMFailed] * 4
    assert "KeyError: 'stats'" in caplog.text


async def test_an_error_for_one_question_is_its_own_and_an_answer_that_nobody_asked_for_is_passed_over() -> None:
    crawl = Crawl(Worker(lambda questions, answers, call: {**answers, 1: LLMFailed("filtered"), 99: 1}))
    answer, error, *others = await crawl.outcomes(crawl.submit(1, 2, 3, 4))
    assert isinstance(error, LLMFailed)
    assert [answer, *others] == [2, 6, 8]
    assert crawl.worker.sizes == [4]


async def test_a_submitter_that_leaves_while_waiting_is_not_asked_about() -> None:
    crawl = Crawl(Worker())
    tasks = crawl.submit(1, 2, 3)
    await crawl.time.settle()
    tasks[1].cancel()
    await crawl.time.settle()
    tasks += crawl.submit(4, 5)
    outcomes = await crawl.outcomes(tasks)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert crawl.worker.asked == [[1, 3, 4, 5]]


async def test_a_submitter_that_leaves_a_batch_under_way_does_not_break_it() -> None:
    worker = Worker(leave_out(1, 2, times=1))
    worker.gate = asyncio.Event()
    crawl = Crawl(worker)
    tasks = crawl.submit(1, 2, 3, 4)
    await crawl.time.settle()
    tasks[0].cancel()
    await crawl.time.settle()
    worker.gate.set()
    outcomes = await crawl.outcomes(tasks)
    assert outcomes[1:] == [4, 6, 8]
    assert worker.asked == [[1, 2, 3, 4], [2]]


async def test_close_sends_what_waits_and_waits_for_it() -> None:
    crawl = Crawl(Worker(leave_out(2, times=1)))
    tasks = crawl.submit(1, 2)
    await crawl.time.settle()
    await crawl.batcher.close()
    await crawl.time.settle()
    assert [task.result() for task in tasks] == [2, 4]
    assert crawl.reasons == ["closing", "closing"]
    assert crawl.batcher._poller is None


async def test_every_batch_says_in_one_line_what_became_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    crawl = Crawl(Worker(leave_out(2, times=1)), tokens_of=lambda question: 100)
    await crawl.outcomes(crawl.submit(1, 2, 3, 4))
    lines = [record.getMessage() for record in caplog.records if "batch" in record.getMessage()]
    assert lines[0] == "LLM batch 1: 4 questions (full), 400 tokens, 0.00 s, 3 answered, partial"
    assert len(lines) == 2
    assert [(one.size, one.answered, one.outcome) for one in crawl.reports] == [(4, 3, "partial"), (1, 1, "ok")]


def tens(question: int) -> int:
    return question // 10


async def test_questions_of_two_groups_share_no_call() -> None:
    crawl = Crawl(Worker(), group_of=tens)
    tasks = crawl.submit(11, 21, 12, 22, 13, 23)
    await crawl.time.settle()
    assert crawl.worker.asked == [], "neither group is full"
    tasks += crawl.submit(24, 25)
    await crawl.time.settle()
    assert crawl.worker.asked == [[21, 22, 23, 24]]
    assert await crawl.outcomes(tasks) == [2 * n for n in (11, 21, 12, 22, 13, 23, 24, 25)]
    assert crawl.worker.asked == [[21, 22, 23, 24], [11, 12, 13], [25]]


async def test_pressure_sends_every_group_the_oldest_first() -> None:
    crawl = Crawl(Worker(), group_of=tens, rules={"wait_seconds": 60.0})
    tasks = crawl.submit(31)
    await crawl.time.tick()
    tasks += crawl.submit(11, 21)
    await crawl.time.tick()
    crawl.pressure = "idle"
    assert await crawl.outcomes(tasks + crawl.submit(32)) == [62, 22, 42, 64]
    assert crawl.worker.asked == [[31, 32], [11], [21]]


async def test_what_is_asked_again_stays_in_its_group() -> None:
    for spoil in (leave_out(11, 21, times=3), poison(11)):
        crawl = Crawl(Worker(spoil), group_of=tens)
        await crawl.outcomes(crawl.submit(11, 12, 13, 21, 22, 23, 31))
        assert all(len(set(map(tens, asked))) == 1 for asked in crawl.worker.asked)


async def test_many_groups_of_few_questions_cost_one_call_each() -> None:
    crawl = Crawl(Worker(), group_of=tens, rules={"max_questions": 20})
    tasks = [task for group in range(64) for task in crawl.submit(*range(10 * group, 10 * group + 3))]
    await crawl.outcomes(tasks)
    assert len(crawl.worker.asked) == 64
    assert not crawl.batcher._waiting
    assert not crawl.batcher._in_flight
