"""Calls in a tier that is cheap and slow are priced at it, and go to the usual one where it has no room."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.providers import resolve_provider
from llmcrawler.core.llm.usage import PRICES, OwnPrices, Price, Tokens, Usage, price_of
from llmcrawler.core.understanding.classification import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.classification.page_asker import check_question
from llmcrawler.errors import BudgetSpent, ConfigError
from tests.core.llm.clients import FakeTime, ask, client_at
from tests.servers.fake_llm import FakeLLM

PRICE = Price(2.0, 0.0, 2.0, None, 0.5)


async def asked(server: FakeLLM, usage: Usage, calls: int = 1, **options: Any) -> list[str | None]:
    """Return the tiers of the requests."""
    client = client_at(server.base_url, "m", "k", clock=FakeTime().clock(), usage=usage, service_tier="flex", **options)
    try:
        await client.check(check_question(DEFAULT_PAGE_TYPES, "http://shop.test/"))
        for _ in range(calls):
            await ask(client)
    finally:
        await client.close()
    return [body.get("service_tier") for body in server.bodies]


@pytest.mark.server
async def test_flex_costs_its_share_and_the_check_does_not_wait_for_it() -> None:
    usage = Usage(PRICE)
    async with FakeLLM() as server:
        assert await asked(server, usage, 2) == ["flex", "flex"]
    by_task = {name: (task.prompt_tokens, task.cost_usd) for name, task in usage.tasks.items()}
    assert by_task["check"][1] == pytest.approx(by_task["check"][0] * 2.0 / 1e6)
    assert by_task["classify"][1] == pytest.approx(by_task["classify"][0] * 1.0 / 1e6)


@pytest.mark.server
async def test_a_server_that_does_not_say_that_it_was_flex_is_paid_in_full() -> None:
    usage = Usage(PRICE)
    async with FakeLLM(faults=["no-tier"]) as server:
        assert await asked(server, usage) == ["flex"]
    assert usage.cost_usd == pytest.approx(usage.total.prompt_tokens * 2.0 / 1e6)


@pytest.mark.server
async def test_a_call_without_room_goes_to_the_usual_tier_at_its_price_and_the_next_is_tried_again() -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        has_room = len(server.bodies) != 1
        return None if has_room or "service_tier" not in body else (429, "Resource Unavailable")

    usage = Usage(PRICE)
    async with FakeLLM(refuse=refuse) as server:
        assert await asked(server, usage, 2) == ["flex", None, "flex"]
    assert usage.faults["no_capacity"] == 1
    in_flex, usual = 1.0, 2.0
    asked_tokens = usage.tasks["classify"].prompt_tokens
    assert usage.tasks["classify"].cost_usd == pytest.approx(asked_tokens / 2 * (in_flex + usual) / 1e6)


@pytest.mark.server
async def test_a_call_that_takes_too_long_goes_to_the_usual_tier() -> None:
    async with FakeLLM(faults=["hang"]) as server:
        assert await asked(server, Usage(PRICE), limits=CallLimits(timeout_seconds=3.0)) == ["flex", None]


@pytest.mark.server
async def test_a_model_that_has_no_flex_is_asked_in_the_usual_tier_from_then_on() -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        return (400, "Invalid service_tier argument") if "service_tier" in body else None

    usage = Usage(PRICE)
    async with FakeLLM(refuse=refuse) as server:
        assert await asked(server, usage, 2) == ["flex", None, None]
    assert usage.cost_usd == pytest.approx(usage.total.prompt_tokens * 2.0 / 1e6)


@pytest.mark.server
async def test_a_limit_in_money_holds_where_flex_has_no_room() -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        return (429, "resource_unavailable") if "service_tier" in body else None

    budget = Budget(BudgetLimits(max_cost_usd=0.0015, price=PRICE))
    usage = Usage(PRICE)
    async with FakeLLM(refuse=refuse) as server:
        with pytest.raises(BudgetSpent):
            await asked(server, usage, 1000, budget=budget)
    assert 0.0007 < budget.spent.cost_usd <= 0.0015
    assert usage.cost_usd == pytest.approx(budget.spent.cost_usd)


def test_list_prices_are_halved_and_own_ones_are_not() -> None:
    listed = price_of("gpt-6-luna")
    assert listed == PRICES["gpt-6-luna"]
    million = Tokens(1_000_000, 1_000_000)
    assert listed is not None
    assert listed.of_tier("flex").cost_usd(million) == pytest.approx(0.3)
    assert listed.of_tier("default").cost_usd(million) == listed.of_tier(None).cost_usd(million) == pytest.approx(0.6)
    own = price_of("gpt-6-luna", OwnPrices(1.0, 2.0))
    assert own is not None
    assert own.of_tier("flex").cost_usd(million) == pytest.approx(3.0)


def test_a_tier_whose_price_is_not_known_is_refused_at_the_start() -> None:
    assert resolve_provider({"LLM_SERVICE_TIER": " Flex ", "LLM_BASE_URL": "http://a"}, {}).service_tier == "flex"
    assert resolve_provider({"LLM_BASE_URL": "http://a"}, {}).service_tier is None
    with pytest.raises(ConfigError, match="LLM_SERVICE_TIER is 'priority'; it can be default, flex"):
        resolve_provider({"LLM_SERVICE_TIER": "priority", "LLM_BASE_URL": "http://a"}, {})
