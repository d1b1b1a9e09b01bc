"""Crawls that share only the budget and the pace of the model, in a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.usage import Tokens
from llmcrawler.errors import BudgetSpent, ConfigError, LLMFailed
from llmcrawler.fleet import model_limits
from llmcrawler.fleet.model_limits import CommonLimits, check_budget_url
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


def limits_at(url: str, tokens: int = 0, requests_per_minute: int = 0) -> CommonLimits:
    check_budget_url(url)
    return CommonLimits(url, CallLimits(requests_per_minute=requests_per_minute), BudgetLimits(tokens))


async def test_what_one_crawl_has_spent_the_other_lacks(server):
    one, other, elsewhere = (limits_at(f"{server.url}#{name}", 1000) for name in ("shops", "shops", "docs"))
    for limits in (one, other, elsewhere):
        budget = Budget(BudgetLimits(max_tokens=1000))
        budget.share(limits)
        if limits is other:
            with pytest.raises(BudgetSpent, match="700 of LLM_MAX_TOKENS=1,000"):
                async with budget.call(100, 300):
                    pass
        else:
            async with budget.call(100, 300) as call:
                call.settle(Tokens(400, 300))
    for limits in (one, other, elsewhere):
        await limits.close()


async def test_requests_of_all_crawls_are_counted(server, monkeypatch):
    one, other = (limits_at(server.url, requests_per_minute=2) for _ in range(2))
    await one.admit(10)
    await other.admit(10)

    class WaitedFor(Exception):
        pass

    async def sleep(seconds: float) -> None:
        assert 0 < seconds <= 60
        raise WaitedFor

    monkeypatch.setattr("llmcrawler.fleet.model_limits.asyncio.sleep", sleep)
    with pytest.raises(WaitedFor):
        await one.admit(10)
    monkeypatch.undo()
    await one.close()
    await other.close()


async def test_a_redis_that_stays_away_or_has_forgotten_is_not_asked_without(tmp_path, monkeypatch):
    monkeypatch.setattr(model_limits, "_PATIENCE_SECONDS", 0.0)
    with RedisServer(tmp_path) as server:
        away, forgotten = limits_at(server.url, 1000), limits_at(server.url, 1000)
        assert (await away.take(10, 0.0))[0]
        assert (await forgotten.take(10, 0.0))[0]
        with server.client() as client:
            client.flushall()
        monkeypatch.setattr(forgotten._connection, "_patience", None)
    with pytest.raises(LLMFailed, match="LLM_BUDGET_URL"):
        await away.take(10, 0.0)
    await away.give_back(5, 0.0)
    server.start()
    try:
        with pytest.raises(LLMFailed, match="LLM_BUDGET_URL"):
            await forgotten.take(10, 0.0)
    finally:
        server.process.kill()
        server.process.wait()
    await away.close()
    await forgotten.close()


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "redis://127.0.0.1:1/0#a name"])
def test_a_wrong_address_is_told_before_anything_starts(url):
    with pytest.raises(ConfigError):
        check_budget_url(url)
