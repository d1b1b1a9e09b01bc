"""The first question of a crawl: whether the model can be used, and what to do where it cannot."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.llm.providers import Endpoint, ProviderChoice
from llmcrawler.core.understanding.classification.page_asker import check_question
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.errors import BudgetSpent, LLMError
from tests.core.llm.clients import KEY, FakeTime, ask, client_at
from tests.core.llm.conftest import Connect
from tests.servers.fake_llm import FakeLLM

pytestmark = pytest.mark.server

QUESTION = check_question(DEFAULT_PAGE_TYPES, "http://shop.test/")


async def test_a_model_that_answers_passes_and_its_tokens_count(connect: Connect) -> None:
    async with connect(FakeLLM(check_faults=["cut"])) as (server, client):  # once may be chance
        await client.check(QUESTION)
    assert (server.checks, server.calls) == (2, 0)
    assert client.usage.tasks["check"].calls == 2
    assert 0 < client.usage.total.prompt_tokens < 600


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ((401, "bad key"), "LLM_API_KEY was refused"),
        ((404, "model 'm' not found"), "LLM_MODEL 'm' is not to be had"),
        ((404, "no such page"), "LLM_BASE_URL leads to no chat completions"),
        ("prose", r"LLM_MODEL 'm' at .* gives no answer that could be used"),
        ("html", "see whether LLM_BASE_URL is right"),
    ],
)
async def test_a_refusal_or_garbage_names_the_setting_to_look_at(fault: Any, named: str, connect: Connect) -> None:
    is_text = isinstance(fault, str)
    server = FakeLLM(check_faults=[fault] * 20) if is_text else FakeLLM(refuse=lambda _body: fault)
    async with connect(server, limits=CallLimits(max_attempts=1)) as (_, client):
        with pytest.raises(LLMError, match=named):
            await client.check(QUESTION)


@pytest.mark.parametrize("is_openai", [False, True])
async def test_a_closed_port_is_tried_a_few_times_only_and_the_cause_is_named(
    fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch, is_openai: bool
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        if is_openai:
            monkeypatch.setattr("llmcrawler.core.llm.client.OPENAI_BASE_URL", base_url)
        client = client_at(base_url, "m", KEY, clock=fake_time.clock())
        cause = (
            "this machine reaches the internet$" if is_openai else "LLM_BASE_URL is right, and whether the server runs"
        )
        with pytest.raises(LLMError, match=f"see whether {cause}"):
            await client.check(QUESTION)
    assert client.usage.faults == {"unreached": 4}
    await client.close()


async def test_a_model_has_failed_when_no_question_but_the_check_was_answered() -> None:
    async with FakeLLM(faults=["400", "", "400"]) as server:
        choice = ProviderChoice("openai", server.base_url, "tiny", KEY)
        model = LanguageModel([Endpoint(choice, CallLimits(max_attempts=1))])
        await model.check(QUESTION)
        assert model.failure == ""
        with pytest.raises(LLMError):
            await ask(model)
        assert "400" in model.failure
        await ask(model)
        with pytest.raises(LLMError):
            await ask(model)
        assert model.failure == ""
        await model.close()


async def test_a_budget_that_is_spent_is_no_failure() -> None:
    choice = ProviderChoice("openai", "http://127.0.0.1:9/v1", "tiny", KEY)
    model = LanguageModel([Endpoint(choice, CallLimits())], budget=Budget(BudgetLimits(max_tokens=1)))
    with pytest.raises(BudgetSpent):
        await model.ask(QUESTION)
    assert model.failure == ""
    await model.close()
