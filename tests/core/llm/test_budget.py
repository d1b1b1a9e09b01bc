"""A budget is never exceeded, whatever is under way, fails, or was spent before."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.usage import Price, Tokens
from llmcrawler.errors import BudgetSpent, LLMError
from tests.core.llm.clients import ask
from tests.core.llm.conftest import Connect
from tests.servers.fake_llm import FakeLLM, label_by_url


class Notes:
    """An account in memory; the last of `kept` is what a process that is killed leaves behind."""

    def __init__(self) -> None:
        self.kept: list[Mapping[str, float]] = []

    async def keep(self, spent: Mapping[str, float]) -> None:
        self.kept.append(spent)

    def note(self, spent: Mapping[str, float]) -> None:
        self.kept.append(spent)


async def pay(budget: Budget, prompt: int, answer: int, *, really: tuple[int, int] | None = None) -> None:
    async with budget.call(prompt, answer) as call:
        await asyncio.sleep(0)
        if really is None:
            call.release()
        else:
            call.settle(Tokens(*really))


@pytest.mark.parametrize(
    ("limits", "prompt", "answer", "fits"),
    [
        (BudgetLimits(), 10**9, 10**9, True),
        (BudgetLimits(max_tokens=1001), 400, 200, True),  # twice the estimate, one for the rounding, and the answer
        (BudgetLimits(max_tokens=1000), 400, 200, False),
        (BudgetLimits(max_cost_usd=0.0019, price=Price(1.0, 2.0, 0.1)), 500, 500, False),
        (BudgetLimits(max_cost_usd=0.0021, price=Price(1.0, 2.0, 0.1)), 500, 500, True),
        (BudgetLimits(10**9, 0.0019, Price(1.0, 2.0, 0.1)), 500, 500, False),
        (BudgetLimits(max_cost_usd=0.01, price=Price(0, 0, 0)), 10**9, 10**9, True),
    ],
)
async def test_a_call_is_made_where_its_worst_fits(limits: BudgetLimits, prompt: int, answer: int, fits: bool) -> None:
    budget = Budget(limits)
    if fits:
        await pay(budget, prompt, answer, really=(1, 1))
    else:
        with pytest.raises(BudgetSpent, match="LLM_MAX_"):
            await pay(budget, prompt, answer, really=(1, 1))
    assert budget.is_reached is not fits


async def test_many_calls_at_once_stay_within_the_limit_and_use_it() -> None:
    rng = Random(5)
    budget = Budget(BudgetLimits(max_tokens=20_000))

    async def one() -> None:
        prompt = rng.randint(100, 600)
        kind = rng.random()
        with suppress(BudgetSpent, ConnectionError):
            async with budget.call(prompt, 200) as call:
                for _ in range(rng.randint(0, 5)):
                    await asyncio.sleep(0)
                if kind < 0.1:
                    raise ConnectionError  # whether it was answered is not known
                if kind < 0.2:
                    call.release()
                else:
                    call.settle(Tokens(int(prompt * rng.uniform(0.5, 1.6)), rng.randint(1, 200)))

    await asyncio.gather(*(one() for _ in range(200)))
    assert 18_000 < budget.spent.tokens <= 20_000
    assert budget.is_reached
    assert budget._held.tokens == 0


async def test_a_call_waits_for_those_under_way_that_may_leave_enough() -> None:
    budget = Budget(BudgetLimits(max_tokens=1500))
    first = asyncio.Event()

    async def slow() -> None:
        async with budget.call(400, 200) as call:
            await first.wait()
            call.settle(Tokens(100, 10))

    under_way = asyncio.create_task(slow())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(pay(budget, 400, 200, really=(400, 100)))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.set()
    await asyncio.gather(under_way, waiting)
    assert budget.spent.tokens == 610


async def test_what_a_process_leaves_behind_counts_its_calls_under_way() -> None:
    notes, budget = Notes(), Budget(BudgetLimits(max_tokens=10_000))
    budget.go_on({"tokens": 300, "calls": 2}, notes)
    async with budget.call(400, 200) as call:
        assert notes.kept[-1]["tokens"] == 300 + 1001
        call.settle(Tokens(390, 20))
    assert notes.kept[-1] == {"tokens": 710, "calls": 3}
    again = Budget(BudgetLimits(max_tokens=1_000))
    again.go_on(notes.kept[-1], Notes())
    with pytest.raises(BudgetSpent, match=r"710 of LLM_MAX_TOKENS=1,000"):
        await pay(again, 400, 200)


async def test_a_model_that_counts_more_tokens_raises_what_is_held() -> None:
    budget = Budget(BudgetLimits(max_tokens=10_000))
    for _ in range(4):
        await pay(budget, 100, 10, really=(300, 10))
    async with budget.call(100, 10) as call:
        assert call.held.tokens == 386  # a quarter over three times the estimate, and the answer
    assert budget.spent.tokens == 4 * 310 + 386, "a call that ends without a word may have been answered"


@pytest.mark.server
@pytest.mark.parametrize(
    ("fault", "is_paid"), [("500", False), ("429:0", False), ("504", True), ("reset", True), ("html", True)]
)
async def test_a_fault_is_paid_where_the_question_may_have_been_answered(
    fault: str, is_paid: bool, connect: Connect
) -> None:
    budget = Budget(BudgetLimits(max_tokens=100_000))
    async with connect(faults=[fault], budget=budget) as (_, client):
        assert await ask(client, max_answer_tokens=5_000)
    assert (budget.spent.tokens > 5_000) is is_paid
    assert budget.spent.calls == 1 + is_paid


@pytest.mark.server
async def test_retries_and_calls_at_once_never_exceed_what_the_server_counts(connect: Connect) -> None:
    budget, faulty = Budget(BudgetLimits(max_tokens=3_000)), FakeLLM(label_by_url([("/p/", "product")]), fault_rate=0.3)
    async with connect(faulty, budget=budget, limits=CallLimits(concurrency=8)) as (server, client):
        asked = (ask(client, max_answer_tokens=100) for _ in range(60))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert budget.is_reached
    assert 0 < sum(isinstance(outcome, LLMError) for outcome in outcomes) < 60
    assert 2_000 < server.tokens <= budget.spent.tokens <= 3_000


@pytest.mark.server
async def test_a_model_that_thinks_is_given_an_end_by_the_parameter_it_knows(connect: Connect) -> None:
    def refuse(body: dict[str, object]) -> tuple[int, str] | None:
        text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
        return (400, text) if "max_tokens" in body else None

    budget = Budget(BudgetLimits(max_tokens=100_000))
    async with connect(FakeLLM(refuse=refuse), budget=budget, reasoning_effort="low") as (server, client):
        await ask(client, max_answer_tokens=100)
    assert server.bodies[-1]["max_completion_tokens"] == 4_100
    assert budget.spent.calls == 1
    assert budget.spent.tokens == server.tokens
