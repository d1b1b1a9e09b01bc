"""Where a server is out, the next of LLM_FALLBACKS is asked, until the first is back; keys go nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.client import LanguageModel, LLMClient
from llmcrawler.core.llm.providers import PLACEHOLDER_KEY, Endpoint, ProviderChoice, read_fallbacks
from llmcrawler.core.llm.usage import PRICES, Price, Usage
from llmcrawler.errors import BudgetSpent, ConfigError, LLMFailed, LLMUnavailable
from tests.core.llm.clients import FakeTime, ask, ask_on
from tests.servers.fake_llm import FakeLLM

FIRST = Endpoint(
    ProviderChoice("openai", "http://a.test/v1", "big", "first-key-0123"), CallLimits(concurrency=3), Price(1, 2, 1)
)
KEYS = ("sk-first-0123456789", "sk-second-0123456789")


def model_at(
    servers: Sequence[FakeLLM], fake_time: FakeTime, usage: Usage, budget: Budget | None = None
) -> LanguageModel:
    endpoints = [
        Endpoint(
            ProviderChoice("openai", server.base_url, f"model-{place}", KEYS[place], is_fallback=place > 0),
            CallLimits(max_attempts=2, max_retry_seconds=10.0),
            Price(place + 1.0, 0, 0),
        )
        for place, server in enumerate(servers)
    ]
    model = LanguageModel(endpoints, usage=usage)
    model._clients = [LLMClient(one, usage=usage, budget=budget, clock=fake_time.clock()) for one in endpoints]
    return model


@pytest.mark.server
async def test_the_next_server_answers_until_the_first_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "llmcrawler")
    fake_time, usage, down = FakeTime(), Usage(Price(1.0, 0, 0)), [False]
    async with FakeLLM(refuse=lambda _: (503, "down") if down[0] else None) as first, FakeLLM() as second:
        model = model_at([first, second], fake_time, usage)
        await ask(model)
        down[0] = True
        await ask(model)
        tries, waited = first.calls, len(fake_time.sleeps)
        for _ in range(3):
            await ask(model)
        assert (first.calls, len(fake_time.sleeps)) == (tries, waited), "what is known to be out is not asked"
        down[0] = False
        fake_time.now += 130
        await ask(model)
        await ask(model)
        assert (first.calls, second.calls) == (tries + 2, 4)
        await model.close()
    switches = [record.message for record in caplog.records if record.funcName == "_note_server"]
    assert len(switches) == 2
    assert f"model-1 at 127.0.0.1:{second.port}" in switches[0]
    assert f"127.0.0.1:{first.port}" in switches[0]
    assert "again" in switches[1]
    assert usage.as_dict()["fallback_answers"] == 4


@pytest.mark.server
@pytest.mark.parametrize(
    "refusal", [(401, "Incorrect API key provided"), (429, "insufficient_quota: no credit"), (404, "no such model")]
)
async def test_a_server_that_refuses_for_good_is_asked_once(
    refusal: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    fake_time, usage = FakeTime(), Usage()
    async with FakeLLM(refuse=lambda _: refusal) as first, FakeLLM() as second:
        model = model_at([first, second], fake_time, usage)
        for _ in range(3):
            await ask(model)
            fake_time.now += 1000
        await model.close()
        assert (first.calls, second.calls) == (1, 3)
        assert second.authorizations == [f"Bearer {KEYS[1]}"] * 3
    assert not [key for key in KEYS if key in caplog.text]


@pytest.mark.server
async def test_where_all_are_out_the_error_names_each_and_what_to_set() -> None:
    fake_time = FakeTime()
    async with FakeLLM(faults=["401"] * 9) as first, FakeLLM(faults=["401"] * 9) as second:
        model = model_at([first, second], fake_time, Usage())
        with pytest.raises(LLMUnavailable) as refused:
            await ask(model)
        await model.close()
    said = str(refused.value)
    assert f"model-0 at 127.0.0.1:{first.port}: LLM_API_KEY was refused" in said
    assert f"model-1 at 127.0.0.1:{second.port}: LLM_API_KEY was refused" in said
    assert said.endswith("; in LLM_FALLBACKS these are api_key_env, base_url and model")
    assert not [key for key in KEYS if key in said]
    async with FakeLLM(faults=["401"]) as first, FakeLLM(faults=["503"] * 99) as second:
        model = model_at([first, second], fake_time, Usage())
        with pytest.raises(LLMFailed):
            await ask(model)
        await model.close()


@pytest.mark.server
async def test_each_answer_is_paid_at_the_price_of_the_model_that_gave_it() -> None:
    fake_time, usage, second_only = FakeTime(), Usage(Price(1.0, 0, 0)), [False]
    budget = Budget(BudgetLimits(max_cost_usd=0.0009, price=Price(1.0, 0, 0)))
    async with FakeLLM(refuse=lambda _: (401, "no") if second_only[0] else None) as first, FakeLLM() as second:
        model = model_at([first, second], fake_time, usage, budget)
        await ask(model)
        asked = usage.total.prompt_tokens - usage.total.provider_cached_tokens
        second_only[0] = True
        with pytest.raises(BudgetSpent):
            await ask_on(model)
        await model.close()
    assert usage.cost_usd == pytest.approx((asked + 2 * asked * second.calls) / 1e6)
    assert budget.spent.cost_usd == pytest.approx(usage.cost_usd)
    assert 0.0004 < budget.spent.cost_usd <= 0.0009


def fallback(entry: Any, environ: dict[str, str] | None = None) -> Endpoint:
    return read_fallbacks({"LLM_FALLBACKS": entry}, environ or {}, FIRST)[0]


def test_a_name_is_a_model_at_the_first_server_with_its_key_and_a_price_of_its_own() -> None:
    both = read_fallbacks({"LLM_FALLBACKS": "gpt-5-mini, small"}, {}, FIRST)
    assert [(one.choice.base_url, one.choice.model, one.choice.api_key) for one in both] == [
        ("http://a.test/v1", "gpt-5-mini", "first-key-0123"),
        ("http://a.test/v1", "small", "first-key-0123"),
    ]
    assert both[0].price == PRICES["gpt-5-mini"]
    assert both[1].price is None
    assert read_fallbacks({}, {}, FIRST) == []


def test_another_server_gets_the_key_that_is_named_for_it_and_no_other() -> None:
    entry = {"base_url": "http://b.test:8000", "model": "m", "api_key_env": "B_KEY"}
    given = fallback([entry], {"B_KEY": "b", "OPENAI_API_KEY": "o", "LLM_API_KEY": "l"})
    assert (given.choice.base_url, given.choice.api_key) == ("http://b.test:8000/v1", "b")
    assert given.limits == FIRST.limits
    without = fallback('[{"base_url": "http://b.test", "price_input": 1, "price_output": 2}]', {"OPENAI_API_KEY": "o"})
    assert (without.choice.api_key, without.price) == (PLACEHOLDER_KEY, Price(1, 2, 1))
    openai = fallback([{"base_url": "https://api.openai.com/v1"}], {"OPENAI_API_KEY": "o"})
    assert (openai.choice.model, openai.choice.api_key) == ("gpt-6-luna", "o")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('[{"api_key": "sk-secret",', "LLM_FALLBACKS is not JSON"),
        ("[{", "LLM_FALLBACKS is not JSON"),
        ('{"model": "m"}', "must be a list"),
        ([{}], "entry 1: it needs a base_url or a model"),
        (["m", 7], "entry 2"),
        (
            [{"model": "m", "api_key": "sk-secret"}],
            "entry 1: api_key: Extra inputs are not permitted; there are: base_url",
        ),
        ([{"base_url": "localhost:1"}], "entry 1: base_url is 'localhost:1'"),
        ([{"model": "m", "api_key_env": "B_KEY"}], "B_KEY is not set in the environment"),
        ([{"model": "m", "price_input": "nan"}], "entry 1: price_input"),
    ],
)
def test_a_wrong_entry_is_named_without_its_secrets(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_fallbacks({"LLM_FALLBACKS": given}, {}, FIRST)
    assert said in str(error.value)
    assert "sk-secret" not in str(error.value)
