"""Calls in a tier that is cheap and slow are priced at it, and go to the usual one where it has no room."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.providers import resolve_provider
from llmcrawler.core.llm.usage import PRICES, Price, Tokens, Usage, price_of
from llmcrawler.core.understanding.classification.page_asker import check_question
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.errors import BudgetSpent, ConfigError
from tests.core.llm.clients import ask, ask_on
from tests.core.llm.conftest import Connect
from tests.servers.fake_llm import FakeLLM

PRICE = Price(2.0, 0.0, 2.0, None, 0.5)


def refusing(status: int, message: str, *calls: int) -> FakeLLM:
    """A server that refuses these calls in flex, or all."""

    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        is_refused = "service_tier" in body and (not calls or len(server.bodies) in calls)
        return (status, message) if is_refused else None

    server = FakeLLM(refuse=refuse)
    return server


@pytest.mark.server
@pytest.mark.parametrize(
    ("server", "calls", "tiers", "price"),
    [
        (FakeLLM(), 2, ["flex", "flex"], 1.0),
        (FakeLLM(faults=["no-tier"]), 1, ["flex"], 2.0),  # the server does not say that it was flex
        (refusing(429, "Resource Unavailable", 1), 2, ["flex", None, "flex"], 1.5),  # no room once
        (FakeLLM(faults=["hang"]), 1, ["flex", None], None),  # the call takes too long
        (refusing(400, "Invalid service_tier argument"), 2, ["flex", None, None], 2.0),  # the model has none
    ],
    ids=["flex", "not told", "no room", "too slow", "unknown"],
)
async def test_flex_costs_its_share_where_it_was_given_and_the_check_does_not_wait_for_it(
    server: FakeLLM, calls: int, tiers: list[str | None], price: float | None, connect: Connect
) -> None:
    usage, limits = Usage(PRICE), CallLimits(timeout_seconds=1.5)
    async with connect(server, usage=usage, limits=limits, service_tier="flex") as (_, client):
        await client.check(check_question(DEFAULT_PAGE_TYPES, "http://shop.test/"))
        for _ in range(calls):
            await ask(client)
    assert [body.get("service_tier") for body in server.bodies] == tiers
    assert usage.tasks["check"].cost_usd == pytest.approx(usage.tasks["check"].prompt_tokens * 2.0 / 1e6)
    if price is not None:
        task = usage.tasks["classify"]
        assert task.cost_usd == pytest.approx(task.prompt_tokens * price / 1e6)


@pytest.mark.server
async def test_a_limit_in_money_holds_where_flex_has_no_room(connect: Connect) -> None:
    budget, usage = Budget(BudgetLimits(max_cost_usd=0.0015, price=PRICE)), Usage(PRICE)
    server = refusing(429, "resource_unavailable")
    async with connect(server, usage=usage, budget=budget, service_tier="flex") as (_, client):
        with pytest.raises(BudgetSpent):
            await ask_on(client)
    assert usage.faults["no_capacity"] > 1
    assert 0.0007 < budget.spent.cost_usd <= 0.0015
    assert usage.cost_usd == pytest.approx(budget.spent.cost_usd)


def test_list_prices_are_halved_and_own_ones_are_not() -> None:
    listed, own, million = price_of("gpt-6-luna"), price_of("gpt-6-luna", 1.0, 2.0), Tokens(10**6, 10**6)
    assert listed == PRICES["gpt-6-luna"]
    assert listed.of_tier("flex").cost_usd(million) == pytest.approx(0.3)
    assert listed.of_tier("default").cost_usd(million) == listed.of_tier(None).cost_usd(million) == pytest.approx(0.6)
    assert own.of_tier("flex").cost_usd(million) == pytest.approx(3.0)


def test_a_tier_whose_price_is_not_known_is_refused_at_the_start() -> None:
    assert resolve_provider({"LLM_SERVICE_TIER": " Flex ", "LLM_BASE_URL": "http://a"}, {}).service_tier == "flex"
    assert resolve_provider({"LLM_BASE_URL": "http://a"}, {}).service_tier is None
    with pytest.raises(ConfigError, match="LLM_SERVICE_TIER is 'priority'; it can be default, flex"):
        resolve_provider({"LLM_SERVICE_TIER": "priority", "LLM_BASE_URL": "http://a"}, {})
